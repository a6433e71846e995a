"""Summary counts as a step: right, and private by brute force. Which units cost all of it: `test_every_loss.py`."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import REPLACE_ONE, NormBound, Record, RecordBounds, SketchSpec
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.bounding.side_sums import add_up_units, sums_of_kept
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.summary_counts import summary_counts
from tests.helpers import norms, side_sums
from tests.helpers.norms import UNIT, Place, Records
from tests.helpers.side_sums import EVERY, Added

every_layout = pytest.mark.parametrize("layout", norms.LAYOUTS)
WIDE = SketchSpec(kind="count_sketch", depth=1, width=1 << 12, seed=3)  # its 16 items share no cell
MANY_CELLS = [(b"k%d" % (place % 3), place // 3) for place in range(6)]
WEIGHT = 1 << 20


@pytest.mark.one_fast_case
@every_layout
@given(seed=st.integers(0, 1 << 40))
def test_every_counter_is_as_said_and_hides_every_unit(layout: str, seed: int) -> None:
    side_sums.check(*side_sums.draw(layout, seed))


@pytest.mark.one_fast_case
@every_layout
@given(seed=st.integers(0, 1 << 40))
def test_a_limit_of_memory_leaves_all_this_in_place(layout: str, seed: int) -> None:
    side_sums.check(*side_sums.draw(layout, seed, max_distinct_items=True))


def added(bounds: NormBound, max_cells: int | None, records: Records) -> Added:
    counters = side_sums.counters_of(bounds, max_cells)
    (found,) = side_sums.side_sums(SketchInput(WIDE, bounds), counters, records).values()
    return found


def test_a_scaled_unit_keeps_more_weight_than_its_norm() -> None:
    """So no counter may ride on the norm: 16 items in cells of their own, over 6 keys and windows."""
    bounds = NormBound(10, max_weight=WEIGHT)
    sketch_input = SketchInput(WIDE, bounds)
    kept = norms.bounded(sketch_input, side_sums.heavy_unit(sketch_input, MANY_CELLS, WEIGHT))
    assert sum(kept.values()) > 9 * 10 * UNIT
    assert max(norms.squared_length(WIDE, norms.change(WIDE, kept.items())), Fraction(0)) <= (10 * UNIT) ** 2


def test_units_are_not_constant_where_a_unit_is_replaced() -> None:
    """The records of the replacement may cancel."""
    bounds = NormBound(5, max_weight=3, signed=True)
    present = added(bounds, 1, [(Place(0, b"", 0, 7), 1)])
    cancelled = added(bounds, 1, [(Place(0, b"", 0, 7), 1), (Place(0, b"", 0, 7), -1)])
    assert present["units"] == {(b"", 0): UNIT}
    assert set(cancelled["units"].values()) == {0}
    assert cancelled["records"] == {(b"", 0): 2 * UNIT}


def test_records_that_cancel_are_counted_and_take_one_row() -> None:
    bounds = NormBound(5, max_weight=3, signed=True)
    sketch_input = SketchInput(WIDE, bounds)
    records = [(Place(0, b"", 0, item), sign) for item in range(100) for sign in (2, -2)]
    rule = NormRule(bounds, sketch_input, side_sums.counters_of(bounds, 1))
    pruned = rule.prune(norms.to_table(sketch_input, records))
    assert pruned["records"].to_pylist() == [200]


def test_all_units_of_a_cell_are_added_up() -> None:
    bounds = NormBound(3, max_weight=9)
    sketch_input, counters = SketchInput(WIDE, bounds), side_sums.counters_of(bounds, None)
    records = [(Place(unit, key, 0, unit), weight) for unit in range(4) for key in (b"a", b"b") for weight in (1, 2)]
    rule = NormRule(bounds, sketch_input, counters)
    _, sums = rule.select_and_count(norms.to_table(sketch_input, records))
    assert sums is not None
    rows = {row["key"]: row for row in add_up_units(sums).to_pylist()}
    assert rows.keys() == {b"a", b"b"}
    for row in rows.values():
        assert row["window"] == 0
        assert (row["units"], row["records"], row["scaled"]) == (4 * UNIT, 8 * UNIT, 4 * UNIT)
        assert row["weight"] + row["clipped"] == 12 * UNIT
    (total,) = add_up_units(sums.drop_columns(["key", "window"])).to_pylist()
    assert total["records"] == 16 * UNIT


# Under `RecordBounds`


def kept_sums(bounds: RecordBounds, records: Records) -> dict[Any, Added]:
    """What each unit adds to each counter, apart, whether or not it is equal to another."""
    table = norms.to_table(SketchInput(WIDE, bounds), records).drop_columns(["window"])
    kept = RecordRule(bounds, RandomPriorities(5)).select(table)
    found: dict[Any, Added] = {}
    for counter in summary_counts(EVERY, bounds, clips=True):
        for name in counter.names:
            for row in sums_of_kept([counter._replace(names=(name,))], None, kept, bounds).to_pylist():
                found.setdefault(row["unit"], {}).setdefault(name, {})[row["key"], 0] = row[name] * UNIT
    return found


def squared_limits(bounds: RecordBounds) -> dict[str, int]:
    """The squares of what one unit can add, in records."""
    most, keys = bounds.max_records, bounds.kept_keys
    return {"units": keys, "records": keys * most**2, "weight": keys * (most * bounds.max_weight) ** 2}


@given(
    bounds=st.builds(
        RecordBounds,
        st.integers(1, 4),
        max_keys=st.integers(1, 3),
        max_weight=st.sampled_from([1, 5]),
        signed=st.booleans(),
    ),
    data=st.data(),
)
def test_kept_records_are_within_the_bounds_and_equal_counters_are_equal(bounds: RecordBounds, data: Any) -> None:
    weights = st.integers(bounds.min_weight, bounds.max_weight).filter(bool)
    places = st.builds(Place, st.integers(0, 2), st.sampled_from([b"a", b"b", b"c"]), st.just(0), st.integers(0, 3))
    found = kept_sums(bounds, data.draw(st.lists(st.tuples(places, weights), min_size=1, max_size=60)))
    limits, counters = squared_limits(bounds), summary_counts(EVERY, bounds, clips=True)
    for counter in counters:
        for added, name in itertools.product(found.values(), counter.names):
            assert added[name] == added[counter.name]
            assert side_sums.square(added[name].values()) <= counter.squared_limit == limits[name]
    for counter, one, other in itertools.product(counters, found.values(), found.values()):
        replaced = side_sums.square(side_sums.change(one[counter.name], other[counter.name]))
        assert replaced <= counter.sensitivity(REPLACE_ONE).squared


def test_copies_of_a_record_are_counted() -> None:
    bounds = RecordBounds(5, max_weight=2, signed=True)
    kept = pa.table(
        {
            "unit": pa.array([1, 1, 2]),
            "item": pa.array([7, 8, 7], pa.uint64()),
            "weight": [2, -1, 2],
            "copies": [3, 1, 5],
        }
    )
    rows = sums_of_kept(summary_counts(EVERY, bounds, clips=True), None, kept, bounds).to_pylist()
    assert rows == [
        {"unit": 1, "units": 1, "records": 4, "weight": 5},
        {"unit": 2, "units": 1, "records": 5, "weight": 10},
    ]


@pytest.mark.parametrize(
    ("unit", "weights", "sums"),
    [
        (Record(), [1, 1, 1], [3]),
        (Record(max_weight=5), [5, 0, 2], [2, 7]),
        (Record(max_weight=5, signed=True), [5, 0, -2, -5], [3, -2]),
        (Record(), [], [0]),
    ],
)
def test_single_records_are_units(unit: Record, weights: list[int], sums: list[int]) -> None:
    sketch_input = SketchInput(WIDE, unit.bounds, summary_counts(EVERY, unit.bounds, clips=True))
    items, read = list(range(len(weights))), weights if unit.bounds.has_weights else None
    found = sketch_input.contributions(items, read).side
    assert found is not None
    assert found.dtype == np.int64
    assert found.tolist() == sums
