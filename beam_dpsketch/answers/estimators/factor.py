"""Square-root factorization: value weights from its rows, and variances for sums, ranges and ranks.

Guarantee: post-processing of released rows.

Rows are y = L diag(g) h + z, as `privacy.factor.toeplitz` makes them. L is square, so h = diag(1 / g) L^-1 y is the
only unbiased estimate. L^-1 is Toeplitz too: its first column is the inverse of L's first column as a power series.

A sum of weights, a . h, is w . y with w = L^-T (a / g). With noise of variance 1 in each row, its variance is w . w.
Three kinds of sums need no transform each:
* A single value i: L^-1 has the first i + 1 coefficients in its row, so it is the sum of their squares over g_i^2.
* The covariance of each rank with the total: with u = L^-1 L^-T (1 / g), it is the sum of u / g up to the value.
* A rank. Let p be the sums of the first coefficients of L^-1, and X the prefixes of L^-1 z. Row j counts p_(i-j) in
  X_i, whose variance is a sum of p^2. Gains change at few places s. So the rank is X_i / g_i + S, where S adds up X_s
  (1 / g_s - 1 / g_(s+1)) over the places before i. The covariance of X_i and S changes slowly between two of them.
  There it is computed at places at growing distances, and interpolated over the logarithm of the distance.

Variances of ranks are within 0.1 % of the exact ones, all others exact.

RANGES OF VALUES. A range's variance needs a sum over all rows before its end. For many ranges, a grid is computed once:
short lengths and lengths near the whole domain, at places near both ends of it, each at growing steps. The other ranges
are between four of them, and interpolated.

Variances are exact for up to `FEW` ranges, within 8 % for more, which is 4 % of an interval.

RANKS INSIDE A VALUE are the weight before it, and a part of its own. A value stands for a block of positions here. Such
a rank interpolates its two neighbors, R' = (1 - p) R_(i-1) + p R_i, so variances of ranks and ranges of whole values
determine its variance.
* A single rank, with d = R_i - R_(i-1): (1 - p) Var R_(i-1) + p Var R_i - p (1 - p) Var d.
* A difference within a value: (p' - p)^2 Var d. Otherwise it is a part of the first value, the values between, and a
  part of the last one: a A + B + c C. Variances of A, B, C, A + B, B + C and A + B + C determine the covariances.
They are exact, given `FactorVariances`.

LIKELY WEIGHTS are closer than unbiased weights if a domain is empty, or has much weight in few places. An unbiased
weight has the same noise at each value, including empty values. Weights that are not negative have two more properties.
Ranks never fall, so the steps of monotone ranks are closer. And if a block does not exceed its noise, its weight is
shared evenly, like a tree node that is not expanded.

Blocks have 4, 16, 64 and more values, each in one of the next size. From the largest on, a block is opened if its
unbiased weight is above two deviations, and its values have their own steps if all blocks around them are opened. The
decision uses released weights and their variances only.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot

_PLACES = 32


def decode(factor: ToeplitzRoot, rows: np.ndarray) -> np.ndarray:
    """Decode unbiased weights of all values, float64 of shape (size,), from rows of that shape."""
    return _convolve(inverse(factor), rows) / factor.gains


@functools.lru_cache(maxsize=16)
def inverse(factor: ToeplitzRoot) -> np.ndarray:
    """Compute the first column in L^-1, float64 of shape (size,), by Newton's iteration for power series."""
    column, found = factor.coefficients.astype(np.float64), np.array([1 / factor.coefficients[0]])
    while len(found) < factor.size:
        size = min(2 * len(found), factor.size)
        padded = np.pad(found, (0, size - len(found)))
        error = -_convolve(padded, column[:size])
        error[0] += 2.0
        found = _convolve(padded, error)
    found.flags.writeable = False
    return found


def with_total(factor: ToeplitzRoot, weights: np.ndarray, total: float) -> np.ndarray:
    """Compute the likeliest value weights, given decoded weights and their known total."""
    of_ranks = total_covariances(factor)
    return weights + np.diff(of_ranks, prepend=0.0) / of_ranks[-1] * (total - weights.sum())


