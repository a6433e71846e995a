"""What the conversions of rho share: what they refuse, and their search among floats."""

from __future__ import annotations

import math
from collections.abc import Callable

from beam_dpsketch.errors import ArgumentError


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that has no delta."""
    if not 0 <= epsilon < math.inf:
        raise ArgumentError("epsilon", f"must be finite and at least 0, got {epsilon}", "E112")


def checked_rho(rho: float) -> float:
    """Return the rho that a search has found, or raise if there is none."""
    if rho <= 0:
        raise ArgumentError("", "epsilon and delta are too small for any rho", "E110")
    return rho


def turn(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the largest float at which a monotone condition fails, and the next one, given that it holds at `high`."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
