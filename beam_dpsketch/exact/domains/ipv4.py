"""IPv4 addresses, as integers or dotted text."""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch.columns import plain_column
from beam_dpsketch.encodings import named
from beam_dpsketch.exact.domains.base import (
    AxisScale,
    Domain,
    index_distinct,
    index_numbers,
    is_number_type,
    is_text_type,
    is_whole_type,
    unwrap_type,
)

_MAX_ADDRESS = (1 << 32) - 1


def _place(value: Any) -> int:
    if not isinstance(value, (str, ipaddress.IPv4Address)):
        raise TypeError("not an address")
    return int(ipaddress.IPv4Address(value))


def _words(place: float) -> str:
    return str(ipaddress.IPv4Address(int(min(max(place, 0), _MAX_ADDRESS))))


@named("IPv4Domain")
@dataclasses.dataclass(frozen=True)
class IPv4Domain(Domain):
    """All IPv4 addresses in numeric order. Reads integers, dotted text and `IPv4Address`, answers in dotted text.

    Does not count integers outside 32 bits, which are not addresses.

    >>> IPv4Domain().index(["10.0.0.1", 1, "no address", 1 << 32])[1].tolist()
    [True, True, False, False]
    """

    type_name = "ipv4"
    number = 1
    takes = "addresses as 32-bit numbers, dotted text or IPv4Address"
    plain_type = str
    reads_all = False
    parsed = "IPv4 addresses"
    written = 'an IPv4 address such as "192.0.2.1"'
    scale = AxisScale(_place, _words)

    @property
    def size(self) -> int:
        return _MAX_ADDRESS + 1

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(values, pa.Array):
            values = plain_column(values)
            if is_number_type(values.type) or pa.types.is_decimal(values.type):
                return _index_numbers(values)
            if not self.reads_column(values.type):
                return np.zeros(len(values), dtype=np.uint64), np.zeros(len(values), dtype=bool)
            return index_distinct(values, self.index)
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            return _index_numbers(values)
        return _index_numbers(list(map(_to_number, values)))

    def reads_column(self, kind: pa.DataType) -> bool:
        kind = unwrap_type(kind)
        return is_whole_type(kind) or is_text_type(kind)

    def is_inside(self, value: Any) -> bool:
        return True

    def parse(self, text: str) -> str:
        return str(ipaddress.IPv4Address(int(text) if text.isdecimal() else text))

    def describe(self) -> str:
        return self.parsed

    def values(self, indices: np.ndarray) -> list[str]:
        return [str(ipaddress.IPv4Address(position)) for position in indices.tolist()]


def _index_numbers(values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Index like `index_numbers`. A number outside is no address, and unusable."""
    places, usable = index_numbers(values, -1, _MAX_ADDRESS + 1)
    usable = usable & (places > 0) & (places <= _MAX_ADDRESS + 1)
    return np.where(usable, places - np.uint64(1), np.uint64(0)), usable


def _to_number(value: Any) -> Any:
    """Convert dotted text and `IPv4Address` to a number, other text to `None`. Other values are unchanged."""
    if isinstance(value, (str, ipaddress.IPv4Address)):
        try:
            return int(ipaddress.IPv4Address(value))
        except ipaddress.AddressValueError:
            return None
    return value
