"""Inner products of what two releases counted, and how far an estimate may be from the truth.

A row's estimate is the sum of its cells' products. Rows are combined rank by rank: the largest product of each row with
the largest of the others, and so on. The ranks of heavy cells are summed as interquartile means over rows. A heavy cell
has about the same rank in each row. So a collision spoils one cell of one row, and not the whole row, as it would in
the median of the rows' sums. All other ranks are summed as means: where no cell is heavy, this is the mean over rows.

Guarantee: post-processing. Each row's sum is unbiased over the noise, and over the hash. So is the estimate where no
cell is heavy; elsewhere its bias is a fraction of its error. Bounds hold with about the given confidence; `_variances`
says what they cover.

Sources: Alon, Matias and Szegedy 1996 and Charikar, Chen and Farach-Colton 2002 for the products; Zhao et al., NeurIPS
2022, for the noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beam_dpsketch.estimators.comparing.tables import NoisyTable
from beam_dpsketch.estimators.tree.levels import deviations_for, median_variance

_ROBUST_DEPTH = 3
_KNOWN_DEVIATIONS = 3.0
_SQUARE, _PRODUCT = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 0.5], [0.5, 0.0]])


class Estimate(NamedTuple):
    """A number, the variance of its error that is about normal, and that of rare large errors."""

    value: float
    normal: float
    rare: float = 0.0

    def margin(self, confidence: float) -> float:
        """Return how far the truth may be; rare errors by Chebyshev's inequality."""
        return math.sqrt(deviations_for(confidence) ** 2 * self.normal + self.rare / (1 - confidence))


def inner_product(first: NoisyTable, second: NoisyTable) -> Estimate:
    """Return f.g of two tables with independent noise."""
    return _form(first, second, _PRODUCT)


def second_moment(table: NoisyTable) -> Estimate:
    """Return F2 of a table: the sum of squared weights."""
    return _form(table, table, _SQUARE)


def cosine(first: NoisyTable, second: NoisyTable) -> Estimate:
    """Return f.g / sqrt(F2(f) F2(g)), in [-1, 1]; NaN where a second moment may be 0 within the noise.

    With u = f / |f|, v = g / |g| and a first value c, the form u v - c (u^2 + v^2) / 2 is what c lacks. Errors common
    to both cancel in it.
    """
    own, other = second_moment(first), second_moment(second)
    if any(each.value <= _KNOWN_DEVIATIONS * math.sqrt(each.normal) for each in (own, other)):
        return Estimate(math.nan, math.inf)
    u, v = first.over(math.sqrt(own.value)), second.over(math.sqrt(other.value))
    about = inner_product(u, v).value
    lacking = _form(u, v, _PRODUCT - about / 2 * np.eye(2))
    return lacking._replace(value=min(max(about + lacking.value, -1.0), 1.0))


def _form(first: NoisyTable, second: NoisyTable, form: np.ndarray) -> Estimate:
    """Return the sum over items of (f, g) form (f, g), for a symmetric form (2, 2)."""
    pairs = np.stack([first.counters, second.counters], axis=-1)
    cells = np.einsum("...i,ij,...j->...", pairs, form, pairs)
    noise = np.diag([first.noise, second.noise])
    heavy = first.heavy | second.heavy
    sums = _summed_by_rank(cells, heavy) - first.free * float(np.trace(form @ noise))
    value = sums * first.width / first.free
    if first.hashing == "exact":
        counted = np.einsum("rci,rcj->ij", pairs, pairs) - first.width * noise
        return Estimate(value, _normal_variance(form, noise, counted, first.width))
    return Estimate(value, *_variances(pairs, cells, heavy, form))


def _summed_by_rank(cells: np.ndarray, heavy: np.ndarray) -> float:
    """Return the sum over ranks of means over rows of cells (depth, width), interquartile ones where they are heavy."""
    depth, width = cells.shape
    ranks, outside = np.sort(np.sort(cells, axis=1), axis=0), (depth + 1) // 4
    means, most = ranks.mean(axis=0), int(heavy.sum(axis=1).max())
    ends = np.minimum(np.arange(width), np.arange(width)[::-1]) < most
    return float(np.where(ends, ranks[outside : depth - outside].mean(axis=0), means).sum())


def _variances(pairs: np.ndarray, cells: np.ndarray, heavy: np.ndarray, form: np.ndarray) -> tuple[float, float]:
    """Return the variances of the error of a form over hashed cells: about normal, and rare.

    Light cells show what noise and light items add to any cell. Two heavy items in one cell are rare and do more. From
    three rows on, such a collision counts only if another row errs at the same rank, so with the share of heavy cells.
    """
    depth, width = cells.shape
    light = np.einsum("ni,nj->ij", pairs[~heavy], pairs[~heavy]) / np.count_nonzero(~heavy)
    counted = np.einsum("ni,nj->ij", pairs[heavy], pairs[heavy]) / depth
    normal = _normal_variance(form, light, counted, width)
    fourth = float(np.sum(cells[heavy] ** 2)) / depth
    collisions = 2 * max(float(np.trace(form @ counted @ form @ counted)) - fourth, 0.0) / width
    rows = median_variance(depth)
    if depth < _ROBUST_DEPTH:
        return rows * normal, rows * collisions
    return rows * (normal + min(1.0, np.count_nonzero(heavy) / width) * collisions), 0.0


def _normal_variance(form: np.ndarray, errors: np.ndarray, counted: np.ndarray, width: int) -> float:
    """Return the variance of the form where each cell has normal errors of this covariance (2, 2).

    `counted` is the sum of (f, g)^T (f, g) over cells.
    """
    bent = form @ errors @ form
    return max(4 * float(np.trace(bent @ counted)), 0.0) + 2 * width * float(np.trace(bent @ errors))
