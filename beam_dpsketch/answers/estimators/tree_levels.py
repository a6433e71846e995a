"""A single level in a tree of sketches: node estimates, and their variance from the counters themselves.

Guarantee: post-processing. The variance includes noise and collisions. A row's error for a node comes from other nodes
and noise in its counter, and hashing makes every counter equally likely. The median of d rows therefore has the same
mean square as the median of d independent draws from the counters. Order statistics give it exactly, for every
distribution: a few heavy nodes count for as little as they move a median, and no scale is assumed.

The coarsest level may be a square-root factorization. Its nodes are decoded from all its rows at once, and their errors
depend on each other.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from beam_dpsketch.answers.estimators import factor as factors
from beam_dpsketch.answers.estimators.factor import FactorVariances, PartialRanks
from beam_dpsketch.answers.estimators.row_mean import median_of_rows
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.sketches.spec import SketchSpec, half_or_more
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from beam_dpsketch.privacy.noise.laws import Noise

_MEDIAN_VARIANCE = {1: 1.0, 2: 0.5, 3: 0.4487, 4: 0.2982, 5: 0.2868, 6: 0.2147, 7: 0.2104, 8: 0.1682, 9: 0.1661}
_MIN_VARIANCE = 1e-9
_NONE = np.zeros(0, dtype=np.uint64), np.zeros(0)


@dataclasses.dataclass(frozen=True)
class TreeLevel:
    """A level with its counters (depth, width), the sigma^2 in their noise, and its nodes' position.

    `known` are nodes, ascending, and their weights, which were subtracted from the counters and are added to estimates.
    With `averages`, estimates are means over rows instead of medians. The grid of weights, and of noise other than
    Gaussian, has steps of 2**-weight_bits.
    """

    sketch: str
    spec: SketchSpec
    counters: np.ndarray
    sigma_squared: float
    bits: int = 8
    shift: int = 0
    nodes: int = 0
    known: tuple[np.ndarray, np.ndarray] = _NONE
    averages: bool = False
    noise: Noise = Noise.GAUSSIAN
    weight_bits: int = 0

    @property
    def is_exact(self) -> bool:
        return self.sketch == "exact"

    @property
    def step(self) -> float:
        """Noise grid step, or 0 for a Gaussian, whose grid is fine."""
        return 0.0 if self.noise is Noise.GAUSSIAN else 2.0**-self.weight_bits

    @property
    def is_settled(self) -> bool:
        """Whether the levels below cannot improve this level's estimates."""
        return False

    def drawn(self, variance: float) -> tuple[np.ndarray, float]:
        """Select released numbers with independent noise, and their variance, given a counter's rounded variance."""
        return self.counters, variance

    def nodes_of(self, positions: np.ndarray) -> np.ndarray:
        """Find the node that contains each position, both uint64."""
        return positions >> np.uint64(self.shift) if self.shift < 64 else np.zeros_like(positions)

    def estimates(self, nodes: np.ndarray) -> np.ndarray:
        """Estimate the weight of each node (uint64): the median over rows, or their mean.

        A Count-Min row is first freed of its expected collisions, (w counter - total) / (w - 1).
        """
        rows = self._freed(self.rows(nodes))
        return (rows.mean(axis=0) if self.averages else median_of_rows(rows)) + self._known_weights(nodes)

    def reading(self) -> dict[str, Any]:
        """Export the numbers from which a program in another language computes the same estimates and variance."""
        keys, (nodes, weights) = cells.keys_of_rows(self.spec.seed, range(self.spec.depth)), self.known
        table = {"is_exact": self.is_exact, "averages": self.averages, "has_signs": self.sketch == "count_sketch"}
        sizes = {"depth": self.spec.depth, "width": self.spec.width, "variance": self.variance()}
        counters = {"row_keys": np.hstack(keys), "counters": self._freed(self.counters.astype(np.float64))}
        return {**table, **sizes, **counters, "known_nodes": nodes, "known_weights": weights}

    def _freed(self, rows: np.ndarray) -> np.ndarray:
        """Subtract the expected collisions from Count-Min rows. Keep other rows."""
        if self.sketch != "count_min" or self.spec.width == 1:
            return rows
        return (rows * self.spec.width - self.counters.sum(axis=1, keepdims=True)) / (self.spec.width - 1)

    def rows(self, nodes: np.ndarray) -> np.ndarray:
        """Read an estimate per row and node, float64 of shape (depth, n), before any correction."""
        if self.is_exact:
            return self.counters[:, nodes.astype(np.int64)].astype(np.float64)
        has_signs = self.sketch == "count_sketch"
        return cells.read_rows(self.counters, nodes, seed=self.spec.seed, has_signs=has_signs)

    def total(self) -> tuple[float, float]:
        """Estimate the weight of all nodes from this level alone, with its variance."""
        weights = self.estimates(np.arange(self.nodes, dtype=np.uint64))
        return float(weights.sum()), self.nodes * self.variance()

    def given_total(self, weights: np.ndarray, variances: np.ndarray, total: float) -> np.ndarray:
        """Compute the nodes' likeliest weights, given estimates, their variances and their known total."""
        return weights + variances / (variances.sum() + _MIN_VARIANCE) * (total - weights.sum())

    def joint_variances(self, *, known_total: bool) -> PartialRanks | None:
        """Compute variances for sums of nodes on a coarsest level with dependent node errors."""
        return None

    def variance(self) -> float:
        """Compute an estimate's variance. Each subtracted weight removed a counter's noise with it."""
        if self.is_exact:
            return max(self.sigma_squared, _MIN_VARIANCE)
        errors, depth = self._row_errors(), self.spec.depth
        noise_share = 1 / depth if self.averages else median_variance(depth)
        found = float(np.mean(errors**2)) / depth if self.averages else _median_square(errors, depth)
        found /= 1 - len(self.known[0]) / self.counters.size
        return max(found, self.sigma_squared * noise_share, _MIN_VARIANCE)

    def closer(self) -> TreeLevel:
        """Select means over rows if no heavy collisions remain, otherwise medians."""
        averaged = dataclasses.replace(self, averages=True)
        return averaged if averaged.variance() <= self.variance() else self

    def without(self, nodes: np.ndarray, weights: np.ndarray) -> TreeLevel:
        """Subtract the sketch of these nodes (uint64) and weights, which become `known`."""
        depth, width = self.counters.shape
        has_signs = self.sketch == "count_sketch"
        places = cells.Places(nodes, seed=self.spec.seed, depth=depth, width=width, has_signs=has_signs)
        counters, order = self.counters - places.sketch(weights), np.argsort(nodes)
        return dataclasses.replace(self, counters=counters, known=(nodes[order], weights[order]))

    def energy(self) -> float:
        counters = self.counters.astype(np.float64)
        return float(np.mean(counters**2) if self.sketch == "count_sketch" else counters.var())

    def _known_weights(self, nodes: np.ndarray) -> np.ndarray | float:
        known, weights = self.known
        if not len(known):
            return 0.0
        places = np.minimum(np.searchsorted(known, nodes), len(known) - 1)
        return np.where(known[places] == nodes, weights[places], 0.0)

    def _row_errors(self) -> np.ndarray:
        """List a row's possible errors for a node, all equally likely: the counters of other nodes."""
        counters = self.counters.astype(np.float64)
        if self.sketch == "count_sketch":
            return np.concatenate([counters, -counters], axis=None)
        width = self.spec.width
        return ((counters - counters.mean(axis=1, keepdims=True)) * (width / max(1, width - 1))).ravel()


