"""Field types of the release format: each writes a value and reads it back, within the bytes given."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from beam_dpsketch.errors import FormatError


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
