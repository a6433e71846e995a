"""Settings as canonical bytes, for messages of keyed randomness.

Guarantee: equal settings have equal bytes, in every process and under every version of Python. Settings that differ in
any field of any part have different ones. 1, 1.0 and `Fraction(1)` are equal.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import numbers
from fractions import Fraction
from typing import Any

from beam_dpsketch.hashing.encodings import join_parts

_MICROSECOND = datetime.timedelta(microseconds=1)


def canonical(value: Any) -> bytes:
    """Return the bytes of a setting: a dataclass of settings, a tuple of them, or a single value; else `TypeError`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value) if field.compare]
        return b"d" + join_parts([type(value).__name__.encode(), *map(canonical, fields)])
    if isinstance(value, tuple):
        return b"t" + join_parts(map(canonical, value))
    if isinstance(value, enum.Enum):
        value = value.value if isinstance(value, enum.Flag) else value.name
    if isinstance(value, datetime.timedelta):
        return b"l" + str(value // _MICROSECOND).encode()
    if isinstance(value, datetime.datetime):
        return b"m" + value.isoformat().encode()
    if isinstance(value, (numbers.Rational, float)):
        return b"n" + str(Fraction(value)).encode()
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if value is None:
        return b"0"
    raise TypeError(f"{type(value).__name__} is no setting")
