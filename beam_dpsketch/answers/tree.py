"""Released trees: every rank, quantile, range and heavy hitter in an ordered domain, from a single release.

Guarantee: all answers are post-processing of the same noisy counters. With the default method, `quantile` is monotone
in the share, `cdf` in the value, and ranks are between 0 and the total. Trees then answer from a fitted tree. Source:
Zhao et al., NeurIPS 2022 (`method="paper"`). The module `estimators.tree_fit` describes the improvements.

A search expands the nodes that exceed the noise threshold. It finds a value if every node on its path does.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args, overload

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.comparing import Hashing, ReleasedTable, changed_leaves, leaf_bounds
from beam_dpsketch.answers.estimators.presence import deviations_for
from beam_dpsketch.answers.estimators.ranks import Ranks, one_sided, share_of, weight_between
from beam_dpsketch.answers.estimators.tree_fit import (
    EXPANSION_DEVIATIONS,
    Fit,
    FitMethod,
    PaperTree,
    choose,
    least_squares_fit,
    residual_fit,
)
from beam_dpsketch.answers.estimators.tree_levels import TreeLevel, tree_levels
from beam_dpsketch.answers.notes import of_ranks
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Intervals, Many, One, as_asked, as_list, as_many
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.sketches.trees import DyadicCountSketch
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.summary_notes import Interval
from beam_dpsketch.statement.tabular import Note


def positions_of(domain: Domain, **argument: Any) -> tuple[np.ndarray, bool]:
    """Convert values to positions, with a flag for a single value. Reject values that the domain does not accept."""
    ((name, values),) = argument.items()
    many, single = as_many(values)
    positions, usable = domain.index(many)
    if not usable.all():
        raise ArgumentTypeError(name, f"must be in the domain of the release ({domain.takes}) and not null", "E717")
    return positions, single


def ends_of(domain: Domain, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    """Convert range ends to positions, with a flag for a single range. Reject swapped ends."""
    lows, is_one_low = positions_of(domain, low=low)
    highs, is_one_high = positions_of(domain, high=high)
    lows, highs = np.broadcast_arrays(lows, highs)
    if (swapped := lows > highs).any():
        ends = domain.values(np.array([lows[swapped][0], highs[swapped][0]]))
        raise ArgumentError("high", f"must be at least low, got {ends[0]} and {ends[1]}. Swap them", "E501")
    return lows, highs, is_one_low and is_one_high


def shares_of(q: Any) -> tuple[np.ndarray, bool]:
    """Convert shares to an array, with a flag for a single share. Reject shares outside [0, 1]."""
    many, single = as_many(q)
    try:
        wanted = np.asarray(many, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError("q", "must be numbers from 0 to 1, such as 0.5 for the median", "E004") from None
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise ArgumentError("q", "must be between 0 and 1. For the 95th percentile, pass 0.95", "E003")
    return wanted, single


Method: TypeAlias = Literal["chosen", "least_squares", "residual", "paper"]
Self = TypeVar("Self", bound="ReleasedRanks")
_ENDS = ("range_low", "range_high")


class Fitted(Protocol):
    """Ranks by position, without bounds."""

    @property
    def total(self) -> float:
        """Total weight."""

    def rank(self, positions: np.ndarray) -> np.ndarray:
        """Compute the weight at or below each position."""

    def position(self, ranks: np.ndarray) -> np.ndarray:
        """Find the first position with each rank."""


class ReleasedRanks(ReleasedSketch):
    """Released ordered values: ranks, quantiles and ranges.

    Answers describe the clipped data. Intervals include noise and collisions, each at about the given confidence. They
    do not include clipping: the quantiles of all records may differ.

    Values outside the domain are clamped, and items in answers are values in the domain. The estimate of an item is its
    likeliest weight, as in `top_k`. `range_count(item, item)` uses monotone ranks and may differ.

    Only trees offer a choice of `method`. Other releases have only "chosen".
    """

    kind = "quantiles"
    _usual_picture = "cdf"
    _known_total: float | None = None

    def with_total(self: Self, total: float, *, force: bool = False) -> Self:
        """Replace the estimated total weight by a known total, for more exact answers.

        Pass only a public total of the clipped data: after clipping, the number of all records would move every
        quantile. Bytes and combined releases do not include it.

        Args:
          total: the total weight after clipping, above 0.
          force: whether to accept a total that the release contradicts.

        Raises `ValueError` for a total outside the 99.9999 % interval of the release itself, unless forced.
        """
        _validate.positive_finite(total=total)
        own, variance = self._own_total()
        reach = self._reach(1 - 1e-6) * math.sqrt(variance)
        if abs(total - own) > reach and not force:
            raise ArgumentError(
                "total",
                f"must be the total weight after clipping: {shown(own)} (±{shown(reach)}) with 99.9999 % confidence. "
                "Omit it, or pass force=True",
                "E721",
            )
        known = type(self)(self._spec, self._counters, self._privacy, self._scale_bits)
        known._known_total = float(total)
        return known

    def total_weight(self, confidence: float = 0.95) -> Interval:
        """Estimate the total weight after clipping. The lower bound is at least 0.

        The total weight is the last rank, or the known total. It includes the whole clipped weight of each unit,
        without the limit per unit of a summary count.
        """
        return Intervals(*self._ranks.total_bounds(confidence), basis=self._basis(confidence))[0]

    @overload
    def rank(self, values: One, *, method: Method = ...) -> float: ...
    @overload
    def rank(self, values: Many, *, method: Method = ...) -> np.ndarray: ...
    def rank(self, values: Any, *, method: Method = "chosen") -> Any:
        """Estimate the weight at or below each value."""
        positions, single = positions_of(self.spec.domain, values=values)
        return as_asked(self._fitted_by(method).rank(positions), single)

    @overload
    def rank_interval(self, values: One, confidence: float = ...) -> Interval: ...
    @overload
    def rank_interval(self, values: Many, confidence: float = ...) -> Intervals: ...
    def rank_interval(self, values: Any, confidence: float = 0.95) -> Any:
        """Estimate ranks in the clipped data, with bounds."""
        values, single = as_many(values)
        positions, _ = positions_of(self.spec.domain, values=values)
        bounds = self._ranks.rank_bounds(positions, confidence)
        return as_asked(self._intervals(bounds, confidence, len(positions), value=values), single)

    @overload
    def cdf(self, values: One, *, method: Method = ...) -> float: ...
    @overload
    def cdf(self, values: Many, *, method: Method = ...) -> np.ndarray: ...
    def cdf(self, values: Any, *, method: Method = "chosen") -> Any:
        """Estimate the share at or below each value, in [0, 1], or 1 if the total is 0."""
        positions, single = positions_of(self.spec.domain, values=values)
        tree = self._fitted_by(method)
        return as_asked(share_of(tree.rank(positions), tree.total), single)

    @overload
    def cdf_interval(self, values: One, confidence: float = ...) -> Interval: ...
    @overload
    def cdf_interval(self, values: Many, confidence: float = ...) -> Intervals: ...
    def cdf_interval(self, values: Any, confidence: float = 0.95) -> Any:
        """Estimate shares of the clipped weight, with bounds."""
        values, single = as_many(values)
        positions, _ = positions_of(self.spec.domain, values=values)
        bounds = self._ranks.share_bounds(positions, confidence)
        return as_asked(self._intervals(bounds, confidence, value=values), single)

    @overload
    def quantile(self, q: float, confidence: float = ..., *, method: Method = ...) -> Interval: ...
    @overload
    def quantile(self, q: Many, confidence: float = ..., *, method: Method = ...) -> Intervals: ...
    def quantile(self, q: Any, confidence: float = 0.95, *, method: Method = "chosen") -> Any:
        """Estimate the smallest value whose rank is at least share * total, for each share `q` in [0, 1], with bounds.

        Each interval has about the given confidence. It contains the quantile of the clipped data. Because clipping
        reduces the contributions from ids with most records, ids with few records have more influence than in the raw
        data. The estimate is `None` if the interval contains all values of the domain: the release cannot tell.
        """
        wanted, single = shares_of(q)
        tree, last = self._fitted_by(method), np.uint64(self.spec.domain.size - 1)
        _, lower, upper = self._ranks.position_bounds(wanted, confidence)
        is_unknown = (lower == 0) & (upper == last) & (last > 0)
        middle, *ends = map(self.spec.domain.values, (tree.position(wanted * tree.total), lower, upper))
        middle = [None if unknown else value for value, unknown in zip(middle, is_unknown, strict=True)]
        return as_asked(self._intervals((middle, *ends), confidence, quantile=wanted), single)

    @overload
    def range_count(self, low: One, high: One, *, method: Method = ...) -> float: ...
    @overload
    def range_count(self, low: Many, high: One | Many, *, method: Method = ...) -> np.ndarray: ...
    @overload
    def range_count(self, low: One, high: Many, *, method: Method = ...) -> np.ndarray: ...
    def range_count(self, low: Any, high: Any, *, method: Method = "chosen") -> Any:
        """Estimate the weight from low to high, both included. Raises `ValueError` if low is above high."""
        lows, highs, single = ends_of(self.spec.domain, low, high)
        return as_asked(weight_between(self._fitted_by(method).rank, lows, highs), single)

    @overload
    def range_interval(self, low: One, high: One, confidence: float = ...) -> Interval: ...
    @overload
    def range_interval(self, low: Many, high: One | Many, confidence: float = ...) -> Intervals: ...
    @overload
    def range_interval(self, low: One, high: Many, confidence: float = ...) -> Intervals: ...
    def range_interval(self, low: Any, high: Any, confidence: float = 0.95) -> Any:
        """Estimate the clipped weight of ranges, with bounds."""
        (low, is_one_low), (high, is_one_high) = as_many(low), as_many(high)
        lows, highs, _ = ends_of(self.spec.domain, low, high)
        bounds = self._ranks.range_bounds(lows, highs, confidence)
        asked = {name: as_list(each) * (len(lows) // len(each)) for name, each in zip(_ENDS, (low, high), strict=True)}
        return as_asked(self._intervals(bounds, confidence, len(lows), **asked), is_one_low and is_one_high)

    def histogram(self, edges: Many, confidence: float = 0.95) -> Intervals:
        """Estimate the weight per bin [edge, next edge), with bounds. The last bin includes its end.

        Over days, the edges Monday, Tuesday and Wednesday make a one-day bin and a two-day bin. A last edge after the
        end of the domain makes the last bin end there: one day, if the domain ends with Tuesday.
        """
        listed = _validate.many(edges=edges)
        positions, _ = positions_of(self.spec.domain, edges=listed)
        starts, ends, is_inside = positions[:-1], positions[1:].copy(), self.spec.domain.is_inside
        falls = ends <= starts
        if [*map(is_inside, as_list(listed)[-2:])] == [True, False]:
            falls[-1] = ends[-1] < starts[-1]
        if not len(ends) or falls.any():
            raise ArgumentError(
                "edges", "must be at least two different values in the domain, in ascending order", "E717"
            )
        ends[:-1] -= np.uint64(1)
        bounds = self._ranks.range_bounds(starts, ends, confidence)
        asked = dict(zip(_ENDS, (as_list(listed)[:-1], as_list(listed)[1:]), strict=True))
        return self._intervals(bounds, confidence, len(ends), **asked)

    @abstractmethod
    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        """List the values whose estimated weight is at least `threshold` and exceeds the noise threshold.

        Values with a true weight below `detection_limit` may be missing.
        """

    def _search(self, confidence: float) -> Frequencies:
        return self.heavy_hitters(0.0, confidence)

    @property
    @abstractmethod
    def _ranks(self) -> Ranks:
        """Ranks behind "chosen" and all intervals."""

    @abstractmethod
    def _own_total(self) -> tuple[float, float]:
        """Estimate the total weight from the counters alone, with its variance."""

    @abstractmethod
    def _fitted_by(self, method: Method) -> Fitted:
        """Fit ranks by a method."""

    def _estimates(self, items: Any) -> np.ndarray:
        return self._fitted_weights(positions_of(self.spec.domain, items=items)[0])

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        positions, _ = positions_of(self.spec.domain, items=items)
        _, lower, upper = self._ranks.range_bounds(positions, positions, confidence)
        items, weights = self.spec.domain.values(positions), np.clip(self._fitted_weights(positions), lower, upper)
        return Frequencies(items, weights, lower, upper, basis=self._basis(confidence, len(items)))

    def _intervals(self, columns: Iterable[Any], confidence: float, weights: int = 0, **asked: Any) -> Intervals:
        return Intervals(*columns, basis=self._basis(confidence, weights), asked=asked)

    def _fitted_weights(self, positions: np.ndarray) -> np.ndarray:
        """Estimate the likeliest weights, which are closer for heavy values than differences of monotone ranks."""
        return self._ranks.weights(positions)

    def _rank_reading(self, confidence: float) -> dict[str, Any]:
        """Export the common entries in `reading` for ranks."""
        two, one, ranks = self._reach(confidence), one_sided(confidence, self._privacy.noise), self._ranks
        inside = {"inside": ranks.deviations_inside(confidence), "step": ranks.step}
        deviations = {"two_sided": two, "one_sided": one, **inside}
        return {"domain": self.spec.domain.reading(), "deviations": deviations, "known_total": self._known_total}

    def _reach(self, confidence: float) -> float:
        """Compute the half-width of an interval for a sum of noises, in roots of the noise parameter."""
        return deviations_for(confidence, self._privacy.noise)

    @property
    def _known(self) -> str:
        return "" if self._known_total is None else f", known total {self._known_total:g}"

    def __reduce__(self) -> tuple[Any, ...]:
        return *super().__reduce__(), {"_known_total": self._known_total}


_HASHING: dict[str, Hashing] = {"exact": "exact", "count_sketch": "signs", "count_min": "columns"}


class ReleasedDyadicCountSketch(ReleasedRanks):
    """A released tree with a sketch per level over an ordered domain.

    `method` selects the estimate. "least_squares" fits all levels, "residual" also subtracts heavy nodes from the
    counters in rounds, "chosen" selects between these two, and "paper" follows the paper. Intervals always use the
    chosen fit.
    """

    name = "quantiles"
    raw_type = DyadicCountSketch

    @property
    def chosen_method(self) -> FitMethod:
        """The fit with the smaller predicted rank variance, for "chosen" and all intervals.

        The choice uses only released numbers: the error-bar variances in both fits, at evenly spaced ranks.
        """
        return self._chosen.method

    @functools.cached_property
    def level_deviations(self) -> tuple[float, ...]:
        """Standard deviation of a node's estimate on each level, from noise and collisions together."""
        return tuple(math.sqrt(level.variance()) for level in self._levels)

    @functools.cached_property
    def search_deviations(self) -> tuple[float, ...]:
        """Standard deviation of a node's estimate on each level in a search, which may subtract heavy nodes."""
        return tuple(math.sqrt(level.variance()) for level in self._chosen.levels)

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        tree = self._chosen.tree
        leaves, has_leaves = tree[-1], len(tree) == len(self._levels)
        weights, deviations = leaves.fitted, np.sqrt(leaves.upward_variance)
        above = expansion(self.spec, self._privacy.noise)
        # A search reaches siblings of a heavy leaf too, so each leaf is tested itself.
        found = (weights >= threshold) & (weights > above * deviations) & has_leaves
        order = np.flatnonzero(found)[np.argsort(-weights[found], kind="stable")]
        weights, margin = weights[order], self._reach(confidence) * deviations[order] + self._levels[-1].step / 2
        items = self.spec.domain.values(leaves.ids[order])
        lower, upper = np.maximum(weights - margin, 0.0), weights + margin
        limit = detection_limit(self.search_deviations, expansion=above)
        return Frequencies(items, weights, lower, upper, limit, basis=self._basis(confidence))

    def reading(self, confidence: float) -> dict[str, Any]:
        return {"type": "tree", **self._rank_reading(confidence), **self._chosen.reading()}

    def _own_notes(self) -> tuple[Note, ...]:
        if self.privacy.bounds.signed:
            return ()
        ends = np.array([0, self.spec.domain.size - 1], dtype=np.uint64)
        at_ends = np.array([level.estimates(level.nodes_of(ends)) for level in self._levels])
        own, reach = self._own_total(), self._noise_reach
        return of_ranks(self.spec.domain, own, reach, at_ends, self._levels[-1].variance())

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
        """Average the totals of the exact levels by precision, or without any use the coarsest sketch."""
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
        return self._reach(0.95) * math.sqrt(self._own_total()[1]) + self._levels[-1].step / 2

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


