"""Ranks from weights of domain pieces: monotone, between 0 and the total, with bounds.

Guarantee of ranks: post-processing. Weight inside a piece is modeled as spread evenly. Bounds are about normal, around
the unbiased ranks before they are made monotone, and always contain the estimate.

PLACES. A piece's weight may be anywhere in it, and the reader who chooses a place may know where. A range therefore
weighs at least as much as the whole pieces in it, and at most as much as all pieces that it touches. Both sums are
unbiased, and their expectations differ by the weight of the pieces that the range cuts. An interval from c deviations
below one to c above the other contains the truth with confidence p if Phi(c + distance / deviation) - Phi(-c) >= p,
because only one end can be near it (Imbens and Manski 2004). `reach` is such a c, from 95 % on at most 0.03 above the
least one.

NOISE. Sums of Laplace noises have the half-width from `noise.laws`, plus half a step of their grid. A single Laplace is
then within the margin m with the same confidence as a continuous Laplace: it exceeds m with probability
2 p^k / (1 + p), where k is the next step above m, so m <= k - 1/2 there, and 2 p^k / (1 + p) <= p^(k - 1/2), because
2 sqrt(p) <= 1 + p.

Quantiles are different, because their shares are chosen, and not the places. The position of weight in a piece
therefore counts as the variance of a random place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np

from beam_dpsketch.answers.estimators.presence import deviations_for
from beam_dpsketch.privacy.noise.laws import Noise

_TINY = 1e-300
Bounds: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Estimates, lower and upper bounds, of equal shapes."""


class RankVariances(Protocol):
    """Variances for ranks before they are made monotone."""

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Compute Var(rank(position) - total_share * total)."""

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Compute Var(rank(high) - rank(low)), for low <= high."""


