"""What decoders of rows share: the estimate of a sum of windows with coefficients, and how much noise it has.

Rows are y = C x + noise, as `privacy.over_time.mechanism` makes them. An answer is the sum over windows of a_s x_s: a
range has ones in it, and the difference of two ranges has 1 and -1. The estimate is a sum over rows, w . y, with w from
the coefficients and the mechanism alone. It is unbiased, because C^T w = a. With noise of variance n in each counter of
each row, its variance is n (w . w).

Guarantee: post-processing of released rows; nothing here decides about privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from beam_dpsketch.privacy.over_time.mechanism import RowMechanism

MAX_KEPT_BYTES = 1 << 28


class RowDecoder(ABC):
    """Turns rows into answers, for all counters at once.

    Coefficients are float64, one for each of the windows 0 to t. All rows that came out with these windows must be
    there: an estimate may use them all.

    Args:
      mechanism: which rows there are.
      row: returns the noisy row of a number, float64 of one shape for all, in units of records times C.
    """

    def __init__(self, mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> None:
        self._mechanism, self._row, self._kept = mechanism, row, KeptArrays()

    @abstractmethod
    def estimate(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the estimate of the sum over windows of coefficient times counters, in records."""

    @abstractmethod
    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Return w, how much each row counts: float64, one for each row of these windows."""

    @abstractmethod
    def rows_used(self, coefficients: np.ndarray) -> Sequence[int]:
        """Return the numbers of the rows that the estimate is made of, ascending."""

    def variance(self, coefficients: np.ndarray) -> float:
        """Return the variance of the estimate over sigma^2, where a row has noise of sigma^2 `squared_length`."""
        weights = self.weights(coefficients)
        return float(weights @ weights) * self._mechanism.squared_length

    def _sum_of_rows(self, coefficients: np.ndarray) -> np.ndarray:
        weights = self.weights(coefficients)
        total = np.zeros_like(self._row(0))
        for number in np.flatnonzero(weights).tolist():
            total += weights[number] * self._row(number)
        return total


class KeptArrays:
    """Arrays by name; the oldest go first when all together exceed MAX_KEPT_BYTES."""

    def __init__(self) -> None:
        self._arrays: dict[Hashable, np.ndarray] = {}
        self._bytes = 0

    def get(self, name: Hashable) -> np.ndarray | None:
        return self._arrays.get(name)

    def put(self, name: Hashable, array: np.ndarray) -> None:
        self._arrays[name] = array
        self._bytes += array.nbytes
        while self._bytes > MAX_KEPT_BYTES:
            self._bytes -= self._arrays.pop(next(iter(self._arrays))).nbytes
