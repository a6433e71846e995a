"""Tables of records as bytes, for other workers and for state: numbers as narrow as can be, equal ones for nothing.

Guarantee: what is read is what was written, values and types. The bytes are for workers of one version of the package
and no release format. A payload is a header (version, columns, rows), then of each column its name, type and
`_Numbers` header, then the columns themselves; of binary values first their sizes, as numbers, then all their bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.records.ids import canonical

_VERSION = 1
_HEADER, _COLUMN = struct.Struct("<BBQ"), struct.Struct("<BBBQ")
_BINARY = pa.large_binary()
_KINDS = (pa.int64(), pa.uint64(), pa.uint32(), _BINARY)
_WIDTHS = (0, 1, 2, 4, 8)
_WORD = 1 << 64


class _Numbers(NamedTuple):
    """Integers as so many bytes each above a base, both modulo 2**64; no bytes if all are the base."""

    width: int
    base: int
    above: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> _Numbers:
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        width = next(width for width in _WIDTHS if high - low < 1 << 8 * width)
        if not width:
            return cls(0, low % _WORD, values[:0])
        if low >= 0 and high < 1 << 8 * width:
            return cls(width, 0, values.astype(f"<u{width}"))
        return cls(width, low % _WORD, (values.astype(np.uint64) - np.uint64(low % _WORD)).astype(f"<u{width}"))

    def taken(self, order: np.ndarray) -> _Numbers:
        """Those at these places."""
        return self._replace(above=self.above[order]) if self.width else self

    def part(self, start: int, end: int) -> bytes:
        """Some of them."""
        return self.above[start:end].tobytes()

    @staticmethod
    def read(width: int, base: int, rows: int, data: bytes, start: int) -> np.ndarray:
        """All of them, as uint64."""
        if not width:
            return np.full(rows, base, dtype=np.uint64)
        words = np.frombuffer(data, f"<u{width}", count=rows, offset=start).astype(np.uint64)
        if base:
            words += np.uint64(base)
        return words


def to_bytes(records: pa.Table) -> bytes:
    """A table of records, without nulls."""
    return next(parts_to_bytes(records, None, [len(records)]))


def parts_to_bytes(records: pa.Table, order: np.ndarray | None, ends: Iterable[int]) -> Iterator[bytes]:
    """Parts of a table of records, without nulls, each as bytes of its own.

    Args:
      records: the table.
      order: of its records; `None` for that in which they are.
      ends: of each part, in this order.
    """
    headers: list[bytes] = []
    numbers: list[_Numbers] = []
    letters: list[tuple[np.ndarray, memoryview] | None] = []
    for name, column in zip(records.column_names, records.columns, strict=True):
        if column.null_count:
            raise ValueError(f"records must not hold nulls, but {name} does")
        values = column.combine_chunks()
        if column.type == _BINARY:
            values = values if order is None else values.take(pa.array(order))
            offsets, data = _letters(values)
            packed = _Numbers.of(np.diff(offsets))
            letters.append((offsets, data))
        else:
            packed = _Numbers.of(values.to_numpy())
            packed = packed if order is None else packed.taken(order)
            letters.append(None)
        numbers.append(packed)
        encoded = name.encode()
        headers.append(_COLUMN.pack(len(encoded), _KINDS.index(column.type), packed.width, packed.base) + encoded)
    columns, start = b"".join(headers), 0
    for end in ends:
        parts: list[bytes | memoryview] = [_HEADER.pack(_VERSION, len(headers), end - start), columns]
        for packed, binary in zip(numbers, letters, strict=True):
            parts.append(packed.part(start, end))
            if binary is not None:
                places, data = binary
                parts.append(data[int(places[start]) : int(places[end])])
        yield b"".join(parts)
        start = end


def from_bytes(data: bytes) -> pa.Table:
    """The table that was written; `ValueError` if these are not all the bytes of one."""
    try:
        columns, size = _read(data)
    except (struct.error, IndexError, ValueError, pa.ArrowException):  # their messages are about places and sizes
        columns, size = {}, -1
    if size != len(data):
        raise ValueError("these bytes are not those of records, whole and written by this version of the package")
    return pa.table(columns)


def _read(data: bytes) -> tuple[dict[str, pa.Array], int]:
    """The columns, and where they end."""
    version, count, rows = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ValueError("another version")
    headers, place = [], _HEADER.size
    for _ in range(count):
        size, *header = _COLUMN.unpack_from(data, place)
        place += _COLUMN.size + size
        headers.append((data[place - size : place].decode(), *header))
    columns = {}
    for name, kind, width, base in headers:
        words = _Numbers.read(width, base, rows, data, place)
        place += rows * width
        if _KINDS[kind] == _BINARY:
            offsets = np.zeros(rows + 1, dtype=np.int64)
            np.cumsum(words, out=offsets[1:].view(np.uint64))
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data).slice(place, int(offsets[-1]))]
            columns[name] = pa.Array.from_buffers(_BINARY, rows, buffers)
            place += int(offsets[-1])
        else:
            columns[name] = pa.array(words.astype(np.uint32) if _KINDS[kind] == pa.uint32() else words)
            columns[name] = columns[name].view(_KINDS[kind])
    return columns, place


def concat_tables(tables: Iterable[pa.Table]) -> pa.Table:
    """The records of all tables; those of some have nulls in columns that only others have."""
    tables = list(tables)
    if all(table.schema.equals(tables[0].schema) for table in tables):
        return pa.concat_tables(tables)
    if len({table["unit"].type for table in tables}) > 1:
        tables = [table.set_column(0, "unit", canonical(table["unit"])) for table in tables]
    return pa.concat_tables(tables, promote_options="default")


def _letters(values: pa.LargeBinaryArray) -> tuple[np.ndarray, memoryview]:
    """Where each value starts and the last one ends, and the bytes of all."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    return offsets, memoryview(data if data is not None else b"")
