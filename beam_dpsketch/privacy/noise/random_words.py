"""Uniform random words for the exact samplers, from bytes of any source."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from numbers import Integral, Rational

import numpy as np
from numpy.typing import NDArray

RandomBytes = Callable[[int], bytes]
"""Returns this many independent uniform bytes."""

WORD_BITS = 64


def check_size(size: int) -> int:
    """Return a number of draws; refuse what is none."""
    if not isinstance(size, Integral) or isinstance(size, bool) or size < 0:
        raise ValueError(f"size must be an integer >= 0, got {size!r}")
    return int(size)


def check_parameter(name: str, value: Fraction, least: Fraction, most: Fraction) -> Fraction:
    """Return an exact parameter of a sampler; refuse one out of its range."""
    # A float is refused: 0.3 could mean 3/10 or the nearest double, but the privacy statement is exact.
    if isinstance(value, Rational) and not isinstance(value, bool):
        # numpy integers would survive in a Fraction and overflow in the tables.
        exact = Fraction(int(value.numerator), int(value.denominator))
        if least <= exact <= most:
            return exact
    raise ValueError(f"{name} must be a Fraction between {least} and 2**{int(most).bit_length() - 1}, got {value!r}")


def random_words(count: int, random_bytes: RandomBytes) -> NDArray[np.uint64]:
    """Return words of 64 uniform bits."""
    # The byte order is fixed so that the same bytes give the same noise on every machine.
    words = np.frombuffer(random_bytes(8 * count), dtype="<u8", count=count)
    return words.astype(np.uint64, copy=False)


def append_random_word(value: int, random_bytes: RandomBytes) -> int:
    """Return a number with 64 more uniform bits at its end."""
    return value << WORD_BITS | int.from_bytes(random_bytes(8), "little")
