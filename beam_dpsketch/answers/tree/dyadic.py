"""Released trees: every rank, quantile, range and heavy hitter of an ordered domain, from one release.

Guarantee: all answers are post-processing of one set of noisy counters. By default they come from a fitted tree:
`quantile` is monotone in the share, `cdf` in the value, and ranks lie between 0 and the total. Source:
Zhao et al., NeurIPS 2022 (`method="paper"`); the modules `least_squares`, `cumulative` and `choice`
describe the improvements.
"""

from __future__ import annotations

import functools
import math
from typing import Any, get_args

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.notes import Note, of_ranks
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.answers.tree.asked import positions_of
from beam_dpsketch.answers.tree.heavy_hitters import detection_limit, expansion
from beam_dpsketch.answers.tree.ranked import Fitted, Method, ReleasedRanks
from beam_dpsketch.estimators.comparing import Hashing, ReleasedTable, changed_leaves, leaf_bounds
from beam_dpsketch.estimators.ranks import Ranks
from beam_dpsketch.estimators.tree_fit import Fit, FitMethod, PaperTree, choose, least_squares_fit, residual_fit
from beam_dpsketch.estimators.tree_levels import TreeLevel, tree_levels
from beam_dpsketch.sketches.trees import DyadicCountSketch

_HASHING: dict[str, Hashing] = {"exact": "exact", "count_sketch": "signs", "count_min": "columns"}


class ReleasedDyadicCountSketch(ReleasedRanks):
    """A released tree of sketches over an ordered domain.

    `method` says how an estimate is made: by "least_squares"; by "residual" rounds, which subtract heavy nodes from the
    counters; by the one of these that is "chosen"; or as in the "paper". Intervals are always of the chosen fit.
    """

    name = "quantiles"
    raw_type = DyadicCountSketch

    @property
    def chosen_method(self) -> FitMethod:
        """The fit behind "chosen" and all intervals: the one with the smaller predicted variance of ranks.

        Released numbers alone decide: the variances of the error bars of both fits, at evenly spaced ranks.
        """
        return self._chosen.method

    @functools.cached_property
    def level_deviations(self) -> tuple[float, ...]:
        """The standard deviation of the estimate of a node, on each level, noise and collisions together."""
        return tuple(math.sqrt(level.variance()) for level in self._levels)

    @functools.cached_property
    def search_deviations(self) -> tuple[float, ...]:
        """The same in a search, which may subtract what it has found."""
        return tuple(math.sqrt(level.variance()) for level in self._chosen.levels)

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        """Return the values of an estimated weight of `threshold` or more that exceed the noise threshold.

        Values of a true weight below `detection_limit` may be missing.
        """
        tree = self._chosen.tree
        leaves, has_leaves = tree[-1], len(tree) == len(self._levels)
        weights, deviations = leaves.fitted, np.sqrt(leaves.upward_variance)
        above = expansion(self.spec, self._privacy.noise)
        # Siblings of a heavy leaf are reached with it, and must exceed the threshold themselves.
        found = (weights >= threshold) & (weights > above * deviations) & has_leaves
        order = np.flatnonzero(found)[np.argsort(-weights[found], kind="stable")]
        weights, margin = weights[order], self._reach(confidence) * deviations[order] + self._levels[-1].step / 2
        items = self.spec.domain.values(leaves.ids[order])
        lower, upper = np.maximum(weights - margin, 0.0), weights + margin
        limit = detection_limit(self.search_deviations, expansion=above)
        return Frequencies(items, weights, lower, upper, limit, basis=self._basis(confidence))

    def _search(self, confidence: float) -> Frequencies:
        return self.heavy_hitters(0.0, confidence)

    def reading(self, confidence: float) -> dict[str, Any]:
        return {"type": "tree", **self._rank_reading(confidence), **self._chosen.reading()}

    def _own_notes(self) -> tuple[Note, ...]:
        if self.privacy.bounds.signed:
            return ()
        ends = np.array([0, self.spec.domain.size - 1], dtype=np.uint64)
        at_ends = np.array([level.estimates(level.nodes_of(ends)) for level in self._levels])
        return of_ranks(self.spec.domain, self._own_total(), at_ends, self._levels[-1].variance())

    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        positions, _ = positions_of(self.spec.domain, items=items)
        variance = self.privacy.sigma_squared_per_level[-1]
        bounds = leaf_bounds(self._levels[-1], positions, confidence, sigma_squared=variance, rounding=self._rounding)
        return Frequencies(self.spec.domain.values(positions), *bounds, basis=self._basis(confidence))

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return self.spec.domain.values(changed_leaves(before._levels, self._levels, k))

    @property
    def _ranks(self) -> Ranks:
        return self._chosen.ranks

    def _own_total(self) -> tuple[float, float]:
        """Each exact level tells the total, with noise of its own; without one, so does the coarsest sketch, about."""
        told = [level.total() for level in self._levels if level.is_exact] or [self._levels[0].total()]
        precision = sum(1 / variance for _, variance in told)
        return sum(total / variance for total, variance in told) / precision, 1 / precision

    def _fitted_by(self, method: Method) -> Fitted:
        _validate.one_of(get_args(Method), method=method)
        if method == "paper":
            return self._paper
        fit: Fit = getattr(self, f"_{method}")
        return fit.ranks

    @functools.cached_property
    def _levels(self) -> list[TreeLevel]:
        parameters, privacy = tuple(map(float, self._privacy.sigma_squared_per_level)), self._privacy
        noise = {"noise": privacy.noise, "weight_bits": privacy.weight_bits}
        return tree_levels(self.spec, self.counters, parameters, **noise)

    @functools.cached_property
    def _chosen(self) -> Fit:
        return choose(self._least_squares, self._residual)

    @functools.cached_property
    def _least_squares(self) -> Fit:
        return least_squares_fit(self._levels, size=self.spec.domain.size, total=self._known_total)

    @functools.cached_property
    def _residual(self) -> Fit:
        return residual_fit(self._least_squares, size=self.spec.domain.size, total=self._known_total)

    @functools.cached_property
    def _paper(self) -> PaperTree:
        return PaperTree(self._levels, size=self.spec.domain.size, total=self._known_total)

    @property
    def _coarsest(self) -> tuple[np.ndarray, float]:
        return self._levels[0].drawn(self._noise_variance(0))

    @property
    def _noise_reach(self) -> float:
        return self._reach(0.95) * min(self.level_deviations)

    @property
    def _table(self) -> ReleasedTable:
        leaves = self._levels[-1]
        return ReleasedTable.of(
            leaves.counters, self._noise_variance(), _HASHING[leaves.sketch], self._fourth_cumulant()
        )

    @property
    def _size(self) -> str:
        shape = "a histogram" if self.spec.is_histogram else f"{len(self.spec.levels)} levels"
        return f"{shape} over {self.spec.domain}, {self.spec.cells} counters{self._known}"
