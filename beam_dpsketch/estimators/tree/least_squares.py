"""Node estimates that agree with each other: a truncated tree, fitted by weighted least squares.

Guarantee: post-processing. From the root, a node is expanded only if its estimate exceeds the noise threshold. On the
nodes reached, the best linear unbiased estimate under "a node is the sum of its children" is computed in two passes,
bottom-up and top-down (Hay et al. 2010), with the levels' own variances. Source: truncation as in Luo et al. 2016
(post-processing of turnstile quantile sketches), adapted to noise of known variance.

Ranks as the paper computes them: the sum of the left siblings on the path, each as its level alone says. They are
unbiased for CountSketch levels, but neither monotone nor between 0 and the total, and noisier than the
fitted tree; kept for comparison with the paper. Source: Zhao et al., NeurIPS 2022, Algorithm 4, with x + 1 in place
of x so that rank(x) counts x itself, as the paper defines it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from beam_dpsketch.estimators.tree.levels import TreeLevel

EXPANSION_DEVIATIONS = 2.0
MAX_NODES = 200_000


@dataclasses.dataclass
class Nodes:
    """The nodes reached on one level, in order; arrays of equal length."""

    ids: np.ndarray  # node numbers, uint64, ascending
    parents: np.ndarray  # the position of the parent among the nodes of the level above
    expanded: np.ndarray  # whether the children were reached
    raw: np.ndarray  # what the level says of each node, before fitting
    raw_variance: float
    upward: np.ndarray  # the estimate from the node and all below it
    upward_variance: np.ndarray
    fitted: np.ndarray  # the final estimate


def fitted_tree(levels: Sequence[TreeLevel], *, total: float | None = None) -> list[Nodes]:
    """Return the nodes reached on each level, with estimates that agree with each other and with a known total."""
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
    """Return which of the wanted nodes to expand: the heaviest, with about `limit` children on the level below.

    One node may have more than that, if its level is wide.
    """
    count = max(1, limit >> below.bits)
    if wanted.sum() <= count:
        return wanted
    kept = np.zeros(len(wanted), dtype=bool)
    kept[np.argsort(np.where(wanted, -weights, np.inf), kind="stable")[:count]] = True
    return kept


def children_of(nodes: np.ndarray, below: TreeLevel) -> np.ndarray:
    """Return the children of each node on the level below, ascending if the nodes are."""
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
    """Ranks by position, 0 to size - 1, from the levels of a tree, each on its own."""

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
    """Return the median of signed rows for CountSketch, the minimum for Count-Min, the counter of an exact level."""
    rows = level.rows(nodes)
    return rows.min(axis=0) if level.sketch == "count_min" else np.median(rows, axis=0)
