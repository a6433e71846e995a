"""Settings are decoded as Beam decodes them, and no byte after their end is read."""

from __future__ import annotations

import random
import struct
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import RowCoder
from apache_beam.portability.api import schema_pb2

from beam_dpsketch.rows.expansion_requests import MalformedError, read_settings

_ATOMIC: dict[int, Any] = {
    schema_pb2.BYTE: lambda draw: draw.randrange(256),
    schema_pb2.INT16: lambda draw: draw.randint(-(2**15), 2**15 - 1),
    schema_pb2.INT32: lambda draw: draw.choice([0, 127, 128, -1, 2**31 - 1, -(2**31)]),
    schema_pb2.INT64: lambda draw: draw.choice([0, 127, 128, -1, 2**63 - 1, -(2**63)]),
    schema_pb2.FLOAT: lambda draw: draw.choice([0.5, -0.0, 1e30, float("inf")]),
    schema_pb2.DOUBLE: lambda draw: draw.choice([0.1, -0.0, 1e300, float("-inf")]),
    schema_pb2.STRING: lambda draw: draw.choice(["", "a", "é\N{SNOWMAN}", "x" * 200]),
    schema_pb2.BOOLEAN: lambda draw: draw.random() < 0.5,
    schema_pb2.BYTES: lambda draw: draw.randbytes(draw.choice([0, 1, 130])),
}


def any_schema(draw: random.Random, depth: int) -> Any:
    fields = [schema_pb2.Field(name=f"f{n}", type=any_type(draw, depth)) for n in range(draw.randrange(4))]
    return schema_pb2.Schema(fields=fields, id=f"of these tests {draw.getrandbits(64)}".replace(" ", "_"))


def any_type(draw: random.Random, depth: int) -> Any:
    kind = schema_pb2.FieldType(nullable=draw.random() < 0.4)
    which = draw.randrange(5) if depth else 0
    if which == 0:
        kind.atomic_type = draw.choice([*_ATOMIC])
    elif which == 1:
        kind.row_type.schema.CopyFrom(any_schema(draw, depth - 1))
    elif which == 2:
        kind.map_type.key_type.atomic_type = schema_pb2.STRING
        kind.map_type.value_type.CopyFrom(any_type(draw, depth - 1))
    else:
        lists = kind.array_type if which == 3 else kind.iterable_type
        lists.element_type.CopyFrom(any_type(draw, depth - 1))
    return kind


def any_row(schema: Any, draw: random.Random) -> beam.Row:
    return beam.Row(**{field.name: any_value(field.type, draw) for field in schema.fields})


def any_value(kind: Any, draw: random.Random) -> Any:
    if kind.nullable and draw.random() < 0.3:
        return None
    which = kind.WhichOneof("type_info")
    if which == "atomic_type":
        return _ATOMIC[kind.atomic_type](draw)
    if which == "row_type":
        return any_row(kind.row_type.schema, draw)
    if which == "map_type":
        return {f"k{n}": any_value(kind.map_type.value_type, draw) for n in range(draw.randrange(3))}
    return [any_value(getattr(kind, which).element_type, draw) for _ in range(draw.randrange(4))]


def test_settings_are_what_beam_encodes() -> None:
    """100 schemas of all plain types, with nulls; each row also cut off at each of 20 places, and with a byte more."""
    draw = random.Random(5)
    for _ in range(100):
        schema = any_schema(draw, 3)
        coder, row = RowCoder(schema), any_row(schema, draw)
        data = coder.encode(row)
        assert coder.encode(read_settings(schema, data)) == data
        wrong = [data[: draw.randrange(len(data))] for _ in range(20)]
        for each in [*wrong, data + b"\0"]:
            with pytest.raises(MalformedError):
                read_settings(schema, each)


def test_any_bytes_are_settings_or_refused() -> None:
    """1,000 rows with other bytes, among them the largest lengths."""
    draw = random.Random(6)
    for _ in range(100):
        schema = any_schema(draw, 2)
        data = RowCoder(schema).encode(any_row(schema, draw))
        for _ in range(10):
            at = draw.randrange(len(data) + 1)
            new = draw.choice([draw.randbytes(1), b"\xff" * 9 + b"\x01", b"\x7f\xff\xff\xff", b"\xff" * 12, b"\x80"])
            try:
                read_settings(schema, data[:at] + new + data[at + draw.choice([0, len(new)]) :])
            except MalformedError:
                continue


def test_lists_of_unknown_size_are_read() -> None:
    """Beam encodes them in blocks; here are two, and the end."""
    kind = schema_pb2.FieldType()
    kind.iterable_type.element_type.atomic_type = schema_pb2.INT64
    schema = schema_pb2.Schema(fields=[schema_pb2.Field(name="x", type=kind)])
    data = b"\x01\x00" + struct.pack(">i", -1) + b"\x02\x05\x06\x01\x07\x00"
    assert read_settings(schema, data).x == [5, 6, 7]


@pytest.mark.parametrize("size", [b"\x05", b"\xff\x7f", b"\xff" * 9 + b"\x01"], ids=["more", "far more", "below zero"])
def test_a_text_longer_than_the_settings_is_refused(size: bytes) -> None:
    """Beam's decoder shows the memory after the settings instead."""
    kind = schema_pb2.FieldType(atomic_type=schema_pb2.STRING)
    schema = schema_pb2.Schema(fields=[schema_pb2.Field(name="x", type=kind)])
    assert read_settings(schema, b"\x01\x00\x04text").x == "text"
    with pytest.raises(MalformedError):
        read_settings(schema, b"\x01\x00" + size + b"text")
