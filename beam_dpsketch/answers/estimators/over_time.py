"""Answers from rows over time, by the decoder of the mechanism: of the binned square root, or of the binary tree.

Rows are y = C x + noise, as `privacy.over_time.mechanism` makes them. An answer is the sum over windows of a_s x_s: a
range has ones in it, and the difference of two ranges has 1 and -1. The estimate is a sum over rows, w . y, with w from
the coefficients and the mechanism alone. It is unbiased, because C^T w = a. With noise of variance n in each counter of
each row, its variance is n (w . w).

The binned square root: forward substitution with the bins that made the rows. Row t has window t alone in its newest
bin. So the window's estimate is what the row holds above its older bins, which are sums of earlier estimates. They join
as the exact sums do in the encoder: O(log T) arrays are in memory. C is square here, so the estimate is the only
unbiased one, and rows that come later never change it.

Variances need no counters. C^T w = a is solved from the last window to the first: w_t follows from what later rows took
from each bin around window t. For all prefixes together there is a faster way: the covariances of what the forward
substitution holds, of one counter with noise of variance 1. They are a small matrix, and each step changes one row.

The binary tree: least squares. Given the rows of C that came out so far, w = C (C^T C)^-1 a is the least-squares
estimate: among all w with C^T w = a, none is shorter. Complete subtrees that share no node have blocks of their own in
C^T C, so rows outside the subtrees that are asked for count exactly 0. Rows that come later make estimates of earlier
windows closer, so these change.

Guarantee: post-processing of released rows; nothing here decides about privacy. Source: Andersson and Pagh 2024 (bins);
the order of steps is that of any triangular system.
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
    """Turns rows into answers, for all counters at once.

    Coefficients are float64, one for each of the windows 0 to t. All rows that came out with these windows must be
    there: an estimate may use them all.

    Args:
      mechanism: which rows there are.
      row: returns the noisy row of a number, float64 of one shape for all, in units of records times C.
    """

    def __init__(self, mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> None:
        self._mechanism, self._row = mechanism, row

    def estimate(self, coefficients: np.ndarray) -> np.ndarray:
        """Return the estimate of the sum over windows of coefficient times counters, in records."""
        weights = self.weights(coefficients)
        total = np.zeros_like(self._row(0))
        for number in np.flatnonzero(weights).tolist():
            total += weights[number] * self._row(number)
        return total

    @abstractmethod
    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Return w, how much each row counts: float64, one for each row of these windows."""

    def rows_used(self, coefficients: np.ndarray) -> Sequence[int]:
        """Return the numbers of the rows that the estimate is made of, ascending."""
        numbers: list[int] = np.flatnonzero(self.weights(coefficients)).tolist()
        return numbers

    def variance(self, coefficients: np.ndarray) -> float:
        """Return the variance of the estimate over sigma^2, where a row has noise of sigma^2 `squared_length`."""
        weights = self.weights(coefficients)
        return float(weights @ weights) * self._mechanism.squared_length


class KeptArrays:
    """Arrays by name; the oldest go first when all together exceed MAX_KEPT_BYTES."""

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
    """Decodes each row of a `BinnedRoot` once, in order; keeps sums of the windows so far while they have room."""

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
    """Return the variance of the first `windows` prefixes, or more of them, in the units of `RowDecoder.variance`."""
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
    """Return where in the bins before, newest first, each of the bins that they join to begins."""
    ends = [(each.place + 1) << each.level for each in before]
    return np.array([ends.index((each.place + 1) << each.level) for each in bins])


@functools.lru_cache(maxsize=16)
def _weights(mechanism: RowMechanism, packed: bytes) -> np.ndarray:
    """Return w with C^T w = a, by backward substitution."""
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
    """Return how often the sum of the windows up to each one counts, so that windows count as the coefficients say."""
    return coefficients - np.append(coefficients[1:], 0.0)


_ROUNDED = 1e-12  # what rounding leaves of a weight of 0


class TreeDecoder(RowDecoder):
    """The normal equations of a `BinaryTree`, over the windows that coefficients are given for."""

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        found = coefficients @ _inverse(self._mechanism, len(coefficients))
        return np.where(np.abs(found) > _ROUNDED * np.abs(found).max(), found, 0.0)


@functools.lru_cache(maxsize=2)
def _inverse(mechanism: RowMechanism, windows: int) -> np.ndarray:
    """Compute (C^T C)^-1 C^T of the rows of the first windows, of shape (windows, rows)."""
    rows = itertools.islice(matrix_rows(mechanism), mechanism.first_row(windows))
    matrix = np.array([row[:windows] for row in rows], dtype=np.float64)
    return np.linalg.solve(matrix.T @ matrix, matrix.T)


_DECODERS = {BinnedRoot: RootDecoder, BinaryTree: TreeDecoder}


def decoder_of(mechanism: RowMechanism, row: Callable[[int], np.ndarray]) -> RowDecoder:
    """Return the decoder; `row` gives the values of a row by its number."""
    return _DECODERS[type(mechanism)](mechanism, row)
