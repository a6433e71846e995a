"""The sensitivity of sums of numbers by brute force: every value, every unit, both relations, all counters together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    IntegerDomain,
    NeighboringRelation,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseTerms,
)
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy import mechanism
from tests.helpers import laws

RHO, EPSILON = Fraction(1, 7), Fraction(1, 3)
DOMAINS = [IntegerDomain(-1, 0), IntegerDomain(7, 9), IntegerDomain(0, 3), IntegerDomain(-2, 2)]
GUARDED = IntegerDomain(0, 1 << 17)
"""With more steps than 2^10 there is a guard; a unit of some of its values stands for all."""
every_relation = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)
every_setting = [
    (domain, variance, records, max_weight, signed)
    for domain in (*DOMAINS, GUARDED)
    for variance, records, max_weight, signed in itertools.product((False, True), (1, 2), (1, 2), (False, True))
]


def units(spec: StatisticsSpec, bounds: RecordBounds) -> np.ndarray:
    """All that a unit may add to the counters of one of two keys: int64 of shape (units, 2 * cells)."""
    last = spec.domain.size - 1
    places = np.array(sorted({*range(5), last // 3, last // 2, last - 1, last} & {*range(last + 1)}), dtype=np.uint64)
    one = [
        NumberSums(spec).accumulate_keys(places[place : place + 1], np.array([weight])).counters
        for place in range(len(places))
        for weight in range(bounds.min_weight, bounds.max_weight + 1)
    ]
    held = {tuple(sum(some)) for some in itertools.combinations_with_replacement(one, bounds.max_per_key)}
    in_a_key = np.array(sorted(held))
    nothing = np.zeros_like(in_a_key)
    return np.concatenate([np.hstack(pair) for pair in ((in_a_key, nothing), (nothing, in_a_key))])


def changes(found: np.ndarray, relation: NeighboringRelation) -> Iterator[np.ndarray]:
    """All changes of all counters that neighbouring inputs cause: arrays of shape (changes, 2 * cells)."""
    yield found
    if relation is not ADD_OR_REMOVE_ONE:
        yield from (found - each for each in found)


def check(
    domain: Any, variance: bool, records: int, max_weight: int, signed: bool, relation: NeighboringRelation
) -> None:
    """Raise unless the noise pays for all changes, and no more than the largest needs: by integers, in one sum each."""
    spec, bounds = StatisticsSpec(domain, variance), RecordBounds(records, max_weight=max_weight, signed=signed)
    ((_, _, share, square, _),) = NumberSums.tables(spec)
    assert share == 1, "shares"
    each = [*changes(units(spec, bounds), relation)]
    squared = max(int(np.square(change).sum(axis=1).max()) for change in each)
    total = max(int(np.abs(change).sum(axis=1).max()) for change in each)
    terms = [
        ReleaseTerms(PrivacySpec(**spent, relation=relation, side_counters=None), bounds, unit=PrivacyUnit.PRIVACY_ID)
        for spent in ({"rho": RHO}, {"epsilon": EPSILON})
    ]
    (gaussian,), (laplace,) = (calibrate(spec, of_noise) for of_noise in terms)
    rho, epsilon = squared / (2 * gaussian * square), total / math.sqrt(laplace / 2 * square)
    assert rho <= RHO, "rho is exceeded"
    assert epsilon <= EPSILON * (1 + Fraction(1, 10**9)), "epsilon is exceeded"
    assert epsilon >= EPSILON * (1 - Fraction(1, 10**9)), "too much Laplace noise"
    if domain is not GUARDED:
        assert rho == RHO, "too much Gaussian noise"
    else:
        assert rho >= RHO * Fraction(399, 400), "too much Gaussian noise with a guard"


@every_relation
@pytest.mark.parametrize(("domain", "variance", "records", "max_weight", "signed"), every_setting)
def test_all_counters_together_cost_what_is_said(
    domain: Any, variance: bool, records: int, max_weight: int, signed: bool, relation: NeighboringRelation
) -> None:
    check(domain, variance, records, max_weight, signed, relation)


def test_replacing_a_unit_of_weights_that_are_not_negative_costs_twice_the_square_of_adding_it() -> None:
    bounds = RecordBounds(2, max_weight=3)
    (table,) = NumberSums.tables(StatisticsSpec(DOMAINS[2]))
    said = [
        mechanism.squared_l2_sensitivity(
            cells_per_item=table.cells_per_item, has_signs=table.has_signs, bounds=bounds, relation=relation
        )
        for relation in NeighboringRelation
    ]
    assert sorted(said) == [36, 72]


def check_some() -> None:
    for relation in NeighboringRelation:
        for setting in every_setting[:40]:
            check(*setting, relation)


def excess(exact: Any, spec: StatisticsSpec, places: np.ndarray) -> np.ndarray:
    """Return parts of which the middle one is 1 too large, where it is not 0."""
    added = exact(spec, places)
    if spec.variance:
        added[1] += added[1] > 0
    return added


FAULTS = {
    "squares that do not sum to the amount": laws.around(StatisticsSpec, "added", excess, "exceeded"),
    "a middle part that is twice as large": laws.around(
        StatisticsSpec,
        "added",
        lambda exact, spec, places: exact(spec, places) * np.array([[1], [2], [1]])[: spec.parts],
        "exceeded",
    ),
    "replacement at the factor of addition": laws.around(
        mechanism, "change_factor", lambda exact, relation, **_: exact(ADD_OR_REMOVE_ONE), "rho is exceeded"
    ),
    "replacement in sum at the factor of addition": laws.around(
        mechanism, "total_factor", lambda exact, relation: exact(ADD_OR_REMOVE_ONE), "epsilon is exceeded"
    ),
    "signed weights at the factor of counters that grow": laws.around(
        mechanism, "change_factor", lambda exact, relation, **_: exact(relation), "rho is exceeded"
    ),
    "replacement at the factor of signed sums": laws.around(
        mechanism, "change_factor", lambda exact, relation, **_: exact(relation, has_signs=True), "too much Gaussian"
    ),
    "the noise of two shares": laws.around(
        NumberSums,
        "tables",
        lambda exact, spec: tuple(each._replace(squared_amount=4 * each.squared_amount) for each in exact(spec)),
        "too much",
    ),
    "no amount": laws.around(
        NumberSums,
        "tables",
        lambda exact, spec: tuple(each._replace(squared_amount=1) for each in exact(spec)),
        "exceeded",
    ),
}
test_a_planted_fault_is_refused = laws.mutants(FAULTS, check_some, intact=True)
