"""The cumulative distribution of a fitted tree: monotone, between 0 and the total.

Guarantee: post-processing. Inside a node that was not opened weight is taken as spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_dpsketch.release.tree.least_squares import Nodes
from beam_dpsketch.release.tree.levels import TreeLevel
from beam_dpsketch.release.tree.variances import TreeVariances


class CumulativeTree:
    """Ranks by position, from a fitted tree.

    Args:
      levels: the levels of the tree.
      tree: its fitted nodes.
      size: the number of positions, U.
      total: the total weight, if it is public.
    """

    def __init__(self, levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, size: int, total: float | None) -> None:
        self._size = size
        starts, ends, weights = [], [], []
        for level, nodes in zip(levels, tree, strict=False):
            closed = ~nodes.opened
            first = nodes.ids[closed] << np.uint64(level.shift)
            last = np.minimum(first + np.uint64((1 << level.shift) - 1), np.uint64(size - 1))
            starts.append(first)
            ends.append(last)
            weights.append(nodes.fitted[closed])
        order = np.argsort(np.concatenate(starts), kind="stable")
        self._starts = np.concatenate(starts)[order]
        self._lengths = (np.concatenate(ends)[order] - self._starts).astype(np.float64) + 1
        self._fitted = np.append(0.0, np.cumsum(np.concatenate(weights)[order]))
        # The last value of an isotonic fit is never below, and so on average above, the sum that was fitted.
        top = max(0.0, self._fitted[-1]) if total is None else total
        self._cumulated = np.clip(isotonic(self._fitted), 0.0, top)
        self._cumulated[0], self._cumulated[-1] = 0.0, top
        self._variances = TreeVariances(levels, tree, known_total=total is not None)

    @property
    def total(self) -> float:
        """The weight of all positions."""
        return float(self._cumulated[-1])

    def rank(self, positions: np.ndarray) -> np.ndarray:
        """The weight at or below each position (uint64)."""
        return self._interpolated(self._cumulated, positions)

    def fitted_rank(self, positions: np.ndarray) -> np.ndarray:
        """The same before it is made monotone: what `rank_variance` and `range_variance` are the variances of."""
        return self._interpolated(self._fitted, positions)

    def position(self, ranks: np.ndarray) -> np.ndarray:
        """The first position whose rank is at least each given one; the last position if there is none."""
        node = np.searchsorted(self._cumulated[1:], ranks, side="left")
        node = np.minimum(node, len(self._starts) - 1)
        weight = self._cumulated[node + 1] - self._cumulated[node]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(weight > 0, (ranks - self._cumulated[node]) / weight, ranks > self._cumulated[node])
        steps = np.ceil(np.clip(share, 0.0, 1.0) * self._lengths[node]) - 1
        steps = np.clip(steps, 0, self._lengths[node] - 1)
        last = (self._lengths[node] - 1).astype(np.float64)
        whole = np.where(steps >= last, _whole(last), _whole(steps))
        return self._starts[node] + np.minimum(whole, np.uint64(self._size - 1) - self._starts[node])

    def rank_variance(self, positions: np.ndarray, *, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """The variance of fitted_rank(position) - total_share * total."""
        return self._variances.of_ranks(positions, total_share)

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The variance of fitted_rank(high) - fitted_rank(low), for low <= high."""
        return self._variances.of_ranges(low, high)

    def _interpolated(self, cumulated: np.ndarray, positions: np.ndarray) -> np.ndarray:
        node = np.searchsorted(self._starts, positions, side="right") - 1
        share = ((positions - self._starts[node]).astype(np.float64) + 1) / self._lengths[node]
        return cumulated[node] + share * (cumulated[node + 1] - cumulated[node])


def _whole(steps: np.ndarray) -> np.ndarray:
    """Floats from 0 to 2**64 as uint64, the highest for 2**64 itself."""
    return np.where(steps >= 2.0**64, np.uint64((1 << 64) - 1), np.minimum(steps, 2.0**64 - 2048).astype(np.uint64))


def isotonic(values: np.ndarray) -> np.ndarray:
    """The non-decreasing sequence nearest in squares (pool adjacent violators)."""
    sums: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        total, size = value, 1
        while sums and sums[-1] * size >= total * sizes[-1]:
            total += sums.pop()
            size += sizes.pop()
        sums.append(total)
        sizes.append(size)
    return np.repeat(np.array(sums) / np.array(sizes), sizes)
