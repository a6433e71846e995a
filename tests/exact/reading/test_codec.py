"""Records are read as they were written, whole and in parts, and in few bytes."""

from __future__ import annotations

import struct
import traceback
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.reading.codec import (
    binary_column,
    binary_keys,
    concat_tables,
    from_bytes,
    parts_to_bytes,
    to_bytes,
)

LIMITS = {pa.int64(): (-(1 << 63), (1 << 63) - 1), pa.uint64(): (0, (1 << 64) - 1), pa.uint32(): (0, (1 << 32) - 1)}


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pa.Array:
    """A column of any type: of one value, of values near each other or near a limit, or of any."""
    if draw(st.booleans()):
        values = st.one_of(st.binary(max_size=3), st.binary(min_size=4, max_size=4), st.binary(max_size=300))
        return pa.array([draw(values) for _ in range(rows)], pa.large_binary())
    kind = draw(st.sampled_from(list(LIMITS)))
    low, high = LIMITS[kind]
    base, spread = draw(st.integers(low, high)), draw(st.sampled_from([0, 1, 255, 256, 1 << 20, 1 << 40, 1 << 64]))
    values = st.integers(max(low, base - spread // 2), min(high, base + (spread + 1) // 2))
    return pa.array([draw(values) for _ in range(rows)], kind)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 9))
    names = draw(
        st.lists(st.sampled_from(["unit", "key", "item", "weight", "priority", "copies"]), min_size=1, unique=True)
    )
    return pa.table({name: draw(columns(rows)) for name in names})


@given(table=tables(), data=st.data())
def test_what_is_read_is_what_was_written_whole_and_in_parts(table: pa.Table, data: st.DataObject) -> None:
    assert from_bytes(to_bytes(table)).equals(table)
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(table))] * 2)))
    sliced = pa.concat_tables([table, table]).slice(start, end)
    assert from_bytes(to_bytes(sliced)).equals(sliced.combine_chunks())
    order = np.array(data.draw(st.permutations(range(len(table)))), dtype=np.int64)
    slices = [slice(0, start), slice(start, end), slice(end, len(table))]
    parts = [from_bytes(part) for part in parts_to_bytes(table, order, slices)]
    assert [len(part) for part in parts] == [start, end - start, len(table) - end]
    assert concat_tables(parts).combine_chunks().equals(table.take(pa.array(order)).combine_chunks())


def test_columns_take_as_much_room_as_they_need() -> None:
    rows = 1000
    table = pa.table(
        {
            "unit": pa.array(np.arange(rows) - rows // 2),
            "item": pa.array(np.arange(rows) % 200, pa.uint64()),
            "weight": pa.array([-(1 << 63)] * rows),
            "key": pa.array([b"k"] * rows, pa.large_binary()),
        }
    )
    assert len(to_bytes(table)) == 10 + 4 * 11 + len("unititemweightkey") + rows * (2 + 1 + 0 + 1)


def test_nulls_are_refused_because_they_would_be_read_as_values() -> None:
    with pytest.raises(ValueError, match="records must not contain nulls, but column item does"):
        to_bytes(pa.table({"item": pa.array([1, None])}))


def test_other_bytes_are_refused_without_showing_them() -> None:
    units, items = pa.array([1, -5, 70_000]), pa.array([b"secret", b"", b"q"], pa.large_binary())
    data = to_bytes(pa.table({"unit": units, "item": items, "priority": pa.array([1, 2, 3], pa.uint32())}))
    assert len(from_bytes(data)) == 3
    cut = [data[:size] for size in range(len(data))]
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, pa.schema([("item", pa.int64())])):
        pass
    of_others = [stream.getvalue().to_pybytes(), b"secret" * 9, struct.pack("B", data[0] + 1) + data[1:]]
    for others in [*cut, data + b"\0", *of_others]:
        with pytest.raises(ValueError, match="complete record table that this version of the package wrote") as caught:
            from_bytes(others)
        assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_ids_of_two_forms_are_joined_as_bytes() -> None:
    def table(units: pa.Array, **more: Any) -> pa.Table:
        return pa.table({"unit": units, "item": pa.array([7] * len(units)), **more})

    numbers, texts = pa.array([1, -2]), pa.array([encode(1), encode("1")], pa.large_binary())
    whole = concat_tables([table(numbers), table(texts, priority=pa.array([3, 4], pa.uint32()))])
    assert whole["unit"].to_pylist() == [encode(1), encode(-2), encode(1), encode("1")]
    assert whole["priority"].to_pylist() == [None, None, 3, 4]
    assert concat_tables([table(numbers)] * 2)["unit"].type == pa.int64()


@given(
    keys=st.lists(st.binary(max_size=4) | st.just(b"\x01\x02\x03\x04"), max_size=9),
    nulls=st.none() | st.lists(st.booleans(), min_size=9, max_size=9),
    cut=st.integers(0, 9),
)
def test_byte_strings_of_numpy_are_columns_and_come_back(keys: list[bytes], nulls: list[bool] | None, cut: int) -> None:
    """Numpy and so columns leave out zeros at the end; some in between, and those of all lengths, stay."""
    for some in (keys, [key for key in keys if len(key) == 4 and key[-1]]):
        made = np.array(some, dtype="S4")
        missing = None if nulls is None else np.array(nulls[: len(some)], dtype=bool)
        column = binary_column(made, missing)
        column.validate(full=True)
        stripped = [None if nulls and nulls[place] else key for place, key in enumerate(made.tolist())]
        assert column.to_pylist() == stripped
        left = pa.chunked_array([column.slice(cut).drop_null(), column.drop_null()])
        wanted = [key for key in [*stripped[cut:], *stripped] if key is not None]
        assert binary_keys(left, made.dtype).tolist() == wanted
