"""Key selection from votes.

Guarantee: `privacy.selection` proves the loss. It requires one decision per key and window, with independent
randomness: another decision from the same votes is another release.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import encode
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.reading.items import NOISY, VOTERS, VOTES
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sums.vote_rounds import WINDOW
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.tables import NoisyTable, message, settings_of
from beam_dpsketch.privacy import selection
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import change_factor
from beam_dpsketch.privacy.noise.discrete_gaussian import MIN_PARAMETER
from beam_dpsketch.privacy.noise.drawing import MAX_SIGMA_SQUARED, drawn_variance
from beam_dpsketch.privacy.noise.gaussian_bounds import least_quantile
from beam_dpsketch.privacy.noise.geometric_table import KeepTable, geometric_table
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness, RandomBytes
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.selection import ONE_ROUND, USUAL_VOTE_SHARE, SelectionRule, SketchCost
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.privacy.two_rounds import FIRST_PART, MOST_NOISE, RATIO, TwoRounds
from beam_dpsketch.statement.notes import KeyNote

_MOST = Fraction(99, 100)


class KeyChoice(NamedTuple):
    """Key selection, calibrated before the data are read.

    Attributes:
      rule: selection rule for the votes.
      note: statement note for key selection.
      sketch_share: remaining budget share for the sketches.
      votes: the noisy votes per round, or () if `table` decides.
      table: release probabilities by votes, or `None` if noise decides.
      rounds: the rule for two rounds, or `None` with a single round.
    """

    rule: SelectionRule
    note: KeyNote
    sketch_share: Fraction
    votes: tuple[NoisyTable, ...] = ()
    table: KeepTable | None = None
    rounds: TwoRounds | None = None

    @property
    def deciding(self) -> tuple[Any, ...]:
        """All settings that a decision depends on, exactly. In the note, `half` and `most` are rounded for display."""
        note = self.note
        return self.rule, note.method, note.share, note.grid, note.sigma_squared, note.threshold

    def keeps(self, votes: np.ndarray, units: np.ndarray, *others: np.ndarray, random_bytes: Any = os.urandom) -> Any:
        """Decide which keys are released, bool, shape (n,).

        Args:
          votes: the exact votes per key, int64, shape (n,).
          units: voting units per key, int64, shape (n,).
          others: with two rounds, the exact votes in the second and the noisy votes in the first.
          random_bytes: source of the randomness.
        """
        considered = (units >= self.rule.min_units) & (votes > 0)
        if self.rounds is not None:
            second, first = others
            return considered & self.rounds.releases(first, self.votes[1].draw(second, random_bytes))
        if self.table is None:
            return considered & (self.votes[0].draw(votes, random_bytes) >= self.note.threshold)
        counted = (votes - (self.rule.min_units - 1) * self.rule.grid).tolist()
        kept = [self.table.keeps(each, random_bytes) for each in counted]
        return considered & np.array(kept, dtype=bool)


def find_chosen(
    choice: KeyChoice, votes: np.ndarray, randomness: Sequence[KeyedRandomness] | None = None
) -> np.ndarray:
    """Decide which keys are released, bool, shape (n,).

    Keyed randomness is bound to the votes and to all settings, so that equal bytes never serve two decisions.

    Args:
      choice: key selection.
      votes: the exact votes and voting units per key, int64, shape (n, 2). With two rounds, followed by the exact votes
        in the second and the noisy votes in the first, shape (n, 4).
      randomness: the secret for each key. `None` uses system entropy.
    """
    if randomness is None:
        return choice.keeps(*votes.T)
    streams = _streams(choice, "decide", votes, randomness)
    kept = [
        choice.keeps(*each[:, np.newaxis], random_bytes=stream)[0] for each, stream in zip(votes, streams, strict=True)
    ]
    return np.array(kept, dtype=bool)


def draw_first(choice: KeyChoice, votes: np.ndarray, randomness: Sequence[KeyedRandomness] | None = None) -> np.ndarray:
    """Draw the noisy votes in the first of two rounds, int64, shape (n,), with the arguments of `find_chosen`.

    Each call draws new noise: the second round and the decision must use the same call.
    """
    first = choice.votes[0]
    if randomness is None:
        return first.draw(votes[:, 0])
    streams = _streams(choice, "first round", votes, randomness)
    noisy = [first.draw(each[:1], stream)[0] for each, stream in zip(votes, streams, strict=True)]
    return np.array(noisy, dtype=np.int64)


def with_noisy_votes(
    choice: KeyChoice, first: pa.Table, end: int, secret: KeyedRandomness | None, *, once: bool
) -> pa.Table:
    """Add a column with the noisy votes of round one, drawn once for all readers.

    Args:
      choice: key selection.
      first: result of `vote_rounds.first_votes`.
      end: the last millisecond of the window if a table has no window column, or 0 for the global window or a horizon.
      secret: secret of the transform. `None` uses system entropy.
      once: whether a key is selected once for all windows.
    """
    ends = first[WINDOW].to_pylist() if WINDOW in first.column_names and not once else [end] * len(first)
    secrets, keys = None, first["key"].to_pylist()
    if secret is not None:
        secrets = [secret.derive(encode(("first votes", *place))) for place in zip(keys, ends, strict=True)]
    votes = np.stack([first[name].to_numpy() for name in (VOTES, VOTERS)], axis=1)
    return first.append_column(NOISY, pa.array(draw_first(choice, votes, secrets)))


def _streams(
    choice: KeyChoice, step: str, votes: np.ndarray, randomness: Sequence[KeyedRandomness]
) -> Iterator[RandomBytes]:
    settings = settings_of(choice.votes, choice.deciding)
    for keyed, each in zip(randomness, votes, strict=True):
        yield keyed.random_bytes(message(step, settings, [each]))


def choose_keys(spec: Any, terms: ReleaseTerms) -> KeyChoice | None:
    """Calibrate the votes for keys or items; `None` without votes. Raise if the settings cannot work."""
    if (rule := terms.votes) is None:
        return None
    share, remaining = _shares(rule, spec, terms)
    rho, relation = terms.privacy.rho * share, terms.privacy.relation
    return _calibrated(rule, rho, relation, terms.selections, terms.share_left, remaining)


def choose_keys_alone(terms: ReleaseTerms) -> KeyChoice:
    """Calibrate key selection that spends the whole loss, if it is the only release."""
    rule, privacy, whole = terms.votes, terms.privacy, Fraction(1)
    assert rule is not None
    epsilon = privacy.spending.epsilon
    return _calibrated(rule, privacy.rho, privacy.relation, terms.selections, whole, Fraction(0), epsilon)


def with_best_method(terms: ReleaseTerms) -> ReleaseTerms:
    """Choose the voting method with the fewest units per released key, if the method is open.

    The criterion averages units that vote for a single key and units that vote for the maximum. Public settings alone
    decide.
    """
    rule = terms.votes
    assert rule is not None
    if rule.method is not None:
        return _with_method(terms, rule)
    needed: dict[float, ReleaseTerms] = {}
    for method in ONE_ROUND:
        with contextlib.suppress(ArgumentError):
            found = _with_method(terms, dataclasses.replace(rule, method=method))
            half = choose_keys_alone(found).note.half
            needed.setdefault(half * (1 + rule.grid / rule.classes[-1][1]), found)
    if not needed:  # raises the error for Gaussian noise
        return _with_method(terms, dataclasses.replace(rule, method=ONE_ROUND[0]))
    return needed[min(needed)]


def _with_method(terms: ReleaseTerms, rule: SelectionRule) -> ReleaseTerms:
    privacy, noise = terms.privacy, Noise.LAPLACE if rule.method == "geometric" else Noise.GAUSSIAN
    if noise is Noise.LAPLACE and (privacy.pure is None or rule.max_keys > 1):
        raise ArgumentError(
            "keys.method",
            'must not be "geometric" with max_keys above 1 or without epsilon: it spends an epsilon on a single key',
            "E128",
        )
    decided = privacy.with_noise(noise).losing(rule.delta)
    return dataclasses.replace(terms, privacy=decided, selection=rule)


def sketch_share(spec: Any, terms: ReleaseTerms) -> Fraction:
    """Compute the budget share for the sketch's counters."""
    rule = terms.votes
    return terms.share_left if rule is None else _shares(rule, spec, terms)[1]


