"""Grouped counts that votes or counts bring in: what neighbors cost, and the exact law of all outputs on small tables.

The law is summed over every value of the noise, in floats, by code that shares nothing with the package but the numbers
of the rule: noise parameters, weights and thresholds. What it may cost is Gaussian noise as `dp_accounting` has it.
"""

from __future__ import annotations

import collections
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

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    TextDomain,
    Thresholding,
)
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.noise import calibration, counting, keys
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy import selection, two_rounds
from beam_dpsketch.privacy.contributions import NeighboringRelation
from tests.helpers import laws
from tests.helpers.noise import no_guard
from tests.helpers.two_rounds_law import NOT, Exact, noise

pytestmark = pytest.mark.usefixtures(no_guard.__name__)
ITEMS, MOST, RHO, DELTA = 3, 2, Fraction(1), Fraction(1, 50)
LUMPS = np.linspace(-3, 4, 15)
"""Where noisy counts are cut into outputs, in sigmas above a count of 0; also at the threshold."""
EPSILONS = np.linspace(0, 8, 9)
BOUNDS = RecordBounds(MOST, max_keys=2)
Unit = tuple[int, ...]
"""What a unit adds to each item; it votes for those above 0."""


def counting_of(bounds: Any = BOUNDS, relation: NeighboringRelation = ADD_OR_REMOVE_ONE, **spent: Any) -> Counting:
    keys._calibrated.cache_clear()  # which a planted fault would not reach
    privacy = PrivacySpec(**(spent or {"rho": RHO}), delta=0.5, relation=relation)
    privacy_unit = Record() if bounds is None else PrivacyId("user", bounds)
    made: Counting = ReleaseSpec(
        ThresholdedCounts(TextDomain(8), 1, Thresholding(DELTA)), privacy, privacy_unit
    ).resolved.calibrated
    return made


class Law:
    """The law of what comes out: for each item nothing, or in which of some intervals its noisy count is.

    Args:
      how: the rule.
      classes: of how many items a unit votes with which weight; `None` has those of the rule.
    """

    def __init__(self, how: Counting, classes: dict[int, int] | None = None) -> None:
        assert how.choice is not None
        self.choice, self.bits = how.choice, how.note.scale_bits
        self.classes = dict(self.choice.rule.classes) if classes is None else classes
        self.sigma = math.sqrt(how.items.parameter) * 2**self.bits
        self.threshold = how.note.threshold
        cuts = sorted({*np.ceil(LUMPS * self.sigma).astype(int).tolist(), self.threshold})
        self.starts = np.array([-math.inf, *cuts])
        self.votes = noise(self.choice.note.sigma_squared) if self.choice.rounds is None else None
        self.exact = None if self.choice.rounds is None else Exact(self.choice.rounds)
        self.law = functools.cache(self._law)

    def counted(self, count: int) -> np.ndarray:
        """P(noisy count in each interval): sigma is over a hundred steps of the grid, so a normal law is right."""
        below = [normal_below((start - 0.5 - (count << self.bits)) / self.sigma) for start in self.starts]
        return np.diff([*below, 1.0])

    def passing(self, units: Sequence[Unit], there: Sequence[int]) -> Iterator[list[tuple[float, float]]]:
        """Yield, for each part of the law of round one, P(not by votes) and P(by votes) of each item with a vote."""
        first = collections.Counter[int]()
        for privacy_unit in units:
            mine = [item for item, count in enumerate(privacy_unit) if count]
            first.update(dict.fromkeys(mine, next(w for size, w in self.classes.items() if size >= len(mine))))
        if self.exact is None:
            assert self.votes is not None
            passed = [float(self.votes.tail(self.choice.note.threshold - first[item])) for item in there]
            yield [(1 - each, each) for each in passed]
            return
        for cells in itertools.product(range(3), repeat=len(there)):
            between = {item for item, cell in zip(there, cells, strict=True) if cell == 1}
            second = dict.fromkeys(there, 0)
            for privacy_unit in units:
                left = [item for item in between if privacy_unit[item]]
                for item in left:
                    second[item] += math.floor(5 * self.exact.rounds.grid / math.sqrt(len(left)))
            rows = [self.exact.chances(first[x], second[x])[cell] for x, cell in zip(there, cells, strict=True)]
            yield [(float(row[NOT]), float(row.sum() - row[NOT])) for row in rows]

    def _law(self, units: tuple[Unit, ...]) -> np.ndarray:
        counts = [sum(privacy_unit[item] for privacy_unit in units) for item in range(ITEMS)]
        there = [item for item, count in enumerate(counts) if count]
        enough, found = self.starts >= self.threshold, np.zeros((len(self.starts) + 1,) * ITEMS)
        for parts in self.passing(units, there):
            outputs = [np.append(np.zeros(len(self.starts)), 1.0)] * ITEMS
            for item, (failed, passed) in zip(there, parts, strict=True):
                shown = self.counted(counts[item]) * (passed + failed * enough)
                outputs[item] = np.append(shown, failed + passed - shown.sum())
            found += functools.reduce(np.multiply.outer, outputs)
        return found