@functools.lru_cache(maxsize=16)
def value_variances(factor: ToeplitzRoot) -> np.ndarray:
    """Compute weight variances for all values, if rows have variance 1."""
    return np.cumsum(np.square(inverse(factor))) / np.square(factor.gains)


@functools.lru_cache(maxsize=16)
def spread(factor: ToeplitzRoot) -> float:
    """Compute the factor by which correlations between values increase the variance of a sum of squared errors.

    That is the sum of squared covariances over the sum of squared variances, away from the ends of the domain.
    """
    column = inverse(factor)
    lags = _convolve(column[::-1], column)[::-1]
    return float(2 * np.sum(np.square(lags)) / lags[0] ** 2 - 1)


@functools.lru_cache(maxsize=16)
def total_covariances(factor: ToeplitzRoot) -> np.ndarray:
    """Compute each rank's covariance with the total, which is the last rank."""
    weights = row_weights(factor, np.zeros(1, dtype=np.int64), np.array([factor.size - 1]))[0]
    return np.cumsum(_convolve(inverse(factor), weights) / factor.gains)


@functools.lru_cache(maxsize=16)
def rank_variances(factor: ToeplitzRoot) -> np.ndarray:
    """Compute rank variances."""
    sums = inverse_sums(factor)
    of_sums, found = np.cumsum(np.square(sums)), np.empty(factor.size)
    parts = 1 / factor.gains
    ends = np.append(steps(factor) - 1, factor.size - 1)
    before, start = np.zeros(0), 0  # weight of each row in S
    for end in ends.tolist():
        places = np.unique(np.rint(np.geomspace(1, end - start + 1, _PLACES)).astype(np.int64)) - 1 + start
        with_before = np.array([before @ sums[place - len(before) + 1 : place + 1][::-1] for place in places.tolist()])
        values = np.arange(start, end + 1)
        shared = np.interp(np.log(values - start + 1.0), np.log(places - start + 1.0), with_before)
        found[values] = of_sums[values] * parts[start] ** 2 + 2 * parts[start] * shared + before @ before
        if end + 1 < factor.size:
            step = (parts[end] - parts[end + 1]) * sums[: end + 1][::-1]
            step[: len(before)] += before
            before, start = step, end + 1
    found[-1] = total_covariances(factor)[-1]  # the same number, so that a known total has no variance
    return found


@functools.lru_cache(maxsize=16)
def inverse_sums(factor: ToeplitzRoot) -> np.ndarray:
    """Compute p: the sums of the first coefficients of L^-1."""
    return np.cumsum(inverse(factor))


@functools.lru_cache(maxsize=16)
def steps(factor: ToeplitzRoot) -> np.ndarray:
    """List the values whose gain differs from the previous gain, ascending."""
    return np.flatnonzero(np.diff(factor.gains)) + 1


