"""Releases without noise, for laws of what is exact, and noise that is not as said, for planted faults."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch.noise import calibration, counting, tables
from beam_dpsketch.noise.tables import NoisyTable
from beam_dpsketch.privacy.mechanism import Sensitivity
from beam_dpsketch.privacy.noise.drawing import round_off


def exact(counters: np.ndarray, _: Fraction, bits: int = 0, **__: Any) -> np.ndarray:
    """Stand in for `add_noise` without any, on the same grid."""
    return counters << np.int64(bits)


def in_draws(faulty: Callable[..., np.ndarray], *, of: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> Any:
    """Return a wrapper of `NoisyTable.draw` that calls `faulty` in the place of `add_noise`, which it gets first.

    Args:
      faulty: takes `add_noise` and its arguments.
      of: the names of the tables that it is for; () for all.
      but: the names of those that keep their noise.
    """

    def draw(right: Any, table: NoisyTable, numbers: np.ndarray, random_bytes: Any = os.urandom) -> np.ndarray:
        names = {*table.names}
        if names & {*but} or (of and not names & {*of}):
            return right(table, numbers, random_bytes)
        parameter, given = table.parameter * table.unit, {"noise": table.noise, "random_bytes": random_bytes}
        return round_off(faulty(tables.add_noise, numbers, parameter, table.grid_bits, **given), table.dropped_bits)

    return draw


def plant(patched: pytest.MonkeyPatch, faulty: Callable[..., np.ndarray], **tables_named: tuple[str, ...]) -> None:
    """Let tables be drawn as `in_draws` says."""
    right, wrong = NoisyTable.draw, in_draws(faulty, **tables_named)
    patched.setattr(NoisyTable, "draw", lambda table, *given: wrong(right, table, *given))


def without_noise(patched: pytest.MonkeyPatch, *, to_the_last_bit: bool = False) -> None:
    """Makes releases exact; a choice of a norm, or of keys, keeps its noise.

    Args:
      patched: what is undone afterwards.
      to_the_last_bit: whether bits that noise would drown stay too.
    """
    plant(patched, lambda _, *given, **named: exact(*given, **named), but=("votes", "lengths"))
    if to_the_last_bit:
        patched.setattr(tables, "drowned_bits", lambda *_: 0)


def without_guard(patched: pytest.MonkeyPatch) -> None:
    """Let tables that cost too much be declared, so that a law must find them and not `check_paid`."""
    for module in (calibration, counting):
        patched.setattr(module, "check_paid", lambda *_: None)


@pytest.fixture
def no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test with `without_guard`."""
    without_guard(monkeypatch)


def with_variance(change: Callable[[Fraction], Fraction]) -> Callable[..., np.ndarray]:
    """Return a wrapper of `add_noise` that draws noise of another variance than the release says."""

    def wrong(right: Any, counters: np.ndarray, variance: Fraction, *bits: int, **source: Any) -> np.ndarray:
        return right(counters, change(variance), *bits, **source)

    return wrong


def with_parameter(table: NoisyTable, factor: Fraction) -> NoisyTable:
    """Return a table with noise of another parameter, which costs no more than it should as far as it knows."""
    squared, total = table.change
    root = Fraction(math.isqrt(factor.numerator), math.isqrt(factor.denominator))
    change = Sensitivity(squared * factor, None if total is None else total * root)
    return dataclasses.replace(table, change=change, parameter=table.parameter * factor)


def twice(right: Any, counters: np.ndarray, variance: Fraction, bits: int = 0, **source: Any) -> np.ndarray:
    """Wrap `add_noise` so that it draws twice."""
    noise = [right(counters, variance, bits, **source) for _ in range(2)]
    return sum(noise) - exact(counters, variance, bits)
