"""Netting: the sums are right in any order and split, and rows come unit by unit in the order of their values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.exact.bounding import netting
from beam_dpsketch.exact.bounding.netting import NetRecords, net

WEIGHTS = st.one_of(st.integers(-3, 3), st.just(1), st.integers(-(1 << 62), 1 << 62))
UNITS = {
    "int": (pa.int64(), st.integers(-2, 2) | st.sampled_from([-(1 << 63), (1 << 63) - 1])),
    "bytes": (pa.large_binary(), st.sampled_from([b"", b"a", b"a\x00", b"\xff"])),
}
ITEMS = {
    "fingerprints": (pa.uint64(), st.integers(0, 3) | st.sampled_from([1 << 63, (1 << 64) - 1])),
    "canonical bytes": (pa.large_binary(), st.sampled_from([b"x", b"y", b"", b"long" * 30])),
}
every_type = [pytest.mark.parametrize("unit", UNITS), pytest.mark.parametrize("item", ITEMS)]
Row = tuple[Any, ...]


def each_type(function: Any) -> Any:
    for mark in every_type:
        function = mark(function)
    return function


@st.composite
def tables(draw: st.DrawFn, unit: str, item: str, weights: st.SearchStrategy[int] = WEIGHTS) -> pa.Table:
    """Draw records, with or without keys and windows, in columns of one chunk or two."""
    columns: dict[str, tuple[Any, Any]] = {"unit": UNITS[unit]}
    if draw(st.booleans()):
        columns["key"] = (pa.large_binary(), st.sampled_from([b"k", b"l"]))
    if draw(st.booleans()):
        columns["window"] = (pa.int64(), st.integers(-2, 2))
    columns |= {"item": ITEMS[item], "weight": (pa.int64(), weights)}
    rows = draw(st.lists(st.tuples(*(values for _, values in columns.values())), max_size=30))
    table = pa.table(
        {name: pa.array([row[place] for row in rows], kind) for place, (name, (kind, _)) in enumerate(columns.items())}
    )
    cut = draw(st.integers(0, len(rows)))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


def rows_of(table: pa.Table) -> list[Row]:
    """All rows: the columns that are netted by, then the weight."""
    names = [name for name in table.column_names if name != "weight"]
    columns = [table[name].to_pylist() for name in (*sorted(names), "weight")]
    return list(zip(*columns, strict=True))


def by_hand(table: pa.Table) -> dict[Row, int]:
    """The sums of 64-bit integers that wrap around."""
    sums: Counter[Row] = Counter()
    for *place, weight in rows_of(table):
        sums[tuple(place)] += weight
    return {place: (weight + (1 << 63)) % (1 << 64) - (1 << 63) for place, weight in sums.items()}


def as_dict(table: pa.Table) -> dict[Row, int]:
    found = {tuple(place): weight for *place, weight in rows_of(table)}
    assert len(found) == len(table)
    return found


@each_type
@given(data=st.data())
def test_weights_are_added_up_by_all_other_columns(unit: str, item: str, data: Any) -> None:
    table = data.draw(tables(unit, item))
    netted = net(table).to_table()
    assert netted.schema.field("weight").type == pa.int64()
    assert {name: netted[name].type for name in table.column_names} == {
        name: table[name].type for name in table.column_names
    }
    assert as_dict(netted) == by_hand(table)


@each_type
@given(data=st.data())
def test_order_and_split_do_not_matter(unit: str, item: str, data: Any) -> None:
    table = data.draw(tables(unit, item))
    order = data.draw(st.permutations(range(len(table))))
    shuffled = table.take(pa.array(order, pa.int64()))
    cut = data.draw(st.integers(0, len(table)))
    parts = pa.concat_tables([net(part).to_table() for part in (shuffled.slice(0, cut), shuffled.slice(cut))])
    assert as_dict(net(parts).to_table()) == as_dict(net(table).to_table())


def ordered_rows(netted: NetRecords) -> dict[Any, list[Row]]:
    """The rows of each unit in the order in which they come; each unit comes once."""
    columns = [netted.values[name].take(pa.array(codes)).to_pylist() for name, codes in netted.codes.items()]
    rows: dict[Any, list[Row]] = {}
    before = None
    for unit, *row in zip(*columns, netted.weights.tolist(), strict=True):
        assert unit not in rows or unit == before
        rows.setdefault(unit, []).append(tuple(row))
        before = unit
    return rows


@each_type
@given(data=st.data())
def test_the_rows_of_a_unit_come_in_the_order_of_their_values_whoever_else_is_there(
    unit: str, item: str, data: Any
) -> None:
    table = data.draw(tables(unit, item))
    found = ordered_rows(net(table))
    for number, rows in found.items():
        assert [row[:-1] for row in rows] == sorted(row[:-1] for row in rows)
        own = table.filter(pa.array([value == number for value in table["unit"].to_pylist()], pa.bool_()))
        assert ordered_rows(net(own)) == {number: rows}


@each_type
@given(data=st.data())
def test_codes_too_long_for_one_word_are_netted_alike(unit: str, item: str, data: Any) -> None:
    table = data.draw(tables(unit, item).filter(len))
    packed = net(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(netting, "_WORD", 0)
        patch.setattr(netting, "_net_packed", None)
        sorted_by_columns = net(table)
    assert ordered_rows(sorted_by_columns) == ordered_rows(packed)


@pytest.mark.one_fast_case
@each_type
@pytest.mark.parametrize("weights", [st.just(1), st.just(-7), st.integers(-2, 2)])
@given(data=st.data())
def test_an_insert_and_its_delete_leave_a_row_of_weight_zero(unit: str, item: str, weights: Any, data: Any) -> None:
    table = data.draw(tables(unit, item, weights))
    place = table.column_names.index("weight")
    deletes = table.set_column(place, "weight", pa.array(-table["weight"].to_numpy()))
    both = pa.concat_tables([table, deletes])
    netted = net(both.take(pa.array(data.draw(st.permutations(range(len(both)))), pa.int64())))
    assert not netted.weights.any()
    assert len(netted.weights) == len(by_hand(table))


def test_rows_are_taken_by_mask_and_by_position() -> None:
    table = pa.table({"unit": pa.array([1, 1, 2]), "item": pa.array([7, 8, 7], pa.uint64()), "weight": [1, 2, 3]})
    netted = net(table)
    for rows in (np.array([False, True, True]), np.array([1, 2])):
        assert netted.take(rows).to_table().to_pylist() == [
            {"unit": 1, "item": 8, "weight": 2},
            {"unit": 2, "item": 7, "weight": 3},
        ]


# Counting records


def counted(table: pa.Table) -> dict[tuple[Any, ...], int]:
    """The number of records of each unit, key and window."""
    names = [name for name in table.column_names if name not in ("item", "weight", "records")]
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        counts[tuple(row[name] for name in names)] += row.get("records", 1)
    return dict(counts)


@pytest.mark.one_fast_case
@each_type
@pytest.mark.parametrize("weights", [st.just(1), st.integers(-2, 2)])
@pytest.mark.parametrize("word", [0, 64])
@given(data=st.data())
def test_records_are_counted_in_any_order_and_split(unit: str, item: str, weights: Any, word: int, data: Any) -> None:
    table = data.draw(tables(unit, item, weights).filter(len))
    order = data.draw(st.permutations(range(len(table))))
    shuffled, cut = table.take(pa.array(order, pa.int64())), data.draw(st.integers(1, len(table)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(netting, "_WORD", word)
        netted = net(table, count=True)
        parts = [net(shuffled.slice(0, cut), count=True).without_zeros().to_table(), shuffled.slice(cut)]
        joined = net(pa.concat_tables(parts, promote_options="default"), count=True)
    assert as_dict(netted.to_table().drop_columns(["records"])) == by_hand(table)
    assert counted(netted.to_table()) == counted(table)
    for each in (netted, joined):
        left = each.without_zeros()
        assert counted(left.to_table()) == counted(table)
        weighed = {place: weight for place, weight in by_hand(table).items() if weight}
        found = as_dict(left.to_table().drop_columns(["records"]))
        assert {place: weight for place, weight in found.items() if weight} == weighed
        # A row of weight 0 is the only one of its unit, key and window.
        assert left.records is not None
        assert np.all((left.weights != 0) | (left.records > 0))
        assert np.count_nonzero(left.records) == len(counted(table))


def test_counts_are_taken_along() -> None:
    table = pa.table({"unit": pa.array([1, 1, 2]), "item": pa.array([7, 7, 7], pa.uint64()), "weight": [1, 2, 3]})
    netted = net(table, count=True)
    assert netted.take(np.array([0])).to_table().to_pylist() == [{"unit": 1, "item": 7, "weight": 3, "records": 2}]
    assert "records" not in net(table).to_table().column_names
    assert net(table).without_zeros().records is None