def row_weights(factor: ToeplitzRoot, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Compute row weights in each range sum: float64 of shape (ranges, size)."""
    values = np.arange(factor.size)
    return rows_of_sums(factor, (values >= first[:, np.newaxis]) & (values <= last[:, np.newaxis]))


def rows_of_sums(factor: ToeplitzRoot, parts: np.ndarray) -> np.ndarray:
    """Compute row weights in sums with these parts of each value, both of shape (sums, size)."""
    return _convolve(inverse(factor), (parts / factor.gains)[:, ::-1])[:, ::-1]


def _convolve(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    count = second.shape[-1]
    size = 1 << (2 * count - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size)[..., :count]


_LENGTHS, _STARTS = 20, 25
FEW = 2 * _LENGTHS * _STARTS
_PIECES = 12
"""From here on, a transform is faster than a shifted sum for each piece."""


def range_variances(factor: ToeplitzRoot, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Compute weight variances for ranges from a first to a later value, both included."""
    if len(first) > FEW:
        return _interpolated(factor, first, last)
    return np.array([_range_variance(factor, *ends) for ends in zip(first.tolist(), last.tolist(), strict=True)])


def _interpolated(factor: ToeplitzRoot, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    lengths, variances = _grid(factor)
    steps_on = last - first
    row = np.clip(np.searchsorted(lengths, steps_on, side="right") - 1, 0, len(lengths) - 2)
    along = np.log(steps_on / lengths[row]) / np.log(lengths[row + 1] / lengths[row])
    before, after = np.log1p(first), np.log1p(factor.size - 1 - last)
    most = np.log1p(factor.size - 1 - steps_on)
    place = (1 + (before - after) / np.where(most > 0, most, 1.0)) / 2 * (_STARTS - 1)
    column = np.clip(place.astype(np.int64), 0, _STARTS - 2)
    across = place - column
    shorter, longer = (
        (1 - across) * variances[each, column] + across * variances[each, column + 1] for each in (row, row + 1)
    )
    found: np.ndarray = (1 - along) * shorter + along * longer
    return found


@functools.lru_cache(maxsize=16)
def _grid(factor: ToeplitzRoot) -> tuple[np.ndarray, np.ndarray]:
    """Compute distances between ends, ascending, and variances of shape (lengths, places)."""
    scales = np.geomspace(1, factor.size - 1, _LENGTHS)
    lengths = np.unique(np.rint(np.append(scales, factor.size - scales)).astype(np.int64))
    found = np.empty((len(lengths), _STARTS))
    for row, length in enumerate(lengths.tolist()):
        room = factor.size - length
        ratios = float(room) ** np.linspace(-1, 1, _STARTS)  # of the places before and after, with one more of each
        starts = np.rint(ratios * (room + 1) / (1 + ratios) - 1).astype(np.int64)
        known = {start: _range_variance(factor, start, start + length) for start in {*starts.tolist()}}
        found[row] = [known[start] for start in starts.tolist()]
    return lengths, found


def _range_variance(factor: ToeplitzRoot, first: int, last: int) -> float:
    """Compute a range's variance, from shifted sums of L^-1 for few pieces with equal gain, or from all rows.

    In a piece from s to e with gain g, row j counts (p_(e-j) - p_(s-1-j)) / g, where p_k is 0 for k below 0.
    """
    places = steps(factor)
    starts = [first, *places[np.searchsorted(places, first, "right") : np.searchsorted(places, last, "right")].tolist()]
    if len(starts) > _PIECES:
        weights = row_weights(factor, np.array([first]), np.array([last]))[0]
        return float(weights @ weights)
    sums, weights = inverse_sums(factor), np.zeros(last + 1)
    for start, end in zip(starts, [*(each - 1 for each in starts[1:]), last], strict=True):
        gain = factor.gains[start]
        weights[: end + 1] += sums[end::-1] / gain
        weights[:start] -= sums[start - 1 :: -1] / gain if start else 0.0
    return float(weights @ weights)


class FactorVariances:
    """Variances of ranks and ranges, for `estimators.ranks`.

    Args:
      factor: the factorization behind the rows.
      row_variance: noise variance per row, in squared records as rows count them.
      known_total: whether the total weight is known. Ranks are then the likeliest ranks given the total.
    """

    def __init__(self, factor: ToeplitzRoot, row_variance: float, *, known_total: bool) -> None:
        self._factor, self._row_variance, self._known_total = factor, row_variance, known_total

    @property
    def size(self) -> int:
        """How many values there are."""
        return self._factor.size

    def reading(self) -> dict[str, Any]:
        """Export the numbers from which a program in another language computes the same variances."""
        coefficients, gains = _runs(self._factor.coefficients), _runs(self._factor.gains)
        return {"size": self.size, "coefficients": coefficients, "gains": gains, "row_variance": self._row_variance}

    def rank_variance(self, positions: np.ndarray, total_share: np.ndarray | float = 0.0) -> np.ndarray:
        """Compute Var(rank(position) - total_share * total)."""
        of_ranks, with_total = rank_variances(self._factor), total_covariances(self._factor)
        own, shared, total = of_ranks[positions], with_total[positions], with_total[-1]
        if self._known_total:
            return (own - shared * (shared / total)) * self._row_variance
        return (own - 2 * total_share * shared + total_share**2 * total) * self._row_variance

    def range_variance(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Compute Var(rank(high) - rank(low)), for low <= high."""
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
    """Compute the root mean square error over all ranks."""
    variances = FactorVariances(factor, row_variance, known_total=known_total)
    return math.sqrt(float(np.mean(variances.rank_variance(np.arange(factor.size)))))


def _runs(numbers: np.ndarray) -> dict[str, np.ndarray]:
    starts = np.flatnonzero(np.append(True, np.diff(numbers) != 0))
    lengths = np.diff(starts, append=len(numbers))
    return {"values": numbers[starts].astype(np.int32), "lengths": lengths.astype(np.int32)}


class PartialRanks:
    """Variances for ranks inside a value. Values are whole numbers from 0, int64, and parts from 0 to 1."""

    def __init__(self, variances: FactorVariances) -> None:
        self._variances = variances

    def reading(self) -> dict[str, Any]:
        """Export the numbers from which a program in another language computes the same variances."""
        return self._variances.reading()

    def rank_variance(self, values: np.ndarray, parts: np.ndarray, total_share: np.ndarray | float) -> np.ndarray:
        """Compute Var(rank - total_share * total)."""
        whole, first = self._variances.rank_variance, values == 0
        share = np.broadcast_to(total_share, values.shape)
        last = np.full(1, self._variances.size - 1)
        before = np.where(first, share**2 * whole(last), whole(np.maximum(values - 1, 0), share))
        own = self._between(values - 1, values)
        return (1 - parts) * before + parts * whole(values, share) - parts * (1 - parts) * own

    def mean_variance(self, places: int) -> float:
        """Average the variance over all ranks, with parts that are multiples of 1 / places."""
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
        """Compute the variance of a difference between ranks of whole values. Value -1 has rank 0."""
        inside = np.maximum(low, 0), np.maximum(high, 0)
        found = np.where(low < 0, self._variances.rank_variance(inside[1]), self._variances.range_variance(*inside))
        return np.where(low == high, 0.0, found)


_BITS = 2
_OPENED_DEVIATIONS = 2.0
_BLOCKS = 9
"""Largest number of blocks of each size whose noise represents all of them."""


def likely_weights(factor: ToeplitzRoot, weights: np.ndarray, steps: np.ndarray, row_variance: float) -> np.ndarray:
    """Compute likely weights, float64 of shape (size,), at least 0.

    Args:
      factor: the factorization behind the rows.
      weights: unbiased weights.
      steps: steps of monotone ranks in the same shape.
      row_variance: noise variance per row.
    """
    found, sums = np.maximum(steps, 0.0), np.append(0.0, np.cumsum(weights))
    opened = np.zeros(1, dtype=np.int64)
    for shift, variance in block_variances(factor):
        blocks = (opened[:, np.newaxis] << _BITS) + np.arange(1 << _BITS)
        starts = blocks.ravel() << shift
        starts = starts[starts < factor.size]
        ends = np.minimum(starts + (1 << shift), factor.size)
        weighs = sums[ends] - sums[starts]
        is_open = weighs > _OPENED_DEVIATIONS * np.sqrt(variance * row_variance)
        starts, ends, weighs, opened = starts[~is_open], ends[~is_open], weighs[~is_open], starts[is_open] >> shift
        lengths = ends - starts
        inside = np.arange(lengths.sum()) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        found[inside] = np.repeat(np.maximum(weighs, 0.0) / lengths, lengths)
    return found


@functools.lru_cache(maxsize=4)
def block_variances(factor: ToeplitzRoot) -> list[tuple[int, float]]:
    """List the block sizes as powers of two, with their variances, from the largest on, without single values."""
    found = []
    for shift in range(_BITS, max(factor.size - 1, 1).bit_length(), _BITS):
        count = -(-factor.size >> shift)
        starts = np.unique(np.linspace(0, count - 1, _BLOCKS).astype(np.int64)) << shift
        ends = np.minimum(starts + (1 << shift), factor.size) - 1
        found.append((shift, float(np.mean(range_variances(factor, starts, ends)))))
    return found[::-1]
