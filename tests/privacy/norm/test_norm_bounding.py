"""Norm bounding by brute force: never too long, never dearer than rho, and both attained.

All comparisons are in whole numbers or fractions, so that a right kernel never fails by chance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, FactorizationSpec, IntegerDomain, NormBound, SketchSpec
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.privacy.contributions import NeighboringRelation
from tests.helpers import norms
from tests.helpers.norms import UNIT, Place

RHO = Fraction(1, 1000)
STATISTICS = ("statistics", "statistics, rounded")
WITH_NUMBERS = (*STATISTICS, "metrics")
every_layout = pytest.mark.parametrize("layout", norms.LAYOUTS)
every_relation = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda relation: relation.name)


def spec_of(layout: str, seed: int = 0) -> Any:
    return norms.LAYOUTS[layout](np.random.default_rng(seed))


def of_one_unit(*weights: tuple[Any, int], key: bytes = b"k", window: int = 0, unit: int = 0) -> list[Any]:
    return [(Place(unit, key, window, item), weight) for item, weight in weights]


def added(sketch_input: SketchInput, records: norms.Records) -> norms.Change:
    """What one unit adds to all counters."""
    return norms.change(sketch_input.spec, norms.bounded(sketch_input, records).items())


@pytest.mark.one_fast_case
@every_layout
@given(seed=st.integers(0, 1 << 40))
def test_every_unit_is_short_enough_and_keeps_what_is_said(layout: str, seed: int) -> None:
    norms.check(norms.draw_case(layout, seed))


@given(seed=st.integers(0, 1 << 40))
def test_units_that_cancel_in_their_cells_are_short_enough(seed: int) -> None:
    norms.check(norms.draw_cancelling_case(seed))


@pytest.mark.one_fast_case
@every_layout
@given(seed=st.integers(0, 1 << 40))
def test_a_limit_of_memory_leaves_all_this_in_place(layout: str, seed: int) -> None:
    norms.check(norms.draw_case(layout, seed, max_distinct_items=True))


@pytest.mark.one_fast_case
@every_layout
@given(seed=st.integers(0, 1 << 40))
def test_no_unit_costs_more_than_rho(layout: str, seed: int) -> None:
    norms.check_losses(norms.draw_case(layout, seed))


def cells_meet(first: dict[int, int], second: dict[int, int], *, opposite: bool) -> bool:
    """Whether two items are in a table, and share all its cells with opposite signs, or else none."""
    if not first or not second:
        return False
    if opposite:
        return first == {cell: -sign for cell, sign in second.items()}
    return not first.keys() & second.keys()


def worst_pair(layout: str) -> tuple[Any, Any, Any]:
    """A spec of this layout, and two items that replace each other at the largest cost in all tables at once."""
    for seed in range(3000):
        spec = spec_of(layout, seed)
        for pair in itertools.combinations(norms.keys_of(spec), 2):
            cells = [norms.changed_cells(spec, item) for item in pair]
            if all(
                cells_meet(*tables, opposite=signs)
                for *tables, signs in zip(*cells, norms.has_signs(spec), strict=True)
            ):
                return spec, *pair
    raise AssertionError(f"no such pair in {layout}")


@pytest.mark.one_fast_case
@pytest.mark.parametrize("layout", [layout for layout in norms.LAYOUTS if layout not in WITH_NUMBERS])
@pytest.mark.parametrize("max_norm", [1, Fraction(5, 2), 20, 1000])
def test_the_cost_is_attained_in_both_relations(layout: str, max_norm: Any) -> None:
    """By units of max_norm records exactly, and by heavier ones up to rounding."""
    spec, first, second = worst_pair(layout)
    sketch_input = SketchInput(spec, NormBound(max_norm, max_weight=1 << 20))
    for weight in {max_norm, 1001, 9999} - {Fraction(5, 2)}:
        units = [added(sketch_input, of_one_unit((item, weight))) for item in (first, second)]
        costs = {
            ADD_OR_REMOVE_ONE: norms.loss(sketch_input, units[0], ADD_OR_REMOVE_ONE, RHO) / RHO,
            REPLACE_ONE: norms.loss(sketch_input, norms.distance(*units), REPLACE_ONE, RHO) / RHO,
        }
        for cost in costs.values():
            assert 1 - Fraction(1, 10_000) <= cost <= 1
            assert weight != max_norm or cost == 1


@pytest.mark.parametrize("layout", STATISTICS)
@pytest.mark.parametrize("max_norm", [1, Fraction(5, 2), 50])
def test_the_cost_of_numbers_is_attained_at_the_ends(layout: str, max_norm: Any) -> None:
    """A removal costs all, and so does a replacement by the other end; but for a guard, which no replacement moves."""
    for seed in range(4):
        spec = spec_of(layout, seed)
        low, *_, high = norms.keys_of(spec)
        sketch_input = SketchInput(spec, NormBound(max_norm, max_weight=1 << 20))
        for weight in (math.floor(max_norm), 9999):
            units = [added(sketch_input, of_one_unit((item, weight))) for item in (low, high)]
            removals = [norms.loss(sketch_input, unit, ADD_OR_REMOVE_ONE, RHO) / RHO for unit in units]
            replacement = norms.loss(sketch_input, norms.distance(*units), REPLACE_ONE, RHO) / RHO
            least = min(Fraction(weight) / max_norm, 1) ** 2 - Fraction(1, 10_000)
            squares = sorted(part**2 for part in norms.changed_cells(spec, low)[0].values())
            assert squares[-1] >= Fraction(127, 128) ** 2
            assert sum(squares) * least <= min(removals) <= max(removals) <= 1
            assert squares[-1] * least <= replacement <= 1
            assert weight != max_norm or (*removals, replacement) == (sum(squares), sum(squares), squares[-1])


@pytest.mark.parametrize("size", [1, 2, 3, 64, 300])
def test_the_rows_of_a_factor_are_those_of_its_definition(size: int) -> None:
    """Each column, and the longest one: by whole numbers here, and what the package releases and says."""
    spec = FactorizationSpec(IntegerDomain(1, size))
    for item, column in zip(range(size), norms.columns_of_factor(size), strict=True):
        assert norms.changed_cells(spec, item) == (dict(enumerate(column, item)),)
    (table,), longest = raw_type(spec).tables(spec), norms.factor_by_hand(size).squared_length
    assert longest == max(sum(entry**2 for entry in column) for column in norms.columns_of_factor(size))
    assert table == (1, False, 1, longest, table.dropped_bits)


@pytest.mark.parametrize("max_norm", [1, Fraction(5, 2), 50])
@pytest.mark.parametrize("signed", [False, True])
def test_the_cost_of_rows_is_attained_in_the_longest_column(max_norm: Any, signed: bool) -> None:
    """A removal costs all; so does the opposite weight on one value. Without signs, the other end costs nearly all."""
    spec = FactorizationSpec(IntegerDomain(0, 999))
    sketch_input = SketchInput(spec, NormBound(max_norm, max_weight=1 << 20, signed=signed, norm="l1"))
    for weight in (math.floor(max_norm), 9999):
        unit, opposite, far = (
            added(sketch_input, of_one_unit((item, sign * weight))) for item, sign in ((0, 1), (0, -1), (999, 1))
        )
        removal = norms.loss(sketch_input, unit, ADD_OR_REMOVE_ONE, RHO) / RHO
        other = opposite if signed else far
        replacement = norms.loss(sketch_input, norms.distance(unit, other), REPLACE_ONE, RHO) / RHO
        least = min(Fraction(weight) / max_norm, 1) ** 2
        assert least - Fraction(1, 10_000) <= removal <= 1
        assert least * (1 if signed else Fraction(95, 100)) - Fraction(1, 10_000) <= replacement <= 1
        assert weight != max_norm or removal == 1
        assert weight != max_norm or not signed or replacement == 1


@pytest.mark.parametrize("max_norm", [1, 50])
def test_a_record_with_all_items_costs_all_of_several_metrics_and_others_less(max_norm: int) -> None:
    """The last of the items has all, and its number is at an end; of each other one, some are missing or smaller."""
    spec = spec_of("metrics")
    sketch_input = SketchInput(spec, NormBound(max_norm, max_weight=1 << 20))
    costs = [
        norms.loss(sketch_input, added(sketch_input, of_one_unit((item, max_norm))), ADD_OR_REMOVE_ONE, RHO) / RHO
        for item in norms.keys_of(spec)
    ]
    assert costs[0] == costs[-1] == 1
    missing = [sum(not table for table in norms.changed_cells(spec, item)) for item in norms.keys_of(spec)]
    assert all(cost < 1 for cost, tables in zip(costs, missing, strict=True) if tables)
    assert {1, 2} <= {*missing}


@every_relation
def test_the_cost_is_attained_over_keys_and_windows(relation: NeighboringRelation) -> None:
    spec, first, second = worst_pair("all kinds")
    sketch_input = SketchInput(spec, NormBound(30, max_weight=1 << 20))
    units = [
        added(
            sketch_input,
            [
                record
                for key, window in itertools.product((b"a", b"b"), range(3))
                for record in of_one_unit((item, 9000), key=key, window=window)
            ],
        )
        for item in (first, second)
    ]
    assert all(len(table) == 6 * rows for table, (rows, _) in zip(units[0], norms.tables_of(spec), strict=True))
    change = units[0] if relation is ADD_OR_REMOVE_ONE else norms.distance(*units)
    assert 1 - Fraction(1, 10_000) <= norms.loss(sketch_input, change, relation, RHO) / RHO <= 1


@pytest.mark.one_fast_case
@every_layout
@given(data=st.data())
def test_a_unit_with_as_many_records_as_the_norm_loses_nothing(layout: str, data: Any) -> None:
    """In any items, keys and windows; one record more of a single item is too many, in each metric that it is in."""
    spec = spec_of(layout, data.draw(st.integers(0, 99)))
    items, count = norms.keys_of(spec), data.draw(st.integers(1, 40))
    sketch_input = SketchInput(spec, NormBound(count, max_weight=1))
    places = st.builds(Place, st.just(0), st.sampled_from([b"a", b"b"]), st.integers(0, 2), st.sampled_from(items))
    records = [(place, 1) for place in data.draw(st.lists(places, min_size=count, max_size=count))]
    kept = {place: weight * UNIT for place, weight in norms.netted(records).items()}
    assert norms.bounded(sketch_input, records) == kept
    more = [(records[0][0]._replace(item=items[0]), 1)] * (count + 1)
    weights = norms.bounded(sketch_input, more).values()
    assert len(weights) == len(raw_type(spec).parts(spec))
    assert all(count * UNIT * (1 - 1e-4) <= weight <= count * UNIT for weight in weights)


@every_layout
def test_one_per_item_counts_people(layout: str) -> None:
    spec = spec_of(layout)
    items = norms.keys_of(spec)
    sketch_input = SketchInput(spec, NormBound(len(items), max_weight=9, max_per_item=1, signed=True))
    records = of_one_unit(*((item, place % 9 + 1) for place, item in enumerate(items)))
    records += of_one_unit((items[0], -2), (items[1], -2))
    weights = {place.item: weight for place, weight in norms.bounded(sketch_input, records).items()}
    assert weights == {item: -UNIT if item == items[0] else UNIT for item in items if item != items[1]}


@pytest.mark.one_fast_case
@every_layout
@pytest.mark.parametrize("max_norm", [1, Fraction(7, 3), 1 << 25])
@pytest.mark.parametrize("signed", [False, True])
def test_squares_above_2_to_53_are_bounded_too(layout: str, max_norm: Any, signed: bool) -> None:
    spec = spec_of(layout, seed=5)
    sketch_input = SketchInput(spec, NormBound(max_norm, max_weight=1 << 31, signed=signed))
    items = norms.keys_of(spec)
    for repeats, largest in itertools.product((1, 40), (1 << 28, (1 << 31) - 1, 1 << 31)):
        rng = np.random.default_rng(repeats)
        weights = rng.integers(largest // 2, largest, len(items), endpoint=True) * rng.choice([1, -1], len(items))
        weights = weights if signed else np.abs(weights)
        records = [
            record
            for number in range(repeats)
            for record in of_one_unit(*zip(items, weights.tolist(), strict=True), key=b"%d" % (number % 2))
        ]
        net = norms.netted(records)
        assert sum(weight**2 for weight in net.values()) > 1 << 53
        change = added(sketch_input, records)
        assert norms.squared_length(spec, change) <= (UNIT * Fraction(max_norm)) ** 2
        norms.check_kept(sketch_input, net, norms.bounded(sketch_input, records))


@pytest.mark.parametrize("weight", [-(1 << 63), -(1 << 63) + 1, (1 << 63) - 1, -(1 << 62)])
def test_sums_that_wrapped_around_are_bounded_too(weight: int) -> None:
    """Billions of records of one unit and item may add up to any 64-bit number."""
    sketch_input = SketchInput(SketchSpec(depth=2, width=8), NormBound(3, max_weight=1 << 31, signed=True))
    records = of_one_unit((1, weight), *((item, (1 << 31) - 1) for item in range(2, 9)))
    assert norms.squared_length(sketch_input.spec, added(sketch_input, records)) <= (3 * UNIT) ** 2


def cells_of_parts(spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    first = 0
    for place, part in enumerate(raw_type(spec).parts(spec)):
        for table, cells in part.kind.cells_of(part.spec, raw_type(spec).own(spec, place, keys)):
            yield first + table, cells
        first += part.tables


@every_layout
def test_the_rows_of_a_table_come_one_after_the_other(layout: str) -> None:
    """`NormRule` groups them by their table, and works out what keys add once for each group."""
    spec = spec_of(layout)
    kind = raw_type(spec)
    keys = np.array(norms.keys_of(spec), dtype=kind.key_type(spec))
    order = [table for table, _ in cells_of_parts(spec, keys)]
    assert order == [number for number, count in enumerate(norms.counters_of(spec)) for _ in range(count)]


@every_layout
def test_the_cells_of_an_item_are_those_that_it_changes(layout: str) -> None:
    for seed in range(5):
        spec = spec_of(layout, seed)
        items, kind = norms.keys_of(spec), raw_type(spec)
        named: list[list[set[int]]] = [[set() for _ in items] for _ in norms.tables_of(spec)]
        rows = [0] * len(named)
        for table, cells in cells_of_parts(spec, np.array(items, dtype=kind.key_type(spec))):
            assert cells.dtype == np.int64
            counters = raw_type(spec)(spec).counter_tables()[table]
            start = rows[table] * counters.shape[-1] if counters.ndim == 2 else 0
            for found, cell in zip(named[table], cells.tolist(), strict=True):
                assert 0 <= cell < counters.shape[-1]
                found.add(start + cell)
            rows[table] += 1
        assert rows == norms.counters_of(spec)
        for item, *tables in zip(items, *named, strict=True):
            changed = norms.changed_counters(spec, item)
            some = [count > rows for count, (rows, _) in zip(rows, norms.tables_of(spec), strict=True)]  # of numbers
            for cells, found, fewer in zip(tables, changed, some, strict=True):
                assert found in (cells, set()) or (fewer and found < cells)
