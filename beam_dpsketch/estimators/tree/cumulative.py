"""The cumulative distribution of a fitted tree, the variances of its ranks, and bounds where it ends above the leaves.

Guarantee of variances: exact for independent node errors. A rank is a sum of node weights: on each level the nodes left
of the path to its position count fully, the node on the path in part. After the least-squares fit, how far siblings
deviate from their common share is independent from level to level, so the variances of these deviations add up along
the path. Where the coarsest level is a factor, its node errors depend on each other: `PartialRanks` has their sums.

VALUES INSIDE A NODE that was not expanded. The leaves below it were not read: their noise and their hashes took no part
in leaving it whole. So given all that was read, what a leaf says is unbiased, with the variance of its level. The node
is an upper bound too, as it weighs what the value weighs, or more. But it was left whole for its own low reading, and a
node on each level above might have been. So it counts as the lowest reading of all levels, each with its part of the
probability. Of both bounds, the one is used that is expected to be lower, given what was read.

The weight of a value there is the likeliest one from 0 to the weight of the node, given what both say: that of the
leaf, or where this is more than the node, their mean by inverse variance (Robertson, Wright and Dykstra 1988).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from beam_dpsketch.estimators.presence import deviations_for
from beam_dpsketch.estimators.ranks import Bounds, Ranks
from beam_dpsketch.estimators.tree.least_squares import Nodes
from beam_dpsketch.estimators.tree.levels import TreeLevel


class _Siblings:
    """The nodes of one level, with their variances and the groups that share a parent."""

    def __init__(self, level: TreeLevel, nodes: Nodes) -> None:
        self.ids, self.shift, self.variance = nodes.ids, level.shift, nodes.upward_variance
        self.cumulated = np.append(0.0, np.cumsum(self.variance))
        starts = np.flatnonzero(np.append(True, nodes.parents[1:] != nodes.parents[:-1]))
        sizes = np.diff(np.append(starts, len(nodes.ids)))
        self.group_start, self.group_end = np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)

    def group(self, node: np.ndarray) -> np.ndarray:
        return self.cumulated[self.group_end[node]] - self.cumulated[self.group_start[node]]

    def left(self, node: np.ndarray) -> np.ndarray:
        return self.cumulated[node] - self.cumulated[self.group_start[node]]


class TreeVariances:
    """Variances of sums of node weights, from the fitted nodes of each level."""

    def __init__(self, levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, size: int, known_total: bool) -> None:
        self._last = np.uint64(size - 1)
        self._levels = [_Siblings(level, nodes) for level, nodes in zip(levels, tree, strict=False)]
        self._joint, self._known_total = levels[0].joint_variances(known_total=known_total), known_total

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the variance of rank(position) - total_share * total."""
        path = _Path(positions, self._last)
        variance = np.zeros(len(positions))
        for level in reversed(self._levels[1:]):
            variance += path.enter(level).climb(level)
        top, path = self._levels[0], path.enter(self._levels[0])
        if self._joint is not None:
            return variance + self._joint.rank_variance(path.node, path.part, total_share)
        return variance + self._top_variance(*path.sums(top), total_share)

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the variance of rank(high) - rank(low), for low <= high; the two paths meet somewhere."""
        lower, upper = _Path(low, self._last), _Path(high, self._last)
        variance = np.zeros(len(high))
        for level in reversed(self._levels[1:]):
            together = lower.enter(level).meets(upper.enter(level), level)
            first, second = _sums_between(level, lower, upper)
            joint = second - first**2 / level.group(upper.node)
            variance += np.where(together, joint, lower.climb(level) + upper.climb(level))
            upper.part = np.where(together, first / level.group(upper.node), upper.part)
            lower.part = np.where(together, 0.0, lower.part)
        top = self._levels[0]
        lower, upper = lower.enter(top), upper.enter(top)
        if self._joint is not None:
            return variance + self._joint.range_variance(lower.node, lower.part, upper.node, upper.part)
        return variance + self._top_variance(*_sums_between(top, lower, upper), 0.0)

    def _top_variance(self, first: np.ndarray, second: np.ndarray, total_share: np.ndarray | float) -> np.ndarray:
        """Return the part of the coarsest level, whose nodes sum to the total."""
        everything = self._levels[0].cumulated[-1]
        if self._known_total:
            return second - first**2 / everything
        return second - 2 * total_share * first + total_share**2 * everything


class _Path:
    """The way from positions to the root, and how much of each node on it is counted."""

    def __init__(self, positions: np.ndarray, last: np.uint64) -> None:
        self._positions, self._last = positions, last
        self._begun = np.zeros(len(positions), dtype=bool)
        self.part = np.zeros(len(positions))
        self.node = np.zeros(len(positions), dtype=np.int64)

    def enter(self, level: _Siblings) -> _Path:
        """Move up to a level, where the paths of positions in its closed nodes begin; the last one may be cut off."""
        ids = self._positions >> np.uint64(level.shift) if level.shift < 64 else np.zeros_like(self._positions)
        self.node = np.minimum(np.searchsorted(level.ids, ids), len(level.ids) - 1)
        here = level.ids[self.node] == ids
        begins = here & ~self._begun
        self._begun = self._begun | here
        starts = ids << np.uint64(level.shift) if level.shift < 64 else ids
        length = np.minimum(self._last - starts, np.uint64((1 << level.shift) - 1)).astype(np.float64) + 1
        self.part = np.where(begins, ((self._positions - starts).astype(np.float64) + 1) / length, self.part)
        return self

    def sums(self, level: _Siblings) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of coefficient * variance and coefficient^2 * variance over the siblings."""
        variance, left = level.variance[self.node], level.left(self.node)
        return left + self.part * variance, left + self.part**2 * variance

    def climb(self, level: _Siblings) -> np.ndarray:
        """Return the variance of the deviations on this level; the parent counts with the mean coefficient."""
        (first, second), group = self.sums(level), level.group(self.node)
        self.part = np.where(self._begun, first / group, self.part)
        return np.where(self._begun, second - first**2 / group, 0.0)

    def meets(self, other: _Path, level: _Siblings) -> np.ndarray:
        return self._begun & other._begun & (level.group_start[self.node] == level.group_start[other.node])


