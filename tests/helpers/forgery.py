"""Forged releases: fields of real ones replaced by others of their kind, and by limits, under a right digest.

It follows the tables of fields that the package writes with. So every part of a forgery can be read alone, and what
refuses it is a rule about values, not a length that does not fit.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.statement import release_format
from beam_dpsketch.statement import release_format as fields
from beam_dpsketch.statement.release_format import Field, Reader
from tests.helpers.golden import DIGEST_BYTES, sealed

INTEGERS = sorted(
    {s * (1 << b) + d for b in (0, 7, 8, 15, 16, 31, 32, 56, 63, 64, 127) for d in (-1, 0, 1) for s in (1, -1)}
)
NUMBERS = [0.0, -0.0, 1.0, -1.0, 5e-324, 2.3e-308, 1e-9, 0.5, 1 - 2**-53, 1e300, 1.7e308, float("inf"), float("nan")]
PARTS = [1, 2, 3, 1 << 64, (1 << 200) + 1, (1 << 6999) + 1, (1 << 7000) - 1, (1 << 8191) + 1, (1 << 8192) - 1]
TEXTS = [b"", b"\0", b"\xff", b"s", b"\xed\xa0\x80", b"\x1b[31m", bytes(64), bytes(255)]
MOST_CELLS = 1 << 14


class Span(NamedTuple):
    """A field of a release, and where it is in its bytes."""

    field: Field
    start: int
    end: int


def spans(field: Field, reader: Reader) -> Iterator[Span]:
    """Yield every field in the bytes that a reader has, the outer ones after what is in them."""
    start = reader.position
    match field:
        case fields.Object():
            for inner in field.fields.values():
                yield from spans(inner, reader)
        case fields.Optional() | fields.OrZero():
            inner = field.field
            if fields.U8.read(reader):
                yield from spans(inner, reader)
        case fields.OneOf():
            yield from spans(field.options[fields.U8.read(reader)], reader)
        case fields.Repeated():
            for _ in range(fields.U16.read(reader)):
                yield from spans(field.field, reader)
        case release_format.InnerSpec:
            yield from spans(field.fields_of(reader), reader)
        case _:
            field.read(reader)
    yield Span(field, start, reader.position)


def limits(field: Field) -> list[bytes]:
    """Return the bytes of a field at its limits, where it holds no others."""
    match field:
        case fields.Number("<d"):
            return [struct.pack("<d", value) for value in NUMBERS]
        case fields.Number() | fields.Integer() | fields.Micros():
            size = struct.calcsize(field.format) if isinstance(field, fields.Number) else getattr(field, "size", 16)
            return sorted({(value % (1 << 8 * size)).to_bytes(size, "little") for value in INTEGERS})
        case fields.Choice() | fields.Flags():
            return [bytes([value]) for value in (0, 1, 2, 3, 4, 5, 255)]
        case fields.Bytes():
            return [bytes(field.size), b"\xff" * field.size]
        case fields.Text():
            return [field.write(text) for text in TEXTS]
        case fields.Name(limit):
            return [fields.Text(limit).write(text) for text in TEXTS]
        case fields._Exact():
            return [fields.Exact.write(Fraction(*parts)) for parts in itertools.product(PARTS, PARTS)]
    return []


class Forger:
    """Makes forgeries of some releases and rows."""

    def __init__(self, releases: Sequence[bytes]) -> None:
        self._bodies = [each[:-DIGEST_BYTES] for each in releases]
        self._donors: dict[Any, list[bytes]] = {}
        for body in self._bodies:
            for field, start, end in whole(body):
                self._donors.setdefault(repr(field), []).append(body[start:end])

    def forge(self, chance: random.Random) -> bytes:
        """Return one forgery, with 1 to 3 other fields, and often other counters."""
        body = chance.choice(self._bodies)
        found, counters = whole(body), counters_at(body)
        for _ in range(chance.randint(1, 3)):
            field, start, end = chance.choice(found)
            body = body[:start] + self._other(field, body[start:end], chance) + body[end:]
            try:
                found, counters = whole(body), counters_at(body)
            except Exception:  # refused as it is
                return sealed(body)
        return sealed(_with_counters(body, counters, chance))

    def each_field_at_its_limits(self) -> Iterator[bytes]:
        """Yield each release with one field at one limit."""
        for body in self._bodies:
            for field, start, end in whole(body):
                for limit in limits(field):
                    yield sealed(body[:start] + limit + body[end:])

    def _other(self, field: Field, data: bytes, chance: random.Random) -> bytes:
        """Return other bytes of the same field."""
        donor = chance.choice(self._donors[repr(field)])
        match field:
            case fields.Optional() | fields.OrZero():
                return chance.choice([b"\0", donor, b"\1" + (data[1:] or chance.choice([*limits(field.field), b""]))])
            case fields.Repeated():
                count, rest = int.from_bytes(data[:2], "little"), data[2:]
                more = chance.choice([1, 2, 100, 10_000 // (count or 1)])
                return chance.choice([b"\0\0", donor, (count * more & 0xFFFF).to_bytes(2, "little") + rest * more])
            case fields.Object() | fields.OneOf():
                return donor
        own = limits(field)
        return chance.choice(own) if own and chance.random() < 0.7 else donor


class Start(NamedTuple):
    """Where the counters begin, and how many there must be."""

    place: int
    cells: int
    dtype: str


def whole(body: bytes) -> list[Span]:
    """Return all fields of a release, in its bytes."""
    reader = Reader(body)
    start = fields.read_fields(release_format._START, reader)
    tables = [release_format.SPECS[start["kind"]], release_format._STATEMENT, *release_format._COUNTERS.values()]
    return [span for table in tables for span in spans(table, reader)]


def counters_at(body: bytes) -> Start:
    """Return where the counters are."""
    reader = Reader(body)
    kind = fields.read_fields(release_format._START, reader)["kind"]
    spec = release_format.SPECS[kind].read(reader)
    place = whole(body)[-1].end
    return Start(place, spec.cells, release_format._DTYPE.options[body[place - 1]])


def _with_counters(body: bytes, found: Start, chance: random.Random) -> bytes:
    """Return the body with as many counters as its spec has, of its own or at limits."""
    place, cells, dtype = found
    own = np.frombuffer(
        body[place:][: (len(body) - place) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize], dtype
    )
    if cells > MOST_CELLS or (len(own) == cells and chance.random() < 0.5):
        return body
    low, high = -(1 << 63), (1 << 63) - 1
    values = [np.full(cells, value, np.int64) for value in (0, 1, -1, low, high, 1 << 53)]
    values += [np.array([chance.choice([low, high, 0, 1, -1]) for _ in range(cells)], np.int64)]
    values += [np.resize(own, cells).astype(np.int64) if len(own) else values[0]]
    counters = chance.choice(values)
    narrow = release_format.narrowest(counters)
    return body[: place - 1] + release_format._DTYPE.write(narrow) + counters.astype(narrow).tobytes()
