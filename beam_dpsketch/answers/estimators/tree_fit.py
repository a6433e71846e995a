"""Fits for a tree of sketches as one distribution, their choice, and ranks with their variances.

Guarantee: post-processing, and a function only of the release and a known total.

LEAST SQUARES make node estimates agree with each other, in a truncated tree. From the root, a node is expanded only if
its estimate exceeds the noise threshold. On the nodes reached, two passes, bottom-up and top-down (Hay et al. 2010),
compute the best linear unbiased estimate under "a node is the sum of its children", with the levels' own variances.
Source: truncation as in Luo et al. 2016 (post-processing of turnstile quantile sketches), adapted to noise with known
variance.

RANKS OF THE PAPER are the sum of the left siblings on the path, each from its level alone. They are unbiased for
CountSketch levels, but neither monotone nor between 0 and the total, and noisier than the fitted tree. They remain for
comparison with the paper. Source: Zhao et al., NeurIPS 2022, Algorithm 4, with x + 1 in place of x so that rank(x)
counts x itself, as the paper defines it.

VARIANCES OF RANKS are exact for independent node errors. A rank is a sum of node weights: on each level the nodes left
of the path to its position count fully, and the node on the path in part. After the least-squares fit, siblings'
deviations from their common share are independent between levels, so their variances add up along the path. If the
coarsest level is a factorization, its node errors depend on each other, and `PartialRanks` has their sums.

VALUES INSIDE AN UNEXPANDED NODE. The leaves below it were not read: their noise and their hashes had no influence on
the decision. Given all that was read, a leaf estimate is therefore unbiased, with the variance of its level. The node
is an upper bound too, because it weighs at least as much as the value. But it was left whole because its own reading is
low, and the same is possible for a node on each level above. Therefore it counts as the lowest reading of all levels,
each with its part of the probability. Among both bounds, the one with the lower expectation given the readings is used.

The weight of a value there is the likeliest weight between 0 and the node's weight, given both estimates: the leaf's,
or if this exceeds the node's, their mean by inverse variance (Robertson, Wright and Dykstra 1988).

RESIDUAL ROUNDS are the other fit. A round subtracts known heavy nodes from the counters and estimates the rest again.
Convergence is not proved, so each level accepts a round only if the energy in its residual counters falls. A level
subtracts only nodes that are more than three deviations of their fitted weight above zero, and at most an eighth as
many as it has counters. Rounds end when no level's energy falls.

The chosen fit has the smaller predicted rank variance, on average over evenly spaced ranks. These are the variances
behind the error bars, read from each fit's own counters, so they include noise and the remaining collisions.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np

from beam_dpsketch.answers.estimators.presence import deviations_for
from beam_dpsketch.answers.estimators.ranks import Bounds, Ranks
from beam_dpsketch.answers.estimators.row_mean import median_of_rows
from beam_dpsketch.answers.estimators.tree_levels import TreeLevel

EXPANSION_DEVIATIONS = 2.0
MAX_NODES = 200_000


@dataclasses.dataclass
class Nodes:
    """The nodes reached on a level, in order, as equally long arrays."""

    ids: np.ndarray  # node numbers, uint64, ascending
    parents: np.ndarray  # index of the parent on the level above
    expanded: np.ndarray  # whether the children were reached
    raw: np.ndarray  # the level's own estimates, before fitting
    raw_variance: float
    upward: np.ndarray  # estimates from the node and all below it
    upward_variance: np.ndarray
    fitted: np.ndarray  # final estimates


def fitted_tree(levels: Sequence[TreeLevel], *, total: float | None = None) -> list[Nodes]:
    """Fit the nodes reached on each level so that they agree with each other and with a known total."""
    tree = _reached(levels)
    _fit_upward(tree[1:] if levels[0].is_settled else tree)
    top = tree[0]
    top.fitted = top.upward.copy() if total is None else levels[0].given_total(top.upward, top.upward_variance, total)
    _fit_downward(tree)
    return tree


def _reached(levels: Sequence[TreeLevel]) -> list[Nodes]:
    tree: list[Nodes] = []
    ids = np.arange(levels[0].nodes, dtype=np.uint64)
    parents = np.zeros(len(ids), dtype=np.int64)
    for level, below in itertools.zip_longest(levels, levels[1:]):
        raw, variance, blank = level.estimates(ids), level.variance(), np.zeros(len(ids))
        expanded = _worth_expanding(raw, variance, below) if below else blank.astype(bool)
        tree.append(Nodes(ids, parents, expanded, raw, variance, raw.copy(), np.full(len(ids), variance), blank))
        if not expanded.any():
            break
        ids = children_of(ids[expanded], below)
        parents = np.repeat(np.flatnonzero(expanded), 1 << below.bits)
        inside = ids <= np.uint64(below.nodes - 1)
        ids, parents = ids[inside], parents[inside]
    return tree


def _worth_expanding(raw: np.ndarray, variance: float, below: TreeLevel) -> np.ndarray:
    return heaviest(raw, raw > EXPANSION_DEVIATIONS * math.sqrt(variance), below, MAX_NODES)


def heaviest(weights: np.ndarray, wanted: np.ndarray, below: TreeLevel, limit: int) -> np.ndarray:
    """Select the heaviest wanted nodes for expansion, with about `limit` children on the level below.

    A single node may have more children, if its level is wide.
    """
    count = max(1, limit >> below.bits)
    if wanted.sum() <= count:
        return wanted
    kept = np.zeros(len(wanted), dtype=bool)
    kept[np.argsort(np.where(wanted, -weights, np.inf), kind="stable")[:count]] = True
    return kept


def children_of(nodes: np.ndarray, below: TreeLevel) -> np.ndarray:
    """List each node's children on the level below, ascending if the nodes are."""
    if not len(nodes):
        return nodes
    return ((nodes << np.uint64(below.bits))[:, None] + np.arange(1 << below.bits, dtype=np.uint64)).ravel()


