"""Ranks as the paper computes them: the sum of the left siblings on the path, each as its level alone says.

Guarantee: unbiased for CountSketch levels, but neither monotone nor between 0 and the total, and noisier than the
fitted tree; kept for comparison with the paper. Source: Zhao et al., NeurIPS 2022, Algorithm 4, with x + 1 in place
of x so that rank(x) counts x itself, as the paper defines it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_dpsketch.estimators.tree.levels import TreeLevel


class PaperTree:
    """Ranks by position, 0 to size - 1, from the levels of a tree, each on its own."""

    def __init__(self, levels: Sequence[TreeLevel], *, size: int, total: float | None) -> None:
        self._levels, self._size = levels, size
        self._estimated = float(_estimates(levels[0], np.arange(levels[0].nodes, dtype=np.uint64)).sum())
        self.total = self._estimated if total is None else total

    def rank(self, positions: np.ndarray) -> np.ndarray:
        """Return the weight at or below each position (uint64), from left siblings."""
        ranks = np.zeros(len(positions))
        at_end = positions == np.uint64(self._size - 1)
        ends = np.where(at_end, np.uint64(0), positions + np.uint64(1))
        for level in self._levels:
            nodes = ends >> np.uint64(level.shift) if level.shift < 64 else np.zeros_like(ends)
            among = nodes & np.uint64((1 << level.bits) - 1)
            for sibling in range((1 << level.bits) - 1):
                right = np.flatnonzero(among > sibling)
                if len(right):
                    left_siblings = nodes[right] - among[right] + np.uint64(sibling)
                    ranks[right] += _estimates(level, left_siblings)
        ranks[at_end] = self._estimated
        return ranks

    def position(self, ranks: np.ndarray) -> np.ndarray:
        """Return a position whose rank is at least each given one and that of the position before is not."""
        low = np.zeros(len(ranks), dtype=np.uint64)
        high = np.full(len(ranks), self._size - 1, dtype=np.uint64)
        for _ in range((self._size - 1).bit_length()):
            middle = low + (high - low) // np.uint64(2)
            enough = self.rank(middle) >= ranks
            high = np.where(enough, middle, high)
            low = np.where(enough, low, np.minimum(middle + np.uint64(1), high))
        return high


def _estimates(level: TreeLevel, nodes: np.ndarray) -> np.ndarray:
    """Return the median of signed rows for CountSketch, the minimum for Count-Min, the counter of an exact level."""
    rows = level.rows(nodes)
    return rows.min(axis=0) if level.sketch == "count_min" else np.median(rows, axis=0)
