"""Argument checks and float search for the conversions of rho."""

from __future__ import annotations

import math
from collections.abc import Callable

from beam_dpsketch.errors import ArgumentError


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon without a delta."""
    if not 0 <= epsilon < math.inf:
        raise ArgumentError("epsilon", f"must be finite and at least 0, got {epsilon}", "E112")


def checked_rho(rho: float) -> float:
    """Check the result of a search for rho. Raise if there is none."""
    if rho <= 0:
        raise ArgumentError("", "Epsilon and delta are too small for any rho. Use a larger epsilon or delta", "E110")
    return rho


def turn(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Find the largest float at which a monotone condition, true at `high`, is false, and the next float."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
