"""Every type that Arrow has, with values as rows hold them, and every form in which Arrow stores such a column."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tests.helpers.counted import DAY

UNDECODABLE = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"secret\xfe", b"\x80" * 20]
"""Bytes that are not UTF-8: cut, halves of surrogate pairs, too long, beyond Unicode. As text they are nothing."""
_TEXT = ["Oslo", "", "10.0.0.1", "Łódź 🚲", "a text of more than twelve bytes", "Oslo", None, "a\0b"]
_BYTES = [b"Oslo", b"", b"\xff\xfe", b"a string of more than twelve bytes", b"Oslo", None, b"a\0b", b"\0"]
_DAY, _MICRO = datetime.timedelta(1), datetime.timedelta(microseconds=1)
_TIMES = [DAY, DAY + datetime.timedelta(hours=5, seconds=1), None, DAY - _DAY, DAY, DAY + 3 * _DAY, DAY + _MICRO]


def _whole(kind: pa.DataType) -> list[Any]:
    signed, bits = pa.types.is_signed_integer(kind), kind.bit_width - pa.types.is_signed_integer(kind)
    return [0, 1, 7, None, 100, (1 << bits) - 1, -(1 << bits) if signed else 3, 1, -1 if signed else 2]


_INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
_FLOATS = [0.0, 1.0, 0.5, None, float("nan"), float("inf"), -float("inf"), -1.0, 100.0, 0.25]
_COARSE = [each for each in _TIMES if each is None or not each.microsecond]
_DECIMALS = (pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256)
_NEVER: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False, None],
    **{kind: [datetime.time(5), None] for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **{pa.duration(unit): [_DAY, None] for unit in ("s", "ms", "us", "ns")},
    pa.month_day_nano_interval(): [(1, 2, 3), None],
    **{make(pa.string()): [["a"], [], None] for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)},
    pa.list_(pa.string(), 1): [["a"], None],
    pa.list_(pa.binary_view()): [[b"a"], None],
    pa.struct([("string", pa.string())]): [{"string": "a"}, None],
    pa.map_(pa.string(), pa.int64()): [[("a", 1)], None],
}
VALUES: dict[pa.DataType, list[Any]] = {
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), _TEXT),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), _BYTES),
    pa.binary(4): [b"Oslo", b"\xff\xfe\0\0", None, b"Oslo", b"\0" * 4],
    **{kind: _whole(kind) for kind in _INTEGERS},
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), _FLOATS),
    **{pa.timestamp(unit): _COARSE if unit in ("s", "ms") else _TIMES for unit in ("s", "ms", "us", "ns")},
    pa.timestamp("us", "UTC"): [None if each is None else each.replace(tzinfo=datetime.UTC) for each in _TIMES],
    **{kind: [DAY.date(), None, DAY.date() + _DAY, DAY.date()] for kind in (pa.date32(), pa.date64())},
    **{make(9, 2): [decimal.Decimal(1), None, decimal.Decimal("0.25")] for make in _DECIMALS},
    **{make(9, 0): [decimal.Decimal(1), None, decimal.Decimal(-7), decimal.Decimal(1)] for make in _DECIMALS},
    pa.decimal128(38, 0): [decimal.Decimal(1), None, decimal.Decimal(10**37), decimal.Decimal(-(10**37))],
    pa.null(): [None, None, None],
    **_NEVER,
}
"""Values of each type, as rows hold them."""
OPAQUE: dict[pa.DataType, pa.Array] = {
    pa.json_(pa.string()): pa.array(['"a"', None]),
    pa.bool8(): pa.array([1, None], pa.int8()),
    pa.opaque(pa.string(), "string", "binary"): pa.array(["a", None]),
    pa.fixed_shape_tensor(pa.int8(), [1]): pa.array([[1], None], pa.list_(pa.int8(), 1)),
    pa.sparse_union([pa.field("a", pa.string()), pa.field("b", pa.int8())]): None,
    pa.dense_union([pa.field("a", pa.string()), pa.field("b", pa.int8())]): None,
}
"""Extensions and unions, which never count."""


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An array of these values, where text may be given as bytes that Arrow does not look at."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        data = [value.encode() if isinstance(value, str) else value for value in values]
        return pa.array(data, pa.large_binary()).view(pa.large_string()).cast(kind)
    if kind == pa.float16():
        return pa.array([None if value is None else np.float16(value) for value in values], kind)
    return pa.array(values, kind)


def opaque(kind: pa.DataType) -> pa.Array:
    """An array of a type of `OPAQUE`."""
    if OPAQUE[kind] is not None:
        return pa.ExtensionArray.from_storage(kind, OPAQUE[kind])
    types, children = pa.array([0, 1], pa.int8()), [pa.array(["a", "b"]), pa.array([1, 2], pa.int8())]
    if kind.mode == "sparse":
        return pa.UnionArray.from_sparse(types, children)
    return pa.UnionArray.from_dense(types, pa.array([0, 0], pa.int32()), children)


Form = tuple[str, "pa.Array | pa.ChunkedArray", list[Any]]


def forms(values: list[Any], kind: pa.DataType) -> Iterator[Form]:
    """Every form in which a column can hold these values: its name, the column, and what it holds."""
    size, is_nested = len(values), pa.types.is_nested(kind)
    whole = column(values, kind)
    yield "whole", whole, values
    yield "slice", column([*values[::-1], *values, *values], kind).slice(size, size), values
    yield "chunks", pa.chunked_array([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1)]), values
    yield from _runs(values, kind)
    if not is_nested:
        yield from _dictionaries(values, kind)
        if kind not in (pa.string_view(), pa.binary_view(), pa.null()):
            yield "garbage below nulls", _masked(values, kind), values


def _dictionaries(values: list[Any], kind: pa.DataType) -> Iterator[Form]:
    """Dictionaries that repeat values, hold others that no row has, hold nulls, and differ from chunk to chunk."""
    size, whole = len(values), column(values, kind)
    places = [place if value is not None else None for place, value in enumerate(values)]
    for index in (pa.int8(), pa.uint64()):
        yield f"dictionary by {index}", pa.DictionaryArray.from_arrays(pa.array(places, index), whole), values
    backwards = pa.array(range(size - 1, -1, -1), pa.int32())
    yield "dictionary that holds nulls", pa.DictionaryArray.from_arrays(backwards, whole), values[::-1]
    holding = pa.DictionaryArray.from_arrays(backwards, whole)
    other = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), whole.slice(1, 1))
    yield "chunks of dictionaries that hold nulls", pa.chunked_array([holding, other]), [*values[::-1], values[1]]
    if not (given := [value for value in values if value is not None]):
        return
    twice, distinct = [*given, *given[::-1]], column(given, kind)
    ups = pa.array([*range(len(given)), None], pa.int32())
    up, down = (pa.DictionaryArray.from_arrays(ups, each) for each in (distinct, column(given[::-1], kind)))
    yield "dictionary without nulls", up, [*given, None]
    yield "slice of a dictionary", up.slice(1), [*given[1:], None]
    parts = [up, up.slice(0, 0), up.slice(1)]
    yield "chunks of a dictionary", pa.chunked_array(parts), [*given, None, *given[1:], None]
    if kind != pa.bool_():  # Arrow does not join them
        yield "chunks of two", pa.chunked_array([up, down]), [*given, None, *given[::-1], None]
    unused = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), column(twice, kind))
    yield "dictionary with others", unused, twice[:1]
    if kind in (pa.string(), pa.string_view(), pa.binary(), pa.int64()):
        numbers = [number if kind == pa.int64() else b"%d" % number for number in range(200)]
        halves = (column(half, kind) for half in (numbers[:100], numbers[100:]))  # they do not fit into one
        small = [pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), half) for half in halves]
        yield "chunks of small ones", pa.chunked_array(small), numbers


def _runs(values: list[Any], kind: pa.DataType) -> Iterator[Form]:
    """Runs of one, two, three ... rows; slices that begin within a run; runs of a dictionary."""
    ends = pa.array([(place + 1) * (place + 2) // 2 for place in range(len(values))], pa.int32())
    held = [value for place, value in enumerate(values) for _ in range(place + 1)]
    runs = _of_runs(ends, column(values, kind))
    yield "runs", runs, held
    yield "slice of runs", runs.slice(2, len(runs) - 3), held[2:-1]
    yield "chunks of runs", pa.chunked_array([runs.slice(0, 2), runs.slice(2), runs.slice(1, 0)]), held
    if not pa.types.is_nested(kind):
        places = pa.array([None if value is None else place for place, value in enumerate(values)], pa.int8())
        coded = pa.DictionaryArray.from_arrays(places, column(values, kind))
        yield "runs of a dictionary", _of_runs(ends, coded), held


def _of_runs(ends: pa.Array, values: pa.Array) -> pa.RunEndEncodedArray:
    """Runs of values; of text by way of its bytes, because Arrow looks at text where it makes runs."""
    raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
    kind = values.type
    if pa.types.is_dictionary(kind):
        if kind.value_type in raw:
            distinct = values.dictionary.cast(raw[kind.value_type])
            values = pa.DictionaryArray.from_arrays(values.indices, distinct)
    elif kind in raw:
        values = values.cast(raw[kind])
    _, runs = pa.RunEndEncodedArray.from_arrays(ends, values).__arrow_c_array__()
    return pa.Array._import_from_c_capsule(pa.run_end_encoded(ends.type, kind).__arrow_c_schema__(), runs)


def _masked(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values, and nulls that hide others, undecodable ones for text."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    hidden = b"\xff\xff" if is_text else next(value for value in values if value is not None)
    filled = column([hidden if value is None else value for value in values], kind)
    bits = np.packbits([value is not None for value in values], bitorder="little")
    return pa.Array.from_buffers(filled.type, len(filled), [pa.py_buffer(bits), *filled.buffers()[1:]])


def row_value(value: Any, kind: pa.DataType) -> Any:
    """The value as a row holds it: nothing for text that is not UTF-8."""
    if not isinstance(value, bytes) or kind not in (pa.string(), pa.large_string(), pa.string_view()):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
