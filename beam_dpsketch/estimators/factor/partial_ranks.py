"""Variances of ranks inside the values of a factor: of the weight before a value, and a part of the value's own.

A value stands for a block of positions here, and only a part of the block counts. Such a rank lies between those of two
neighbours, R' = (1 - p) R_(i-1) + p R_i, so variances of ranks and ranges of whole values give its own.
* Of one rank, with d = R_i - R_(i-1): (1 - p) Var R_(i-1) + p Var R_i - p (1 - p) Var d.
* Of a difference within a value, (p' - p)^2 Var d. Else it is a part of the first value, the values between, and a
  part of the last one: a A + B + c C. Variances of A, B, C, A + B, B + C and A + B + C say the covariances of these.

Guarantee: exact, given those of `FactorVariances`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_dpsketch.estimators.factor.variances import FactorVariances


class PartialRanks:
    """Variances of ranks in the middle of a value; values are whole numbers from 0, int64, and parts from 0 to 1."""

    def __init__(self, variances: FactorVariances) -> None:
        self._variances = variances

    def reading(self) -> dict[str, Any]:
        """Return what a program in another language makes the same variances of."""
        return self._variances.reading()

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
        found, cut = self._between(low, high), (low_parts != 1) | (high_parts != 1)
        low, low_parts, high, high_parts = low[cut], low_parts[cut], high[cut], high_parts[cut]
        a, c, end = 1 - low_parts, high_parts, np.maximum(high - 1, low)
        first, middle, last = self._between(low - 1, low), self._between(low, end), self._between(high - 1, high)
        with_first, with_last = self._between(low - 1, end), self._between(low, high)
        whole = self._between(low - 1, high)
        squares = a**2 * first + middle + c**2 * last
        shared = a * (with_first - first - middle) + c * (with_last - middle - last)
        apart = squares + shared + a * c * (whole - with_first - with_last + middle)
        found[cut] = np.where(low == high, (high_parts - low_parts) ** 2 * first, apart)
        return found

    def _between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the variance of the difference of the ranks of values; -1 is before the first, and its rank is 0."""
        inside = np.maximum(low, 0), np.maximum(high, 0)
        found = np.where(low < 0, self._variances.rank_variance(inside[1]), self._variances.range_variance(*inside))
        return np.where(low == high, 0.0, found)
