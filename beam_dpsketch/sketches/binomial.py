"""The binomial tail that decides whether a median over rows fails."""

from __future__ import annotations

import math
from typing import Any


def half_or_more(trials: int, probability: Any) -> Any:
    """Return P[Bin(trials, probability) >= trials / 2], for one probability or an array of them."""
    return at_least((trials + 1) // 2, trials, probability)


def at_least(successes: int, trials: int, probability: Any) -> Any:
    """Return P[Bin(trials, probability) >= successes], for one probability or an array of them."""
    return sum(
        math.comb(trials, count) * probability**count * (1 - probability) ** (trials - count)
        for count in range(successes, trials + 1)
    )
