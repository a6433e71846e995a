"""The cumulative distribution of a fitted tree, monotone and between 0 and the total, and the variances of its ranks.

Guarantee of variances: exact for independent node errors. A rank is a sum of node weights: on each level the nodes left
of the path to its position count fully, the node on the path in part. After the least-squares fit, how far siblings
deviate from their common share is independent from level to level, so the variances of these deviations add up along
the path. In a node that was not expanded, weight may sit anywhere; the variance if all of it sits in one place is
added.

Guarantee of ranks: post-processing. Inside a node that was not expanded, weight is taken as spread evenly. Bounds are
about normal; they cover noise and collisions, and always hold the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from beam_dpsketch.estimators.tree.least_squares import Nodes
from beam_dpsketch.estimators.tree.levels import TreeLevel, deviations_for


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
        self._known_total = known_total

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the variance of rank(position) - total_share * total."""
        path = _Path(positions)
        variance = np.zeros(len(positions))
        for level in reversed(self._levels[1:]):
            variance += path.enter(level)
            variance += path.climb(level, *path.sums(level))
        top = self._levels[0]
        variance += path.enter(top)
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


Bounds: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Estimates, lower and upper bounds, of equal shapes."""


class CumulativeTree:
    """Ranks by position, 0 to size - 1, from a fitted tree and the total weight if it is known."""

    def __init__(self, levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, size: int, total: float | None) -> None:
        self._size = size
        parts = []
        for level, nodes in zip(levels, tree, strict=False):
            closed = ~nodes.expanded
            first = nodes.ids[closed] << np.uint64(level.shift)
            last = np.minimum(first + np.uint64((1 << level.shift) - 1), np.uint64(size - 1))
            parts.append((first, (last - first).astype(np.float64) + 1, nodes.fitted[closed]))
        starts, lengths, weights = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(starts, kind="stable")
        self._starts, self._lengths = starts[order], lengths[order]
        self._fitted = np.append(0.0, np.cumsum(weights[order]))
        # The last value of an isotonic fit is never below, and so on average above, the sum that was fitted.
        top = max(0.0, self._fitted[-1]) if total is None else total
        self._cumulated = np.clip(isotonic(self._fitted), 0.0, top)
        self._cumulated[0], self._cumulated[-1] = 0.0, top
        self._known_total = total
        self.variances = TreeVariances(levels, tree, known_total=total is not None)

    @property
    def total(self) -> float:
        return float(self._cumulated[-1])

    def rank(self, positions: np.ndarray) -> np.ndarray:
        return self._interpolated(self._cumulated, positions)

    def fitted_rank(self, positions: np.ndarray) -> np.ndarray:
        """Return the same before it is made monotone: variances are about this."""
        return self._interpolated(self._fitted, positions)

    def position(self, ranks: np.ndarray) -> np.ndarray:
        node = np.searchsorted(self._cumulated[1:], ranks, side="left")
        node = np.minimum(node, len(self._starts) - 1)
        weight = self._cumulated[node + 1] - self._cumulated[node]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(weight > 0, (ranks - self._cumulated[node]) / weight, ranks > self._cumulated[node])
        steps = np.clip(np.ceil(np.clip(share, 0.0, 1.0) * self._lengths[node]) - 1, 0, self._lengths[node] - 1)
        return self._starts[node] + np.minimum(_whole(steps), np.uint64(self._size - 1) - self._starts[node])

    def total_bounds(self, confidence: float) -> Bounds:
        total, last = np.array([self.total]), np.array([self._size - 1], dtype=np.uint64)
        variance = self.variances.rank_variance(last) if self._known_total is None else np.zeros(1)
        margin = _margin(variance, confidence)
        return total, np.maximum(0.0, total - margin), total + margin

    def rank_bounds(self, positions: np.ndarray, confidence: float) -> Bounds:
        margin = _margin(self.variances.rank_variance(positions), confidence)
        top = np.inf if self._known_total is None else self._known_total
        return _clipped(self.rank(positions), margin, top, centre=self.fitted_rank(positions))

    def share_bounds(self, positions: np.ndarray, confidence: float) -> Bounds:
        share = share_of(self.rank(positions), self.total)
        margin = _margin(self.variances.rank_variance(positions, share), confidence) / max(self.total, 1.0)
        return _clipped(share, margin, 1.0)

    def position_bounds(self, shares: np.ndarray, confidence: float) -> Bounds:
        """Return the first positions whose ranks are these shares of the total, with bounds, as positions."""
        ranks = shares * self.total
        middle = self.position(ranks)

        # A lower value is the quantile if its rank is high enough, a higher one if the rank before it is too low.
        def margin(positions: np.ndarray) -> np.ndarray:
            return _margin(self.variances.rank_variance(positions, shares), confidence)

        below, above = margin(_before(middle)), margin(middle)
        lower, upper = self.position(np.maximum(ranks - below, 0.0)), self.position(ranks + above)
        # Ranks may be less certain where the bounds came to lie, as in a long flat tail, than at the estimate.
        below, above = np.maximum(below, margin(_before(lower))), np.maximum(above, margin(upper))
        return middle, self.position(np.maximum(ranks - below, 0.0)), self.position(ranks + above)

    def range_bounds(self, low: np.ndarray, high: np.ndarray, confidence: float) -> Bounds:
        ranges = self.variances.range_variance(np.minimum(_before(low), high), high)
        margin = _margin(np.where(low == 0, self.variances.rank_variance(high), ranges), confidence)
        centre = weight_between(self.fitted_rank, low, high)
        return _clipped(weight_between(self.rank, low, high), margin, np.inf, centre=centre)

    def _interpolated(self, cumulated: np.ndarray, positions: np.ndarray) -> np.ndarray:
        node = np.searchsorted(self._starts, positions, side="right") - 1
        share = ((positions - self._starts[node]).astype(np.float64) + 1) / self._lengths[node]
        return cumulated[node] + share * (cumulated[node + 1] - cumulated[node])


def share_of(ranks: np.ndarray, total: float) -> np.ndarray:
    """Return ranks divided by the total, in [0, 1]; 1 where the total is 0."""
    return np.clip(ranks / total, 0.0, 1.0) if total > 0 else np.ones(len(ranks))


def weight_between(rank: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the weight from low to high, both included, from ranks by position; 0 where low is above high."""
    below = np.where(low == 0, 0.0, rank(_before(low)))
    return np.where(high >= low, rank(high) - below, 0.0)


def _before(positions: np.ndarray) -> np.ndarray:
    return positions - np.minimum(positions, np.uint64(1))


def _margin(variance: np.ndarray, confidence: float) -> np.ndarray:
    return deviations_for(confidence) * np.sqrt(np.maximum(variance, 0.0))


def _clipped(middle: np.ndarray, margin: np.ndarray, top: float, centre: np.ndarray | None = None) -> Bounds:
    """Return estimates with bounds in [0, top], around a better centre if given, between which the estimates lie."""
    centre = middle if centre is None else centre
    lower, upper = np.minimum(centre - margin, middle), np.maximum(centre + margin, middle)
    return middle, np.clip(lower, 0.0, top), np.clip(upper, 0.0, top)


def _whole(steps: np.ndarray) -> np.ndarray:
    """Return floats from 0 to 2**64 as uint64, the highest for 2**64 itself."""
    return np.where(steps >= 2.0**64, np.uint64((1 << 64) - 1), np.minimum(steps, 2.0**64 - 2048).astype(np.uint64))


def isotonic(values: np.ndarray) -> np.ndarray:
    """Return the non-decreasing sequence nearest in squares (pool adjacent violators)."""
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
