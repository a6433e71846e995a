"""Ranks as the paper computes them: the sum of the left siblings on the path, each as its level alone says.

Guarantee: unbiased for CountSketch levels, but neither monotone nor between 0 and the total, and noisier than the
fitted tree; kept for comparison with the paper. Source: Zhao et al., NeurIPS 2022, Algorithm 4, with x + 1 in place
of x so that rank(x) counts x itself, as the paper defines it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_dpsketch.release.tree.levels import TreeLevel


def plain_ranks(levels: Sequence[TreeLevel], positions: np.ndarray, *, size: int) -> np.ndarray:
    """The weight at or below each position (uint64), from left siblings."""
    ranks = np.zeros(len(positions))
    at_end = positions == np.uint64(size - 1)
    ends = np.where(at_end, np.uint64(0), positions + np.uint64(1))
    for level in levels:
        nodes = ends >> np.uint64(level.shift) if level.shift < 64 else np.zeros_like(ends)
        among = nodes & np.uint64((1 << level.bits) - 1)
        for sibling in range((1 << level.bits) - 1):
            right = np.flatnonzero(among > sibling)
            if len(right):
                left_siblings = nodes[right] - among[right] + np.uint64(sibling)
                ranks[right] += _estimates(level, left_siblings)
    ranks[at_end] = plain_total(levels)
    return ranks


def plain_total(levels: Sequence[TreeLevel]) -> float:
    """The sum of the nodes of the coarsest level."""
    return float(_estimates(levels[0], np.arange(levels[0].nodes, dtype=np.uint64)).sum())


def plain_positions(levels: Sequence[TreeLevel], ranks: np.ndarray, *, size: int) -> np.ndarray:
    """A position whose plain rank is at least each given one and that of the position before is not, by bisection."""
    low = np.zeros(len(ranks), dtype=np.uint64)
    high = np.full(len(ranks), size - 1, dtype=np.uint64)
    for _ in range((size - 1).bit_length()):
        middle = low + (high - low) // np.uint64(2)
        enough = plain_ranks(levels, middle, size=size) >= ranks
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + np.uint64(1), high))
    return high


def _estimates(level: TreeLevel, nodes: np.ndarray) -> np.ndarray:
    """Median of signed rows for CountSketch, minimum for Count-Min, the counter itself for an exact level."""
    rows = level.rows(nodes)
    return rows.min(axis=0) if level.sketch == "count_min" else np.median(rows, axis=0)
