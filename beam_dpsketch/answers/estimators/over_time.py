"""Decoders from timeline rows to answers, for the binned square root and the binary tree.

Rows are y = C x + noise, as `privacy.over_time.mechanism` makes them. An answer is the sum over windows of a_s x_s: a
range has ones in it, and the difference of two ranges has 1 and -1. The estimate is a sum over rows, w . y, with w from
the coefficients and the mechanism alone. It is unbiased, because C^T w = a. With noise of variance n in each counter of
each row, its variance is n (w . w).

The binned square root: forward substitution with the bins that made the rows. Row t has window t alone in its newest
bin. The window's estimate is therefore the row minus its older bins, which are sums of earlier estimates. They merge as
the exact sums do in the encoder: O(log T) arrays are in memory. C is square here, so the estimate is the only unbiased
one, and later rows never change it.

Variances need no counters. C^T w = a is solved from the last window to the first: w_t follows from the amounts that
later rows used from each bin around window t. All prefixes together have a faster solution: the covariances of the sums
in the forward substitution, for one counter with noise of variance 1. They form a small matrix, and each step changes
one row.

The binary tree: least squares. Given the rows of C that are released so far, w = C (C^T C)^-1 a is the least-squares
estimate: among all w with C^T w = a, none is shorter. Complete subtrees that share no node have separate blocks in
C^T C, so rows outside the requested subtrees count exactly 0. Later rows make estimates for earlier windows closer, so
these change.

Guarantee: post-processing of released rows, without decisions about privacy. Source: Andersson and Pagh 2024 (bins).
The order of steps is as in any triangular system.
"""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import Bin, RowMechanism, matrix_rows

MAX_KEPT_BYTES = 1 << 28


