"""Products and distances between two releases, and candidates for the largest changes.

TABLES are counters for single items, with their noise. Guarantee: products of two such tables estimate products of the
clipped data. Rows without signs are centered: each minus the mean over its cells without heavy items. Over the hash,
the product of two centered rows is 1 - 1/width times the product over items.

INNER PRODUCTS and their errors. A row's estimate is the summed product over its cells. Rows are combined rank by rank:
the largest product in each row with the largest in the others, and so on. Ranks of heavy cells are summed as
interquartile means over rows. A heavy cell has about the same rank in each row. A collision therefore affects a single
cell in a single row, while it would affect the whole row in the median of row sums. All other ranks are summed as
means. Without heavy cells, the result is the mean over rows.

Guarantee: post-processing. Each row's sum is unbiased over the noise and over the hash. So is the estimate if no cell
is heavy. Otherwise its bias is a fraction of its error. Bounds have about the given confidence, for the errors in
`_variances`.

Sources: Alon, Matias and Szegedy 1996 and Charikar, Chen and Farach-Colton 2002 for the products; Zhao et al., NeurIPS
2022, for the noise.

LEAVES below heavy nodes in two trees are candidates for changes. Guarantee: post-processing. A search in the difference
would fail, because +500 and -500 cancel in a node above both. If weights are not negative, a value that changed by t
weighs at least t in one of the two releases. Therefore the candidates are the leaves below heavy nodes in either tree.

The finest level is not part of the search. Its noise is independent of the candidates, so intervals from it alone are
valid for each candidate as for a value chosen before.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.presence import deviations_for
from beam_dpsketch.answers.estimators.row_mean import RowReader
from beam_dpsketch.answers.estimators.tree_fit import children_of, fitted_tree, heaviest
from beam_dpsketch.answers.estimators.tree_levels import TreeLevel, median_variance
from beam_dpsketch.errors import ArgumentError

Hashing: TypeAlias = Literal["exact", "signs", "columns"]
"""Placement of items: a counter each, shared counters with random signs, or shared counters without signs."""

_HEAVY_DEVIATIONS = 6.0
_NORMAL_MEDIAN = 0.6745


@dataclasses.dataclass(frozen=True)
class ReleasedTable:
    """Counters as float64 of shape (depth, width), with their noise and item placement.

    Attributes:
      counters: counters with noise.
      noise: noise variance per counter.
      hashing: item placement.
      fourth: fourth cumulant of the noise, 0 for a Gaussian.
      spread: factor by which correlations between neighbors increase the variance of summed squared noises.
      uncorrelated: function from cell weights in sums, (sums, width), to weights for equally many independent noises.
    """

    counters: np.ndarray
    noise: float
    hashing: Hashing
    fourth: float = 0.0
    spread: float = 1.0
    uncorrelated: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def of(cls, counters: np.ndarray, noise: float, hashing: Hashing, fourth: float = 0.0) -> ReleasedTable:
        """Build the table for noisy counters. Reject unsigned rows with a single cell, which contain only the total."""
        counters = counters.astype(np.float64)
        if hashing == "columns":
            if counters.shape[1] == 1:
                raise ArgumentError(
                    "", "A Count-Min with width 1 contains only a total and no items. Use a larger width", "E510"
                )
            about = counters - np.median(counters, axis=1, keepdims=True)
            light = ~cls(about, noise, hashing, fourth).heavy
            light |= ~light.any(axis=1, keepdims=True)
            counters = counters - np.mean(counters, axis=1, keepdims=True, where=light)
        return cls(counters, noise, hashing, fourth)

    @property
    def depth(self) -> int:
        return self.counters.shape[0]

    @property
    def width(self) -> int:
        return self.counters.shape[1]

    @property
    def free(self) -> int:
        """Free counters per row: one less if rows are centered."""
        return self.width - (self.hashing == "columns")

    @property
    def heavy(self) -> np.ndarray:
        """Cells far above most cells, so that each contains a heavy item: bool."""
        sizes = np.abs(self.counters)
        scale = math.hypot(float(np.median(sizes)) / _NORMAL_MEDIAN, math.sqrt(self.noise))
        found: np.ndarray = sizes > _HEAVY_DEVIATIONS * scale
        return found

    def minus(self, other: ReleasedTable) -> ReleasedTable:
        noise, fourth = self.noise + other.noise, self.fourth + other.fourth
        return dataclasses.replace(self, counters=self.counters - other.counters, noise=noise, fourth=fourth)


_ROBUST_DEPTH = 3
_RARE = 8.0  # fourth cumulant over squared variance of noise that is mostly 0: its sums are far from normal


class Estimate(NamedTuple):
    """A number with two error variances: approximately normal, and rare and large."""

    value: float
    normal: float
    rare: float = 0.0

    def interval(self, confidence: float) -> tuple[float, float, float]:
        """Compute the number with bounds, by Chebyshev's inequality for rare errors."""
        margin = math.sqrt(deviations_for(confidence) ** 2 * self.normal + self.rare / (1 - confidence))
        return self.value, self.value - margin, self.value + margin


def inner_product(first: ReleasedTable, second: ReleasedTable) -> Estimate:
    """Estimate f.g for two tables with independent noise."""
    return _product(first, second, 0.0)


def second_moment(table: ReleasedTable) -> Estimate:
    """Estimate f.f for a table: the sum of squared weights."""
    return _product(table, table, table.noise)


