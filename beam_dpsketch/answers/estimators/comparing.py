"""Compare two releases: products and distances of what they counted, and where to look for what changed.

TABLES of counters of single items, with what is known of their noise. Guarantee: products of two such tables estimate
products of what was counted. Rows without signs are centred: each minus the mean of its cells that hold no heavy item.
Over the hash, the product of two centred rows is 1 - 1/width times that of the items.

INNER PRODUCTS, and how far an estimate may be from the truth. A row's estimate is the sum of its cells' products. Rows
are combined rank by rank: the largest product of each row with the largest of the others, and so on. The ranks of heavy
cells are summed as interquartile means over rows. A heavy cell has about the same rank in each row. So a collision
spoils one cell of one row, and not the whole row, as it would in the median of the rows' sums. All other ranks are
summed as means: where no cell is heavy, this is the mean over rows.

Guarantee: post-processing. Each row's sum is unbiased over the noise, and over the hash. So is the estimate where no
cell is heavy; elsewhere its bias is a fraction of its error. Bounds hold with about the given confidence; `_variances`
says what they cover.

Sources: Alon, Matias and Szegedy 1996 and Charikar, Chen and Farach-Colton 2002 for the products; Zhao et al., NeurIPS
2022, for the noise.

LEAVES: the finest level of two trees says where to look for what changed. Guarantee: post-processing. A search of the
difference would fail: +500 and -500 cancel in a node above both. Where weights are not negative, a value that changed
by t weighs t or more in one of the two releases. So the candidates are what stands below heavy nodes of either tree.

The finest level does not take part in the search. Its noise is independent of what is found, so intervals read from it
alone hold for each candidate as for a value that was chosen before.
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
"""Each item has a counter of its own, or shares one with a random sign, or shares one without."""

_HEAVY_DEVIATIONS = 6.0
_NORMAL_MEDIAN = 0.6745


@dataclasses.dataclass(frozen=True)
class ReleasedTable:
    """Counters as float64 of shape (depth, width), the noise in each, and where items are.

    Attributes:
      counters: with noise.
      noise: its variance.
      hashing: where items are.
      fourth: the fourth cumulant of the noise, which is 0 of a Gaussian.
      spread: how much more a sum of squared noises varies, because those of neighbours are correlated.
      uncorrelated: turns weights of sums of cells, (sums, width), into those of as many independent noises.
    """

    counters: np.ndarray
    noise: float
    hashing: Hashing
    fourth: float = 0.0
    spread: float = 1.0
    uncorrelated: Callable[[np.ndarray], np.ndarray] | None = None

    @classmethod
    def of(cls, counters: np.ndarray, noise: float, hashing: Hashing, fourth: float = 0.0) -> ReleasedTable:
        """Return the table of noisy counters; refuse rows of one cell without signs, which hold the total alone."""
        counters = counters.astype(np.float64)
        if hashing == "columns":
            if counters.shape[1] == 1:
                raise ArgumentError(
                    "", "a Count-Min of width 1 holds a total and no items: compare wider sketches", "E510"
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
        """How many counters of a row are free: one less where they are centred."""
        return self.width - (self.hashing == "columns")

    @property
    def heavy(self) -> np.ndarray:
        """Which cells exceed what most of them hold by far, so that each has one heavy item: bool."""
        sizes = np.abs(self.counters)
        scale = math.hypot(float(np.median(sizes)) / _NORMAL_MEDIAN, math.sqrt(self.noise))
        found: np.ndarray = sizes > _HEAVY_DEVIATIONS * scale
        return found

    def minus(self, other: ReleasedTable) -> ReleasedTable:
        noise, fourth = self.noise + other.noise, self.fourth + other.fourth
        return dataclasses.replace(self, counters=self.counters - other.counters, noise=noise, fourth=fourth)


_ROBUST_DEPTH = 3
_RARE = 8.0  # the fourth cumulant over the squared variance of noise that is mostly 0: sums of it are far from normal


class Estimate(NamedTuple):
    """A number, the variance of its error that is about normal, and that of rare large errors."""

    value: float
    normal: float
    rare: float = 0.0

    def interval(self, confidence: float) -> tuple[float, float, float]:
        """Return the number with bounds for the truth; rare errors by Chebyshev's inequality."""
        margin = math.sqrt(deviations_for(confidence) ** 2 * self.normal + self.rare / (1 - confidence))
        return self.value, self.value - margin, self.value + margin


def inner_product(first: ReleasedTable, second: ReleasedTable) -> Estimate:
    """Estimate f.g of two tables with independent noise."""
    return _product(first, second, 0.0)


def second_moment(table: ReleasedTable) -> Estimate:
    """Estimate f.f of a table: the sum of squared weights."""
    return _product(table, table, table.noise)


def _product(first: ReleasedTable, second: ReleasedTable, common: float) -> Estimate:
    """Estimate f.g, where `common` is the covariance of the noise of both."""
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
    """Return the sum over ranks of means over rows of cells (depth, width), interquartile ones where they are heavy."""
    depth, width = cells.shape
    ranks, outside = np.sort(np.sort(cells, axis=1), axis=0), (depth + 1) // 4
    means, most = ranks.mean(axis=0), int(heavy.sum(axis=1).max())
    ends = np.minimum(np.arange(width), np.arange(width)[::-1]) < most
    return float(np.where(ends, ranks[outside : depth - outside].mean(axis=0), means).sum())


def _variances(pairs: np.ndarray, cells: np.ndarray, heavy: np.ndarray) -> tuple[float, float]:
    """Return the variances of the error of a product over hashed cells: about normal, and rare.

    Light cells show what noise and light items add to any cell. Two heavy items in one cell are rare and do more. From
    three rows on, such a collision counts only if another row errs at the same rank, so with the share of heavy cells.
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
    """Return the variance of f.g where each cell has normal errors of this covariance (2, 2).

    `counted` is the sum of (f, g)^T (f, g) over cells.
    """
    ((own, both), (_, other)), ((ff, fg), (_, gg)) = errors, counted
    return max(float(ff * other + gg * own + 2 * fg * both), 0.0) + width * float(own * other + both**2)


_HEAVY_NODE_DEVIATIONS = 3.0
_MAX_LEAVES = 1 << 22


def changed_leaves(before: Sequence[TreeLevel], after: Sequence[TreeLevel], k: int) -> np.ndarray:
    """Return positions among which the k largest changes are: uint64, ascending."""
    if not after[-1].is_exact:
        return np.union1d(leaves_below_heavy_nodes(before), leaves_below_heavy_nodes(after))
    earlier, later = (levels[-1].counters[0].astype(np.float64) for levels in (before, after))
    return np.sort(np.argsort(-np.abs(later - earlier), kind="stable")[:k]).astype(np.uint64)


def leaves_below_heavy_nodes(levels: Sequence[TreeLevel]) -> np.ndarray:
    """Return the positions below nodes that exceed the noise, found without the finest level: uint64, ascending."""
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
    """Return estimates of leaves with lower and upper bounds, unbiased also where weights may be negative."""
    _validate.open_unit_interval(confidence=confidence)
    if leaves.is_exact:
        middle = leaves.estimates(positions)
        bits = max(leaves.weight_bits, leaves.noise.grid_bits(sigma_squared))
        below = above = leaves.noise.margin(sigma_squared, confidence, bits) + rounding
    else:
        reader = RowReader(leaves.spec, leaves.counters, sigma_squared)
        middle, (below, above) = reader.estimates(positions), reader.margins(confidence)
    return middle, middle - below, middle + above
