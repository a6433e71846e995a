"""Ranks from the weights of pieces of a domain: monotone, between 0 and the total, with bounds.

Guarantee of ranks: post-processing. Inside a piece, weight is taken as spread evenly. Bounds are about normal, around
the ranks before they are made monotone, which are unbiased; they always hold the estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from beam_dpsketch.estimators.presence import deviations_for

Bounds: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Estimates, lower and upper bounds, of equal shapes."""


class RankVariances(Protocol):
    """How certain ranks are before they are made monotone."""

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the variance of rank(position) - total_share * total."""

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the variance of rank(high) - rank(low), for low <= high."""


class Ranks:
    """Ranks by position, 0 to size - 1.

    Args:
      starts: the first position of each piece, ascending.
      lengths: how many positions it has.
      weights: its weight, unbiased.
      size: of the domain.
      total: the total weight, if it is known.
      variances: of sums of weights.
    """

    def __init__(
        self,
        starts: np.ndarray,
        lengths: np.ndarray,
        weights: np.ndarray,
        *,
        size: int,
        total: float | None,
        variances: RankVariances,
    ) -> None:
        self._starts, self._lengths, self._size, self.variances = starts, lengths, size, variances
        self._fitted = np.append(0.0, np.cumsum(weights))
        # The last value of an isotonic fit is never below, and so on average above, the sum that was fitted.
        top = max(0.0, self._fitted[-1]) if total is None else total
        self._cumulated = np.clip(isotonic(self._fitted), 0.0, top)
        self._cumulated[0], self._cumulated[-1] = 0.0, top
        self._known_total = total

    @property
    def total(self) -> float:
        return float(self._cumulated[-1])

    def rank(self, positions: np.ndarray) -> np.ndarray:
        return self._interpolated(self._cumulated, positions)

    def fitted_rank(self, positions: np.ndarray) -> np.ndarray:
        """Return the same before it is made monotone: variances are about this."""
        return self._interpolated(self._fitted, positions)

    def position(self, ranks: np.ndarray) -> np.ndarray:
        node = np.searchsorted(self._cumulated[1:], ranks, side="left")
        node = np.minimum(node, len(self._starts) - 1)
        weight = self._cumulated[node + 1] - self._cumulated[node]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(weight > 0, (ranks - self._cumulated[node]) / weight, ranks > self._cumulated[node])
        steps = np.clip(np.ceil(np.clip(share, 0.0, 1.0) * self._lengths[node]) - 1, 0, self._lengths[node] - 1)
        return self._starts[node] + np.minimum(_whole(steps), np.uint64(self._size - 1) - self._starts[node])

    def total_bounds(self, confidence: float) -> Bounds:
        total, last = np.array([self.total]), np.array([self._size - 1], dtype=np.uint64)
        variance = self.variances.rank_variance(last) if self._known_total is None else np.zeros(1)
        margin = _margin(variance, confidence)
        return total, np.maximum(0.0, total - margin), total + margin

    def rank_bounds(self, positions: np.ndarray, confidence: float) -> Bounds:
        margin = _margin(self.variances.rank_variance(positions), confidence)
        top = np.inf if self._known_total is None else self._known_total
        return _clipped(self.rank(positions), margin, top, centre=self.fitted_rank(positions))

    def share_bounds(self, positions: np.ndarray, confidence: float) -> Bounds:
        share = share_of(self.rank(positions), self.total)
        margin = _margin(self.variances.rank_variance(positions, share), confidence) / max(self.total, 1.0)
        return _clipped(share, margin, 1.0)

    def position_bounds(self, shares: np.ndarray, confidence: float) -> Bounds:
        """Return the first positions whose ranks are these shares of the total, with bounds, as positions."""
        ranks = shares * self.total
        middle = self.position(ranks)

        # A lower value is the quantile if its rank is high enough, a higher one if the rank before it is too low.
        def margin(positions: np.ndarray) -> np.ndarray:
            return _margin(self.variances.rank_variance(positions, shares), confidence)

        below, above = margin(_before(middle)), margin(middle)
        lower, upper = self.position(np.maximum(ranks - below, 0.0)), self.position(ranks + above)
        # Ranks may be less certain where the bounds came to lie, as in a long flat tail, than at the estimate.
        below, above = np.maximum(below, margin(_before(lower))), np.maximum(above, margin(upper))
        return middle, self.position(np.maximum(ranks - below, 0.0)), self.position(ranks + above)

    def range_bounds(self, low: np.ndarray, high: np.ndarray, confidence: float) -> Bounds:
        ranges = self.variances.range_variance(np.minimum(_before(low), high), high)
        margin = _margin(np.where(low == 0, self.variances.rank_variance(high), ranges), confidence)
        centre = weight_between(self.fitted_rank, low, high)
        return _clipped(weight_between(self.rank, low, high), margin, np.inf, centre=centre)

    def _interpolated(self, cumulated: np.ndarray, positions: np.ndarray) -> np.ndarray:
        node = np.searchsorted(self._starts, positions, side="right") - 1
        share = ((positions - self._starts[node]).astype(np.float64) + 1) / self._lengths[node]
        return cumulated[node] + share * (cumulated[node + 1] - cumulated[node])


def share_of(ranks: np.ndarray, total: float) -> np.ndarray:
    """Return ranks divided by the total, in [0, 1]; 1 where the total is 0."""
    return np.clip(ranks / total, 0.0, 1.0) if total > 0 else np.ones(len(ranks))


def weight_between(rank: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the weight from low to high, both included, from ranks by position; 0 where low is above high."""
    below = np.where(low == 0, 0.0, rank(_before(low)))
    return np.where(high >= low, rank(high) - below, 0.0)


def _before(positions: np.ndarray) -> np.ndarray:
    return positions - np.minimum(positions, np.uint64(1))


def _margin(variance: np.ndarray, confidence: float) -> np.ndarray:
    return deviations_for(confidence) * np.sqrt(np.maximum(variance, 0.0))


def _clipped(middle: np.ndarray, margin: np.ndarray, top: float, centre: np.ndarray | None = None) -> Bounds:
    """Return estimates with bounds in [0, top], around a better centre if given, between which the estimates lie."""
    centre = middle if centre is None else centre
    lower, upper = np.minimum(centre - margin, middle), np.maximum(centre + margin, middle)
    return middle, np.clip(lower, 0.0, top), np.clip(upper, 0.0, top)


def _whole(steps: np.ndarray) -> np.ndarray:
    """Return floats from 0 to 2**64 as uint64, the highest for 2**64 itself."""
    return np.where(steps >= 2.0**64, np.uint64((1 << 64) - 1), np.minimum(steps, 2.0**64 - 2048).astype(np.uint64))


def isotonic(values: np.ndarray) -> np.ndarray:
    """Return the non-decreasing sequence nearest in squares (pool adjacent violators)."""
    sums: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        total, size = value, 1
        while sums and sums[-1] * size >= total * sizes[-1]:
            total += sums.pop()
            size += sizes.pop()
        sums.append(total)
        sizes.append(size)
    return np.repeat(np.array(sums) / np.array(sizes), sizes)
