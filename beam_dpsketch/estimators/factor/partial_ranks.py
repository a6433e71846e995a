"""Variances of ranks inside the values of a factor: of the weight before a value, and a part of the value's own.

A value stands for a block of positions here, and only a part of the block counts. Such a rank lies between those of two
neighbours, R' = (1 - p) R_(i-1) + p R_i, so variances of ranks and ranges of whole values give its own.
* Of one rank, with d = R_i - R_(i-1): (1 - p) Var R_(i-1) + p Var R_i - p (1 - p) Var d.
* Of a difference, whose coefficients c sum to 0: minus the sum over pairs of c_i c_j Var(R_i - R_j).

Guarantee: exact, given those of `FactorVariances`.
"""

from __future__ import annotations

import itertools

import numpy as np

from beam_dpsketch.estimators.factor.variances import FactorVariances


class PartialRanks:
    """Variances of ranks in the middle of a value; values are whole numbers from 0, int64, and parts from 0 to 1."""

    def __init__(self, variances: FactorVariances) -> None:
        self._variances = variances

    def rank_variance(self, values: np.ndarray, parts: np.ndarray, total_share: np.ndarray | float) -> np.ndarray:
        """Return the variance of the rank less a share of the total."""
        whole, first = self._variances.rank_variance, values == 0
        share = np.broadcast_to(total_share, values.shape)
        last = np.full(1, self._variances.size - 1)
        before = np.where(first, share**2 * whole(last), whole(np.maximum(values - 1, 0), share))
        own = self._between(values - 1, values)
        return (1 - parts) * before + parts * whole(values, share) - parts * (1 - parts) * own

    def mean_variance(self, places: int) -> float:
        """Return the mean over all ranks, where the part of each value is a multiple of 1 / places."""
        values = np.arange(self._variances.size)
        of_ranks = self._variances.rank_variance(values)
        part, spread = (places + 1) / (2 * places), (places**2 - 1) / (6 * places**2)  # means of p and p (1 - p)
        parts = (
            (1 - part) * of_ranks[:-1].sum() + part * of_ranks.sum() - spread * self._between(values - 1, values).sum()
        )
        return float(parts) / len(values)

    def range_variance(
        self, low: np.ndarray, low_parts: np.ndarray, high: np.ndarray, high_parts: np.ndarray
    ) -> np.ndarray:
        """Return the variance of the difference of two ranks."""
        places = (low - 1, low_parts - 1), (low, -low_parts), (high - 1, 1 - high_parts), (high, high_parts)
        found = np.zeros(len(low))
        for (first, own), (second, other) in itertools.combinations(places, 2):
            found -= own * other * self._between(np.minimum(first, second), np.maximum(first, second))
        return found

    def _between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the variance of the difference of the ranks of values; -1 is before the first, and its rank is 0."""
        inside = np.maximum(low, 0), np.maximum(high, 0)
        found = np.where(low < 0, self._variances.rank_variance(inside[1]), self._variances.range_variance(*inside))
        return np.where(low == high, 0.0, found)
