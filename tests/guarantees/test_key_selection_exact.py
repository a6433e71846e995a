"""Which keys are released, exactly: all pairs of neighbouring toy inputs, through the real votes, rule and decision.

Votes come from the rules that bound whole tables, probabilities from `KeyChoice.keeps` over all values of the noise.
Each pair must hold three times: for the noisy votes and for the set of released keys, once delta is split off, and for
the set as it is, by hockey-stick divergences. Float64 is right to 1e-9 here, and `SLACK` allows for that much.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, NormBound, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec
from beam_dpsketch.exact.bounding import side_sums
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.bounding.window_rule import RuleOverWindows
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.keys import KeyChoice, choose_keys
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss import gaussian_curve, zcdp
from beam_dpsketch.privacy.noise.drawing import drawn_variance
from beam_dpsketch.privacy.selection import SelectionRule
from tests.helpers import faults, laws

SPEC = SketchSpec(depth=1, width=2)
DELTA = Fraction(1, 10**4)
SLACK = 1 + 1e-9
EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 3.0, 30.0, 3000.0)
ORDERS = (1.1, 1.5, 2, 5, 20, 100)
KEYS = [(b"a", 0), (b"b", 0), (b"c", 0)]
WINDOWS = [(b"a", 0), (b"b", 0), (b"a", 1)]
FIRST, SECOND = range(8), (0, 2, 3, 7)
"""In which of three places two other units have a record, as bits."""
Votes = tuple[int, int]
Units = tuple[tuple[int, int], ...]
"""Units, and in which places each has a record."""


class Toy(NamedTuple):
    """Three places, and how records there are bounded."""

    bounds: Bounds
    places: list[tuple[bytes, int]]
    max_keys: int
    max_windows: int = 1

    def rule(self, selection: SelectionRule) -> Any:
        sketch_input = SketchInput(SPEC, self.bounds, (), selection)
        if isinstance(self.bounds, NormBound):
            return NormRule(self.bounds, sketch_input, (), selection)
        assert isinstance(self.bounds, RecordBounds)
        if self.max_windows > 1:
            return RuleOverWindows(sketch_input.bounds, sketch_input, RandomPriorities(11), self.max_windows)
        return RecordRule(self.bounds, RandomPriorities(11), (), selection)

    def votes(self, selection: SelectionRule, units: Units) -> tuple[Votes, ...]:
        """The votes and voters of each place."""
        rows = [
            (privacy_unit, *self.places[bit]) for privacy_unit, mask in units for bit in range(3) if mask >> bit & 1
        ]
        if not rows:
            return ((0, 0),) * 3
        table = pa.table(
            {
                "unit": pa.array([row[0] for row in rows], pa.int64()),
                "key": pa.array([row[1] for row in rows], pa.large_binary()),
                "window": pa.array([row[2] for row in rows], pa.int64()),
                "item": pa.array([5] * len(rows), pa.uint64()),
                "weight": pa.array([1] * len(rows), pa.int64()),
            }
        )
        if isinstance(self.bounds, RecordBounds) and self.max_windows == 1:
            table = table.drop_columns(["window"])
        side = self.rule(selection).bound(table).side.to_pylist()
        found = {(row["key"], row.get("window", 0)): (row["votes"], row["voters"]) for row in side}
        return tuple(found.get(place, (0, 0)) for place in self.places)


TOYS = {
    "records, 1 key": Toy(RecordBounds(1), KEYS, 1),
    "records, 2 keys": Toy(RecordBounds(1, max_keys=2), KEYS, 2),
    "records in 2 windows": Toy(RecordBounds(1), WINDOWS, 1, 2),
    "norm, 1 key and window": Toy(NormBound(1, max_keys=1), WINDOWS, 1),
    "norm, 2 keys and windows": Toy(NormBound(20, max_keys=2), WINDOWS, 2),
}


class Mechanism:
    """What is released of a toy, at a rho of the votes."""

    def __init__(self, toy: Toy, relation: NeighboringRelation, min_units: int, rho: Fraction) -> None:
        self.toy, self.relation, self.rho = toy, relation, float(rho)
        rule = SelectionRule(delta=DELTA, max_keys=toy.max_keys, share=Fraction(1, 2), min_units=min_units)
        terms = ReleaseTerms(
            PrivacySpec(rho=2 * rho, relation=relation, summary_counts=None),
            toy.bounds,
            privacy_unit=PrivacyUnit.PRIVACY_ID,
            window_count=toy.max_windows,
            selection=rule,
        )
        choosing._calibrated.cache_clear()
        choice = choose_keys(SPEC, terms)
        assert choice is not None
        self.choice: KeyChoice = choice
        self.votes = functools.cache(functools.partial(toy.votes, rule))
        self.kept = functools.cache(self._kept)
        self.check = functools.cache(self._check)

    def _kept(self, votes: Votes) -> tuple[float, float]:
        """The probabilities that a place is released and that it is not: over all values of the noise."""
        drawn: list[np.ndarray] = []

        def add_every_noise(counts: np.ndarray, variance: Fraction, *_: Any, **__: Any) -> np.ndarray:
            reach = len(counts) // 2
            places = np.arange(-reach, reach + 1)
            drawn.append(np.exp(-(places**2) / (2 * float(drawn_variance(variance)))))
            return counts + places

        size = 2 * int(36 * math.sqrt(self.choice.note.sigma_squared)) + 1
        with mock.patch.object(tables, "add_noise", add_every_noise):
            kept = self.choice.keeps(*(np.full(size, number) for number in votes))
        (weights,) = drawn
        whole = math.fsum(weights)
        return math.fsum(weights[kept]) / whole, math.fsum(weights[~kept]) / whole

    def neighbours(self) -> Iterator[tuple[tuple[Votes, ...], tuple[Votes, ...]]]:
        """The votes of all pairs of neighbouring inputs, each pair in one order."""
        for first, second in itertools.product(FIRST, SECOND):
            others = ((1, first), (2, second))
            for mine in range(1, 8):
                theirs = range(1, 8) if self.relation is REPLACE_ONE else [0]
                for other in theirs:
                    yield self.votes((*others, (3, mine))), self.votes((*others, (4, other)))

    def check_all(self) -> float:
        """Check all pairs; return the largest probability of an output that the neighbour cannot have."""
        return max(self.check(tuple(sorted(zip(*pair, strict=True)))) for pair in self.neighbours())

    def _check(self, places: tuple[tuple[Votes, Votes], ...]) -> float:
        probabilities = [(self.kept(one), self.kept(other)) for one, other in places]
        both = [
            (one, other, pair)
            for (one, other), pair in zip(probabilities, places, strict=True)
            if bool(one[0]) == bool(other[0])
        ]
        moved = sum((one[0] - other[0]) ** 2 for _, _, (one, other) in both)
        moved_considered = sum((pair[0][0] - pair[1][0]) ** 2 for one, _, pair in both if one[0])
        assert moved_considered / (2 * self.choice.note.sigma_squared) <= self.rho * SLACK, "votes cost too much"
        assert moved >= moved_considered
        for order, way in itertools.product(ORDERS, (0, 1)):
            total = sum(renyi(order, pair[way], pair[1 - way]) for *pair, _ in both if pair[0][0])
            assert total <= self.rho * order * SLACK, "the set costs too much"
        alone = [1 - math.prod(pair[way][1] for pair in probabilities if not pair[1 - way][0]) for way in (0, 1)]
        assert max(alone) <= float(DELTA) * SLACK, "a unit alone shows"
        one, other = (distribution([pair[way][0] for pair in probabilities]) for way in (0, 1))
        for epsilon in EPSILONS:
            curve = zcdp if self.choice.table else gaussian_curve
            least = curve.delta(rho=self.rho, epsilon=epsilon)
            allowed = float(DELTA) + (1 - float(DELTA)) * least
            for first, second in ((one, other), (other, one)):
                excess = np.maximum(first - math.exp(min(epsilon, 600)) * second, 0).sum()
                assert excess <= allowed * SLACK + 1e-14, "the set shows too much"
        return max(alone)


def renyi(order: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    """The divergence of one decision from another."""
    if one == other:
        return 0.0
    exponents = [order * math.log(p) + (1 - order) * math.log(q) for p, q in zip(one, other, strict=True)]
    largest = max(exponents)
    return (largest + math.log(sum(math.exp(each - largest) for each in exponents))) / (order - 1)


def distribution(kept: list[float]) -> np.ndarray:
    """The probabilities of all sets."""
    found = np.ones(1)
    for each in kept:
        found = np.outer(found, [each, 1 - each]).ravel()
    return found


FAST = ("records, 2 keys", "norm, 1 key and window")
every_toy = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in TOYS]
)
every_relation = pytest.mark.parametrize(
    "relation",
    [ADD_OR_REMOVE_ONE, pytest.param(REPLACE_ONE, marks=pytest.mark.slow)],
    ids=lambda relation: relation.name,
)


@pytest.mark.one_fast_case
@every_toy
@every_relation
@pytest.mark.parametrize("min_units", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rho", [Fraction(1, 100), pytest.param(Fraction(2), marks=pytest.mark.slow)], ids=str)
def test_released_sets_of_neighbours_are_as_alike_as_said(
    rho: Fraction, min_units: int, relation: NeighboringRelation, name: str
) -> None:
    largest = Mechanism(TOYS[name], relation, min_units, rho).check_all()
    least = 0.95 if rho < 1 else 0.3  # thresholds are whole numbers, and noise has steps of them
    assert largest > least * DELTA


# Planted faults.


def by_popularity(rule: SelectionRule, voters: np.ndarray, present: np.ndarray, codes: Any, values: Any) -> np.ndarray:
    """Each unit votes for the keys that most others are in."""
    names = [name for name in codes if name != "unit"]
    places = list(zip(*(values[name].take(pa.array(codes[name])).to_pylist() for name in names), strict=True))
    votes = np.zeros(len(places), dtype=np.int64)
    for privacy_unit in set(voters.tolist()):
        own = [row for row in np.flatnonzero(voters == privacy_unit).tolist() if present[row]]
        chosen = sorted(own, key=lambda row: (-places.count(places[row]), places[row]))[: rule.max_keys]
        votes[chosen] = next((weight for size, weight in rule.classes if size >= len(chosen)), 0)
    return votes


def voters_who_are_present(exact: Any, rule: Any, groups: Any, voters: Any, present: np.ndarray, values: Any) -> Any:
    return exact(rule, groups, voters, present, values) | {"voters": pa.array((present > 0).astype(np.int64))}


def above_the_threshold_alone(choice: KeyChoice, votes: np.ndarray, units: np.ndarray) -> np.ndarray:
    noisy = tables.add_noise(votes, choice.note.sigma_squared)
    return (units >= choice.rule.min_units) & (noisy >= choice.note.threshold)


VOTERS_BY_DATA = laws.around(side_sums, "_votes", voters_who_are_present)
FAULTS = {
    "one less": faults.ONE_LESS.found("alone", "records, 1 key", 1),
    "two less, 2 keys": faults.TWO_LESS.found("alone", "norm, 2 keys and windows", 1),
    "two less, 2 units": faults.TWO_LESS.found("alone", "records, 2 keys", 2),
    "weights rounded up": faults.WEIGHTS_ROUNDED_UP.found("votes cost", "records, 2 keys", 1),
    "weights rounded up under a norm": faults.WEIGHTS_ROUNDED_UP.found("votes cost", "norm, 2 keys and windows", 1),
    "min_units without a higher threshold": faults.threshold(
        lambda exact, rule, *terms: exact(rule, *terms) - (rule.min_units - 1) * rule.grid, "alone", "records, 1 key", 2
    ),
    "considered by data": laws.together(VOTERS_BY_DATA, laws.put(KeyChoice, "keeps", above_the_threshold_alone)).found(
        "alone", "norm, 1 key and window", 1
    ),
    "min_units by data": VOTERS_BY_DATA.found("alone", "norm, 1 key and window", 2),
    "a choice in each window of a norm": laws.around(
        side_sums,
        "cast_votes",
        lambda exact, rule, voters, present, codes, values: exact(
            rule, 1000 * voters + codes["window"], present, codes, values
        ),
        "votes|alone",
        "norm, 1 key and window",
        1,
    ),
    "delta not split over windows": faults.WINDOWS_FORGOTTEN.found("alone", "records in 2 windows", 1),
    "by popularity": laws.put(side_sums, "cast_votes", by_popularity, "votes|alone", "norm, 1 key and window", 1),
    "counted twice": laws.around(
        side_sums, "cast_votes", lambda exact, *terms: 2 * exact(*terms), "votes|alone", "records, 1 key", 1
    ),
}


def check(name: str, min_units: int, relation: NeighboringRelation) -> None:
    Mechanism(TOYS[name], relation, min_units, Fraction(1, 100)).check_all()


test_a_planted_fault_is_found = every_relation(laws.mutants(FAULTS, check))


@pytest.fixture(autouse=True)
def fresh_choices() -> Iterator[None]:
    yield
    choosing._calibrated.cache_clear()


def test_a_fault_is_found_in_the_set_of_keys_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without splitting off delta: the hockey-stick divergence at an epsilon that noise cannot reach."""
    faults.ONE_LESS.plant(monkeypatch)
    mechanism = Mechanism(TOYS["records, 1 key"], ADD_OR_REMOVE_ONE, 1, Fraction(1, 100))
    (kept, _), nothing = mechanism.kept((48, 1)), mechanism.kept((0, 0))
    assert nothing == (0.0, 1.0)
    assert kept > DELTA + (1 - DELTA) * Fraction(zcdp.delta(rho=0.01, epsilon=30.0))