def _shares(rule: SelectionRule, spec: Any, terms: ReleaseTerms) -> tuple[Fraction, Fraction]:
    cost, relation, left = _sketch_cost(spec, terms), terms.privacy.relation, terms.share_left
    free = selection.free_share(rule, left, cost, relation)
    share = max(free, left * USUAL_VOTE_SHARE) if rule.share is None else rule.share
    remaining = selection.sketch_share(rule, share, left, cost, relation)
    if remaining <= 0:
        raise ArgumentError(
            "keys.share",
            "must leave a budget share for the sketch, next to the summary counts. Use a smaller one",
            "E311",
        )
    return share, remaining


def _sketch_cost(spec: Any, terms: ReleaseTerms) -> SketchCost:
    """Compute the sketch cost in a key that a unit enters or leaves, from the table factors in `mechanism`."""
    bounds, relation = terms.bounds, terms.privacy.relation
    move = Fraction(0)
    for table in raw_type(spec).tables(spec):
        move += table.share / change_factor(relation, has_signs=table.has_signs or bounds.signed)
    return SketchCost(move, bounds.has_norm or terms.privacy_unit.over_horizon or terms.counts_items)


@functools.lru_cache(maxsize=64)
def _calibrated(
    rule: SelectionRule,
    rho: Fraction,
    relation: NeighboringRelation,
    window_count: int,
    left: Fraction,
    remaining: Fraction,
    epsilon: Fraction | None = None,
) -> KeyChoice:
    sigma_squared = selection.votes_sigma_squared(rule.grid, rho, relation) * window_count
    smallest = largest = sigma_squared
    if rule.has_two_rounds:
        smallest, largest = sigma_squared / FIRST_PART, MOST_NOISE * sigma_squared
    if smallest < MIN_PARAMETER:
        raise ArgumentError("", "Votes need noise with sigma of at least 0.5. Use a smaller rho or keys.share", "E312")
    if largest > MAX_SIGMA_SQUARED:
        raise ArgumentError("", "The sigma of votes would exceed 2**50. Use a larger rho or keys.share", "E312")
    table, rounds, grid, shift = None, None, rule.grid, (rule.min_units - 1) * rule.grid
    parameters: tuple[tuple[int, Fraction], ...] = ()
    if rule.has_two_rounds:
        rounds = TwoRounds.of(rule, rho, relation, window_count)
        parameters = tuple(zip((grid, RATIO * grid), rounds.sigma_squared, strict=True))
        grid, sigma_squared, threshold = rounds.whole_grid, sum(rounds.sigma_squared, Fraction(0)), rounds.together
        half, most = (rounds.needed(float(each)) for each in (Fraction(1, 2), _MOST))
    elif rule.method == "geometric":
        if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            words = 'The method "geometric" of $KeySelection requires the relation ADD_OR_REMOVE_ONE'
            raise ArgumentError("", words, "E313")
        if epsilon is None:
            raise ArgumentError(
                "keys.method", 'must not be "geometric" here. Only SelectKeys with epsilon supports it', "E128"
            )
        table = geometric_table(rule.grid, epsilon / window_count, rule.delta / window_count)
        threshold, half, most = (table.least(each) + shift for each in (Fraction(1), Fraction(1, 2), _MOST))
    else:
        parameters = ((grid, sigma_squared),)
        drawn = drawn_variance(sigma_squared)
        threshold = rule.threshold(drawn, window_count)
        half, most = threshold, threshold + least_quantile(drawn, 1 - _MOST) - 1
    note = KeyNote(
        method=rule.method or ONE_ROUND[0],
        max_keys=rule.max_keys,
        min_units=rule.min_units,
        grid=grid,
        sigma_squared=sigma_squared,
        threshold=threshold,
        half=half,
        most=most,
        share=left - remaining,
    )
    of_rounds = [tables.votes(*each, relation, window_count, note.share) for each in parameters]
    return KeyChoice(rule, note, remaining, tuple(of_rounds), table, rounds)