class RowDecoder(ABC):
    """Decoder from rows to answers, for all counters at once.

    Coefficients are float64, one for each of the windows 0 to t. An estimate may use all rows released with these
    windows, so all of them must be available.

    Args:
      mechanism: the mechanism that defines the rows.
      row: function from a number to its noisy row, float64 of equal shapes, in units of records times C.
    """

    def __init__(self, mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> None:
        self._mechanism, self._row = mechanism, row

    def estimate(self, coefficients: np.ndarray) -> np.ndarray:
        """Estimate the sum of coefficient times counters over windows, in records."""
        weights = self.weights(coefficients)
        total = np.zeros_like(self._row(0))
        for number in np.flatnonzero(weights).tolist():
            total += weights[number] * self._row(number)
        return total

    @abstractmethod
    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Compute the row weights w for all rows released with these windows: float64."""

    def rows_used(self, coefficients: np.ndarray) -> Sequence[int]:
        """List the row numbers in the estimate, ascending."""
        numbers: list[int] = np.flatnonzero(self.weights(coefficients)).tolist()
        return numbers

    def variance(self, coefficients: np.ndarray) -> float:
        """Compute the estimate's variance over sigma^2, if a row has noise of sigma^2 `squared_length`."""
        weights = self.weights(coefficients)
        return float(weights @ weights) * self._mechanism.squared_length


class KeptArrays:
    """Array cache by name. The oldest are removed if all together exceed MAX_KEPT_BYTES."""

    def __init__(self) -> None:
        self._arrays: dict[int, np.ndarray] = {}
        self._bytes = 0

    def get(self, name: int) -> np.ndarray | None:
        return self._arrays.get(name)

    def put(self, name: int, array: np.ndarray) -> None:
        self._arrays[name] = array
        self._bytes += array.nbytes
        while self._bytes > MAX_KEPT_BYTES:
            self._bytes -= self._arrays.pop(next(iter(self._arrays))).nbytes


class RootDecoder(RowDecoder):
    """Decoder of a `BinnedRoot`. It decodes each row once, in order, and caches prefix sums within a memory limit."""

    def __init__(self, mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> None:
        super().__init__(mechanism, row)
        self._kept = KeptArrays()
        self._next = 0
        self._sums: dict[tuple[int, int], np.ndarray] = {}
        self._prefix = np.zeros(())

    def estimate(self, coefficients: np.ndarray) -> np.ndarray:
        steps = _steps(coefficients)
        total, gone = np.zeros_like(self._row(0)), np.zeros_like(steps)
        for window in np.flatnonzero(steps).tolist():
            while self._next <= window:
                self._decode_next()
            prefix = self._kept.get(window)
            if prefix is None:
                gone[window] = steps[window]
            else:
                total += steps[window] * prefix
        return total + super().estimate(np.cumsum(gone[::-1])[::-1]) if gone.any() else total

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        found = np.zeros(len(coefficients))
        found[: len(self.rows_used(coefficients))] = _weights(
            self._mechanism, np.trim_zeros(coefficients, "b").tobytes()
        )
        return found

    def rows_used(self, coefficients: np.ndarray) -> Sequence[int]:
        return range(len(np.trim_zeros(coefficients, "b")))

    def variance(self, coefficients: np.ndarray) -> float:
        steps = _steps(coefficients)
        if np.count_nonzero(steps) != 1:
            return super().variance(coefficients)
        (window,) = np.flatnonzero(steps).tolist()
        return float(steps[window] ** 2 * prefix_variances(self._mechanism, window + 1)[window])

    def _decode_next(self) -> None:
        window = self._next
        (newest, *older) = self._mechanism.rows_of(window)[0]
        rest = np.array(self._row(window), dtype=np.float64)
        for level, place, weight in older:
            rest -= weight * self._join(level, place)
        rest /= newest.weight
        self._sums[0, window] = rest
        self._prefix = self._prefix + rest / self._mechanism.gains[window]
        self._kept.put(window, self._prefix)
        self._next += 1

    def _join(self, level: int, place: int) -> np.ndarray:
        if (level, place) not in self._sums:
            halves = [self._join(level - 1, 2 * place + half) for half in (0, 1)]
            del self._sums[level - 1, 2 * place], self._sums[level - 1, 2 * place + 1]
            self._sums[level, place] = halves[0] + halves[1]
        return self._sums[level, place]


def prefix_variances(mechanism: RowMechanism, windows: int) -> np.ndarray:
    """Compute variances for at least the first `windows` prefixes, in the units of `RowDecoder.variance`."""
    return _prefix_variances(mechanism, min(1 << (windows - 1).bit_length(), mechanism.windows))


@functools.lru_cache(maxsize=8)
def _prefix_variances(mechanism: RowMechanism, windows: int) -> np.ndarray:
    found, variance, gains = np.zeros(windows), 0.0, mechanism.gains
    bins: Sequence[Bin] = ()
    of_sums, with_prefix = np.zeros((0, 0)), np.zeros(0)  # covariances of the sums over bins, and with the prefix
    for window in range(windows):
        before, bins = bins, mechanism.rows_of(window)[0]
        own, taken = bins[0].weight, np.array([each.weight for each in bins[1:]], dtype=np.float64)
        if before:
            starts = _starts(before, bins[1:])
            of_sums = np.add.reduceat(np.add.reduceat(of_sums, starts, axis=0), starts, axis=1)
            with_prefix = np.add.reduceat(with_prefix, starts)
        with_sums = of_sums @ taken / -own
        of_window = (1 - own * float(taken @ with_sums)) / own**2
        of_both = -float(taken @ with_prefix) / own
        gain = gains[window]
        variance += 2 * of_both / gain + of_window / gain**2
        with_prefix = np.append(of_both + of_window / gain, with_prefix + with_sums / gain)
        of_sums = np.block([[np.array([[of_window]]), with_sums[None, :]], [with_sums[:, None], of_sums]])
        found[window] = variance
    found *= mechanism.squared_length
    found.flags.writeable = False
    return found


def _starts(before: Sequence[Bin], bins: Sequence[Bin]) -> np.ndarray:
    """Find where each merged bin starts in the previous bins, newest first."""
    ends = [(each.place + 1) << each.level for each in before]
    return np.array([ends.index((each.place + 1) << each.level) for each in bins])


@functools.lru_cache(maxsize=16)
def _weights(mechanism: RowMechanism, packed: bytes) -> np.ndarray:
    """Solve C^T w = a, by backward substitution."""
    wanted = np.frombuffer(packed, dtype=np.float64)
    windows, gains = len(wanted), mechanism.gains
    scaled = [value / gain for value, gain in zip(wanted.tolist(), gains, strict=False)]
    taken = [[0.0] * ((windows >> level) + 1) for level in range(windows.bit_length())]
    found = np.zeros(windows)
    for window in range(windows - 1, -1, -1):
        (newest, *older) = mechanism.rows_of(window)[0]
        already = sum(of_level[window >> level] for level, of_level in enumerate(taken))
        weight = (scaled[window] - already) / newest.weight
        for level, place, count in older:
            taken[level][place] += count * weight
        found[window] = weight
    found.flags.writeable = False
    return found


def _steps(coefficients: np.ndarray) -> np.ndarray:
    """Convert window coefficients to prefix-sum coefficients."""
    return coefficients - np.append(coefficients[1:], 0.0)


_ROUNDED = 1e-12  # rounding error of a weight of 0


class TreeDecoder(RowDecoder):
    """Decoder of a `BinaryTree`, by its normal equations over the windows with coefficients."""

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        found = coefficients @ _inverse(self._mechanism, len(coefficients))
        return np.where(np.abs(found) > _ROUNDED * np.abs(found).max(), found, 0.0)


@functools.lru_cache(maxsize=2)
def _inverse(mechanism: RowMechanism, windows: int) -> np.ndarray:
    """Compute (C^T C)^-1 C^T for the rows of the first windows, in shape (windows, rows)."""
    rows = itertools.islice(matrix_rows(mechanism), mechanism.first_row(windows))
    matrix = np.array([row[:windows] for row in rows], dtype=np.float64)
    return np.linalg.solve(matrix.T @ matrix, matrix.T)


_DECODERS = {BinnedRoot: RootDecoder, BinaryTree: TreeDecoder}


def decoder_of(mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> RowDecoder:
    """Build the decoder for a mechanism. `row` returns a row by its number."""
    return _DECODERS[type(mechanism)](mechanism, row)
