"""How certain ranks of a factor are: the variances of ranks and ranges, also where the total weight is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beam_dpsketch.estimators.factor.decoding import rank_variances, total_covariances, value_variances
from beam_dpsketch.estimators.factor.range_variances import range_variances
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot


class FactorVariances:
    """Variances of ranks and of ranges, for `estimators.ranks`.

    Args:
      factor: what the rows were made with.
      row_variance: of the noise in each row, in squared records as rows count them.
      known_total: whether the total weight is known; then ranks are those that it leaves likeliest.
    """

    def __init__(self, factor: ToeplitzRoot, row_variance: float, *, known_total: bool) -> None:
        self._factor, self._row_variance, self._known_total = factor, row_variance, known_total

    @property
    def size(self) -> int:
        """How many values there are."""
        return self._factor.size

    def reading(self) -> dict[str, Any]:
        """Return what a program in another language makes the same variances of."""
        coefficients, gains = _runs(self._factor.coefficients), _runs(self._factor.gains)
        return {"size": self.size, "coefficients": coefficients, "gains": gains, "row_variance": self._row_variance}

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Return the variance of rank(position) - total_share * total."""
        of_ranks, with_total = rank_variances(self._factor), total_covariances(self._factor)
        own, shared, total = of_ranks[positions], with_total[positions], with_total[-1]
        if self._known_total:
            return (own - shared * (shared / total)) * self._row_variance
        return (own - 2 * total_share * shared + total_share**2 * total) * self._row_variance

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the variance of rank(high) - rank(low), for low <= high."""
        pairs, which = np.unique(np.stack([low, high]).astype(np.int64), axis=1, return_inverse=True)
        starts, ends = pairs
        found = np.where(ends == starts + 1, value_variances(self._factor)[ends], 0.0)
        wide = np.flatnonzero(ends > starts + 1)
        found[wide] = range_variances(self._factor, starts[wide] + 1, ends[wide])
        if self._known_total:
            with_total = total_covariances(self._factor)
            found -= (with_total[ends] - with_total[starts]) ** 2 / with_total[-1]
        return found[which.reshape(-1)] * self._row_variance


def rank_deviation(factor: ToeplitzRoot, row_variance: float, *, known_total: bool) -> float:
    """Return the root mean square error of the ranks of all values."""
    variances = FactorVariances(factor, row_variance, known_total=known_total)
    return math.sqrt(float(np.mean(variances.rank_variance(np.arange(factor.size)))))


def _runs(numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return small whole numbers as runs of equal ones."""
    starts = np.flatnonzero(np.append(True, np.diff(numbers) != 0))
    lengths = np.diff(starts, append=len(numbers))
    return {"values": numbers[starts].astype(np.int32), "lengths": lengths.astype(np.int32)}
