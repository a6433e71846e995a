"""Field types of a tree's spec in the release format: domains and levels."""

from __future__ import annotations

import datetime
import struct
from typing import Any

from beam_dpsketch.domains import (
    BytesDomain,
    Domain,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.errors import FormatError
from beam_dpsketch.release.format.fields import U8, U32, Choice, Exact, Reader
from beam_dpsketch.sketches.tree_spec import Level

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_WIDE = 16


class _DomainField:
    """A domain: which kind, then its bounds."""

    _kinds = Choice((IntegerDomain, IPv4Domain, FloatDomain, TimestampDomain))

    def write(self, value: Domain) -> bytes:
        return self._kinds.write(type(value)) + b"".join(map(_write_bound, _bounds(value)))

    def read(self, reader: Reader) -> Domain:
        kind = self._kinds.read(reader)
        if kind is IPv4Domain:
            return IPv4Domain()
        if kind is IntegerDomain:
            return IntegerDomain(_read_integer(reader), _read_integer(reader))
        if kind is FloatDomain:
            return FloatDomain(*(struct.unpack("<d", reader.take(8))[0] for _ in range(3)))
        try:
            start, end, resolution = (_read_integer(reader) * _MICROSECOND for _ in range(3))
            return TimestampDomain(_EPOCH + start, _EPOCH + end, resolution)
        except OverflowError:
            raise FormatError("a time is out of range") from None


def _bounds(domain: Any) -> list[int | float]:
    """Return the numbers that define a domain of its kind."""
    if isinstance(domain, IntegerDomain):
        return [domain.low, domain.high]
    if isinstance(domain, FloatDomain):
        return [domain.low, domain.high, domain.resolution]
    if isinstance(domain, TimestampDomain):
        lengths = (domain.start - _EPOCH, domain.end - _EPOCH, domain.resolution)
        return [length // _MICROSECOND for length in lengths]
    return []


def _write_bound(value: int | float) -> bytes:
    return struct.pack("<d", value) if isinstance(value, float) else value.to_bytes(_WIDE, "little", signed=True)


def _read_integer(reader: Reader) -> int:
    return int.from_bytes(reader.take(_WIDE), "little", signed=True)


class _LevelField:
    """One level of a tree."""

    _sketches = Choice(("exact", "count_sketch", "count_min"))

    def write(self, value: Level) -> bytes:
        sizes = (
            U8.write(value.bits) + self._sketches.write(value.sketch) + U32.write(value.depth) + U32.write(value.width)
        )
        return sizes + Exact.write(value.share)

    def read(self, reader: Reader) -> Level:
        bits, sketch = U8.read(reader), self._sketches.read(reader)
        return Level(bits, sketch, U32.read(reader), U32.read(reader), Exact.read(reader))


class _BytesDomainField:
    """Text or bytes, then the number of bytes that count."""

    _kinds = Choice((TextDomain, BytesDomain))

    def write(self, value: BytesDomain) -> bytes:
        return self._kinds.write(type(value)) + U8.write(value.max_bytes)

    def read(self, reader: Reader) -> BytesDomain:
        return self._kinds.read(reader)(U8.read(reader))


BYTES_DOMAIN = _BytesDomainField()
DOMAIN = _DomainField()
LEVEL = _LevelField()
