"""The bytes of a release: a little-endian header, the counters, and a 128-bit digest.

Guarantee: `unpack` raises `FormatError` and nothing else, checks sizes before it allocates, builds through the
validating constructors, and accepts exactly the bytes that `pack` writes. The same tables of fields drive both. The
digest finds damage; it does not authenticate. No exact value of the data is stored, and nothing is unpickled.

Field types of the release format: each writes a value and reads it back, within the bytes given.

The kinds of records in a file of releases, and the one that holds a statement alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from beam_dpsketch.errors import FormatError, said_by
from beam_dpsketch.exact.domains import DOMAINS
from beam_dpsketch.exact.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.exact.sketches.listed_items import MAX_BYTES, GroupedItems, from_encoded
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import LEVEL_KINDS, Level, TreeSpec
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit, RecordBounds
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.selection import METHODS
from beam_dpsketch.privacy.side_counters import Uncounted
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.clipping import ClippingState
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import AnswerNote, GroupNote, KeyNote, RowNote
from beam_dpsketch.statement.release_id import RELEASE_ID_BYTES
from beam_dpsketch.statement.side_notes import NAMES, SideNote
from beam_dpsketch.statement.stated import Stated


class Reader:
    """A cursor over bytes that never runs past their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.position

    def take(self, size: int) -> bytes:
        if self.left < size:
            raise FormatError("the bytes end too early")
        self.position += size
        return self._data[self.position - size : self.position]


class Field(Protocol):
    """One kind of value."""

    def write(self, value: Any) -> bytes: ...
    def read(self, reader: Reader) -> Any: ...


def write_fields(fields: Mapping[str, Field], values: Mapping[str, Any]) -> bytes:
    """Return the bytes of the named values, in the order of the fields."""
    return b"".join(field.write(values[name]) for name, field in fields.items())


def read_fields(fields: Mapping[str, Field], reader: Reader) -> dict[str, Any]:
    """Read one value for each field."""
    return {name: field.read(reader) for name, field in fields.items()}


@dataclasses.dataclass(frozen=True)
class Number:
    """A number of fixed size."""

    format: str

    def write(self, value: float) -> bytes:
        return struct.pack(self.format, value)

    def read(self, reader: Reader) -> Any:
        return struct.unpack(self.format, reader.take(struct.calcsize(self.format)))[0]


U8, U16, U32, U64, F64 = Number("<B"), Number("<H"), Number("<I"), Number("<Q"), Number("<d")


@dataclasses.dataclass(frozen=True)
class Integer:
    """A signed integer of fixed size."""

    size: int

    def write(self, value: int) -> bytes:
        return value.to_bytes(self.size, "little", signed=True)

    def read(self, reader: Reader) -> int:
        return int.from_bytes(reader.take(self.size), "little", signed=True)


I64, I128 = Integer(8), Integer(16)