class Ranks:
    """Ranks by position, 0 to size - 1.

    Args:
      starts: first position of each piece, ascending.
      lengths: positions in each piece.
      weights: unbiased weight of each piece.
      size: domain size.
      total: total weight, if known.
      variances: variances for sums of weights.
      noise: noise distribution in the weights.
      step: noise grid step, or 0 for a fine grid.
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
        noise: Noise = Noise.GAUSSIAN,
        step: float = 0.0,
    ) -> None:
        self._starts, self._lengths, self._size, self.variances = starts, lengths, size, variances
        self._weights, self.noise, self.step = weights, noise, step
        self._ends = np.append(starts[1:] - np.uint64(1), np.uint64(size - 1))
        self._fitted = np.append(0.0, np.cumsum(weights))
        # An isotonic fit's last value is never below the fitted sum, and so above it on average.
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
        """Compute ranks before they are made monotone, which `variances` describe."""
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
        margin = self._margin(variance, confidence)
        return total, np.maximum(0.0, total - margin), total + margin

    def variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Compute Var(rank(position) - total_share * total), with weight at random places in its piece."""
        piece = self.piece(positions)
        part = (positions - self._starts[piece] + np.uint64(1)).astype(np.float64) / self._lengths[piece]
        weight = np.maximum(self._weights[piece], 0.0)
        return self.variances.rank_variance(positions, total_share) + np.clip(part * (1 - part), 0.0, None) * weight**2

    def rank_bounds(self, positions: np.ndarray, confidence: float) -> Bounds:
        return self.range_bounds(np.zeros_like(positions), positions, confidence)

    def share_bounds(self, positions: np.ndarray, confidence: float) -> Bounds:
        share, piece, fitted = share_of(self.rank(positions), self.total), self.piece(positions), self._fitted
        here, is_cut = self.fitted_rank(positions), positions != self._ends[piece]
        below, above = (is_cut * np.maximum(each, 0.0) for each in (here - fitted[piece], fitted[piece + 1] - here))
        margin = self._reach(confidence, below + above, self.variances.rank_variance(positions, share))
        total = max(self.total, 1.0)
        return share, *np.clip((share - (below + margin) / total, share + (above + margin) / total), 0.0, 1.0)

    def position_bounds(self, shares: np.ndarray, confidence: float) -> Bounds:
        """Find the first positions whose ranks are these shares of the total, with bounds, as positions."""
        ranks = shares * self.total
        middle = self.position(ranks)

        # A lower value is the quantile if its rank is high enough, a higher one if the rank before it is too low.
        def margin(positions: np.ndarray) -> np.ndarray:
            return self._margin(self.variance(positions, shares), confidence)

        below, above = margin(_before(middle)), margin(middle)
        lower, upper = self.position(np.maximum(ranks - below, 0.0)), self.position(ranks + above)
        # Variances may be larger at the bounds than at the estimate, as in a long flat tail.
        below, above = np.maximum(below, margin(_before(lower))), np.maximum(above, margin(upper))
        return middle, self.position(np.maximum(ranks - below, 0.0)), self.position(ranks + above)

    def range_bounds(self, low: np.ndarray, high: np.ndarray, confidence: float) -> Bounds:
        """Estimate the weight from low to high, both included, with bounds."""
        first, last = self.piece(low), self.piece(high)
        whole_first, whole_last = first + (low > self._starts[first]), last - (high < self._ends[last])
        most, variance = self._of_pieces(first, last)
        least, cut = most.copy(), np.flatnonzero((whole_first > first) | (whole_last < last))
        least[cut], other = self._of_pieces(whole_first[cut], whole_last[cut])
        variance[cut] = np.maximum(variance[cut], other)
        margin, inside = self._reach(confidence, most - least, variance), cut[first[cut] == last[cut]]
        margin[inside] = self.deviations_inside(confidence) * np.sqrt(variance[inside])
        middle = weight_between(self.rank, low, high)
        return self._within(middle, np.minimum(least - margin, middle), np.maximum(most + margin, middle))

    def weights(self, positions: np.ndarray) -> np.ndarray:
        """Estimate the likeliest weight at each position."""
        return np.maximum(weight_between(self.fitted_rank, positions, positions), 0.0)

    def deviations_inside(self, confidence: float) -> float:
        """Bound the weight inside a piece above the piece's estimate, in deviations of that estimate."""
        return deviations_for(confidence, self.noise)

    def _margin(self, variance: np.ndarray, confidence: float) -> np.ndarray:
        return deviations_for(confidence, self.noise) * np.sqrt(np.maximum(variance, 0.0)) + self.step / 2

    def _reach(self, confidence: float, distance: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return reach(confidence, distance, variance, self.noise) + np.where(variance > 0, self.step / 2, 0.0)

    def _within(self, middle: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Bounds:
        top = np.inf if self._known_total is None else self._known_total
        lower, upper = np.clip(lower, 0.0, top), np.clip(upper, 0.0, top)
        return np.clip(middle, lower, upper), lower, upper

    def piece(self, positions: np.ndarray) -> np.ndarray:
        """Find the piece number for each position."""
        return np.searchsorted(self._starts, positions, side="right") - 1

    def _of_pieces(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum the fitted weights from a first to a last piece, with the variance; 0 for an empty range."""
        variance, last = np.zeros(len(first)), np.maximum(last, first - 1)
        ranks, ranges = np.flatnonzero((first <= last) & (first == 0)), np.flatnonzero((first <= last) & (first > 0))
        variance[ranks] = self.variances.rank_variance(self._ends[last[ranks]])
        variance[ranges] = self.variances.range_variance(self._ends[first[ranges] - 1], self._ends[last[ranges]])
        return self._fitted[last + 1] - self._fitted[first], variance

    def _interpolated(self, cumulated: np.ndarray, positions: np.ndarray) -> np.ndarray:
        node = self.piece(positions)
        share = ((positions - self._starts[node]).astype(np.float64) + 1) / self._lengths[node]
        return cumulated[node] + share * (cumulated[node + 1] - cumulated[node])


def share_of(ranks: np.ndarray, total: float) -> np.ndarray:
    """Divide ranks by the total, clamped to [0, 1], or 1 if the total is 0."""
    return np.clip(ranks / total, 0.0, 1.0) if total > 0 else np.ones(len(ranks))


def weight_between(rank: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Compute the weight from low to high, both included, from ranks by position, or 0 if low is above high."""
    below = np.where(low == 0, 0.0, rank(_before(low)))
    return np.where(high >= low, rank(high) - below, 0.0)


def reach(confidence: float, distance: np.ndarray, variance: np.ndarray, noise: Noise = Noise.GAUSSIAN) -> np.ndarray:
    """Compute how far an interval extends beyond two estimates, for a value between two numbers at this distance."""
    two, one = deviations_for(confidence, noise), one_sided(confidence, noise)
    deviation = np.sqrt(np.maximum(variance, _TINY))
    fall = np.exp(-np.maximum(distance, 0.0) / deviation / (2 * (two - one)))
    return np.where(variance > 0, (one + (two - one) * fall) * deviation, 0.0)


def one_sided(confidence: float, noise: Noise = Noise.GAUSSIAN) -> float:
    """Compute a one-sided interval's length in deviations, at least 0."""
    return max(noise.plus(noise).deviations(1 - confidence), 0.0)


def _before(positions: np.ndarray) -> np.ndarray:
    return positions - np.minimum(positions, np.uint64(1))


def _whole(steps: np.ndarray) -> np.ndarray:
    """Convert floats from 0 to 2**64 to uint64, with the highest value for 2**64 itself."""
    return np.where(steps >= 2.0**64, np.uint64((1 << 64) - 1), np.minimum(steps, 2.0**64 - 2048).astype(np.uint64))


def isotonic(values: np.ndarray) -> np.ndarray:
    """Compute the non-decreasing sequence nearest in squares (pool adjacent violators)."""
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
