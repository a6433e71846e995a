"""The settings of a request, decoded: a row of plain values, as SDKs of all languages encode it.

Guarantee: no byte after the end of the settings is read. Beam's own decoder trusts the lengths in them, so that a wrong
one shows memory of this process, or ends it.

Source: `RowCoder` in Beam.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.portability.api import schema_pb2

_MAX_SHIFT = 63


class MalformedError(Exception):
    """Bytes that are not settings of this schema."""


def read_settings(schema: Any, data: bytes) -> beam.Row:
    """Return the row that is encoded.

    Args:
      schema: names and types, without logical types.
      data: the row, and nothing after it.

    Raises:
      MalformedError: the bytes are not such a row.
    """
    reader = _Reader(data)
    row = reader.row(schema)
    if reader.left:
        raise MalformedError
    return row


class _Reader:
    """Takes values off the front of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def row(self, schema: Any) -> beam.Row:
        fields = schema.fields
        if self.varint() != len(fields) or schema.encoding_positions_set:
            raise MalformedError
        nulls = int.from_bytes(self.take(self.varint()), "little")
        if any(nulls >> place & 1 and not field.type.nullable for place, field in enumerate(fields)):
            raise MalformedError
        return beam.Row(
            **{
                field.name: None if nulls >> place & 1 else self._value(field.type)
                for place, field in enumerate(fields)
            }
        )

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise MalformedError
        self._at += size
        return self._data[self._at - size : self._at]

    def varint(self) -> int:
        """Return 64 bits, seven in a byte, with their sign."""
        result = 0
        for shift in range(0, _MAX_SHIFT + 1, 7):
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _signed(result, 64)
        raise MalformedError

    def text(self) -> str:
        try:
            return self.take(self.varint()).decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedError from None

    def boolean(self) -> bool:
        (byte,) = self.take(1)
        if byte > 1:
            raise MalformedError
        return bool(byte)

    def _value(self, kind: Any) -> Any:
        """Return a value that is not null."""
        which = kind.WhichOneof("type_info")
        if which == "atomic_type":
            return _ATOMIC[kind.atomic_type](self)
        if which == "row_type":
            return self.row(kind.row_type.schema)
        size = _signed(int.from_bytes(self.take(4), "big"), 32)
        if which == "map_type":
            return {self._element(kind.map_type.key_type): self._element(kind.map_type.value_type) for _ in range(size)}
        element = getattr(kind, str(which)).element_type
        return [self._element(element) for _ in range(size)] if size >= 0 else self._blocks(element)

    def _blocks(self, kind: Any) -> list[Any]:
        """Return the elements of a list of unknown size."""
        found = []
        while size := self.varint():
            found += [self._element(kind) for _ in range(size)]
        return found

    def _element(self, kind: Any) -> Any:
        """Return an element of a list or a map, or null."""
        return self._value(kind) if not kind.nullable or self.boolean() else None


def _signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (bits >> (width - 1) << width)


_ATOMIC: dict[int, Callable[[_Reader], Any]] = {
    schema_pb2.BYTE: lambda reader: reader.take(1)[0],
    schema_pb2.INT16: lambda reader: _signed(int.from_bytes(reader.take(2), "big"), 16),
    schema_pb2.INT32: lambda reader: _signed(reader.varint(), 32),
    schema_pb2.INT64: _Reader.varint,
    schema_pb2.FLOAT: lambda reader: struct.unpack(">f", reader.take(4))[0],
    schema_pb2.DOUBLE: lambda reader: struct.unpack(">d", reader.take(8))[0],
    schema_pb2.STRING: _Reader.text,
    schema_pb2.BOOLEAN: _Reader.boolean,
    schema_pb2.BYTES: lambda reader: reader.take(reader.varint()),
}