@dataclasses.dataclass(frozen=True)
class Constant:
    """Bytes that are always the same."""

    expected: bytes

    def write(self, value: None) -> bytes:
        return self.expected

    def read(self, reader: Reader) -> None:
        if reader.take(len(self.expected)) != self.expected:
            raise FormatError("the magic number or the format version is unknown")


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of a fixed list, as its position; the list may only grow at its end."""

    options: Sequence[Any]

    def write(self, value: Any) -> bytes:
        return U8.write(self.options.index(value))

    def read(self, reader: Reader) -> Any:
        position = U8.read(reader)
        if position >= len(self.options):
            raise FormatError("a field has an unknown value")
        return self.options[position]


@dataclasses.dataclass(frozen=True)
class Flags:
    """A sum of flags."""

    type: type[enum.Flag]

    def write(self, value: enum.Flag) -> bytes:
        return U8.write(value.value)

    def read(self, reader: Reader) -> enum.Flag:
        return self.type(U8.read(reader))


@dataclasses.dataclass(frozen=True)
class Bytes:
    """Bytes of fixed size."""

    size: int

    def write(self, value: bytes) -> bytes:
        return value

    def read(self, reader: Reader) -> bytes:
        return reader.take(self.size)


@dataclasses.dataclass(frozen=True)
class Text:
    """Bytes with their length before them."""

    max_size: int
    length: Number = U16

    def write(self, value: bytes) -> bytes:
        return self.length.write(len(value)) + value

    def read(self, reader: Reader) -> bytes:
        size = self.length.read(reader)
        if size > self.max_size:
            raise FormatError("a field is too long")
        return reader.take(size)


@dataclasses.dataclass(frozen=True)
class Name:
    """Text in UTF-8, after the number of its bytes, which has a limit."""

    limit: int

    def write(self, value: str) -> bytes:
        return Text(self.limit).write(value.encode())

    def read(self, reader: Reader) -> str:
        return Text(self.limit).read(reader).decode()


@dataclasses.dataclass(frozen=True)
class Optional:
    """A value or `None`: whether there is one, then the value."""

    field: Field

    def write(self, value: Any) -> bytes:
        return U8.write(0) if value is None else U8.write(1) + self.field.write(value)

    def read(self, reader: Reader) -> Any:
        present = Choice((False, True)).read(reader)
        return self.field.read(reader) if present else None


@dataclasses.dataclass(frozen=True)
class OrZero:
    """A positive number, or 0, which is written as nothing."""

    field: Field

    def write(self, value: Any) -> bytes:
        return Optional(self.field).write(value or None)

    def read(self, reader: Reader) -> Any:
        return Optional(self.field).read(reader) or Fraction(0)


@dataclasses.dataclass(frozen=True)
class Repeated:
    """Values of the same kind, with their number before them."""

    field: Field

    def write(self, value: Sequence[Any]) -> bytes:
        return U16.write(len(value)) + b"".join(map(self.field.write, value))

    def read(self, reader: Reader) -> tuple[Any, ...]:
        return tuple(self.field.read(reader) for _ in range(U16.read(reader)))


@dataclasses.dataclass(frozen=True)
class Object:
    """The fields of an object; its constructor validates them."""

    type: Callable[..., Any]
    fields: Mapping[str, Field]

    def write(self, value: Any) -> bytes:
        return write_fields(self.fields, {name: getattr(value, name) for name in self.fields})

    def read(self, reader: Reader) -> Any:
        return self.type(**read_fields(self.fields, reader))


@dataclasses.dataclass(frozen=True)
class OneOf:
    """An object of one of several types: the position of the type, then the fields."""

    options: Sequence[Object]

    def write(self, value: Any) -> bytes:
        types = [option.type for option in self.options]
        return Choice(types).write(type(value)) + self.options[types.index(type(value))].write(value)

    def read(self, reader: Reader) -> Any:
        option: Object = Choice(self.options).read(reader)
        return option.read(reader)


class _Exact:
    """A positive fraction or integer as two unsigned integers, each with its length in bytes before it."""

    _part = Text(1024)

    def write(self, value: Fraction | int) -> bytes:
        return b"".join(
            self._part.write(number.to_bytes((number.bit_length() + 7) // 8, "little"))
            for number in (value.numerator, value.denominator)
        )

    def read(self, reader: Reader) -> Fraction:
        numerator, denominator = (int.from_bytes(self._part.read(reader), "little") for _ in range(2))
        if not numerator or not denominator:
            raise FormatError("a fraction is not above 0")
        return Fraction(numerator, denominator)


Exact = _Exact()


@dataclasses.dataclass(frozen=True)
class Micros:
    """Whole microseconds from an origin: the time since 1970 in UTC, or the length of a period."""

    origin: Any

    def write(self, value: Any) -> bytes:
        return I128.write((value - self.origin) // datetime.timedelta(microseconds=1))

    def read(self, reader: Reader) -> Any:
        try:
            return self.origin + datetime.timedelta(microseconds=I128.read(reader))
        except OverflowError:
            raise FormatError("a time is out of range") from None


TIME = Micros(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
DURATION = Micros(datetime.timedelta(0))


FORMAT_VERSION = 1
_DIGEST_BYTES = 16

_KIND = Choice(("count_min", "count_sketch", "quantiles", "listed_items", "groups", "statistics", "metrics", "factor"))
_START: dict[str, Field] = {"magic": Constant(b"DPSK"), "format_version": U16, "kind": _KIND}

_FLAT_SPEC: dict[str, Field] = {
    "hash_version": U16,
    "item_hash": Choice(ITEM_HASHES),
    "item_key": Text(64),
    "seed": U64,
    "depth": U32,
    "width": U32,
}

_FORMS: dict[str, Field] = {"whole": I128, "byte": U8, "number": F64, "time": TIME, "duration": DURATION}
_DOMAINS = {
    kind: Object(kind, {name: _FORMS[setting.form] for name, setting in kind.settings.items()})
    for kind in sorted(DOMAINS, key=lambda kind: kind.number)
}
DOMAIN = OneOf(tuple(each for kind, each in _DOMAINS.items() if kind.is_ordered))
_SKETCH = Choice(LEVEL_KINDS)
_LEVEL = Object(Level, {"bits": U8, "sketch": _SKETCH, "depth": U32, "width": U32, "share": Exact})
SPECS: dict[str, Object] = {
    "count_min": Object(functools.partial(SketchSpec, kind="count_min"), _FLAT_SPEC),
    "count_sketch": Object(functools.partial(SketchSpec, kind="count_sketch"), _FLAT_SPEC),
    "quantiles": Object(TreeSpec, {"hash_version": U16, "seed": U64, "domain": DOMAIN, "levels": Repeated(_LEVEL)}),
    "listed_items": Object(from_encoded, {"encoded_items": Text(MAX_BYTES, U32)}),
    "groups": Object(
        GroupedItems,
        {"domain": OneOf(tuple(_DOMAINS.values())), "encoded_items": Text(MAX_BYTES, U32), "left_out": U64},
    ),
}
"""The fields of each kind of spec; a kind that stands above enters its own."""


class InnerSpec:
    """One of several specs, after the name of its kind; it has none in it, however deep a forgery goes."""

    @staticmethod
    def write(value: Any) -> bytes:
        return _KIND.write(value.kind) + SPECS[value.kind].write(value)

    @staticmethod
    def fields_of(reader: Reader) -> Object:
        """Read the name of the kind; return its fields."""
        kind = _KIND.read(reader)
        if kind == "metrics":
            raise FormatError("metrics are in metrics")
        return SPECS[kind]

    @staticmethod
    def read(reader: Reader) -> Any:
        return InnerSpec.fields_of(reader).read(reader)


_YES_OR_NO = Choice((False, True))
_BOUNDS = OneOf(
    (
        Object(RecordBounds, {"max_per_key": U32, "max_keys": Optional(U32), "max_weight": U32, "signed": _YES_OR_NO}),
        Object(
            NormBound,
            {
                "max_norm": Exact,
                "max_weight": U32,
                "max_per_item": Optional(U32),
                "signed": _YES_OR_NO,
                "resource_limit": Optional(U32),
                "max_keys": Optional(U32),
                "order": U8,
            },
        ),
    )
)
_NOISE = Choice(tuple(Noise))
_SIDE_NOTE = Object(
    SideNote,
    {
        "names": Repeated(Choice(NAMES)),
        "share": Exact,
        "squared_limit": Exact,
        "noise": _NOISE,
        "sigma_squared": Exact,
        "value": I64,
        "scale_bits": U8,
    },
)
_LOST_NOTE = Object(
    LostNote,
    {
        "share": Exact,
        "noise": _NOISE,
        "sigma_squared": Exact,
        "first": I64,
        "counts": Repeated(I64),
        "kept": Optional(_SIDE_NOTE),
    },
)
_KEY_NOTE = Object(
    KeyNote,
    {
        "method": Choice(METHODS),
        "max_keys": U32,
        "min_units": U32,
        "grid": U32,
        "sigma_squared": Exact,
        "threshold": U64,
        "half": U64,
        "most": U64,
        "share": OrZero(Exact),
    },
)
_NOTHING = Object(type(None), {})
_VOTES = OneOf((_NOTHING, _KEY_NOTE))
_GROUP_NOTE = Object(GroupNote, {"max_items": U32, "threshold": U64, "most": U64, "scale_bits": U8, "votes": _VOTES})
_MECHANISM = OneOf(
    (
        Object(BinnedRoot, {"windows": U32, "ratio": U8, "weight_bits": U8, "gain_bits": U8}),
        Object(BinaryTree, {"windows": U32}),
    )
)
_ROW_NOTE = Object(RowNote, {"mechanism": _MECHANISM, "number": U32, "dropped_bits": U8})
_ANSWER_NOTE = Object(AnswerNote, {"mechanism": _MECHANISM, "windows": U32})
_STATEMENT = Object(
    Stated,
    {
        "rho": Exact,
        "sigma_squared_per_level": Repeated(Exact),
        "relation": Choice(tuple(NeighboringRelation)),
        "unit": Choice(tuple(PrivacyUnit)),
        "window_count": U32,
        "overlapping": U32,
        "first_windows": _YES_OR_NO,
        "disclosed": Flags(Disclosure),
        "uncounted": Flags(Uncounted),
        "weakest": Choice(tuple(ClippingState)),
        "of_metric": _YES_OR_NO,
        "period_micros": U64,
        "randomness": Choice(tuple(Randomness)),
        "shown_delta": F64,
        "release_ids": Repeated(Bytes(RELEASE_ID_BYTES)),
        "bounds": _BOUNDS,
        "norm_spend": Optional(Exact),
        "side": Repeated(_SIDE_NOTE),
        "lost": Optional(_LOST_NOTE),
        "delta": OrZero(Exact),
        "pure": OrZero(Exact),
        "pure_rho": OrZero(Exact),
        "noise": _NOISE,
        "keys": OneOf((_NOTHING, _KEY_NOTE, _GROUP_NOTE)),
        "over_time": OneOf((_NOTHING, _ROW_NOTE, _ANSWER_NOTE)),
    },
)

_DTYPE = Choice(("<i1", "<i2", "<i4", "<i8"))
_COUNTERS: dict[str, Field] = {"scale_bits": U8, "dtype": _DTYPE}


def pack(kind: str, spec: Any, counters: np.ndarray, privacy: Stated, scale_bits: int) -> bytes:
    """Return the bytes of a release; counters, in units of 2**-scale_bits, take the narrowest integers."""
    dtype = narrowest(counters)
    start = write_fields(_START, {"magic": None, "format_version": FORMAT_VERSION, "kind": kind})
    end = write_fields(_COUNTERS, {"scale_bits": scale_bits, "dtype": dtype})
    body = start + SPECS[kind].write(spec) + _STATEMENT.write(privacy) + end + counters.astype(dtype).tobytes()
    return body + _digest(body)


def unpack(data: bytes) -> tuple[str, Any, np.ndarray, Stated, int]:
    """Return kind, spec, counters (int64, flat), statement and scale_bits of the release in these bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"not a release: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    reader = Reader(data)
    try:
        start = read_fields(_START, reader)
        kind, version = start["kind"], start["format_version"]
        if version != FORMAT_VERSION:
            raise FormatError(f"its format has number {version}")
        spec, privacy = SPECS[kind].read(reader), _STATEMENT.read(reader)
        read = read_fields(_COUNTERS, reader)
        scale_bits, dtype = read["scale_bits"], np.dtype(read["dtype"])
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a release that this version can read: {said_by(error)}") from None
    if reader.left != spec.cells * dtype.itemsize + _DIGEST_BYTES:
        raise FormatError("not a release: the length does not match the header")
    body = data[:-_DIGEST_BYTES]
    if data[-_DIGEST_BYTES:] != _digest(body):
        raise FormatError("not a release: the digest does not match; the bytes are damaged")
    counters = np.frombuffer(body, dtype, offset=reader.position).astype(np.int64)
    if pack(kind, spec, counters, privacy, scale_bits) != data:
        raise FormatError("not a release: the fields are not in their only valid form")
    return kind, spec, counters, privacy, scale_bits


