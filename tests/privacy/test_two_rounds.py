"""Two rounds of votes: thresholds from the definition, and the exact law of all outputs on small neighboring tables.

The law is summed over every value of the noise, in floats, by code that shares nothing with the package but the numbers
of the rule. What it may cost is Gaussian noise as `dp_accounting` has it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism
from scipy import signal

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy import two_rounds
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.two_rounds import TwoRounds
from tests.helpers import laws
from tests.helpers.tolerances import discrete_gaussian

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
KEYS = 3
SUBSETS = [subset for size in range(1, KEYS + 1) for subset in itertools.combinations(range(KEYS), size)]
LARGEST = Fraction(10 * 480**2)
"""The largest rho that votes can spend: sigma of round one is then 1/2."""
EPSILONS = np.linspace(0, 3, 7)
NOT, AT_ONCE, TOGETHER = range(3)
Table = tuple[tuple[int, ...], ...]


def rule_of(max_keys: int, delta: Fraction = Fraction(1, 20)) -> SelectionRule:
    return SelectionRule(delta=delta, max_keys=max_keys, method="two_rounds")


class Drawn(NamedTuple):
    """A law of whole numbers: its support and its probabilities."""

    values: np.ndarray
    chances: np.ndarray

    def tail(self, starts: Any) -> np.ndarray:
        """P(Z >= start) of each start."""
        tails = np.append(np.cumsum(self.chances[::-1])[::-1], 0.0)
        return tails[np.clip(np.asarray(starts) - self.values[0], 0, len(self.values))]


def noise(sigma_squared: Fraction) -> Drawn:
    found = discrete_gaussian(sigma_squared + 4)
    return Drawn(found.support, found.probabilities)


def sum_of(first: Drawn, second: Drawn) -> Drawn:
    start = first.values[0] + second.values[0]
    convolve = np.convolve if len(first.chances) < 1000 else signal.fftconvolve
    chances = convolve(first.chances, second.chances)
    return Drawn(np.arange(start, start + len(chances)), chances)


def check_thresholds(rounds: TwoRounds, delta: float, windows: int = 1) -> None:
    """A lonely unit of any number of keys has both of its chances, and one vote less would not do."""
    first, second = map(noise, rounds.sigma_squared)
    both, grid = sum_of(first, second), 5 * rounds.grid
    parts = 0.2 * delta / windows, 0.8 * delta / windows
    for size in range(1, rounds.classes[-1][0] + 1):
        weight = next(weight for most, weight in rounds.classes if most >= size)
        assert size * first.tail(rounds.at_once - weight) <= parts[0], "at once"
        assert size * both.tail(rounds.together - weight - grid) <= parts[1], "together"
    each, slack = rounds.classes, 1e-5 if rounds.sigma_squared[1] < 100**2 else 0.06  # of `tail_bound`
    assert max(size * first.tail(rounds.at_once - 1 - weight) for size, weight in each) > parts[0] * (1 - slack)
    assert max(size * both.tail(rounds.together - 1 - weight - grid) for size, weight in each) > parts[1] * (1 - slack)


CASES = [
    (2, Fraction(4), 1),
    (3, Fraction(1), 1),
    (3, Fraction(40_000), 2),
    (16, Fraction(6), 3),
    (300, Fraction(8), 1),
]


@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda each: each.name)
@pytest.mark.parametrize(("max_keys", "rho", "windows"), CASES)
def test_thresholds_are_the_least_that_the_definition_allows(
    max_keys: int, rho: Fraction, windows: int, relation: NeighboringRelation
) -> None:
    check_thresholds(TwoRounds.of(rule_of(max_keys), rho, relation, windows), 0.05, windows)


@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda each: each.name)
@pytest.mark.parametrize(("max_keys", "rho", "windows"), CASES)
def test_the_votes_of_any_unit_cost_rho_at_most(
    max_keys: int, rho: Fraction, windows: int, relation: NeighboringRelation
) -> None:
    """Squares that change, over twice the noise parameter, in all windows: for each number of keys in each round."""
    rounds = TwoRounds.of(rule_of(max_keys), rho, relation, windows)
    changed = 2 if relation is REPLACE else 1
    counts = np.arange(1, max_keys + 1)
    squares = counts * rounds.second_weights(counts) ** 2
    largest = [max(size * weight**2 for size, weight in rounds.classes), int(squares.max())]
    assert largest == [rounds.grid**2, (5 * rounds.grid) ** 2]
    cost = sum(
        Fraction(windows * changed * square) / (2 * sigma_squared)
        for square, sigma_squared in zip(largest, rounds.sigma_squared, strict=True)
    )
    assert cost == rho


@pytest.mark.parametrize("rho", [LARGEST, Fraction(1), Fraction(1, 10**6)])
def test_one_bound_covers_the_tail_of_the_sum(rho: Fraction) -> None:
    """The excess over a Gaussian of the same variance, of the smallest noise too."""
    rounds = TwoRounds.of(rule_of(2), rho, ADD)
    first, second = (each + 4 for each in rounds.sigma_squared)
    assert first * second / (first + second) >= Fraction(21, 10)
    if rho == LARGEST:
        assert rounds.sigma_squared[0] == Fraction(1, 4)
        found = sum_of(*map(noise, rounds.sigma_squared))
        normal = np.exp(-(found.values.astype(float) ** 2) / (2 * float(first + second)))
        near = np.abs(found.values) < 20
        excess = found.chances[near] / (normal / math.sqrt(2 * math.pi * float(first + second)))[near]
        assert np.abs(excess - 1).max() < 1e-9


class Exact:
    """The law of what comes out, for keys 0, 1 and 2.

    Args:
      rounds: the rule.
      min_units: a key with fewer units is not considered: a fault if it is above 1.
      drawn_twice: whether the decision has another draw of round one than the steering: a fault.
    """

    def __init__(self, rounds: TwoRounds, *, min_units: int = 1, drawn_twice: bool = False) -> None:
        self.rounds, self.min_units, self.drawn_twice = rounds, min_units, drawn_twice
        self.first, self.second = map(noise, rounds.sigma_squared)
        raised = (min_units - 1) * rounds.grid
        self.at_once, self.together = rounds.at_once + raised, rounds.together + 6 * raised
        self.chances = functools.cache(self._chances)

    def _chances(self, first: int, second: int) -> np.ndarray:
        """P(cell of N1 and outcome) of a key with votes in each round: an array of (below H, between, T1 or more)."""
        noisy = first + self.first.values
        cells = [
            noisy < self.rounds.least,
            (self.rounds.least <= noisy) & (noisy < self.at_once),
            noisy >= self.at_once,
        ]
        found = np.zeros((3, 3))
        for cell, inside in enumerate(cells[:2]):
            missing = self.together - noisy[inside] - (second if cell else 0)
            together = float(self.first.chances[inside] @ self.second.tail(missing))
            found[cell, TOGETHER] = together
            found[cell, NOT] = self.first.chances[inside].sum() - together
        found[2, AT_ONCE] = self.first.chances[cells[2]].sum()
        return found

    def law(self, units: Table) -> np.ndarray:
        """P(outcome) of all keys, of shape (3, 3, 3)."""
        votes, voters = np.zeros(KEYS, dtype=int), collections.Counter(itertools.chain(*units))
        for keys in units:
            votes[[*keys]] += next(weight for size, weight in self.rounds.classes if size >= len(keys))
        there = [key for key in range(KEYS) if voters[key] >= self.min_units]
        found = np.zeros((3,) * KEYS)
        for cells in itertools.product(range(3), repeat=len(there)):
            between = {key for key, cell in zip(there, cells, strict=True) if cell == 1}
            second = dict.fromkeys(range(KEYS), 0)
            for left in ([*between.intersection(keys)] for keys in units):
                for key in left:
                    second[key] += math.floor(5 * self.rounds.grid / math.sqrt(len(left)))
            outcomes = [np.array([1.0, 0.0, 0.0])] * KEYS
            for key, cell in zip(there, cells, strict=True):
                chances = self.chances(int(votes[key]), second[key])
                outcomes[key] = chances[cell]
                if self.drawn_twice:
                    outcomes[key] = chances[cell].sum() * self.chances(int(votes[key]), second[key] if cell else 0).sum(
                        0
                    )
            found += functools.reduce(np.multiply.outer, outcomes)
        return found


def check(
    tables: Iterator[tuple[Table, Table]] | Sequence[tuple[Table, Table]],
    relation: NeighboringRelation = ADD,
    delta: Fraction = Fraction(1, 50),
    **faults: Any,
) -> float:
    """No pair of tables is told apart better than two Gaussian rounds and delta allow; return the largest part."""
    rounds = TwoRounds.of(rule_of(KEYS, delta), Fraction(1), relation)
    exact = functools.cache(Exact(rounds, **faults).law)
    promised = privacy_loss_mechanism.GaussianPrivacyLoss(math.sqrt(1 / 2))
    claims = [float(delta + (1 - delta) * promised.get_delta_for_epsilon(each)) for each in EPSILONS]
    largest = 0.0
    for one, other in tables:
        p, q = exact(tuple(sorted(one))), exact(tuple(sorted(other)))
        assert [p.sum(), q.sum()] == pytest.approx([1, 1])
        for epsilon, claim in zip(EPSILONS, claims, strict=True):
            factor = math.exp(epsilon)
            found = max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())
            assert found <= claim * (1 + 1e-9), "told apart"
            largest = max(largest, found / claim)
    return largest


def others(copies: Sequence[int]) -> Iterator[Table]:
    """Two kinds of units, each a few times, or one kind."""
    for one, two in itertools.combinations(SUBSETS, 2):
        for counts in itertools.product(copies, repeat=2):
            yield (one,) * counts[0] + (two,) * counts[1]


def added(copies: Sequence[int] = (0, 7)) -> Iterator[tuple[Table, Table]]:
    return ((base, (*base, mine)) for base in others(copies) for mine in SUBSETS)


def replaced(copies: Sequence[int] = (7,)) -> Iterator[tuple[Table, Table]]:
    return (
        ((*base, theirs), (*base, mine))
        for base in others(copies)
        for theirs, mine in itertools.combinations(SUBSETS, 2)
    )


def test_one_unit_more_is_told_apart_no_better_than_promised() -> None:
    assert check(added()) > 0.2  # or nothing was tried


def test_another_unit_is_told_apart_no_better_than_promised() -> None:
    assert check(replaced(), REPLACE) > 0.2


def test_a_unit_with_all_keys_to_itself_shows_with_probability_delta_at_most() -> None:
    """Also where it steers as it likes: all of its second votes on each of its keys."""
    for max_keys, rho in ((2, Fraction(1)), (16, Fraction(3)), (300, Fraction(1, 10))):
        rounds = TwoRounds.of(rule_of(max_keys), rho, ADD)
        first, second = map(noise, rounds.sigma_squared)
        for size, weight in rounds.classes:
            noisy = weight + first.values
            out = np.where(noisy >= rounds.at_once, 1.0, second.tail(rounds.together - 5 * rounds.grid - noisy))
            assert size * float(first.chances @ out) <= 0.05


FAULTS: dict[str, laws.Fault] = {
    "replacement at the factor of addition": laws.around(
        two_rounds, "votes_sigma_squared", lambda exact, grid, rho, _: exact(grid, rho, ADD), "", "costs"
    ),
    "one vote less at once": laws.around(
        TwoRounds, "of", lambda exact, *given: change(exact(*given), at_once=-1), "at once", "small noise"
    ),
    "one vote less together": laws.around(
        TwoRounds, "of", lambda exact, *given: change(exact(*given), together=-1), "together", "small noise"
    ),
    "votes of round one forgotten in the sum": laws.around(
        TwoRounds, "of", lambda exact, *given: change(exact(*given), together=-270), "together", "thresholds"
    ),
    "no drawn 4": laws.put(two_rounds, "drawn_variance", lambda sigma_squared: sigma_squared, "", "small noise"),
    "delta for each round": laws.put(two_rounds, "FIRST_PART", Fraction(1, 4), "", "thresholds"),
}


def change(exact: TwoRounds, **changes: int) -> TwoRounds:
    return dataclasses.replace(exact, **{name: getattr(exact, name) + by for name, by in changes.items()})


def check_case(case: str) -> None:
    if case == "costs":
        test_the_votes_of_any_unit_cost_rho_at_most(3, Fraction(1), 1, REPLACE)
    elif case == "thresholds":
        check_thresholds(TwoRounds.of(rule_of(3), Fraction(1), ADD), 0.05)
    else:
        check_thresholds(TwoRounds.of(rule_of(3), Fraction(200000), ADD), 0.05)


test_a_planted_fault_is_found = laws.mutants(FAULTS, check_case, intact=True)


def test_min_units_in_two_rounds_would_tell_units_apart() -> None:
    """Why `SelectionRule.suited` keeps one round, though thresholds grow: who votes for key 0 depends on one unit.

    Forty units hold keys 0 and 1, and some more key 0 alone. Key 1 is considered only with the unit that is added. Then
    the forty have less for key 0.
    """
    bases = [((0, 1),) * 40 + ((0,),) * count for count in (8, 12, 16)]
    tables = [(base, (*base, (1,))) for base in bases]
    check(tables)
    with pytest.raises(AssertionError, match="told apart"):
        check(tables, min_units=41)


def test_probabilities_in_words_are_those_of_the_law() -> None:
    """Within 1 %, of keys whose units are in this key alone."""
    for delta, rho in ((Fraction(1, 20), Fraction(1)), (Fraction(1, 10**6), Fraction(1, 25))):
        rounds = TwoRounds.of(rule_of(KEYS, delta), rho, ADD)
        exact = Exact(rounds)
        for probability in (0.5, 0.99):
            count = -(-rounds.needed(probability) // (6 * rounds.grid))
            for units, direction in ((count, 1), (count - 2, -1)):
                shown = 1 - exact.law(((0,),) * units)[NOT].sum()
                assert direction * (shown - probability) > -0.01
                assert rounds.probability(units * rounds.grid, 5 * units * rounds.grid) == pytest.approx(
                    shown, abs=0.01
                )


@pytest.mark.parametrize(
    ("others", "relation", "rho_adds", "is_bounded", "method"),
    [
        ({}, ADD, False, True, "two_rounds"),
        ({}, REPLACE, True, True, "two_rounds"),
        ({}, REPLACE, False, True, None),
        ({}, ADD, True, False, None),
        ({"min_units": 2}, ADD, True, True, None),
        ({"max_keys": 1}, ADD, True, True, None),
        ({"method": "gaussian"}, ADD, True, True, "gaussian"),
    ],
)
def test_two_rounds_are_where_their_proof_holds(
    others: Any, relation: NeighboringRelation, rho_adds: bool, is_bounded: bool, method: str | None
) -> None:
    rule = SelectionRule(**{"delta": Fraction(1, 10**6), "max_keys": 4, **others})
    assert rule.suited(relation, rho_adds=rho_adds, is_bounded=is_bounded).method == method
    if method is None:
        asked = dataclasses.replace(rule, method="two_rounds")
        with pytest.raises(ArgumentError, match="two_rounds"):
            asked.suited(relation, rho_adds=rho_adds, is_bounded=is_bounded)