def normal_below(value: float) -> float:
    return math.erfc(-value / math.sqrt(2)) / 2


UNITS = [
    privacy_unit
    for privacy_unit in itertools.product(range(MOST + 1), repeat=ITEMS)
    if 1 <= sum(map(bool, privacy_unit)) <= 2
]


def neighbors(relation: NeighboringRelation, units: Sequence[Unit]) -> Iterator[tuple[tuple[Unit, ...], ...]]:
    """Tables that differ in one unit, of items that others have too, or nearly, or not at all."""
    for base in ((), ((0, 2, 1),) * 4, ((1, 0, 2),) * 3 + ((0, 1, 0),) * 9, ((2, 2, 0),) * 6 + ((0, 0, 2),) * 3):
        if relation is REPLACE_ONE:
            yield from (((*base, one), (*base, other)) for one, other in itertools.combinations(units, 2))
        else:
            yield from ((base, (*base, privacy_unit)) for privacy_unit in units)


def check_told_apart(law: Law, relation: NeighboringRelation, units: Sequence[Unit] = UNITS) -> float:
    """No neighbors are told apart better than rho and delta allow; return the largest part of the claim."""
    promised = privacy_loss_mechanism.GaussianPrivacyLoss(math.sqrt(1 / (2 * RHO)))
    claims = [float(DELTA + (1 - DELTA) * promised.get_delta_for_epsilon(each)) for each in EPSILONS]
    largest = 0.0
    for one, other in neighbors(relation, units):
        p, q = law.law(one), law.law(other)
        assert [p.sum(), q.sum()] == pytest.approx([1, 1])
        for epsilon, claim in zip(EPSILONS, claims, strict=True):
            factor = math.exp(epsilon)
            found = max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())
            assert found <= claim * (1 + 1e-9), "told apart"
            largest = max(largest, found / claim)
    return largest


