"""Forged releases: parts of real ones replaced by others of their type, and by limits, under a right digest.

It follows the types of the fields that the package writes. So every part of a forgery can be read alone, and what
refuses it is a rule about values, not a length that does not fit.
"""

from __future__ import annotations

import datetime
import enum
import itertools
import random
import typing
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch.statement.codec import ReleasedSpec, codec_of, options_of, without_none
from beam_dpsketch.statement.release_format import narrowest
from tests.helpers.stored import Part, packed, parts_of, plain_of, with_part

INTEGERS = sorted(
    {s * (1 << b) + d for b in (0, 7, 8, 15, 16, 31, 32, 56, 63, 64, 127) for d in (-1, 0, 1) for s in (1, -1)}
)
NUMBERS = [0.0, -0.0, 1.0, -1.0, 5e-324, 2.3e-308, 1e-9, 0.5, 1 - 2**-53, 1e300, 1.7e308, float("inf"), float("nan")]
PARTS = [0, -1, 1, 2, 3, 1 << 64, (1 << 200) + 1, (1 << 6999) + 1, (1 << 7000) - 1, (1 << 8180) + 1, (1 << 8191) - 1]
BYTES = [b"", b"\0", b"\xff", b"s", b"\xed\xa0\x80", b"\x1b[31m", bytes(48), bytes(64), b"\xff" * 255]
TEXTS = ["", "\0", "s", "\x1b[31m", "weight", "lost", "exact", "x" * 255]
MOST_CELLS = 1 << 14


def stored_whole(number: int) -> int | bytes:
    """Return a whole number as releases hold it."""
    is_short = -(1 << 63) <= number < 1 << 64
    return number if is_short else number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


WHOLE = [*map(stored_whole, INTEGERS), True]
FRACTIONS = [[*map(stored_whole, each)] for each in itertools.product(PARTS, PARTS)]
LIMITS: dict[Any, list[Any]] = {
    type: [-1, 0, 1, 2, 3, 4, 5, 255],
    bool: [False, True, 0, 1],
    int: WHOLE,
    datetime.datetime: WHOLE,
    datetime.timedelta: WHOLE,
    float: [*NUMBERS, 1],
    str: TEXTS,
    bytes: [*BYTES, "s"],
    Fraction: FRACTIONS,
    int | Fraction: FRACTIONS,
}


def limits(hint: Any) -> list[Any]:
    """Return the plain values of a type at its limits, where it holds no others."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return LIMITS[type]
    return LIMITS.get(hint, [])


class Forger:
    """Makes forgeries of some releases and rows."""

    def __init__(self, releases: Sequence[bytes]) -> None:
        self._plain = [*map(plain_of, releases)]
        self._donors: dict[str, list[Any]] = {}
        for plain in self._plain:
            for part in parts_of(plain):
                self._donors.setdefault(str(part.hint), []).append(part.plain)

    def forge(self, chance: random.Random) -> bytes:
        """Return one forgery, with 1 to 3 other parts, and often other counters."""
        plain = chance.choice(self._plain)
        for _ in range(chance.randint(1, 3)):
            part = chance.choice([*parts_of(plain)])
            plain = with_part(plain, part.place, self._other(part, chance))
            try:
                list(parts_of(plain))
                cells = codec_of(ReleasedSpec).read(plain[0]).cells
            except Exception:  # refused as it is
                return packed(plain)
        return packed(_with_counters(plain, cells, chance))

    def each_part_at_its_limits(self) -> Iterator[bytes]:
        """Yield each release with one part at one limit."""
        for plain in self._plain:
            for part in parts_of(plain):
                for limit in limits(without_none(part.hint) or part.hint):
                    yield packed(with_part(plain, part.place, limit))

    def _other(self, part: Part, chance: random.Random) -> Any:
        """Return another value of the same type."""
        donor = chance.choice(self._donors[str(part.hint)])
        inner = without_none(part.hint)
        if inner is not None:
            return chance.choice([None, donor, *(chance.sample(limits(inner), 1) if limits(inner) else [])])
        if typing.get_origin(part.hint) is tuple:
            return chance.choice([[], donor, part.plain * chance.choice([1, 2, 100, 10_000 // (len(part.plain) or 1)])])
        own = [] if options_of(part.hint) else limits(part.hint)
        return chance.choice(own) if own and chance.random() < 0.7 else donor


def _with_counters(plain: list[Any], cells: int, chance: random.Random) -> list[Any]:
    """Return a release with as many counters as its spec has, of its own or at limits."""
    *start, size, encoded = plain
    is_whole = size in (1, 2, 4, 8) and isinstance(encoded, bytes) and len(encoded) % size == 0
    own = np.frombuffer(encoded, f"<i{size}") if is_whole else np.array([], np.int64)
    if cells > MOST_CELLS or (len(own) == cells and chance.random() < 0.5):
        return plain
    low, high = -(1 << 63), (1 << 63) - 1
    values = [np.full(cells, value, np.int64) for value in (0, 1, -1, low, high, 1 << 53)]
    values += [np.array([chance.choice([low, high, 0, 1, -1]) for _ in range(cells)], np.int64)]
    values += [np.resize(own, cells).astype(np.int64) if len(own) else values[0]]
    counters = chance.choice(values)
    dtype = np.dtype(narrowest(counters))
    return [*start, dtype.itemsize, counters.astype(dtype).tobytes()]
