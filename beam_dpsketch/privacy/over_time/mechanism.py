"""Common base of mechanisms over windows: rows, each an integer combination of windows with noise added once.

With x_s the exact counters of window s, row number n is y_n = sum over s of C_ns x_s + noise, where C contains
nonnegative integers, known in advance, and a row contains no window after the window with which it is released. A row
is the sum, over dyadic bins of windows, of a weight times the bin's sum of gain_s x_s. Hence a row needs O(log T) sums.

Guarantee: with x and x' two neighboring streams, row n is an integer shift of its noise. Given all earlier rows it is
|(C(x - x'))_n|^2 / (2 sigma^2)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4), and later data may depend on earlier
rows. For every pair of streams the sum over rows is at most D^2 `squared_length` `squared_reach` / (2 sigma^2), where a
unit changes a window by at most D. Hence all rows together are rho-zCDP by adaptive composition.

Reach of a unit. Let G = C^T C, and let a unit change m windows by v_s, each with length at most D. Entries of G are at
least 0, hence |sum of C_s v_s|^2 is at most D^2 times the sum of G over pairs of these windows. In that sum, each
window has at most the m largest entries in its row of G. That gives m max_s (sum of the m largest entries in row s),
and never more than m^2 max_s G_ss. Brute force over all subsets shows that sigma is at most 5 % larger than needed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import ClassVar, NamedTuple

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.privacy.over_time.pairs import PAIR_BITS

MAX_HORIZON = 1 << 17
MAX_DENSE = 2048
"""Largest number of windows for which all pairs are computed. Above, each pair counts like the largest."""
_ROUNDING_ERROR = 1 + 2.0**-40
_CHUNK = 512


class Bin(NamedTuple):
    """2**level consecutive windows, and the weight of their sum.

    Attributes:
      level: 0 for a single window.
      place: its number on the level. Its first window is place * 2**level.
      weight: a whole number above 0.
    """

    level: int
    place: int
    weight: int


@dataclasses.dataclass(frozen=True)
class RowMechanism(ABC):
    """Rows over 2 to 2**17 windows."""

    words: ClassVar[str]
    windows: int

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "windows", low=2, high=MAX_HORIZON)

    @property
    @abstractmethod
    def row_count(self) -> int:
        """Number of rows."""

    @abstractmethod
    def first_row(self, window: int) -> int:
        """Compute the number of the first row released when a window closes, or row_count after the last window."""

    @abstractmethod
    def window_of(self, row: int) -> int:
        """Find the window with which a row is released: its last window."""

    @abstractmethod
    def rows_of(self, window: int) -> Sequence[Sequence[Bin]]:
        """Build the bins of each row released when a window closes, newest first."""

    @property
    @abstractmethod
    def gains(self) -> Sequence[int]:
        """Factor of each window, applied first."""

    @property
    @abstractmethod
    def squared_length(self) -> int:
        """max_s G_ss: the squared change of all rows by a record that changes its window by 1."""

    def squared_reach(self, reached: int) -> Fraction:
        """Bound the squared change of all rows by a unit in this many windows, relative to a single window."""
        _validate.whole(low=1, high=self.windows, reached=reached)
        if reached == 1:
            return Fraction(1)
        if self.windows > MAX_DENSE:
            return Fraction(reached**2)
        return min(Fraction(reached**2), Fraction(reached * _largest_sum(self, reached), self.squared_length))

    def pair_weights(self) -> np.ndarray | None:
        """Compute G over its largest entry in units of 2**-PAIR_BITS, rounded up, or `None` if all pairs count as 1.

        int64, shape (windows, windows), read-only: the joint count of a unit's contributions to two windows.
        """
        return None if self.windows > MAX_DENSE else _pair_weights(self)


def matrix_rows(mechanism: RowMechanism) -> Iterator[np.ndarray]:
    """Yield the rows of C, int64, shape (windows,)."""
    gains = np.array(mechanism.gains, dtype=np.int64)
    for window in range(mechanism.windows):
        for bins in mechanism.rows_of(window):
            row = np.zeros(mechanism.windows, dtype=np.int64)
            for level, place, weight in bins:
                row[place << level : (place + 1) << level] = weight
            yield row * gains


@functools.lru_cache(maxsize=4)
def _gram(mechanism: RowMechanism) -> np.ndarray:
    """Compute G, int64, shape (windows, windows), with entries below 2**52 so that float64 adds them exactly."""
    assert mechanism.squared_length < 1 << 52
    total = np.zeros((mechanism.windows, mechanism.windows))
    rows = matrix_rows(mechanism)
    while chunk := list(itertools.islice(rows, _CHUNK)):
        block = np.array(chunk, dtype=np.float64)
        total += block.T @ block
    return total.astype(np.int64)


@functools.lru_cache(maxsize=4)
def _pair_weights(mechanism: RowMechanism) -> np.ndarray:
    most = 1 << PAIR_BITS  # no entry exceeds the largest diagonal entry, by Cauchy and Schwarz
    shares = _gram(mechanism) * (most / mechanism.squared_length * _ROUNDING_ERROR)
    weights = np.minimum(np.ceil(shares).astype(np.int64), most)
    weights.flags.writeable = False
    return weights


def _largest_sum(mechanism: RowMechanism, reached: int) -> int:
    gram = _gram(mechanism)
    return max(int(np.partition(row, -reached)[-reached:].sum()) for row in gram)