def check_costs(relation: NeighboringRelation, bounds: Any = BOUNDS) -> None:
    """Squares that one unit changes, over twice the noise parameter, sum to rho in votes and counts, and to no more."""
    how = counting_of(bounds, relation)
    assert how.choice is not None
    changed, rounds = 2 if relation is REPLACE_ONE else 1, how.choice.rounds
    sizes = range(1, bounds.max_keys + 1)
    weights = [next(weight for most, weight in how.choice.rule.classes if most >= size) for size in sizes]
    squares = [max(size * weight**2 for size, weight in zip(sizes, weights, strict=True))]
    variances = [how.choice.note.sigma_squared]
    if rounds is not None:
        squares.append(max(size * math.isqrt((5 * rounds.grid) ** 2 // size) ** 2 for size in sizes))
        variances = [*rounds.sigma_squared]
    assert squares[0] == how.choice.rule.grid**2
    squares.append(bounds.max_keys * bounds.max_records**2)
    variances.append(how.items.parameter)
    costs = [changed * square / (2 * variance) for square, variance in zip(squares, variances, strict=True)]
    assert sum(costs, Fraction(0)) == RHO, "costs"
    assert sum(costs[:-1], Fraction(0)) == (Fraction(1, 4) if rounds else Fraction(3, 20)) * RHO


def check_alone(relation: NeighboringRelation, bounds: Any = BOUNDS) -> float:
    """What one unit alone has comes out with probability delta at most; return the largest part of it."""
    law = Law(counting_of(bounds, relation))
    shown = [1 - law.law((privacy_unit,))[-1, -1, -1] for privacy_unit in UNITS]
    assert max(shown) <= DELTA, "alone"
    return float(max(shown) / DELTA)


RELATIONS = pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE], ids=lambda each: each.name)


@RELATIONS
def test_neighbors_are_told_apart_no_better_than_promised(relation: NeighboringRelation) -> None:
    """Two rounds where a unit is added; one where it is replaced, as under `RecordBounds`."""
    assert check_told_apart(Law(counting_of(relation=relation)), relation) > 0.5  # or nothing was tried
    assert check_alone(relation) > 0.5


@RELATIONS
@pytest.mark.parametrize("max_keys", [2, 5, 100])
def test_votes_and_counts_cost_all_of_rho_together(relation: NeighboringRelation, max_keys: int) -> None:
    check_costs(relation, RecordBounds(3, max_keys=max_keys))


def doubled(exact: Any, first: Any, second: Any) -> Any:
    """All of delta for one way, where it has half."""
    terms, place = (second, 1) if hasattr(second, "selection") else (first, 0)
    more = dataclasses.replace(terms, selection=dataclasses.replace(terms.selection, delta=2 * terms.selection.delta))
    return exact(*((first, more) if place else (more, second)))


def at_addition(exact: Any, grid: int, rho: Fraction, relation: Any) -> Fraction:
    return exact(grid, rho, ADD_OR_REMOVE_ONE)


FAULTS = {
    "votes without a part of rho": laws.put(
        calibration, "sketch_share", lambda spec, terms: terms.share_left, "costs", check_costs, ADD_OR_REMOVE_ONE
    ),
    "votes without a part of rho, in one round": laws.put(
        calibration, "sketch_share", lambda spec, terms: terms.share_left, "costs", check_costs, REPLACE_ONE
    ),
    "all of delta for both ways": laws.together(
        laws.around(counting, "note_of", doubled), laws.around(counting, "choose_keys", doubled)
    ).found("alone", check_alone, REPLACE_ONE),
    "a replacement at the factor of an addition": laws.together(
        laws.around(selection, "votes_sigma_squared", at_addition),
        laws.around(two_rounds, "votes_sigma_squared", at_addition),
    ).found("costs", check_costs, REPLACE_ONE),
}


def check_fault(check: Any, relation: NeighboringRelation) -> None:
    check(relation)


test_a_planted_fault_is_found = laws.mutants(FAULTS, check_fault, intact=True)


def test_votes_for_items_beyond_max_items_would_be_found() -> None:
    """A unit of three items that votes for each as if it had two."""
    beyond = {}
    for relation in (ADD_OR_REMOVE_ONE, REPLACE_ONE):
        how = counting_of(relation=relation)
        assert how.choice is not None
        beyond[relation] = Law(how, {1: how.choice.rule.grid, 3: how.choice.rule.classes[-1][1]})
    with pytest.raises(AssertionError, match="told apart"):
        check_told_apart(beyond[ADD_OR_REMOVE_ONE], ADD_OR_REMOVE_ONE, [*UNITS, (1, 1, 1), (2, 2, 2)])
    assert 1 - beyond[REPLACE_ONE].law(((2, 2, 2),))[-1, -1, -1] > DELTA


def test_an_item_without_a_vote_never_comes_out() -> None:
    """Also where its count is large; and a vote does not bring in the item of another row."""
    how = counting_of()
    assert how.choice is not None
    votes = [(0, 0, 0, 0), (1, 1, 0, 10**6), (1, 1, 0, -(10**6))]
    noisy, released = how.draw(np.array([(10**6, *votes[0]), (0, *votes[1]), (0, *votes[2])], dtype=np.int64))
    assert released.tolist() == [False, True, False]
    assert noisy[1] < how.note.threshold + 40 * how.items.parameter * 4**how.note.scale_bits


@pytest.mark.parametrize(
    ("bounds", "spent", "method", "relation"),
    [
        (BOUNDS, {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (BOUNDS, {}, "gaussian", REPLACE_ONE),
        (NormBound(2), {}, "two_rounds", REPLACE_ONE),
        (AutoNorm(), {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (RecordBounds(3, max_keys=1), {}, None, ADD_OR_REMOVE_ONE),
        (RecordBounds(1, max_keys=15), {}, None, ADD_OR_REMOVE_ONE),
        (RecordBounds(1, max_keys=16), {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (RecordBounds(1, max_keys=2, max_weight=2), {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (NormBound(1, max_keys=15), {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (NormBound(3, max_per_item=1, max_keys=15), {}, None, ADD_OR_REMOVE_ONE),
        (NormBound(3, max_per_item=1, max_keys=16), {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (AutoNorm(max_per_item=1, max_keys=15), {}, None, ADD_OR_REMOVE_ONE),
        (AutoNorm(max_per_item=1), {}, "two_rounds", ADD_OR_REMOVE_ONE),
        (None, {}, None, ADD_OR_REMOVE_ONE),
        (BOUNDS, {"epsilon": 1, "noise": "laplace"}, None, ADD_OR_REMOVE_ONE),
        (NormBound(2, norm="l1"), {"epsilon": 1, "noise": "laplace"}, None, ADD_OR_REMOVE_ONE),
    ],
)
def test_units_vote_where_that_gains(
    bounds: Any, spent: dict[str, Any], method: str | None, relation: NeighboringRelation
) -> None:
    """One item each, one record of few items, and Laplace noise have all of the loss, and of delta, in counts."""
    how = counting_of(bounds, relation, **spent)
    votes = how.note.votes
    assert (None if votes is None else votes.method) == method
    assert how.terms.delta == DELTA
    assert how.note.share == {None: 0, "gaussian": Fraction(3, 20), "two_rounds": Fraction(1, 4)}[method]
