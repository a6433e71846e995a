"""Compact encoding of record tables: integers use the fewest sufficient bytes, constant columns none.

Guarantee: decoding returns the encoded values and types. The bytes travel between workers with a single package version
and wait in state. They are not a release format. A payload is a header (version, columns, rows), then the name, type
and `_Numbers` header of each column, then the columns. A binary column is its sizes, as numbers, and then all its
bytes.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.exact.reading.columns import encode_ids

LOST_COLUMN = "lost"
"""Column of clipping loss that earlier steps removed from the unit of a record. Without the column, the loss is 0."""
_VERSION = 1
_HEADER, _COLUMN = struct.Struct("<BBQ"), struct.Struct("<BBBQ")
_BINARY = pa.large_binary()
_KINDS = (pa.int64(), pa.uint64(), pa.uint32(), _BINARY)
_WIDTHS = (0, 1, 2, 4, 8)
_WORD = 1 << 64


class _Numbers(NamedTuple):
    """Integers as fixed-width offsets from a base, modulo 2**64. Width 0 if all equal the base."""

    width: int
    base: int
    offsets: np.ndarray

    @classmethod
    def pack(cls, values: np.ndarray) -> _Numbers:
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        width = next(width for width in _WIDTHS if high - low < 1 << 8 * width)
        if not width:
            return cls(0, low % _WORD, values[:0])
        if low >= 0 and high < 1 << 8 * width:
            return cls(width, 0, values.astype(f"<u{width}"))
        return cls(width, low % _WORD, (values.astype(np.uint64) - np.uint64(low % _WORD)).astype(f"<u{width}"))

    def take(self, order: np.ndarray) -> _Numbers:
        return self._replace(offsets=self.offsets[order]) if self.width else self


def to_bytes(records: pa.Table) -> bytes:
    """Encode a record table without nulls."""
    return next(parts_to_bytes(records, None, [slice(0, len(records))]))


def parts_to_bytes(records: pa.Table, order: np.ndarray | None, parts: Iterable[slice]) -> Iterator[bytes]:
    """Encode each part of a record table without nulls."""
    headers: list[bytes] = []
    numbers: list[_Numbers] = []
    binaries: list[tuple[np.ndarray, memoryview] | None] = []
    for name, column in zip(records.column_names, records.columns, strict=True):
        if column.null_count:
            raise ValueError(f"records must not contain nulls, but column {name} does")
        values = column.combine_chunks()
        if column.type == _BINARY:
            values = values if order is None else values.take(pa.array(order))
            offsets, data = binary_buffers(values)
            packed = _Numbers.pack(np.diff(offsets))
            binaries.append((offsets, data))
        else:
            packed = _Numbers.pack(values.to_numpy())
            packed = packed if order is None else packed.take(order)
            binaries.append(None)
        numbers.append(packed)
        encoded = name.encode()
        headers.append(_COLUMN.pack(len(encoded), _KINDS.index(column.type), packed.width, packed.base) + encoded)
    columns = b"".join(headers)
    for part in parts:
        pieces: list[bytes | memoryview] = [_HEADER.pack(_VERSION, len(headers), part.stop - part.start), columns]
        for packed, binary in zip(numbers, binaries, strict=True):
            pieces.append(packed.offsets[part].tobytes())
            if binary is not None:
                offsets, data = binary
                pieces.append(data[int(offsets[part.start]) : int(offsets[part.stop])])
        yield b"".join(pieces)


def from_bytes(payload: bytes) -> pa.Table:
    """Decode a table. Raise `ValueError` unless the bytes are exactly one table."""
    return from_payloads([payload])


def from_payloads(payloads: Iterable[bytes]) -> pa.Table:
    """Decode and concatenate tables, in any order, like `concat_tables`."""
    return concat_tables(tables_from(payloads))


def tables_from(payloads: Iterable[bytes]) -> list[pa.Table]:
    """Decode payloads, in any order, to a table for each set of columns.

    Many small payloads need little more time than a large one.

    Raises:
      ValueError: a payload is not exactly the bytes of a table.
    """
    alike = defaultdict(list)
    for payload in payloads:
        try:
            rows, columns, size = _parse(payload)
        except (struct.error, IndexError, ValueError):  # their messages contain offsets and sizes
            rows, columns, size = 0, [], -1
        if size != len(payload):
            raise ValueError("the bytes are not a complete record table that this version of the package wrote")
        alike[tuple([column[:2] for column in columns])].append((rows, columns))
    return [*map(_table, alike.values())]


class _Part(NamedTuple):
    """Column in a payload: header, numbers, and the bytes whose sizes the numbers are."""

    name: str
    kind: int
    width: int
    base: int
    numbers: memoryview
    data: memoryview


def _parse(payload: bytes) -> tuple[int, list[_Part], int]:
    """Parse the number of rows, the columns, and the end of the last column."""
    version, count, rows = _HEADER.unpack_from(payload)
    if version != _VERSION:
        raise ValueError("unsupported version")
    headers, place, view = [], _HEADER.size, memoryview(payload)
    for _ in range(count):
        size, *header = _COLUMN.unpack_from(payload, place)
        place += _COLUMN.size + size
        headers.append((payload[place - size : place].decode(), *header))
    columns = []
    for name, kind, width, base in headers:
        numbers = view[place : place + rows * width]
        place += rows * width
        size = 0
        if _KINDS[kind] == _BINARY:
            size = rows * base + (sum(numbers) if width <= 1 else int(_integers(numbers, width).sum()))
        columns.append(_Part(name, kind, width, base, numbers, view[place : place + size]))
        place += size
    return rows, columns, place


def _integers(numbers: memoryview, width: int) -> np.ndarray:
    return np.frombuffer(numbers, f"<u{width}")


def _table(payloads: list[tuple[int, list[_Part]]]) -> pa.Table:
    """Decode payloads whose columns have equal names and types."""
    rows = np.array([rows for rows, _ in payloads])
    columns = zip(*(columns for _, columns in payloads), strict=True)
    return pa.table({parts[0].name: _column(rows, parts) for parts in columns})


def _column(rows: np.ndarray, parts: tuple[_Part, ...]) -> pa.Array:
    """Decode a column from several payloads with these numbers of rows."""
    kind = _KINDS[parts[0].kind]
    widths = np.array([part.width for part in parts])
    values = np.repeat(np.array([part.base for part in parts], dtype=np.uint64), rows)
    for width in {*widths.tolist()} - {0}:
        numbers = _integers(_joined([part.numbers for part in parts if part.width == width]), width)
        values[... if (widths == width).all() else np.repeat(widths == width, rows)] += numbers
    if kind != _BINARY:
        return pa.array(values.astype(np.uint32) if kind == pa.uint32() else values).view(kind)
    return column_of_sizes(values.view(np.int64), _joined([part.data for part in parts]))


def _joined(pieces: list[memoryview]) -> memoryview:
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def concat_tables(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate record tables. Missing columns become null, and a missing clipping loss becomes 0."""
    tables = list(tables)
    if all(table.schema.equals(tables[0].schema) for table in tables):
        return pa.concat_tables(tables)
    if len({table["unit"].type for table in tables}) > 1:
        tables = [table.set_column(0, "unit", encode_ids(table["unit"])) for table in tables]
    whole = pa.concat_tables(tables, promote_options="default")
    if LOST_COLUMN not in whole.column_names:
        return whole
    return whole.set_column(whole.column_names.index(LOST_COLUMN), LOST_COLUMN, pc.fill_null(whole[LOST_COLUMN], 0))


