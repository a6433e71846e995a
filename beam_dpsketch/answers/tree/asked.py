"""What a tree is asked about: values, ranges and shares, as positions in its domain; refused if they are of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_dpsketch.answers.rows import as_many
from beam_dpsketch.domains import Domain
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError


def positions_of(domain: Domain, **argument: Any) -> tuple[np.ndarray, bool]:
    """Return the positions of one value or many, and whether it was one; refuse what is not of the domain."""
    ((name, values),) = argument.items()
    many, single = as_many(values)
    positions, usable = domain.index(many)
    if not usable.all():
        raise ArgumentTypeError(name, f"must be of the domain of the release, {domain.takes}, and not null", "E717")
    return positions, single


def ends_of(domain: Domain, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the positions of the ends of one range or many, and whether it was one; refuse swapped ends."""
    lows, is_one_low = positions_of(domain, low=low)
    highs, is_one_high = positions_of(domain, high=high)
    lows, highs = np.broadcast_arrays(lows, highs)
    if (swapped := lows > highs).any():
        ends = domain.values(np.array([lows[swapped][0], highs[swapped][0]]))
        raise ArgumentError("high", f"must be at least low, got {ends[0]} and {ends[1]}: swap them", "E501")
    return lows, highs, is_one_low and is_one_high


def shares_of(shares: Any) -> tuple[np.ndarray, bool]:
    """Return one share or many, and whether it was one; refuse what is not between 0 and 1."""
    many, single = as_many(shares)
    try:
        wanted = np.asarray(many, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError("shares", "must be numbers from 0 to 1, as 0.5 for the median", "E004") from None
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise ArgumentError("shares", "must be between 0 and 1: 0.95 stands for 95 %", "E003")
    return wanted, single