def _product(first: ReleasedTable, second: ReleasedTable, common: float) -> Estimate:
    """Estimate f.g, with the covariance `common` between the noise of both."""
    width, pairs = first.width, np.stack([first.counters, second.counters], axis=-1)
    cells, heavy = first.counters * second.counters, first.heavy | second.heavy
    value = (_summed_by_rank(cells, heavy) - first.free * common) * width / first.free
    of_tails = width * first.fourth if common else 0.0  # squares of noise vary more
    if first.hashing == "exact":
        noise = np.array([[first.noise, common], [common, second.noise]])
        weights = pairs[0].T if first.uncorrelated is None else first.uncorrelated(pairs[0].T)
        counted = weights @ weights.T - width * first.spread * noise
        normal, rare = _normal_variance(noise, counted, width * first.spread) + of_tails, 0.0
    else:
        normal, rare = _variances(pairs, cells, heavy)
        normal += median_variance(first.depth) * of_tails
    is_rare = any(each.fourth > _RARE * each.noise**2 for each in (first, second))
    return Estimate(value, normal, rare + normal if is_rare else rare)


def _summed_by_rank(cells: np.ndarray, heavy: np.ndarray) -> float:
    """Sum row means by rank over cells (depth, width), interquartile means for heavy ranks."""
    depth, width = cells.shape
    ranks, outside = np.sort(np.sort(cells, axis=1), axis=0), (depth + 1) // 4
    means, most = ranks.mean(axis=0), int(heavy.sum(axis=1).max())
    ends = np.minimum(np.arange(width), np.arange(width)[::-1]) < most
    return float(np.where(ends, ranks[outside : depth - outside].mean(axis=0), means).sum())


def _variances(pairs: np.ndarray, cells: np.ndarray, heavy: np.ndarray) -> tuple[float, float]:
    """Compute the error variances of a product over hashed cells: approximately normal, and rare.

    Light cells show how much noise and light items add to any cell. Two heavy items in the same cell are rare and
    contribute more. With three rows or more, such a collision counts only if another row errs at the same rank, and is
    therefore multiplied by the heavy cells' share.
    """
    depth, width = cells.shape
    light = np.einsum("ni,nj->ij", pairs[~heavy], pairs[~heavy]) / np.count_nonzero(~heavy)
    counted = np.einsum("ni,nj->ij", pairs[heavy], pairs[heavy]) / depth
    normal, twice = _normal_variance(light, counted, width), 2 * float(np.sum(cells[heavy] ** 2)) / depth
    collisions = max(float(counted[0, 0] * counted[1, 1] + counted[0, 1] ** 2) - twice, 0.0) / width
    rows = median_variance(depth)
    if depth < _ROBUST_DEPTH:
        return rows * normal, rows * collisions
    return rows * (normal + min(1.0, np.count_nonzero(heavy) / width) * collisions), 0.0


def _normal_variance(errors: np.ndarray, counted: np.ndarray, width: float) -> float:
    """Compute the variance of f.g if each cell has normal errors with this covariance (2, 2).

    `counted` is the sum of (f, g)^T (f, g) over cells.
    """
    ((own, both), (_, other)), ((ff, fg), (_, gg)) = errors, counted
    return max(float(ff * other + gg * own + 2 * fg * both), 0.0) + width * float(own * other + both**2)


_HEAVY_NODE_DEVIATIONS = 3.0
_MAX_LEAVES = 1 << 22


def changed_leaves(before: Sequence[TreeLevel], after: Sequence[TreeLevel], k: int) -> np.ndarray:
    """List positions that include the k largest changes: uint64, ascending."""
    if not after[-1].is_exact:
        return np.union1d(leaves_below_heavy_nodes(before), leaves_below_heavy_nodes(after))
    earlier, later = (levels[-1].counters[0].astype(np.float64) for levels in (before, after))
    return np.sort(np.argsort(-np.abs(later - earlier), kind="stable")[:k]).astype(np.uint64)


def leaves_below_heavy_nodes(levels: Sequence[TreeLevel]) -> np.ndarray:
    """List the positions below nodes that exceed the noise, without using the finest level: uint64, ascending."""
    above, leaves = levels[:-1], levels[-1]
    if not above:
        return np.zeros(0, dtype=np.uint64)
    tree = fitted_tree(above)
    if len(tree) < len(above):
        return np.zeros(0, dtype=np.uint64)
    weights = tree[-1].fitted
    heavy = heaviest(weights, weights > _HEAVY_NODE_DEVIATIONS * np.sqrt(tree[-1].upward_variance), leaves, _MAX_LEAVES)
    positions = children_of(tree[-1].ids[heavy], leaves)
    return positions[positions <= np.uint64(leaves.nodes - 1)]


def leaf_bounds(
    leaves: TreeLevel, positions: np.ndarray, confidence: float, *, sigma_squared: Fraction, rounding: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimate leaves with lower and upper bounds, unbiased also for negative weights."""
    _validate.open_unit_interval(confidence=confidence)
    if leaves.is_exact:
        middle = leaves.estimates(positions)
        bits = max(leaves.weight_bits, leaves.noise.grid_bits(sigma_squared))
        below = above = leaves.noise.margin(sigma_squared, confidence, bits) + rounding
    else:
        reader = RowReader(leaves.spec, leaves.counters, sigma_squared)
        middle, (below, above) = reader.estimates(positions), reader.margins(confidence)
    return middle, middle - below, middle + above