def pack_statement(privacy: Stated) -> bytes:
    """Return the bytes of a statement without a release."""
    return _STATEMENT.write(privacy)


def unpack_statement(data: bytes) -> Stated:
    """Return the statement in these bytes."""
    reader = Reader(data)
    try:
        privacy: Stated = _STATEMENT.read(reader)
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a statement that this version can read: {said_by(error)}") from None
    if pack_statement(privacy) != data:
        raise FormatError("not a statement: the fields are not in their only valid form")
    return privacy


def narrowest(counters: np.ndarray) -> str:
    """Return the name of the narrowest integers that hold all counters, one or more."""
    return next(dtype for dtype in _DTYPE.options if _fits(counters, np.dtype(dtype)))


def _fits(counters: np.ndarray, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(counters.min(initial=0) >= limits.min and counters.max(initial=0) <= limits.max)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


RECORDS: dict[str, dict[str, Field]] = {
    "release": {},
    "pair": {"key": Text((1 << 32) - 1, U32)},
    "row": {},
    "row_pair": {"key": Text((1 << 32) - 1, U32)},
    "spent": {},
}
"""What comes before the release, the row or the statement in each kind of record."""
RECORD_KIND = Choice(tuple(RECORDS))


def spent_record(stated: Stated) -> bytes:
    """Return the bytes of what a run spent that released nothing."""
    return RECORD_KIND.write("spent") + pack_statement(stated)
