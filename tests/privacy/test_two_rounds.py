"""Two rounds of votes: thresholds from the definition, and the exact law of all outputs on small neighboring tables.

The law is summed over every value of the noise, in floats, by code that shares nothing with the package but the numbers
of the rule. What it may cost is Gaussian noise as `dp_accounting` has it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy import two_rounds
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.two_rounds import TwoRounds
from tests.helpers import laws
from tests.helpers.two_rounds_law import KEYS, NOT, Exact, Table, noise, sum_of

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
SUBSETS = [subset for size in range(1, KEYS + 1) for subset in itertools.combinations(range(KEYS), size)]
LARGEST = Fraction(10 * 480**2)
"""The largest rho that votes can spend: sigma of round one is then 1/2."""
EPSILONS = np.linspace(0, 3, 7)


def rule_of(max_keys: int, delta: Fraction = Fraction(1, 20)) -> SelectionRule:
    return SelectionRule(delta=delta, max_keys=max_keys, method="two_rounds")


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
