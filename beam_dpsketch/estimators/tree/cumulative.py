"""The cumulative distribution of a fitted tree, and the variances of its ranks.

Guarantee of variances: exact for independent node errors. A rank is a sum of node weights: on each level the nodes left
of the path to its position count fully, the node on the path in part. After the least-squares fit, how far siblings
deviate from their common share is independent from level to level, so the variances of these deviations add up along
the path. In a node that was not expanded, weight may sit anywhere; the variance if all of it sits in one place is
added. Where the coarsest level is a factor, its node errors depend on each other: `PartialRanks` has their sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_dpsketch.estimators.ranks import Ranks
from beam_dpsketch.estimators.tree.least_squares import Nodes
from beam_dpsketch.estimators.tree.levels import TreeLevel


class _Siblings:
    """The nodes of one level, with their variances and the groups that share a parent."""

    def __init__(self, level: TreeLevel, nodes: Nodes) -> None:
        self.ids, self.shift, self.weight, self.variance = nodes.ids, level.shift, nodes.fitted, nodes.upward_variance
        self.cumulated = np.append(0.0, np.cumsum(self.variance))
        starts = np.flatnonzero(np.append(True, nodes.parents[1:] != nodes.parents[:-1]))
        sizes = np.diff(np.append(starts, len(nodes.ids)))
        self.group_start, self.group_end = np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)

    def group(self, node: np.ndarray) -> np.ndarray:
        return self.cumulated[self.group_end[node]] - self.cumulated[self.group_start[node]]

    def left(self, node: np.ndarray) -> np.ndarray:
        return self.cumulated[node] - self.cumulated[self.group_start[node]]

    def spread(self, node: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return the variance of a part of a node that was not expanded, if all its weight may sit in one place."""
        return np.clip(part * (1 - part), 0.0, None) * np.maximum(self.weight[node], 0.0) ** 2


class TreeVariances:
    """Variances of sums of node weights, from the fitted nodes of each level."""

    def __init__(self, levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, known_total: bool) -> None:
        self._levels = [_Siblings(level, nodes) for level, nodes in zip(levels, tree, strict=False)]
        self._joint, self._known_total = levels[0].joint_variances(known_total=known_total), known_total

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the variance of rank(position) - total_share * total."""
        path = _Path(positions)
        variance = np.zeros(len(positions))
        for level in reversed(self._levels[1:]):
            variance += path.enter(level)
            variance += path.climb(level, *path.sums(level))
        top = self._levels[0]
        variance += path.enter(top)
        if self._joint is not None:
            return variance + self._joint.rank_variance(path.node, path.part, total_share)
        return variance + self._top_variance(*path.sums(top), total_share)

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the variance of rank(high) - rank(low), for low <= high; the two paths meet somewhere."""
        lower, upper = _Path(low), _Path(high)
        variance = np.zeros(len(high))
        for level in reversed(self._levels[1:]):
            variance += _entered_between(level, lower, upper)
            together = lower.meets(upper, level)
            first, second = _sums_between(level, lower, upper)
            joint = second - first**2 / level.group(upper.node)
            apart = lower.climb(level, *lower.sums(level)) + upper.climb(level, *upper.sums(level))
            variance += np.where(together, joint, apart)
            upper.part = np.where(together, first / level.group(upper.node), upper.part)
            lower.part = np.where(together, 0.0, lower.part)
        top = self._levels[0]
        variance += _entered_between(top, lower, upper)
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

    def __init__(self, positions: np.ndarray) -> None:
        self._positions = positions
        self._begun = np.zeros(len(positions), dtype=bool)
        self.begins = self._begun
        self.part = np.zeros(len(positions))
        self.node = np.zeros(len(positions), dtype=np.int64)

    def enter(self, level: _Siblings) -> np.ndarray:
        """Move up to a level; return the variance from weight inside the node where a path begins."""
        ids = self._positions >> np.uint64(level.shift) if level.shift < 64 else np.zeros_like(self._positions)
        self.node = np.minimum(np.searchsorted(level.ids, ids), len(level.ids) - 1)
        here = level.ids[self.node] == ids
        self.begins = here & ~self._begun
        self._begun = self._begun | here
        inside = self._positions - (ids << np.uint64(level.shift) if level.shift < 64 else ids)
        self.part = np.where(self.begins, (inside.astype(np.float64) + 1) / 2.0**level.shift, self.part)
        return np.where(self.begins, level.spread(self.node, self.part), 0.0)

    def sums(self, level: _Siblings) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of coefficient * variance and coefficient^2 * variance over the siblings."""
        variance, left = level.variance[self.node], level.left(self.node)
        return left + self.part * variance, left + self.part**2 * variance

    def climb(self, level: _Siblings, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Return the variance of the deviations on this level; the parent counts with the mean coefficient."""
        group = level.group(self.node)
        self.part = np.where(self._begun, first / group, self.part)
        return np.where(self._begun, second - first**2 / group, 0.0)

    def meets(self, other: _Path, level: _Siblings) -> np.ndarray:
        return self._begun & other._begun & (level.group_start[self.node] == level.group_start[other.node])


def _entered_between(level: _Siblings, lower: _Path, upper: _Path) -> np.ndarray:
    apart = lower.enter(level) + upper.enter(level)
    together = lower.begins & upper.begins & (lower.node == upper.node)
    return np.where(together, level.spread(upper.node, upper.part - lower.part), apart)


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
            parts.append((first, (last - first).astype(np.float64) + 1, nodes.fitted[closed]))
        pieces = [np.concatenate(each) for each in zip(*parts, strict=True)]
        order = np.argsort(pieces[0], kind="stable")
        variances = TreeVariances(levels, tree, known_total=total is not None)
        super().__init__(*(each[order] for each in pieces), size=size, total=total, variances=variances)
