"""The words and numbers of a plan that come from its terms: what is spent, whom it protects, and the noise of rows."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch._showing import round_up
from beam_dpsketch.engine.calibration import calibrate, empty_lost, side_notes
from beam_dpsketch.estimators.lost_weight import told_units
from beam_dpsketch.estimators.over_time.decoders import decoder_of
from beam_dpsketch.privacy.aside.side_counters import WEIGHT
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import MAX_DENSE, RowMechanism
from beam_dpsketch.privacy.terms import DeclaredTerms, RowTerms

_BY_LAPLACE = "by Laplace noise, where the epsilons of several releases add up"
MAX_PLANNED = 1 << 14  # longer horizons take seconds


def privacy_line(terms: DeclaredTerms) -> str:
    """Say in one line the loss, rounded up, and whom it protects."""
    return f"Privacy: {loss_in_words(terms)}; protected: {terms.unit.value}."


def privacy_lines(terms: DeclaredTerms, warnings: Sequence[str]) -> Iterator[str]:
    """Say the loss and whom it protects, what is foolish about it, and how much of a unit counts."""
    yield privacy_line(terms)
    yield from (f"Warning: {words}." for words in warnings)
    yield f"Contribution: {terms.bounds.words(terms)}."


def loss_in_words(terms: DeclaredTerms) -> str:
    """Return rho, epsilon and the delta at which it is shown, rounded up, and the relation; of a pure loss, no rho."""
    epsilon = f"epsilon = {round_up(terms.epsilon, 4):g} at delta = {round_up(terms.shown[1], 6):g}"
    loss = f"{epsilon}, {terms.privacy.relation.name}"
    return f"{loss}, {_BY_LAPLACE}" if terms.loss.is_pure else f"rho = {round_up(terms.privacy.rho, 6):g}, {loss}"


def noise_in_words(terms: DeclaredTerms, parameters: Sequence[Fraction]) -> str:
    """Return which noise it is, with the sigma of Gaussians or the scale of a Laplace; of several tables, its span."""
    noise = terms.noise
    kind = "" if noise is Noise.GAUSSIAN else f"{noise.value} with "
    return f"{kind}{noise.measure} = {span([noise.spread(each) for each in parameters])}"


def under_norm(terms: DeclaredTerms) -> str:
    """Return under which norm a plan tells noise, if the data choose it."""
    return "" if terms.choosing is None else " under a norm of 1, and in proportion under the norm that is chosen"


def paid_in_words(terms: DeclaredTerms, share: Fraction | None = None) -> str:
    """Return what pays for the counts: this share of the loss, or all that is left."""
    share = terms.share_left if share is None else share
    part = "all" if share == 1 else str(share)
    return f"{part} of {terms.privacy.currency} pays"


def aside_lines(terms: DeclaredTerms) -> Iterator[str]:
    """Say how well a release knows how much is in it, and what the bounds took."""
    if terms.choosing is not None or isinstance(terms, RowTerms):  # the noise is not known yet, or of rows
        return
    known = terms.resolved(1)
    lost = empty_lost(known)
    notes = side_notes(known)
    said = [f"{note.words} +- {-note.interval(0.95).lower:,.3g}" for note in notes]
    who = "records" if terms.unit.is_one_record else "people"
    if terms.total_cells is not None and not any(WEIGHT in counter.names for counter in known.counters):
        said.append("the total from the counters themselves, at no cost")
    if lost is not None:
        told = told_units(math.sqrt(lost.sigma_squared), lost.noise)
        said.append(f"what the bounds took, where about {told:,.0f} {who} or more lost some")
    if said:
        yield f"Also told: {', '.join(said)}."


def bound_in_words(terms: DeclaredTerms) -> str:
    """Return which bound it is that plans list others of."""
    return "norm" if terms.bounds.has_norm else "records kept of each"


def order_line(terms: DeclaredTerms, crossover: float) -> str:
    """Return when a norm of the other order gives narrower intervals."""
    other, side, few = (1, "below", "up to") if terms.bounds.least.total_weight is None else (2, "above", "more than")
    return (
        f"Order: a norm of order {other} gives narrower intervals where heavy people have a total weight {side} "
        f"{crossover:.2g} times their length, as with records spread evenly over {few} {int(crossover**2)} items."
    )


def windows_in_words(terms: DeclaredTerms) -> str:
    """Return which windows rho covers."""
    period = " of each period" if terms.period_micros else ""
    return f"the {terms.window_count} windows{period} in which a unit may count"


def terms_fields(terms: DeclaredTerms) -> dict[str, Any]:
    """List the loss, the unit and its bounds, as plain Python values."""
    return {
        "rho": float(terms.privacy.rho),
        "epsilon": terms.epsilon,
        "delta": terms.shown[1],
        "noise": terms.noise.value,
        "keys_delta": float(terms.delta) or None,
        "relation": terms.privacy.relation.name,
        "protected": terms.unit.value,
        "bounds": {name: _plain(value) for name, value in terms.bounds.as_dict().items()},
        "windows_of_unit": terms.window_count,
    }


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class OverTime:
    """What plans have in common.

    Attributes:
      apart: over a horizon, the terms of a release of its own for each window, under the same bounds; else `None`.
    """

    apart: DeclaredTerms | None = dataclasses.field(default=None, repr=False)


def over_time_lines(
    spec: Any, terms: DeclaredTerms, sigmas: Sequence[float], copies: str, apart: DeclaredTerms | None
) -> Iterator[str]:
    """Say which windows rho covers; of rows, how many there are, how much noise answers have, and where it pays."""
    if not isinstance(terms, RowTerms):
        if terms.window_count > 1:
            yield f"Windows: {terms.privacy.currency} covers {windows_in_words(terms)}."
        return
    mechanism = terms.mechanism
    yield f"Rows: {mechanism.row_count} over {mechanism.windows} windows{copies}, rho for all of them together."
    if (noise := noise_of_answers(mechanism)) is not None:
        window, half, every = (span([each * sigma for sigma in sigmas]) for each in noise)
        middle = mechanism.windows // 2
        yield (
            f"Answers at the end: sigma = {window} on each counter of window {middle}, {half} of the first {middle}, "
            f"{every} of all {mechanism.windows}."
        )
    if apart is not None and isinstance(mechanism, BinnedRoot) and mechanism.windows <= MAX_DENSE:
        alone, who, growth = [math.sqrt(each) for each in calibrate(spec, apart.resolved(1))], "The timeline", 1.0
        windows = min(math.floor(terms.bounds.least.squared_length), mechanism.windows)
        if terms.bounds.has_norm and terms.window_count == 1 and windows > 1:
            who = f"With a norm that keeps any person with a record in each of {windows} windows in full, the timeline"
            growth = math.sqrt(windows / mechanism.squared_reach(windows))
        ranges = closer_from(mechanism, growth * math.hypot(*alone) / math.hypot(*sigmas))
        closer = f"from ranges of {ranges} windows on" if ranges else "for no range of windows"
        yield f"A release of its own for each window: sigma = {span(alone)} on each counter. {who} is closer {closer}."


def listed(errors: Sequence[tuple[float | Fraction, float]]) -> str:
    """Return each error with its setting."""
    return ", ".join(f"{in_digits(error)} at {in_digits(setting)}" for setting, error in errors)


def in_digits(number: float | Fraction) -> str:
    """Return a number in three digits, or without decimals."""
    return f"{float(number):,.0f}" if number >= 100 else f"{float(number):.3g}"


def span(sigmas: Sequence[float]) -> str:
    """Return the least and the largest, or one number."""
    return " to ".join(dict.fromkeys(f"{each:.4g}" for each in (min(sigmas), max(sigmas))))


@functools.lru_cache(maxsize=8)
def closer_from(mechanism: RowMechanism, alone: float) -> int | None:
    """Return from how many windows on a range in the middle has less noise than releases of its windows, if from any.

    `alone` is the sigma of a release of one window, over that of rows.
    """
    lengths = range(1, mechanism.windows + 1)

    def is_closer(length: int) -> bool:
        first = (mechanism.windows - length) // 2
        return _sigma(mechanism, first, first + length - 1) < alone * math.sqrt(length)

    found = bisect.bisect_left(lengths, True, key=is_closer)
    return found + 1 if found < len(lengths) else None


@functools.lru_cache(maxsize=8)
def noise_of_answers(mechanism: RowMechanism) -> tuple[float, float, float] | None:
    """Return the sigma of answers when the horizon ends, over that of rows; `None` for very long horizons.

    They are about the middle window, all windows before it, and all windows.
    """
    windows, middle = mechanism.windows, mechanism.windows // 2
    if windows > MAX_PLANNED:
        return None
    ranges = (middle, middle), (0, middle - 1), (0, windows - 1)
    one, half, every = (_sigma(mechanism, *each) for each in ranges)
    return one, half, every


def _sigma(mechanism: RowMechanism, first: int, last: int) -> float:
    """Return the sigma of a range of windows when the horizon ends, over that of rows."""
    coefficients = np.zeros(mechanism.windows)
    coefficients[first : last + 1] = 1.0
    return math.sqrt(decoder_of(mechanism, lambda number: np.zeros(0)).variance(coefficients))