def _fit_upward(tree: list[Nodes]) -> None:
    """Average each expanded node's own estimate with the sum of its children's, by inverse variance."""
    for below, above in itertools.pairwise(reversed(tree)):
        size = len(above.ids)
        sums = np.bincount(below.parents, weights=below.upward, minlength=size)[above.expanded]
        variances = np.bincount(below.parents, weights=below.upward_variance, minlength=size)[above.expanded]
        own, children = 1 / above.raw_variance, 1 / variances
        above.upward[above.expanded] = (own * above.raw[above.expanded] + children * sums) / (own + children)
        above.upward_variance[above.expanded] = 1 / (own + children)


def _fit_downward(tree: list[Nodes]) -> None:
    """Distribute the difference between a node and its children among them, by variance."""
    for above, below in itertools.pairwise(tree):
        size = len(above.ids)
        sums = np.bincount(below.parents, weights=below.upward, minlength=size)
        variances = np.bincount(below.parents, weights=below.upward_variance, minlength=size)
        missing = np.zeros(size)
        missing[above.expanded] = (above.fitted - sums)[above.expanded] / variances[above.expanded]
        below.fitted = below.upward + below.upward_variance * missing[below.parents]


class PaperTree:
    """Ranks by position, 0 to size - 1, from each level alone."""

    def __init__(self, levels: Sequence[TreeLevel], *, size: int, total: float | None) -> None:
        self._levels, self._size = levels, size
        weights = _estimates(levels[0], np.arange(levels[0].nodes, dtype=np.uint64))
        self._cumulated = np.append(0.0, np.cumsum(weights))
        self.total = float(self._cumulated[-1]) if total is None else total

    def rank(self, positions: np.ndarray) -> np.ndarray:
        at_end = positions == np.uint64(self._size - 1)
        ends = np.where(at_end, np.uint64(0), positions + np.uint64(1))
        ranks = self._cumulated[self._levels[0].nodes_of(ends).astype(np.int64)]
        for level in self._levels[1:]:
            nodes = ends >> np.uint64(level.shift) if level.shift < 64 else np.zeros_like(ends)
            among = nodes & np.uint64((1 << level.bits) - 1)
            for sibling in range((1 << level.bits) - 1):
                right = np.flatnonzero(among > sibling)
                if len(right):
                    left_siblings = nodes[right] - among[right] + np.uint64(sibling)
                    ranks[right] += _estimates(level, left_siblings)
        ranks[at_end] = self._cumulated[-1]
        return ranks

    def position(self, ranks: np.ndarray) -> np.ndarray:
        low = np.zeros(len(ranks), dtype=np.uint64)
        high = np.full(len(ranks), self._size - 1, dtype=np.uint64)
        for _ in range((self._size - 1).bit_length()):
            middle = low + (high - low) // np.uint64(2)
            enough = self.rank(middle) >= ranks
            high = np.where(enough, middle, high)
            low = np.where(enough, low, np.minimum(middle + np.uint64(1), high))
        return high