def binary_column(keys: np.ndarray, nulls: np.ndarray | None = None) -> pa.Array:
    """Convert numpy byte strings to a column without trailing zeros, with nulls in some places."""
    size = keys.dtype.itemsize
    data = np.ascontiguousarray(keys).view(np.uint8)
    if not data[size - 1 :: size].all():
        return pa.array(keys.tolist(), _BINARY, mask=nulls)
    offsets = np.arange(len(keys) + 1, dtype=np.int64) * size
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(_BINARY, len(keys), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def binary_keys(column: pa.ChunkedArray, key_type: np.dtype[Any]) -> np.ndarray:
    """Convert a column from `binary_column`, without nulls, to numpy byte strings."""
    values = column.combine_chunks()
    offsets, data = binary_buffers(values)
    if len(values) and (np.diff(offsets) == key_type.itemsize).all():
        return np.frombuffer(data, key_type, count=len(values), offset=int(offsets[0]))
    return values.to_numpy(zero_copy_only=False).astype(key_type, copy=False)


def binary_buffers(values: pa.LargeBinaryArray) -> tuple[np.ndarray, memoryview]:
    """Extract the offsets of a column without nulls, including the end of the last value, and its bytes."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    return offsets, memoryview(data if data is not None else b"")


def column_of_sizes(sizes: np.ndarray, data: memoryview) -> pa.LargeBinaryArray:
    """Create a column whose values have these sizes, int64, and are consecutive in the bytes."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(_BINARY, len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
