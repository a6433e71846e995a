"""One level of a tree of sketches: node estimates, and their variance read from the counters themselves.

Guarantee: post-processing. The variance covers noise and collisions; for a median of d rows it is the variance of one
row times that of the median of d standard normals, with the row's variance from a robust scale of the counters.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_dpsketch.hashing import cells
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

_MEDIAN_VARIANCE = {1: 1.0, 2: 0.5, 3: 0.4487, 4: 0.2982, 5: 0.2868, 6: 0.2147, 7: 0.2104, 8: 0.1682, 9: 0.1661}
_NORMAL_SCALE_OF_MEDIAN = 1.4826
_LEAST_VARIANCE = 1e-9
_LEAST_SHARE_OF_ENERGY = 0.05


@dataclasses.dataclass(frozen=True)
class TreeLevel:
    """A level with its counters (depth, width), noisy or exact, and the sigma^2 of the noise in them."""

    bits: int
    shift: int
    nodes: int
    sketch: str
    spec: SketchSpec
    counters: np.ndarray
    sigma_squared: float

    @property
    def is_exact(self) -> bool:
        """Whether every node has a counter of its own."""
        return self.sketch == "exact"

    def estimates(self, nodes: np.ndarray, *, mean: bool = False) -> np.ndarray:
        """The estimated weight of each node (uint64): the median over rows, or their mean.

        A Count-Min row is first freed of its expected collisions, (w counter - total) / (w - 1).
        """
        rows = self.rows(nodes)
        if self.sketch == "count_min" and self.spec.width > 1:
            totals = self.counters.sum(axis=1, keepdims=True)
            rows = (rows * self.spec.width - totals) / (self.spec.width - 1)
        return rows.mean(axis=0) if mean or self.is_exact else np.median(rows, axis=0)

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        """What each row says of each node, float64 of shape (depth, n), before any correction."""
        if self.is_exact:
            return self.counters[:, nodes.astype(np.int64)].astype(np.float64)
        found = np.empty((self.spec.depth, len(nodes)))
        for row in range(self.spec.depth):
            columns, signs = cells.columns_and_signs(nodes, seed=self.spec.seed, row=row, width=self.spec.width)
            found[row] = self.counters[row, columns]
            if self.sketch == "count_sketch":
                found[row] *= signs
        return found

    def variance(self, *, mean: bool = False) -> float:
        """The variance of an estimate of one node, noise and collisions together."""
        if self.is_exact:
            return max(self.sigma_squared, _LEAST_VARIANCE)
        energy, robust = self._energy()
        if mean:
            row, factor = energy, 1.0 / self.spec.depth
        else:
            row = max(robust, self.sigma_squared, _LEAST_SHARE_OF_ENERGY * energy)
            factor = _MEDIAN_VARIANCE.get(self.spec.depth, np.pi / (2 * self.spec.depth))
        return float(max(row * factor, self.sigma_squared * factor, _LEAST_VARIANCE))

    def prefers_mean(self) -> bool:
        """Whether the mean over rows has the smaller variance: where no heavy collisions are left."""
        energy, robust = self._energy()
        median_variance = _MEDIAN_VARIANCE.get(self.spec.depth, np.pi / (2 * self.spec.depth))
        return self.spec.depth < 3 or energy / self.spec.depth <= median_variance * max(robust, self.sigma_squared)

    def _energy(self) -> tuple[float, float]:
        """The variance of a counter, from its mean square and from its median magnitude."""
        counters = self.counters.astype(np.float64)
        if self.sketch == "count_min":
            energy = float(counters.var(axis=1).mean())
            counters = counters - np.median(counters, axis=1, keepdims=True)
        else:
            energy = float(np.mean(counters**2))
        return energy, float((_NORMAL_SCALE_OF_MEDIAN * np.median(np.abs(counters))) ** 2)


def tree_levels(spec: TreeSpec, counters: np.ndarray, sigma_squared: tuple[float, ...]) -> list[TreeLevel]:
    """The levels of a tree, from the coarsest, given all counters (spec.cells,)."""
    levels, start = [], 0
    for number, (level, variance) in enumerate(zip(spec.levels, sigma_squared, strict=True)):
        size = level.depth * level.width
        table = counters[start : start + size].reshape(level.depth, level.width)
        levels.append(
            TreeLevel(
                bits=level.bits,
                shift=spec.shift(number),
                nodes=spec.nodes(number),
                sketch=level.sketch,
                spec=spec.level_spec(number),
                counters=table,
                sigma_squared=variance,
            )
        )
        start += size
    return levels