def _estimates(level: TreeLevel, nodes: np.ndarray) -> np.ndarray:
    """Compute the median of signed rows for CountSketch, the minimum for Count-Min, the counter on an exact level."""
    rows = level.rows(nodes)
    return rows.min(axis=0) if level.sketch == "count_min" else median_of_rows(rows)


class _Siblings:
    """The nodes on a level, with their variances and the groups that share a parent."""

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
    """Variances of sums of node weights, from the fitted nodes on each level."""

    def __init__(self, levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, size: int, known_total: bool) -> None:
        self._last = np.uint64(size - 1)
        self._levels = [_Siblings(level, nodes) for level, nodes in zip(levels, tree, strict=False)]
        self._joint, self._known_total = levels[0].joint_variances(known_total=known_total), known_total

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Compute Var(rank(position) - total_share * total)."""
        path = _Path(positions, self._last)
        variance = np.zeros(len(positions))
        for level in reversed(self._levels[1:]):
            variance += path.enter(level).climb(level)
        top, path = self._levels[0], path.enter(self._levels[0])
        if self._joint is not None:
            return variance + self._joint.rank_variance(path.node, path.part, total_share)
        return variance + self._top_variance(*path.sums(top), total_share)

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Compute Var(rank(high) - rank(low)), for low <= high. The two paths meet in some node."""
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
        everything = self._levels[0].cumulated[-1]
        if self._known_total:
            return second - first**2 / everything
        return second - 2 * total_share * first + total_share**2 * everything


class _Path:
    """Paths from positions to the root, with the counted part of each node."""

    def __init__(self, positions: np.ndarray, last: np.uint64) -> None:
        self._positions, self._last = positions, last
        self._begun = np.zeros(len(positions), dtype=bool)
        self.part = np.zeros(len(positions))
        self.node = np.zeros(len(positions), dtype=np.int64)

    def enter(self, level: _Siblings) -> _Path:
        """Move up to a level, where the paths of positions in its closed nodes begin. The last node may be cut off."""
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
        """Sum coefficient * variance and coefficient^2 * variance over the siblings."""
        variance, left = level.variance[self.node], level.left(self.node)
        return left + self.part * variance, left + self.part**2 * variance

    def climb(self, level: _Siblings) -> np.ndarray:
        """Compute the deviations' variance on this level. The parent counts with the mean coefficient."""
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
    """Ranks from a fitted tree, and the total weight if it is known. The pieces are the nodes without children."""

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
        """Find the positions inside closed nodes, with the weights and variances of these nodes."""
        piece = self.piece(positions)
        inside = np.flatnonzero(self._lengths[piece] > 1)
        node = piece[inside]
        return inside, np.maximum(self._weights[node], 0.0), self._node_variances[node]

    @functools.cached_property
    def _leaf_variance(self) -> float:
        return self._leaves.variance()

    def deviations_inside(self, confidence: float) -> float:
        return NormalDist().inv_cdf(1 - (1 - confidence) / self._level_count)


