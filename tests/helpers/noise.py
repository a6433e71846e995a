"""Releases without noise, for laws of what is exact, and noise that is not as said, for planted faults."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch.engine import counting, noising


def exact(counters: np.ndarray, _: Fraction, bits: int = 0, **__: Any) -> np.ndarray:
    """Stand in for `add_noise` without any, on the same grid."""
    return counters << np.int64(bits)


def exact_whole(counters: np.ndarray, *_: Any, **__: Any) -> np.ndarray:
    """Stand in for `add_whole_noise`."""
    return counters.copy()


def without_noise(patched: pytest.MonkeyPatch, *, to_the_last_bit: bool = False) -> None:
    """Makes releases exact; a choice of a norm, or of keys, keeps its noise.

    Args:
      patched: what is undone afterwards.
      to_the_last_bit: whether bits that noise would drown stay too.
    """
    for room in (noising, counting):
        patched.setattr(room, "add_noise", exact)
    patched.setattr(noising, "add_whole_noise", exact_whole)
    if to_the_last_bit:
        patched.setattr(noising, "drowned_bits", lambda *_: 0)


def with_variance(change: Callable[[Fraction], Fraction]) -> Callable[..., np.ndarray]:
    """Return a wrapper of `add_noise` that draws noise of another variance than the release says."""

    def wrong(right: Any, counters: np.ndarray, variance: Fraction, *bits: int, **source: Any) -> np.ndarray:
        return right(counters, change(variance), *bits, **source)

    return wrong


def twice(right: Any, counters: np.ndarray, variance: Fraction, bits: int = 0, **source: Any) -> np.ndarray:
    """Wrap `add_noise` so that it draws twice."""
    noise = [right(counters, variance, bits, **source) for _ in range(2)]
    return sum(noise) - exact(counters, variance, bits)