FOUND = 0.95
_FALSE_VALUES = 0.05


def expansion(spec: Any, noise: Noise) -> float:
    """Compute the noise threshold of a search, in standard deviations of a node's estimate.

    A tree with several levels tests a value on each level. If all values are tested at once, a list contains on average
    at most 0.05 values that do not occur. The threshold is the noise quantile at 0.05 / size, or at half of that for a
    Laplace, because P(Z >= k) on a grid is at most twice the tail of the continuous law.
    """
    if len(spec.describe_levels()) > 1:
        return EXPANSION_DEVIATIONS
    return noise.deviations(_FALSE_VALUES / max(2, spec.domain.size) / (1 if noise is Noise.GAUSSIAN else 2))


def detection_limit(deviations: Sequence[float], *, expansion: float, probability: float = FOUND) -> float:
    """Compute the weight at which a value is found with this probability, if it shares no node with another value.

    A value is found if on every level the estimate of its node exceeds `expansion` deviations. Levels have independent
    noise and hashes, and errors are modeled as normal. Therefore the probability is the product of
    Phi(weight / deviation - expansion) over levels. Other values in its nodes increase the probability.
    """
    normal, largest = NormalDist(), max(deviations)
    low, high = 0.0, (expansion + normal.inv_cdf(1 - (1 - probability) / len(deviations))) * largest
    for _ in range(60):
        weight = (low + high) / 2
        found = math.prod(normal.cdf(weight / deviation - expansion) for deviation in deviations)
        low, high = (weight, high) if found < probability else (low, weight)
    return high