def _sums_between(level: _Siblings, lower: _Path, upper: _Path) -> tuple[np.ndarray, np.ndarray]:
    same = upper.node == lower.node
    high, low = level.variance[upper.node], level.variance[lower.node]
    between = level.cumulated[upper.node] - level.cumulated[np.minimum(lower.node + 1, upper.node)]
    difference, rest = upper.part - lower.part, 1 - lower.part
    first = np.where(same, difference * high, rest * low + between + upper.part * high)
    second = np.where(same, difference**2 * high, rest**2 * low + between + upper.part**2 * high)
    return first, second


class CumulativeTree(Ranks):
    """Ranks from a fitted tree and the total weight if it is known; the pieces are the nodes without children."""

    def __init__(self, levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, size: int, total: float | None) -> None:
        parts = []
        for level, nodes in zip(levels, tree, strict=False):
            closed = ~nodes.expanded
            first = nodes.ids[closed] << np.uint64(level.shift)
            last = np.minimum(first + np.uint64((1 << level.shift) - 1), np.uint64(size - 1))
            lengths = (last - first).astype(np.float64) + 1
            parts.append((first, lengths, nodes.fitted[closed], nodes.upward_variance[closed]))
        joined = [np.concatenate(each) for each in zip(*parts, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        *pieces, self._node_variances = (each[order] for each in joined)
        self._leaves, self._level_count = levels[-1], len(levels)
        variances = TreeVariances(levels, tree, size=size, known_total=total is not None)
        noise, step = self._leaves.noise, self._leaves.step
        super().__init__(*pieces, size=size, total=total, variances=variances, noise=noise, step=step)

    def range_bounds(self, low: np.ndarray, high: np.ndarray, confidence: float) -> Bounds:
        middle, lower, upper = super().range_bounds(low, high, confidence)
        inside, around, variance = self._nodes_around(low)
        margin = deviations_for(confidence) * math.sqrt(self._leaf_variance)
        is_closer = margin < around + self.deviations_inside(confidence) * np.sqrt(variance)
        values = inside[is_closer & (low == high)[inside]]
        own = self._leaves.estimates(low[values])
        lower[values], upper[values] = own - margin, own + margin
        return self._within(middle, lower, upper)

    def weights(self, positions: np.ndarray) -> np.ndarray:
        found, (inside, around, variance) = super().weights(positions), self._nodes_around(positions)
        own = self._leaves.estimates(positions[inside])
        pooled = (around * self._leaf_variance + own * variance) / (self._leaf_variance + variance)
        found[inside] = np.maximum(np.where(own > around, pooled, own), 0.0)
        return found

    def _nodes_around(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return which positions are inside a closed node, and the weights and the variances of these nodes."""
        piece = self.piece(positions)
        inside = np.flatnonzero(self._lengths[piece] > 1)
        node = piece[inside]
        return inside, np.maximum(self._weights[node], 0.0), self._node_variances[node]

    @functools.cached_property
    def _leaf_variance(self) -> float:
        return self._leaves.variance()

    def deviations_inside(self, confidence: float) -> float:
        return NormalDist().inv_cdf(1 - (1 - confidence) / self._level_count)
