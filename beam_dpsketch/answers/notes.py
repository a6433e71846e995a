"""Notes: warnings attached to releases and answers, and the scope of their intervals.

Guarantee: post-processing of noisy numbers and public settings, without privacy cost. The note `at_range_end` appears
with a probability below 1e-4 for a release of pure noise, or with an ordinary share of values at the range ends.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import RECORDS, UNITS, WEIGHT
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.showing import interval_words, short, shown
from beam_dpsketch.statement.tabular import Note
from beam_dpsketch.words import round_up

LARGE_EPSILON = 10
_TAKEN, _NEAR, _LEAST_VALUES, _END_DEVIATIONS = 0.9, 0.03, 16, 4.0
USELESS_SHARE = 0.1
_TOGETHER = 0.99
_FEW_RECORDS = 1.5
_NOISE_ALONE = {"may_be_empty", "mostly_noise"}


Notes: TypeAlias = tuple[Note, ...]


@dataclasses.dataclass(frozen=True)
class Basis:
    """Origin of an answer: its confidence, clipping, notes and noise.

    Attributes:
      confidence: the confidence of each interval, or `None` if unknown.
      clipping: the clipping, which intervals do not include. `None` for answers made by hand.
      notes: the notes of the release.
      asked: the number of weights in the question, or 0 if a zero answer is uninformative.
      noise: the noise that intervals cover.
    """

    confidence: float | None = None
    clipping: Clipping | None = None
    notes: tuple[Note, ...] = ()
    asked: int = 0
    noise: Noise = Noise.GAUSSIAN

    @property
    def intervals(self) -> str | None:
        """Label for the intervals."""
        return None if self.confidence is None else interval_words(self.confidence, self.clipping)

    def within_noise(self, estimate: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[Note, ...]:
        """Warn if all intervals together, at 99 % confidence, include 0 and no other note explains it."""
        if self.confidence is None or self.asked < 2 or not len(estimate):
            return ()
        if any(note.code in _NOISE_ALONE for note in self.notes):
            return ()
        outside = (1 - self.confidence) / 2
        wider = self.noise.deviations((1 - _TOGETHER) / 2 / self.asked) / self.noise.deviations(outside) - 1
        with np.errstate(invalid="ignore", over="ignore"):
            below, above = (np.nan_to_num(wider * each) for each in (estimate - lower, upper - estimate))
        holds_zero = (lower - below <= 0) & (upper + above >= 0)
        return (WITHIN_NOISE,) if holds_zero.all() else ()


UNKNOWN = Basis()
WITHIN_NOISE = Note(
    "within_noise",
    "No answer differs from 0 by more than noise. Check the type, unit and spelling of the items or "
    "values: the number 1 and the text 1 are different items.",
)

NOT_PRIVATE = Note(
    "not_private", "This release is NOT PRIVATE: the seed of its noise is public. Never publish a release of real data."
)

ONE_RECORD_EACH = Note(
    "one_record_each",
    "Each privacy id has about one record. Check that its column identifies persons: with ids of orders or sessions, "
    "no person is protected.",
)


def codes(notes: Iterable[Note]) -> str:
    """Join the distinct codes of notes, for table columns."""
    return ",".join(dict.fromkeys(note.code for note in notes))


def lines(clipping: Clipping | None, notes: Iterable[Note]) -> str:
    """Format the lines below an answer: its clipping, and each note."""
    told = () if clipping is None else (str(clipping),)
    return "".join(f"\n{line}" for line in (*told, *(f"note: {note.message}" for note in notes)))


def of_emptiness(nothing: str | None) -> Note:
    """Warn that a release may be empty. `nothing` is the upper end of a summary count, in words."""
    found = "its counters cannot be distinguished from noise" if nothing is None else f"it contains {nothing}"
    return Note("may_be_empty", f"This release may be empty: {found}. Answers may be pure noise.")


def of_total(name: str, total: float, reach: float, useless: float = USELESS_SHARE) -> Notes:
    """Warn if the margin of error of a total exceeds a useless share of its upper end."""
    most = total + reach
    words = f"the {name} has a 95 % interval of ±{shown(reach)}, and is at most {shown(max(most, 0.0))}"
    return of_noise(f"{words}; other intervals may be wider") if reach > useless * most else ()


def of_noise(words: str) -> Notes:
    """Warn about large noise, compared with the possible total."""
    advice = "Use more data, a larger epsilon or a smaller contribution bound"
    return (Note("mostly_noise", f"Mostly noise: {words}. {advice}."),)


def of_spending(privacy: PrivacyStatement) -> tuple[Note, ...]:
    """Warn about noise from a public seed, an epsilon with weak protection, and a delta that could expose a unit."""
    if not privacy.is_private:
        return (NOT_PRIVATE,)
    epsilon, delta, found = privacy.reported_epsilon, privacy.delta_of_epsilon, []
    if LARGE_EPSILON < epsilon < math.inf:
        words = f"epsilon = {round_up(epsilon, 4):g} at delta = {delta:g} gives little protection"
        found.append(Note("large_epsilon", f"{words}: {privacy.loss.attack_words}. Use 3 or less if you can."))
    units = privacy.note(UNITS)
    least = 0.0 if units is None else units.interval(0.95).lower
    if delta * least > 1 and len(privacy.release_ids) == 1:  # a unit may occur in several components
        who = privacy.privacy_unit.noun
        words = f"delta = {delta:g} exceeds 1 / (number of {who}s), which is at most 1 / {shown(least)}"
        weak = f"A mechanism that publishes the records of one random {who} would satisfy such a delta"
        found.append(Note("large_delta", f"{words}. {weak}. Use a much smaller one."))
    return tuple(found)


def of_units(privacy: PrivacyStatement) -> tuple[Note, ...]:
    """Warn about one record per privacy id despite larger bounds, because the ids may identify records."""
    units, records, lost, size = privacy.note(UNITS), privacy.note(RECORDS), privacy.lost, privacy.bounds.size or 0
    if size >= 2 and not privacy.bounds.has_weights and privacy.bounds.as_dict().get("max_per_item") is None:
        records = records or privacy.note(WEIGHT)  # an id with several records keeps 2 or more
    if units is None or records is None or privacy.privacy_unit.is_one_record or size <= 1:
        return ()
    if lost is None or lost.of_run or len(privacy.release_ids) > 1:  # a unit may have more in other keys and windows
        return ()
    (_, least, most), (_, lower, upper) = units.interval(0.95), records.interval(0.95)
    if not (least > 0 and lower <= most and upper <= _FEW_RECORDS * least):
        return ()
    return (ONE_RECORD_EACH,)


def of_ranks(
    domain: Domain, total: tuple[float, float], reach: float, at_ends: np.ndarray, finest_variance: float
) -> tuple[Note, ...]:
    """Warn about noise in unsigned ranks, and about values at the ends of the domain.

    Args:
      domain: the values.
      total: the total weight from the counters, and its variance.
      reach: the half-width of its 95 % interval.
      at_ends: the weights of the first and last values, for each estimator, float64 of shape (readings, 2).
      finest_variance: the variance from the last estimator.
    """
    own = of_total("total from the counters", total[0], reach)
    return (*own, *_of_ends(domain, total, at_ends, finest_variance))


def _of_ends(
    domain: Domain, total: tuple[float, float], at_ends: np.ndarray, finest_variance: float
) -> tuple[Note, ...]:
    """Warn if nearly all weight is at one end of the domain. Small domains are exempt, because this is normal there."""
    if not domain.doubt or domain.size < _LEAST_VALUES:
        return ()
    ends = np.array([0, domain.size - 1], dtype=np.uint64)
    weight, variance = total
    taken = at_ends - _TAKEN * weight
    deviation = math.sqrt(finest_variance + _TAKEN**2 * variance)
    found = (np.min(taken, axis=0) > 0) & (taken[-1] > _END_DEVIATIONS * deviation)
    return tuple(
        Note(
            "at_range_end",
            f"More than 90 % of the total is at the {side} end of the value range ({short(value)}). Values outside are "
            f"clamped: {domain.doubt}.",
        )
        for side, value, is_there in zip(("lower", "upper"), domain.values(ends), found, strict=True)
        if is_there
    )


def of_numbers(domain: Domain, mean: tuple[float, float], variance: float) -> Notes:
    """Warn if the mean is near an end of the value range, or nearly all numbers are near its ends.

    Numbers are scaled to x from 0 to 1. On average, x (1 - x) is m (1 - m) - v, with the mean m and the variance v. It
    is never negative, so Markov's inequality bounds the share of numbers away from both ends.

    Args:
      domain: the values.
      mean: the interval of the scaled mean.
      variance: the lower end of its interval, or 0 if unknown.
    """
    (lower, upper), near, where = mean, _NEAR, ""
    middle = min(max(0.5, lower), upper)
    first, last = map(short, domain.values(np.array([0, domain.size - 1], dtype=np.uint64)))
    if upper <= near:
        where = f"The mean is within {_NEAR:.0%} of the lower end of the value range ({first})"
    elif lower >= 1 - near:
        where = f"The mean is within {_NEAR:.0%} of the upper end of the value range ({last})"
    elif middle * (1 - middle) - variance < (1 - _TAKEN) * near * (1 - near):
        where = f"More than 90 % of the total is within {_NEAR:.0%} of the ends of the value range ({first}, {last})"
    told = where and domain.doubt and domain.size >= _LEAST_VALUES
    return (Note("at_range_end", f"{where}. Values outside are clamped: {domain.doubt}."),) if told else ()