@dataclasses.dataclass(frozen=True)
class FactorLevel(TreeLevel):
    """The coarsest level, decoded from a square-root factorization. Its counters are its nodes' weights.

    Nodes keep their weights on this level, because the levels below are noisier.
    """

    rows_drawn: np.ndarray = dataclasses.field(kw_only=True)
    row_variance: float = dataclasses.field(kw_only=True)
    factor: ToeplitzRoot = dataclasses.field(kw_only=True)

    @classmethod
    def of(cls, spec: TreeSpec, rows: np.ndarray, sigma_squared: float) -> FactorLevel:
        """Build the level from its released rows (nodes,) and the noise parameter over their length."""
        factor, of_rows = spec.factor, sigma_squared * spec.factor.squared_length
        drawn = rows * float(1 << factor.dropped_bits)
        weights, variance = factors.decode(factor, drawn), float(factors.value_variances(factor).mean()) * of_rows
        place = spec.levels[0].bits, spec.shift(0), spec.nodes(0)
        own = "exact", spec.level_spec(0), weights[np.newaxis], variance
        return cls(*own, *place, rows_drawn=drawn, row_variance=of_rows, factor=factor)

    @property
    def is_settled(self) -> bool:
        return True

    def drawn(self, variance: float) -> tuple[np.ndarray, float]:
        return self.rows_drawn, self.row_variance

    def total(self) -> tuple[float, float]:
        return float(self.counters.sum()), float(factors.total_covariances(self.factor)[-1]) * self.row_variance

    def given_total(self, weights: np.ndarray, variances: np.ndarray, total: float) -> np.ndarray:
        return factors.with_total(self.factor, weights, total)

    def joint_variances(self, *, known_total: bool) -> PartialRanks:
        return PartialRanks(FactorVariances(self.factor, self.row_variance, known_total=known_total))


def median_variance(depth: int) -> float:
    """Compute the variance of the median of `depth` independent standard normal values."""
    return _MEDIAN_VARIANCE.get(depth, math.pi / (2 * depth))


def _median_square(values: np.ndarray, draws: int) -> float:
    """Compute the mean square of the median of independent draws from the values.

    An even number of draws counts as one less, which is an upper bound: its median is the mean of those without one.
    """
    ordered, below = np.sort(values), np.arange(len(values) + 1) / len(values)
    draws -= 1 - draws % 2
    return float(np.sum(ordered**2 * np.diff(half_or_more(draws, below))))


def tree_levels(
    spec: TreeSpec, counters: np.ndarray, sigma_squared: tuple[float, ...], **noise: Any
) -> list[TreeLevel]:
    """Build a tree's levels from all counters (spec.cells,), the coarsest first. `noise` are fields in each level."""
    tables = np.split(counters, np.cumsum([level.depth * level.width for level in spec.levels])[:-1])
    levels: list[TreeLevel] = []
    for number, (level, table, variance) in enumerate(zip(spec.levels, tables, sigma_squared, strict=True)):
        if level.sketch == "factor":
            levels.append(FactorLevel.of(spec, table, variance))
            continue
        own, table = spec.level_spec(number), table.reshape(level.depth, level.width)
        place = level.bits, spec.shift(number), spec.nodes(number)
        levels.append(TreeLevel(level.sketch, own, table, variance, *place, **noise))
    return levels
