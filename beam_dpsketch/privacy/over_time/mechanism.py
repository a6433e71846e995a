"""What mechanisms over time share: rows, each an integer combination of windows that gets noise once.

With x_s the exact counters of window s, row number n is y_n = sum over s of C_ns x_s + noise, where C has whole numbers
of at least 0, known in advance, and a row holds no window after the one that it comes out with. A row is the sum, over
dyadic bins of windows, of a weight times the bin's sum of gain_s x_s. So O(log T) sums are enough to make each row.

Guarantee: with x and x' two neighbouring streams, row n is an integer shift of its noise. Given all earlier rows it is
|(C(x - x'))_n|^2 / (2 sigma^2)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4), and later data may depend on earlier
rows. For every pair of streams the sum over rows is at most D^2 `squared_length` `squared_reach` / (2 sigma^2), where a
unit changes one window by at most D. So all rows together are rho-zCDP by adaptive composition.

How far a unit reaches. Let G = C^T C, and let a unit change m windows by v_s, each of length at most D. Entries of G
are at least 0, so |sum of C_s v_s|^2 is at most D^2 times the sum of G over pairs of these windows. Each window has at
most the m largest entries of its row of G in that sum. That gives m max_s (sum of the m largest entries of row s), and
never more than m^2 max_s G_ss. Brute force over all subsets finds at most 5 % more than needed, in sigma.
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
"""Up to here, all pairs of windows are looked at. Above, each pair counts like the largest."""
_ROUNDING_ERROR = 1 + 2.0**-40
_CHUNK = 512


class Bin(NamedTuple):
    """2**level windows in a row, and how much their sum counts.

    Attributes:
      level: 0 for a single window.
      place: its number on the level; its first window is place * 2**level.
      weight: a whole number above 0.
    """

    level: int
    place: int
    weight: int


@dataclasses.dataclass(frozen=True)
class RowMechanism(ABC):
    """Which rows there are over a number of windows, 2 to 2**17."""

    words: ClassVar[str]
    windows: int

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "windows", low=2, high=MAX_HORIZON)

    @property
    @abstractmethod
    def row_count(self) -> int:
        """The number of all rows."""

    @abstractmethod
    def first_row(self, window: int) -> int:
        """Return the number of the first row that comes out when a window closes; after the last window, all rows."""

    @abstractmethod
    def window_of(self, row: int) -> int:
        """Return the window that a row comes out with: the last one in it."""

    @abstractmethod
    def rows_of(self, window: int) -> Sequence[Sequence[Bin]]:
        """Return the bins of each row that comes out when a window closes, newest first."""

    @property
    @abstractmethod
    def gains(self) -> Sequence[int]:
        """What each window is multiplied by before anything else."""

    @property
    @abstractmethod
    def squared_length(self) -> int:
        """max_s G_ss: the squared change of all rows by a record, if it changes its window by 1."""

    def squared_reach(self, reached: int) -> Fraction:
        """Return the squared change of all rows by a unit in this many windows, over that of one: an upper bound."""
        _validate.whole(low=1, high=self.windows, reached=reached)
        if reached == 1:
            return Fraction(1)
        if self.windows > MAX_DENSE:
            return Fraction(reached**2)
        return min(Fraction(reached**2), Fraction(reached * _largest_sum(self, reached), self.squared_length))

    def pair_weights(self) -> np.ndarray | None:
        """Return G over its largest entry in units of 2**-PAIR_BITS, rounded up; `None` if all pairs count as 1.

        int64 of shape (windows, windows), read-only: how much the parts of a unit in two windows count together.
        """
        return None if self.windows > MAX_DENSE else _pair_weights(self)


def matrix_rows(mechanism: RowMechanism) -> Iterator[np.ndarray]:
    """Yield the rows of C, int64 of shape (windows,)."""
    gains = np.array(mechanism.gains, dtype=np.int64)
    for window in range(mechanism.windows):
        for bins in mechanism.rows_of(window):
            row = np.zeros(mechanism.windows, dtype=np.int64)
            for level, place, weight in bins:
                row[place << level : (place + 1) << level] = weight
            yield row * gains


@functools.lru_cache(maxsize=4)
def _gram(mechanism: RowMechanism) -> np.ndarray:
    """Return G, int64 of shape (windows, windows); entries below 2**52, so float64 adds them exactly."""
    assert mechanism.squared_length < 1 << 52
    total = np.zeros((mechanism.windows, mechanism.windows))
    rows = matrix_rows(mechanism)
    while chunk := list(itertools.islice(rows, _CHUNK)):
        block = np.array(chunk, dtype=np.float64)
        total += block.T @ block
    return total.astype(np.int64)


@functools.lru_cache(maxsize=4)
def _pair_weights(mechanism: RowMechanism) -> np.ndarray:
    most = 1 << PAIR_BITS  # no entry is above the largest of the diagonal, by Cauchy and Schwarz
    shares = _gram(mechanism) * (most / mechanism.squared_length * _ROUNDING_ERROR)
    weights = np.minimum(np.ceil(shares).astype(np.int64), most)
    weights.flags.writeable = False
    return weights


def _largest_sum(mechanism: RowMechanism, reached: int) -> int:
    gram = _gram(mechanism)
    return max(int(np.partition(row, -reached)[-reached:].sum()) for row in gram)