ROUNDS = 8
_HEAVY_DEVIATIONS = 3.0
_COUNTERS_PER_HEAVY_NODE = 8


def residual_tree(
    levels: Sequence[TreeLevel], fitted: list[Nodes], *, total: float | None = None
) -> tuple[list[TreeLevel], list[Nodes]]:
    """Subtract heavy nodes in rounds, starting from the levels' fitted tree. Return the last levels and their tree."""
    reduced, tree = list(levels), fitted
    for _ in range(ROUNDS - 1):
        improved = False
        for number, (level, nodes) in enumerate(zip(levels, tree, strict=False)):
            if not level.is_exact:
                remaining = level.without(*_heavy(level, nodes))
                if remaining.energy() < reduced[number].energy():
                    reduced[number], improved = remaining.closer(), True
        if not improved:
            break
        tree = fitted_tree(reduced, total=total)
    return reduced, tree


def _heavy(level: TreeLevel, nodes: Nodes) -> tuple[np.ndarray, np.ndarray]:
    """Select the nodes that exceed the noise threshold, ascending, with their fitted weights."""
    heavy = np.flatnonzero(nodes.fitted > _HEAVY_DEVIATIONS * np.sqrt(nodes.upward_variance))
    limit = level.counters.size // _COUNTERS_PER_HEAVY_NODE
    heavy = np.sort(heavy[np.argsort(-nodes.fitted[heavy], kind="stable")[:limit]])
    return nodes.ids[heavy], nodes.fitted[heavy]


FitMethod: TypeAlias = Literal["least_squares", "residual"]
_RANKS = 64


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted tree with its levels and its ranks."""

    method: FitMethod
    levels: Sequence[TreeLevel]
    tree: list[Nodes]
    ranks: CumulativeTree

    def reading(self) -> dict[str, Any]:
        """Export the numbers from which a program in another language computes the same ranks and variances.

        Nodes are the expanded nodes' children, in order, and all nodes on the coarsest level.
        """
        levels = [
            {
                "bits": level.bits,
                "shift": level.shift,
                "variance": nodes.raw_variance,
                "expanded": np.flatnonzero(nodes.expanded).astype(np.int32),
                "weights": nodes.fitted,
            }
            for level, nodes in zip(self.levels, self.tree, strict=False)
        ]
        joint = self.levels[0].joint_variances(known_total=False)
        leaves = self.levels[-1].reading()
        return {"levels": levels, "leaves": leaves, "factor": None if joint is None else joint.reading()}


def least_squares_fit(levels: Sequence[TreeLevel], *, size: int, total: float | None) -> Fit:
    """Fit the counters as they are."""
    tree = fitted_tree(levels, total=total)
    return Fit("least_squares", levels, tree, CumulativeTree(levels, tree, size=size, total=total))


def residual_fit(start: Fit, *, size: int, total: float | None) -> Fit:
    """Fit after residual rounds from the least-squares fit, or keep that fit if they do not help."""
    levels, tree = residual_tree(start.levels, start.tree, total=total)
    if tree is start.tree:
        return start
    return Fit("residual", levels, tree, CumulativeTree(levels, tree, size=size, total=total))


def choose(least_squares: Fit, residual: Fit) -> Fit:
    """Select the fit with the smaller predicted rank variance, or least squares if they are equal."""
    shares = np.arange(1, _RANKS) / _RANKS
    positions = least_squares.ranks.position(shares * least_squares.ranks.total)
    variances = [np.mean(fit.ranks.variance(positions)) for fit in (least_squares, residual)]
    return residual if variances[1] < variances[0] else least_squares
