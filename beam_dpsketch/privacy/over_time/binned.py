"""Two mechanisms over windows: the binned square root, and the binary tree.

THE BINNED SQUARE ROOT: a noisy row for each window, with errors close to the optimum. The matrix that adds up prefixes
is the square of the lower triangular Toeplitz matrix with c_k = binom(2k, k) / 4^k. Hence rows y = C x + z with that C,
and prefixes C y, have almost the least error of any mechanism (Fichtenberger, Henzinger and Upadhyay 2023). But row t
needs all windows before it. Here windows of similar age share a bin and their mean weight (Andersson and Pagh 2024) so
that O(log T) sums suffice. Gains then make all columns about equally long: late windows are in few rows, and the noise
is calibrated to the longest column.

Guarantee: `mechanism` proves that all rows together are rho-zCDP. All numbers here are whole, hence the sensitivity
covers the computed rows, rounding included.

Bins. Row t covers windows 0 to t with aligned bins. Two halves join as soon as the younger half's end is 2^l `ratio`
windows back, where 2^l is the size of the joined bin. In units of Delta / sqrt(2 rho), prefixes have a root-mean-square
error of 3.01 at 1,024 windows. The least possible is 2.91, and the binary tree has 5.65.

THE BINARY TREE: a noisy row for each dyadic range of windows, as soon as its last window closes. A record is in one
node per level. The windows of a unit add up in nodes that contain several of them. On a level whose nodes have s
windows, m windows can at most fill m // s nodes and put the rest into another node. The first m windows do so on every
level.

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
    """Binned square root. Row t is released with window t.

    Args:
      windows: window count, 2 to 2**17.
      ratio: least age of a bin, as a multiple of its size, 1 to 16. A larger ratio uses more memory and has less error.
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
        """Build the mechanism with weights fine enough that rounding is negligible."""
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
    """Compute, for each level, the weight of a bin at each age: the mean of c over its windows, rounded, int64."""
    sums, weights = [0, *itertools.accumulate(coefficients(mechanism.windows))], []
    for level in range(mechanism.windows.bit_length()):
        size = 1 << level
        shift = FRACTION_BITS - mechanism.weight_bits + level
        ages = range(mechanism.windows - size + 1)
        oldest = min(len(ages), mechanism.ratio * 2 * size + size)  # by then it has joined a larger bin
        means = [(sums[age + size] - sums[age] + (1 << (shift - 1))) >> shift for age in ages[:oldest]]
        weights.append(np.array(means, dtype=np.int64))
    return weights


@functools.lru_cache(maxsize=8)
def _gains_and_length(mechanism: BinnedRoot) -> tuple[tuple[int, ...], int]:
    gains, length = gains_of(_squared_columns(mechanism), mechanism.gain_bits)
    return tuple(gains.tolist()), length


def _squared_columns(mechanism: BinnedRoot) -> np.ndarray:
    windows, total = mechanism.windows, np.zeros(mechanism.windows, dtype=np.int64)
    for level, weights in enumerate(_weights(mechanism)):
        size = 1 << level
        squares = np.append(0, np.cumsum(np.square(weights)))
        ends = np.arange(size, windows + 1, size)
        # A bin is used from the age at which its halves join until it joins its neighbor.
        youngest = mechanism.ratio * size if level else 0
        joined = 2 * mechanism.ratio * size + np.where((ends >> level) % 2, size, 0)
        beyond = np.minimum(windows - ends + 1, joined)
        of_bins = np.where(beyond > youngest, squares[beyond] - squares[np.minimum(youngest, beyond)], 0)
        total[: len(ends) * size] += np.repeat(of_bins, size)
    return total


@named("BinaryTree")
@dataclasses.dataclass(frozen=True)
class BinaryTree(RowMechanism):
    """All nodes in a binary tree that end within the windows. Nodes with the same last window are ordered by size."""

    words = "the binary tree"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.windows > MAX_DENSE:
            raise ArgumentError(
                "windows",
                f"must be at most {MAX_DENSE:,} with the binary tree, got {self.windows:,}. Use fewer windows, or "
                "$binned, which has about half the error",
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
        """Compute the squared change of all nodes by a unit in this many windows, relative to one (attained)."""
        _validate.whole(low=1, high=self.windows, reached=reached)
        most = 0
        for level in range(self.windows.bit_length()):
            nodes = self.windows >> level
            full = min(reached >> level, nodes)
            rest = reached - (full << level) if full < nodes else 0
            most += (full << 2 * level) + rest**2
        return Fraction(most, self.squared_length)
