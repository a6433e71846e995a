"""Field types of a tree's spec in the release format: domains and levels."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from beam_dpsketch.domains import BytesDomain, FloatDomain, IntegerDomain, IPv4Domain, TextDomain, TimestampDomain
from beam_dpsketch.errors import FormatError
from beam_dpsketch.release.format.fields import F64, I128, U8, U32, Choice, Exact, Object, OneOf, Reader
from beam_dpsketch.sketches.tree_spec import Level

_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclasses.dataclass(frozen=True)
class Micros:
    """Whole microseconds from an origin: the time since 1970 in UTC, or the length of a period."""

    origin: Any

    def write(self, value: Any) -> bytes:
        return I128.write((value - self.origin) // _MICROSECOND)

    def read(self, reader: Reader) -> Any:
        try:
            return self.origin + I128.read(reader) * _MICROSECOND
        except OverflowError:
            raise FormatError("a time is out of range") from None


TIME = Micros(datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc))
DURATION = Micros(datetime.timedelta(0))

DOMAIN = OneOf(
    (
        Object(IntegerDomain, {"low": I128, "high": I128}),
        Object(IPv4Domain, {}),
        Object(FloatDomain, {"low": F64, "high": F64, "resolution": F64}),
        Object(TimestampDomain, {"start": TIME, "end": TIME, "resolution": DURATION}),
    )
)

BYTES_DOMAIN = OneOf((Object(TextDomain, {"max_bytes": U8}), Object(BytesDomain, {"max_bytes": U8})))

LEVEL = Object(
    Level,
    {"bits": U8, "sketch": Choice(("exact", "count_sketch", "count_min")), "depth": U32, "width": U32, "share": Exact},
)
