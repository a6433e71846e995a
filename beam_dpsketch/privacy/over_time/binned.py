"""Two ways to make rows of windows: the binned square root, and the binary tree.

THE BINNED SQUARE ROOT: one noisy row for each window, with errors close to the best possible. The matrix that adds up
prefixes is the square of the lower triangular Toeplitz matrix of c_k = binom(2k, k) / 4^k. So rows y = C x + z with
that C, and prefixes C y, have nearly the least error that any mechanism has (Fichtenberger, Henzinger and Upadhyay
2023). But row t needs all windows before it. Here windows of similar age share a bin and the mean of their weights
(Andersson and Pagh 2024), so O(log T) sums are enough. Gains then make all columns about equally long: late windows are
in few rows, and the noise is that of the longest column.

Guarantee: `mechanism` says why all rows together are rho-zCDP. All numbers here are whole, so the sensitivity is that
of what is computed, rounding included.

Which bins. Row t covers windows 0 to t with aligned bins. Two halves join as soon as the younger one's end is 2^l
`ratio` windows back, where 2^l is the size of what they make. In units of Delta / sqrt(2 rho), prefixes have a
root-mean-square error of 3.01 at 1,024 windows; the least possible is 2.91, and the binary tree has 5.65.

THE BINARY TREE: a noisy row for each dyadic range of windows, as soon as its last window closes. A record is in one
node of each level. The windows of a unit add up in nodes that hold several of them: the most that m windows can do on a
level whose nodes have s windows is to fill m // s nodes and to put the rest into another. The first m windows do so on
all levels at once.

Sources: Chan, Shi and Song 2011 (the tree); Zhao et al., NeurIPS 2022, Appendix D (its sketches).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.factor.square_root import FRACTION_BITS, coefficients, gains_of
from beam_dpsketch.privacy.over_time.mechanism import MAX_DENSE, Bin, RowMechanism

_RATIO, _GAIN_BITS = 4, 8


@named("BinnedRoot")
@dataclasses.dataclass(frozen=True)
class BinnedRoot(RowMechanism):
    """The binned square root; row t comes out with window t.

    Args:
      windows: how many windows there are, 2 to 2**17.
      ratio: how many times its size a bin must be old, 1 to 16. More takes more memory and has less error.
      weight_bits: a window counts 2**weight_bits in its own row, 4 to 16.
      gain_bits: gains are in units of 2**-gain_bits, 2 to 8.
    """

    words = "the binned square root"
    ratio: int = _RATIO
    weight_bits: int = 12
    gain_bits: int = _GAIN_BITS

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.whole_fields(self, "ratio", low=1, high=16)
        _validate.whole_fields(self, "weight_bits", low=4, high=16)
        _validate.whole_fields(self, "gain_bits", low=2, high=8)

    @classmethod
    def over(cls, windows: int) -> BinnedRoot:
        """Return the mechanism with weights fine enough that rounding costs nothing."""
        return cls(windows, weight_bits=12 if windows <= MAX_DENSE else 16)

    @property
    def row_count(self) -> int:
        return self.windows

    def first_row(self, window: int) -> int:
        return window

    def window_of(self, row: int) -> int:
        return row

    def rows_of(self, window: int) -> Sequence[Sequence[Bin]]:
        weights = _weights(self)
        return [[Bin(level, place, int(weights[level][age])) for level, place, age in _bins(window, self.ratio)]]

    @property
    def gains(self) -> Sequence[int]:
        return _gains_and_length(self)[0]

    @property
    def squared_length(self) -> int:
        return _gains_and_length(self)[1]


def _bins(window: int, ratio: int) -> Iterator[tuple[int, int, int]]:
    """Yield level, place and age of the bins that cover windows 0 to `window`, newest first."""
    end = window + 1
    while end > 0:
        level, age = 0, window + 1 - end
        while end % (2 << level) == 0 and age >= ratio * (2 << level):
            level += 1
        yield level, (end >> level) - 1, age
        end -= 1 << level


@functools.lru_cache(maxsize=8)
def _weights(mechanism: BinnedRoot) -> list[np.ndarray]:
    """Return, for each level, the weight of a bin of each age: the mean of c over its windows, rounded; int64."""
    sums, weights = [0, *itertools.accumulate(coefficients(mechanism.windows))], []
    for level in range(mechanism.windows.bit_length()):
        size = 1 << level
        shift = FRACTION_BITS - mechanism.weight_bits + level
        ages = range(mechanism.windows - size + 1)
        oldest = min(len(ages), mechanism.ratio * 2 * size + size)  # by then it has joined a larger one
        means = [(sums[age + size] - sums[age] + (1 << (shift - 1))) >> shift for age in ages[:oldest]]
        weights.append(np.array(means, dtype=np.int64))
    return weights


@functools.lru_cache(maxsize=8)
def _gains_and_length(mechanism: BinnedRoot) -> tuple[tuple[int, ...], int]:
    """Return the gains, and the largest squared length of a column with its gain."""
    gains, length = gains_of(_squared_columns(mechanism), mechanism.gain_bits)
    return tuple(gains.tolist()), length


def _squared_columns(mechanism: BinnedRoot) -> np.ndarray:
    windows, total = mechanism.windows, np.zeros(mechanism.windows, dtype=np.int64)
    for level, weights in enumerate(_weights(mechanism)):
        size = 1 << level
        squares = np.append(0, np.cumsum(np.square(weights)))
        ends = np.arange(size, windows + 1, size)
        # A bin is used from the age at which its halves join until it joins its neighbour.
        youngest = mechanism.ratio * size if level else 0
        joined = 2 * mechanism.ratio * size + np.where((ends >> level) % 2, size, 0)
        beyond = np.minimum(windows - ends + 1, joined)
        of_bins = np.where(beyond > youngest, squares[beyond] - squares[np.minimum(youngest, beyond)], 0)
        total[: len(ends) * size] += np.repeat(of_bins, size)
    return total


@named("BinaryTree")
@dataclasses.dataclass(frozen=True)
class BinaryTree(RowMechanism):
    """All nodes of a binary tree that end within the windows; those that end with one window are in order of size."""

    words = "the binary tree"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.windows > MAX_DENSE:
            raise ArgumentError(
                "windows",
                f"must be at most {MAX_DENSE:,} with the binary tree, got {self.windows:,}: use fewer windows, or the "
                "binned mechanism, which has about half the error ($binned)",
                "E433",
            )

    @property
    def row_count(self) -> int:
        return self.first_row(self.windows)

    def first_row(self, window: int) -> int:
        return 2 * window - window.bit_count()

    def window_of(self, row: int) -> int:
        window = row // 2
        while self.first_row(window + 1) <= row:
            window += 1
        return window

    def rows_of(self, window: int) -> Sequence[Sequence[Bin]]:
        end = window + 1
        return [[Bin(level, (end >> level) - 1, 1)] for level in range((end & -end).bit_length())]

    @property
    def gains(self) -> Sequence[int]:
        return (1,) * self.windows

    @property
    def squared_length(self) -> int:
        return self.windows.bit_length()

    def squared_reach(self, reached: int) -> Fraction:
        """Return the squared change of all nodes by a unit in this many windows, over that of one; attained."""
        _validate.whole(low=1, high=self.windows, reached=reached)
        most = 0
        for level in range(self.windows.bit_length()):
            nodes = self.windows >> level
            full = min(reached >> level, nodes)
            rest = reached - (full << level) if full < nodes else 0
            most += (full << 2 * level) + rest**2
        return Fraction(most, self.squared_length)
