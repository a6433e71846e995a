"""The sensitivity of sums of numbers by brute force: every value, every unit, both relations, all tables together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

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
from beam_dpsketch.engine.calibration import calibrate
from beam_dpsketch.kinds.statistics.sums import NumberSums, StatisticsSpec
from beam_dpsketch.privacy.mechanism import sensitivity
from tests.helpers import norms

RHO, EPSILON = Fraction(1, 7), Fraction(1, 3)
DOMAINS = [IntegerDomain(-1, 0), IntegerDomain(7, 9), IntegerDomain(0, 3), IntegerDomain(-2, 2)]
every_relation = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)
every_setting = [
    (domain, records, max_weight, signed)
    for domain in DOMAINS
    for records, max_weight, signed in itertools.product((1, 2), (1, 2), (False, True))
]


def units(spec: StatisticsSpec, bounds: RecordBounds) -> np.ndarray:
    """All that a unit may add to the tables of one of two keys, over the amounts: of shape (units, 2, tables)."""
    places = np.arange(spec.domain.size, dtype=np.uint64)
    one = [
        NumberSums(spec).accumulate_keys(places[place : place + 1], np.array([weight])).counters
        for place in range(len(places))
        for weight in range(bounds.min_weight, bounds.max_weight + 1)
    ]
    amounts = [math.isqrt(table.squared_amount) for table in NumberSums.tables(spec)]
    assert amounts == norms.amounts_of(spec)
    held = {tuple(sum(some)) for some in itertools.combinations_with_replacement(one, bounds.max_per_key)}
    in_a_key = np.array(sorted(held)) / amounts
    nothing = np.zeros_like(in_a_key)
    return np.concatenate([np.stack(pair, axis=1) for pair in ((in_a_key, nothing), (nothing, in_a_key))])


def changes(found: np.ndarray, relation: NeighboringRelation) -> Iterator[np.ndarray]:
    """All changes of all tables that neighbouring inputs cause: arrays of shape (changes, 2, tables)."""
    yield found
    if relation is not ADD_OR_REMOVE_ONE:
        yield from (found - each for each in found)


@every_relation
@pytest.mark.parametrize(("domain", "records", "max_weight", "signed"), every_setting)
def test_each_table_has_its_sensitivity_and_all_of_them_cost_what_is_said(
    domain: IntegerDomain, records: int, max_weight: int, signed: bool, relation: NeighboringRelation
) -> None:
    """Squares of two numbers differ by all of it where one is in the middle, which domains of odd size have."""
    spec, bounds = StatisticsSpec(domain, Fraction(1, 5)), RecordBounds(records, max_weight=max_weight, signed=signed)
    each = [*changes(units(spec, bounds), relation)]
    squares = np.max([np.square(change).sum(axis=1).max(axis=0) for change in each], axis=0)
    totals = np.max([np.abs(change).sum(axis=1).max(axis=0) for change in each], axis=0)
    for number, table in enumerate(NumberSums.tables(spec)):
        said = sensitivity(
            cells_per_item=table.cells_per_item, has_signs=table.has_signs, bounds=bounds, relation=relation
        )
        attained = number < 2 or domain.size % 2 or signed or relation is ADD_OR_REMOVE_ONE
        assert squares[number] == said.squared if attained else squares[number] < said.squared
        assert totals[number] == said.total
    terms = [
        ReleaseTerms(PrivacySpec(**spent, relation=relation, side_counters=None), bounds, unit=PrivacyUnit.PRIVACY_ID)
        for spent in ({"rho": RHO}, {"epsilon": EPSILON})
    ]
    gaussian, laplace = (np.array(calibrate(spec, of_noise), dtype=float) for of_noise in terms)
    rho = max(float((np.square(change).sum(axis=1) / (2 * gaussian)).sum(axis=1).max()) for change in each)
    epsilon = max(float((np.abs(change).sum(axis=1) / np.sqrt(laplace / 2)).sum(axis=1).max()) for change in each)
    least = 1 if signed or relation is ADD_OR_REMOVE_ONE else Fraction(1, 2)
    assert RHO * least * (1 - Fraction(1, 10**9)) <= rho <= RHO * (1 + Fraction(1, 10**9))
    assert EPSILON * (1 - Fraction(1, 10**9)) <= epsilon <= EPSILON * (1 + Fraction(1, 10**9))
