"""Released ranks: every rank, quantile and range of an ordered domain, from one release.

Guarantee: all answers are post-processing of one set of noisy counters. `quantile` is monotone in the share, `cdf` in
the value, and ranks lie between 0 and the total.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Intervals, Many, One, as_asked, as_list
from beam_dpsketch.answers.tree.asked import ends_of, positions_of, shares_of
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.estimators.presence import deviations_for
from beam_dpsketch.estimators.ranks import Ranks, one_sided, share_of, weight_between
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.side_notes import Interval

Method: TypeAlias = Literal["chosen", "least_squares", "residual", "paper"]
Self = TypeVar("Self", bound="ReleasedRanks")


class Fitted(Protocol):
    """Ranks by position, without bounds."""

    @property
    def total(self) -> float:
        """The total weight."""

    def rank(self, positions: np.ndarray) -> np.ndarray:
        """Return how much weight is at or below each position."""

    def position(self, ranks: np.ndarray) -> np.ndarray:
        """Return the first position with each rank."""


class ReleasedRanks(ReleasedSketch):
    """A release of ordered values, which answers ranks, quantiles and ranges.

    All answers are about the records that bounding kept. Intervals cover noise and collisions, each at about the given
    confidence. They do not cover what `RecordBounds` dropped: the quantiles of all records may differ.

    Values are of the domain; those outside are clamped. Items in answers are values of the domain too. The estimate of
    an item is its likeliest weight, as in `top_k`; `range_count(item, item)` is made of monotone ranks and may differ.

    Only trees have several `method`s; of others, "chosen" is the one that there is.
    """

    made_as = "quantiles"
    _usual_picture = "cdf"
    _known_total: float | None = None

    def with_total(self: Self, total: float, *, force: bool = False) -> Self:
        """Return the same release, for which the total weight is known and not estimated; answers become more exact.

        Give a total only if it is public, and of the weight that bounding kept: where bounds took something, the
        number of all records moves every quantile. Bytes and combined releases are without it.

        Args:
          total: the weight that bounding kept, above 0.
          force: whether to take a total that the release contradicts.

        Raises `ValueError` for a total outside the 99.9999 % interval of the release's own, unless forced.
        """
        _validate.positive_finite(total=total)
        own, variance = self._own_total()
        reach = self._reach(1 - 1e-6) * math.sqrt(variance)
        if abs(total - own) > reach and not force:
            raise ArgumentError(
                "total",
                f"must be the weight that the bounds kept, which is {shown(own)} (+-{shown(reach)}) with 99.9999 %: "
                "leave it out, or give force=True",
                "E721",
            )
        known = type(self)(self._spec, self._counters, self._privacy, self._scale_bits)
        known._known_total = float(total)
        return known

    def total_weight(self, confidence: float = 0.95) -> Interval:
        """Return the total weight that bounding kept, with bounds; those of an empty release reach down to 0.

        It is the last rank, or the known total. Units count in full, and it needs no side counter.
        """
        return Intervals(*self._ranks.total_bounds(confidence), basis=self._basis(confidence))[0]

    @overload
    def rank(self, values: One, *, method: Method = ...) -> float: ...
    @overload
    def rank(self, values: Many, *, method: Method = ...) -> np.ndarray: ...
    def rank(self, values: Any, *, method: Method = "chosen") -> Any:
        """Return how much weight is at or below each value."""
        positions, single = positions_of(self.spec.domain, values=values)
        return as_asked(self._fitted_by(method).rank(positions), single)

    @overload
    def rank_interval(self, values: One, confidence: float = ...) -> Interval: ...
    @overload
    def rank_interval(self, values: Many, confidence: float = ...) -> Intervals: ...
    def rank_interval(self, values: Any, confidence: float = 0.95) -> Any:
        """Return ranks, among the records that bounding kept, with bounds."""
        positions, single = positions_of(self.spec.domain, values=values)
        bounds = self._ranks.rank_bounds(positions, confidence)
        return as_asked(self._intervals(bounds, confidence, len(positions)), single)

    @overload
    def cdf(self, values: One, *, method: Method = ...) -> float: ...
    @overload
    def cdf(self, values: Many, *, method: Method = ...) -> np.ndarray: ...
    def cdf(self, values: Any, *, method: Method = "chosen") -> Any:
        """Return the share of the weight at or below each value, in [0, 1]; 1 where the total is 0."""
        positions, single = positions_of(self.spec.domain, values=values)
        tree = self._fitted_by(method)
        return as_asked(share_of(tree.rank(positions), tree.total), single)

    @overload
    def cdf_interval(self, values: One, confidence: float = ...) -> Interval: ...
    @overload
    def cdf_interval(self, values: Many, confidence: float = ...) -> Intervals: ...
    def cdf_interval(self, values: Any, confidence: float = 0.95) -> Any:
        """Return shares of the weight that bounding kept, with bounds."""
        positions, single = positions_of(self.spec.domain, values=values)
        return as_asked(self._intervals(self._ranks.share_bounds(positions, confidence), confidence), single)

    @overload
    def quantile(self, shares: float, *, method: Method = ...) -> Any: ...
    @overload
    def quantile(self, shares: Many, *, method: Method = ...) -> list[Any]: ...
    def quantile(self, shares: Any, *, method: Method = "chosen") -> Any:
        """Return the smallest value whose rank is at least share * total, for each share in [0, 1].

        An empty release answers too, with noise: `quantile_interval` shows how far off the answer may be.
        """
        wanted, single = shares_of(shares)
        tree = self._fitted_by(method)
        return as_asked(self.spec.domain.values(tree.position(wanted * tree.total)), single)

    @overload
    def quantile_interval(self, shares: float, confidence: float = ...) -> Interval: ...
    @overload
    def quantile_interval(self, shares: Many, confidence: float = ...) -> Intervals: ...
    def quantile_interval(self, shares: Any, confidence: float = 0.95) -> Any:
        """Return quantiles with bounds between which the true ones lie, each with about the given confidence.

        The true ones are those of the records that bounding kept. Bounds take most from the ids with most records, so
        ids with few records weigh more than in the raw data.
        """
        wanted, single = shares_of(shares)
        bounds = self._ranks.position_bounds(wanted, confidence)
        return as_asked(self._intervals(map(self.spec.domain.values, bounds), confidence), single)

    @overload
    def range_count(self, low: One, high: One, *, method: Method = ...) -> float: ...
    @overload
    def range_count(self, low: Many, high: One | Many, *, method: Method = ...) -> np.ndarray: ...
    @overload
    def range_count(self, low: One, high: Many, *, method: Method = ...) -> np.ndarray: ...
    def range_count(self, low: Any, high: Any, *, method: Method = "chosen") -> Any:
        """Return how much weight lies from low to high, both included. Raises `ValueError` where low is above high."""
        lows, highs, single = ends_of(self.spec.domain, low, high)
        return as_asked(weight_between(self._fitted_by(method).rank, lows, highs), single)

    @overload
    def range_interval(self, low: One, high: One, confidence: float = ...) -> Interval: ...
    @overload
    def range_interval(self, low: Many, high: One | Many, confidence: float = ...) -> Intervals: ...
    @overload
    def range_interval(self, low: One, high: Many, confidence: float = ...) -> Intervals: ...
    def range_interval(self, low: Any, high: Any, confidence: float = 0.95) -> Any:
        """Return weights of ranges, of the records that bounding kept, with bounds."""
        lows, highs, single = ends_of(self.spec.domain, low, high)
        bounds = self._ranks.range_bounds(lows, highs, confidence)
        return as_asked(self._intervals(bounds, confidence, len(lows)), single)

    def histogram(self, edges: Many, confidence: float = 0.95) -> Intervals:
        """Return the weight of each bin [edge, next edge), the last bin with its end, with bounds.

        So over days, the edges Monday, Tuesday and Wednesday make a bin of one day and a bin of two. A last edge after
        the end of the domain makes the last bin end there: one day, if the domain ends with Tuesday.
        """
        listed = _validate.many(edges=edges)
        positions, _ = positions_of(self.spec.domain, edges=listed)
        starts, ends, is_inside = positions[:-1], positions[1:].copy(), self.spec.domain.is_inside
        falls = ends <= starts
        if [*map(is_inside, as_list(listed)[-2:])] == [True, False]:
            falls[-1] = ends[-1] < starts[-1]
        if not len(ends) or falls.any():
            raise ArgumentError("edges", "must be at least two different values of the domain, ascending", "E717")
        ends[:-1] -= np.uint64(1)
        bounds = self._ranks.range_bounds(starts, ends, confidence)
        return self._intervals(bounds, confidence, len(ends))

    @property
    @abstractmethod
    def _ranks(self) -> Ranks:
        """The ranks behind "chosen", and all intervals."""

    @abstractmethod
    def _own_total(self) -> tuple[float, float]:
        """Return the total weight as the counters say, without a known total, and its variance."""

    @abstractmethod
    def _fitted_by(self, method: Method) -> Fitted:
        """Return the ranks that a method gives."""

    def _estimates(self, items: Any) -> np.ndarray:
        return self._fitted_weights(positions_of(self.spec.domain, items=items)[0])

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        positions, _ = positions_of(self.spec.domain, items=items)
        _, lower, upper = self._ranks.range_bounds(positions, positions, confidence)
        items, weights = self.spec.domain.values(positions), np.clip(self._fitted_weights(positions), lower, upper)
        return Frequencies(items, weights, lower, upper, basis=self._basis(confidence, len(items)))

    def _intervals(self, columns: Iterable[Any], confidence: float, asked: int = 0) -> Intervals:
        return Intervals(*columns, basis=self._basis(confidence, asked))

    def _fitted_weights(self, positions: np.ndarray) -> np.ndarray:
        """Return the likeliest weights, which are closer for heavy values than differences of monotone ranks."""
        return self._ranks.weights(positions)

    def _rank_reading(self, confidence: float) -> dict[str, Any]:
        """Return the part of `reading` that all releases of ranks have."""
        two, one, ranks = self._reach(confidence), one_sided(confidence, self._privacy.noise), self._ranks
        inside = {"inside": ranks.deviations_inside(confidence), "step": ranks.step}
        deviations = {"two_sided": two, "one_sided": one, **inside}
        return {"domain": self.spec.domain.reading(), "deviations": deviations, "known_total": self._known_total}

    def _reach(self, confidence: float) -> float:
        """Return the half-width of an interval of a sum of noises, in roots of the noise parameter."""
        return deviations_for(confidence, self._privacy.noise)

    @property
    def _known(self) -> str:
        return "" if self._known_total is None else f", known total {self._known_total:g}"

    def __reduce__(self) -> tuple[Any, ...]:
        return *super().__reduce__(), {"_known_total": self._known_total}
