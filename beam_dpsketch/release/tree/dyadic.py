"""Released trees: every rank, quantile, range and heavy hitter of an ordered domain, from one release.

Guarantee: all answers are post-processing of one set of noisy counters. By default they come from a fitted tree (see
`consistency`): `quantile` is monotone in q, `cdf` in x, ranks lie between 0 and the total. Source: Zhao et al., NeurIPS
2022 (`method="plain"`); the improvements are described in the modules `consistency`, `cumulative` and `residual`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.release.frequencies import Frequency
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.tree import heavy_hitters, paper
from beam_dpsketch.release.tree.cumulative import CumulativeTree
from beam_dpsketch.release.tree.least_squares import OPENING_DEVIATIONS, Nodes, fitted_tree
from beam_dpsketch.release.tree.levels import TreeLevel, tree_levels
from beam_dpsketch.release.tree.residual import residual_tree
from beam_dpsketch.sketches.dyadic import DyadicCountSketch

METHODS = ("consistent", "residual", "plain")


class Interval(NamedTuple):
    """An estimate with bounds for the truth; floats or domain values, or arrays or lists of them.

    The truth is that of the records that bounding kept. The bounds do not cover what it dropped.
    """

    estimate: Any
    lower: Any
    upper: Any


class HeavyHitters(NamedTuple):
    """What was found, largest first.

    Attributes:
      found: items with estimates and intervals.
      detection_limit: an item of this weight, of what bounding kept, is found with a probability of 95 %; lighter ones
        may be missing.
      truncated: found items of which only the beginning is known (text and bytes).
    """

    found: list[Frequency]
    detection_limit: float
    truncated: frozenset[Any] = frozenset()


class ReleasedDyadicCountSketch(ReleasedSketch):
    """A released tree of sketches over an ordered domain.

    All answers are about the records that bounding kept. Intervals cover noise and collisions, each at about the given
    confidence. They do not cover what `RecordBounds` dropped: the quantiles of all records may be others.

    Where little was counted, ranks and quantiles are noise, and nothing else tells. Ask `total_interval` first: if
    its lower bound is near 0, the release may be empty.

    Values are of the domain; those outside are clamped. Methods take one value or many, and answer likewise. Where
    there is a `public_total`, the total weight is known and is not estimated: give it only if it is no secret.
    """

    name = "dyadic"
    raw_type = DyadicCountSketch

    @functools.cached_property
    def level_deviations(self) -> tuple[float, ...]:
        """The standard deviation of the estimate of a node, on each level, noise and collisions together."""
        return tuple(math.sqrt(level.variance()) for level in self._levels)

    def total(self, *, public_total: float | None = None, method: str = "consistent") -> float:
        """The total weight, estimated unless it is public."""
        if public_total is not None:
            _validate.positive_finite(public_total=public_total)
        if method == "plain":
            return paper.plain_total(self._levels) if public_total is None else public_total
        return self._cumulative(method, public_total).total

    def total_interval(self, confidence: float = 0.95) -> Interval:
        """The total weight that bounding kept, with bounds; those of an empty release reach down to 0."""
        tree = self._cumulative("consistent", None)
        last = np.array([self.spec.domain.size - 1], dtype=np.uint64)
        margin = self._margin(tree.rank_variance(last), confidence)[0]
        return Interval(tree.total, max(0.0, tree.total - margin), tree.total + margin)

    def rank(self, values: Any, *, public_total: float | None = None, method: str = "consistent") -> Any:
        """How much weight is at or below each value."""
        positions, single = self._positions(values)
        return _one(self._ranks(positions, public_total, method), single)

    def rank_interval(self, values: Any, confidence: float = 0.95, *, public_total: float | None = None) -> Interval:
        """Ranks, among the records that bounding kept, with bounds that hold, each, with about the given confidence."""
        positions, single = self._positions(values)
        tree = self._cumulative("consistent", public_total)
        ranks = tree.rank(positions)
        margin = self._margin(tree.rank_variance(positions), confidence)
        top = np.inf if public_total is None else public_total
        bounds = _clipped(ranks, margin, top, centre=tree.fitted_rank(positions))
        return Interval(*(_one(each, single) for each in bounds))

    def cdf(self, values: Any, *, public_total: float | None = None, method: str = "consistent") -> Any:
        """The share of the weight at or below each value, in [0, 1]; 1 where the total is 0."""
        positions, single = self._positions(values)
        ranks = self._ranks(positions, public_total, method)
        total = self.total(public_total=public_total, method=method)
        if not total > 0:
            return _one(np.ones(len(positions)), single)
        return _one(np.clip(ranks / total, 0.0, 1.0), single)

    def cdf_interval(self, values: Any, confidence: float = 0.95, *, public_total: float | None = None) -> Interval:
        """Shares of the weight that bounding kept, with bounds."""
        positions, single = self._positions(values)
        tree = self._cumulative("consistent", public_total)
        share = np.atleast_1d(self.cdf(values, public_total=public_total))
        total = max(tree.total, 1.0)
        margin = self._margin(tree.rank_variance(positions, total_share=share), confidence) / total
        return Interval(*(_one(each, single) for each in _clipped(share, margin, 1.0)))

    def quantile(self, shares: Any, *, public_total: float | None = None, method: str = "consistent") -> Any:
        """The smallest value whose rank is at least share * total, for each share in [0, 1].

        An empty release answers too, with noise. `total_interval` shows whether there is enough to ask about, and
        `quantile_interval` how far off the answer may be.
        """
        wanted, single = self._shares(shares)
        if method == "plain":
            ranks = wanted * self.total(public_total=public_total, method=method)
            positions = paper.plain_positions(self._levels, ranks, size=self.spec.domain.size)
        else:
            tree = self._cumulative(method, public_total)
            positions = tree.position(wanted * tree.total)
        return _one(self.spec.domain.values(positions), single)

    def quantile_interval(
        self, shares: Any, confidence: float = 0.95, *, public_total: float | None = None
    ) -> Interval:
        """Quantiles with bounds between which the true ones lie, each with about the given confidence.

        The true ones are those of the records that bounding kept. Bounding drops at random within each privacy id, so
        ids with few records weigh more than in the raw data.
        """
        wanted, single = self._shares(shares)
        tree = self._cumulative("consistent", public_total)
        ranks = wanted * tree.total
        middle = tree.position(ranks)

        # A lower value is the quantile if its rank is high enough, a higher one if the rank before it is too low.
        def margin(positions: np.ndarray) -> np.ndarray:
            return self._margin(tree.rank_variance(positions, total_share=wanted), confidence)

        def before(positions: np.ndarray) -> np.ndarray:
            return positions - np.minimum(positions, np.uint64(1))

        below, above = margin(before(middle)), margin(middle)
        lower, upper = tree.position(np.maximum(ranks - below, 0.0)), tree.position(ranks + above)
        # Ranks may be less certain where the bounds came to lie, as in a long flat tail, than at the estimate.
        below, above = np.maximum(below, margin(before(lower))), np.maximum(above, margin(upper))
        answers = (middle, tree.position(np.maximum(ranks - below, 0.0)), tree.position(ranks + above))
        return Interval(*(_one(self.spec.domain.values(each), single) for each in answers))

    def range_count(self, low: Any, high: Any, *, public_total: float | None = None, method: str = "consistent") -> Any:
        """How much weight lies from low to high, both included; 0 where low is above high."""
        return self._range(low, high, public_total, method)[0]

    def range_interval(
        self, low: Any, high: Any, confidence: float = 0.95, *, public_total: float | None = None
    ) -> Interval:
        """Weights of ranges, of the records that bounding kept, with bounds."""
        estimate, below, highs, single = self._range(low, high, public_total, "consistent")
        tree = self._cumulative("consistent", public_total)
        from_start = below == np.uint64(self.spec.domain.size - 1)
        lows = np.where(from_start, np.uint64(0), np.minimum(below, highs))
        variance = np.where(from_start, tree.rank_variance(highs), tree.range_variance(lows, highs))
        margin = self._margin(variance, confidence)
        centre = tree.fitted_rank(highs) - np.where(from_start, 0.0, tree.fitted_rank(lows))
        bounds = _clipped(np.atleast_1d(estimate), margin, np.inf, centre=centre)
        return Interval(*(_one(each, single) for each in bounds))

    def histogram(self, edges: Sequence[Any], confidence: float = 0.95) -> list[Interval]:
        """The weight of each bin [edge, next edge), the last bin with its end, with bounds."""
        positions, _ = self._positions(list(edges))
        if len(positions) < 2 or (positions[1:] <= positions[:-1]).any():
            raise ValueError("edges must be at least two different values of the domain, ascending")
        ends = positions[1:].copy()
        ends[:-1] -= np.uint64(1)
        values = self.spec.domain.values
        bins = self.range_interval(values(positions[:-1]), values(ends), confidence)
        return [Interval(*row) for row in zip(*(each.tolist() for each in bins), strict=True)]

    def top_k(self, k: int, confidence: float = 0.95) -> HeavyHitters:
        """The k values of largest weight that stand out, without a candidate list; fewer if no more do.

        Each interval is for a value on its own, over the records that bounding kept. Listed values are partly those
        that the noise raised: where many have nearly equal weights, fewer intervals hold. Intervals that hold for all
        of m possible values together have ``confidence=1 - 0.05 / m``; m is at most the size of the domain.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        found = self.heavy_hitters(0.0, confidence)
        return HeavyHitters(found.found[:k], found.detection_limit)

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> HeavyHitters:
        """The values whose estimated weight is at least a threshold, as far as they stand out of the noise.

        Values of a true weight under `detection_limit` may be missing.
        """
        limit = heavy_hitters.detection_limit(self.level_deviations, opening=OPENING_DEVIATIONS)
        positions, weights, deviations = heavy_hitters.heavy_leaves(
            self._levels, self._tree("consistent", None)[1], threshold=threshold
        )
        margin = self._margin(deviations**2, confidence)
        lower, upper = np.maximum(weights - margin, 0.0), weights + margin
        rows = zip(self.spec.domain.values(positions), weights.tolist(), lower.tolist(), upper.tolist(), strict=True)
        return HeavyHitters([Frequency(*row) for row in rows], limit)

    def _range(
        self, low: Any, high: Any, public_total: float | None, method: str
    ) -> tuple[Any, np.ndarray, np.ndarray, bool]:
        """Weights of ranges, the positions before them (the last one for none), their ends, whether single."""
        lows, single_low = self._positions(low)
        highs, single_high = self._positions(high)
        single = single_low and single_high
        lows, highs = np.broadcast_arrays(lows, highs)
        before = np.where(lows == 0, np.uint64(self.spec.domain.size - 1), lows - np.uint64(1))
        below = np.where(lows == 0, 0.0, self._ranks(before, public_total, method))
        weights = np.where(highs >= lows, self._ranks(highs, public_total, method) - below, 0.0)
        return _one(weights, single), before, highs, single

    def _ranks(self, positions: np.ndarray, public_total: float | None, method: str) -> np.ndarray:
        if method == "plain":
            return paper.plain_ranks(self._levels, positions, size=self.spec.domain.size)
        return self._cumulative(method, public_total).rank(positions)

    def _positions(self, values: Any) -> tuple[np.ndarray, bool]:
        """Positions of one value or many; refuses what is no value."""
        single = isinstance(values, (str, bytes)) or not isinstance(values, (Iterable, pa.Array))
        given = [values] if single else values if isinstance(values, (np.ndarray, pa.Array)) else list(values)
        positions, usable = self.spec.domain.index(given)
        if not usable.all():
            raise TypeError("values must be of the domain of the release; nulls and other types have no rank")
        return positions, single

    def _shares(self, shares: Any) -> tuple[np.ndarray, bool]:
        wanted = np.atleast_1d(np.asarray(shares, dtype=np.float64))
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise ValueError("q must be between 0 and 1")
        return wanted, np.ndim(shares) == 0

    def _margin(self, variance: np.ndarray, confidence: float) -> np.ndarray:
        _validate.open_unit_interval(confidence=confidence)
        return NormalDist().inv_cdf((1 + confidence) / 2) * np.sqrt(np.maximum(variance, 0.0))

    @functools.cached_property
    def _levels(self) -> list[TreeLevel]:
        return tree_levels(self.spec, self.counters, tuple(map(float, self.privacy.sigma_squared_per_level)))

    def _tree(self, method: str, public_total: float | None) -> tuple[list[TreeLevel], list[Nodes]]:
        _validate.one_of(METHODS[:2], method=method)
        if method == "residual":
            return residual_tree(self._levels, total=public_total)
        return self._levels, fitted_tree(self._levels, total=public_total)

    def _cumulative(self, method: str, public_total: float | None) -> CumulativeTree:
        """The distribution that answers come from, computed when first asked for."""
        if (method, public_total) not in self._answers:
            if public_total is not None:
                _validate.positive_finite(public_total=public_total)
            levels, tree = self._tree(method, public_total)
            answers = CumulativeTree(levels, tree, size=self.spec.domain.size, total=public_total)
            self._answers[method, public_total] = answers
        return self._answers[method, public_total]

    @functools.cached_property
    def _answers(self) -> dict[tuple[str, float | None], CumulativeTree]:
        return {}


def _one(values: Any, single: bool) -> Any:
    """The only one of several values, if one was asked for."""
    if not single:
        return values
    return values[0] if isinstance(values, list) else float(values[0])


def _clipped(
    middle: np.ndarray, margin: np.ndarray, top: float, centre: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An estimate with bounds, around a centre if there is a better one, between which the estimate always lies."""
    centre = middle if centre is None else centre
    lower, upper = np.minimum(centre - margin, middle), np.maximum(centre + margin, middle)
    return middle, np.clip(lower, 0.0, top), np.clip(upper, 0.0, top)
