"""The length of a unit over all rows of a square-root factor: what norms bound where ranks are made of such rows.

Guarantee: let a unit add v to the histogram of a key and window, in units of 2^-bits. Let the sizes of its parts at
value j sum to a_j. Let N^2 be the sum below, of the unit's net weights. Let `norm.scaling` scale each of them by
c = min(1, max_norm / N), rounded down. Then, with the W and D of `toeplitz`, over all keys, windows and tables t

    sum of share_t |W v|^2 <= (2^bits max_norm)^2 D^2.

The rule. G = W^T W has an entry for each pair of values. B is G / D^2 in units of 2^-PAIR_BITS, rounded up. N^2 is the
sum over tables of share_t times the sum over keys and windows of a' B a. Pairs of different values count too: rows hold
many values, and the parts of a unit add up there. The diagonal alone is 6.9 times too short for 100 neighbours.

Proof. W has no entry below 0. So a row changes by at most what sizes without signs add to it, and |W v|^2 is at most
a' G a. All entries of G are at least 0. So a' G a shrinks by c^2 or more where all sizes shrink by c and are rounded
down, also to 0. Before, it was at most D^2 a' B a, which is all that N must bound: B of what is left is never needed.
By Cauchy and Schwarz no entry of G is above D^2, and B has none above 1. So a' B a <= (sum of a_j)^2, and N is at most
the unit's total weight: a unit with at most max_norm records is not changed. A larger size never has a smaller N.

Steps. Above MAX_DENSE values B would be too large. There an entry depends on two whole numbers only: how far apart the
two values are, and how far the later one is from the last value. Each is known to a step of 1, 2, 3, 4, 6, 8, 12 and so
on. All pairs in the same two steps have the largest entry of all of them, rounded up.

That entry is found without a search. For a fixed later value j, G_ij = g_i g_j sum over k < n - j of c_k c_(k + j - i).
c does not ascend, and gains do not descend. So G_ij does not grow as i goes further away, and the largest one of a step
is at its beginning. One pass over all j gives it for all ends.

A unit of many values needs no list of its pairs. For each value, the sum of all sizes that are one step before it is a
difference of running totals. So the time is that of some 40 look-ups for each value, however many there are.

Numbers. N^2 is a whole number over one denominator, exact in float64 below 2^53. Above, `scaling.shrinkage` rounds up
by more than the error of 2^28 additions. If a key and window weighs 2^62 or more, its pairs may all count as 1.

What steps cost: N is at most 6 % above that of G in random units, spread or close together, at 2,100 to 2^20 values.
With the distance alone, it is up to 70 % above, for units among the last values.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from beam_dpsketch.privacy.factor.pairs import ONE_PAIR, PAIR_BITS, pair_up, squares_by_lag
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.norm.scaling import Row

MAX_DENSE = 2048
_MAX_SQUARED_LENGTH = 1 << 62 - PAIR_BITS
_MAX_TOTAL = 2.0**62
_FEW = 64  # up to here, looking at each pair is faster than running totals


class _StepWeights(NamedTuple):
    """Pair weights above MAX_DENSE.

    Attributes:
      begins: of each step, int64, ascending, the last one is the number of values.
      of_distance: the step of each distance, int64 of shape (size,).
      weights: of each step between two values, and from the later one to the end, float64.
    """

    begins: np.ndarray
    of_distance: np.ndarray
    weights: np.ndarray

    def weights_of(self, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Return the weight of each pair of values."""
        return self.weights[self.of_distance[later - earlier], self.of_distance[len(self.of_distance) - 1 - later]]


def squared_norms(factor: ToeplitzRoot, groups: np.ndarray, units: np.ndarray, rows: Iterable[Row]) -> np.ndarray:
    """Return denominator * 2^PAIR_BITS * N^2 of each unit: float64 of shape (units,), exact below 2^53.

    Args:
      factor: which rows there are.
      groups: the unit, key and window of each net weight as one number: from 0, ascending, int64 of shape (n,).
      units: the unit of each group: whole numbers from 0, ascending, none left out.
      rows: as `norm.scaling.squared_norms` takes them, with cells that are values, from 0 to the size of the factor.
    """
    norms = np.zeros(int(units[-1]) + 1 if len(units) else 0)
    for row in rows:
        places, sums = scaling.sum_by_place(groups * np.int64(factor.size) + row.cells, row.sizes)
        of_sums, values = places // factor.size, places % factor.size
        if factor.size <= MAX_DENSE:
            squares = pair_up(of_sums, values, sums, _pair_weights(factor))
        else:
            squares = _squares_by_step(of_sums, values, sums, _steps(factor))
        norms += row.numerator * np.bincount(units[of_sums], squares, len(norms))
    return norms


def _squares_by_step(groups: np.ndarray, values: np.ndarray, sums: np.ndarray, steps: _StepWeights) -> np.ndarray:
    """Return numbers whose sum over a group is that of weight * size * size over its pairs: float64, one for each sum.

    Which way is taken depends on the group alone.
    """
    squares = np.zeros(len(sums))
    counts = np.diff(np.append(np.flatnonzero(np.diff(groups, prepend=-1)), len(sums)))
    is_few = np.repeat(counts <= _FEW, counts)
    few, many = np.flatnonzero(is_few), np.flatnonzero(~is_few)
    squares[few] = squares_by_lag(groups[few], values[few], sums[few].astype(np.float64), steps.weights_of)
    squares[many] = _squares_by_total(groups[many], values[many], sums[many], steps)
    return squares


def _squares_by_total(groups: np.ndarray, values: np.ndarray, sums: np.ndarray, steps: _StepWeights) -> np.ndarray:
    """Return, for each sum, weight * size^2 and twice weight * size * size for each earlier one of its group."""
    places = groups * np.int64(2 * len(steps.of_distance)) + values  # no step reaches into another group
    sizes, totals = sums.astype(np.float64), np.append(0, np.cumsum(sums))  # may wrap around, differences do not
    from_end = steps.of_distance[len(steps.of_distance) - 1 - values]
    earlier, end = np.zeros(len(sums)), np.arange(len(sums))
    for weights, next_begin in zip(steps.weights[1:], steps.begins[2:], strict=True):
        begin = np.searchsorted(places, places - next_begin, side="right")
        earlier += weights[from_end] * (totals[end] - totals[begin])
        end = begin
    squares = sizes * (steps.weights[0][from_end] * sizes + 2 * earlier)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    of_groups = np.add.reduceat(sizes, starts) if len(starts) else sizes
    too_heavy = of_groups >= _MAX_TOTAL
    squares[np.repeat(too_heavy, np.diff(np.append(starts, len(sums))))] = 0.0
    squares[starts[too_heavy]] = np.square(of_groups[too_heavy]) * ONE_PAIR
    return squares


@functools.lru_cache(maxsize=4)
def _pair_weights(factor: ToeplitzRoot) -> np.ndarray:
    """Return B of all pairs, int64 of shape (size, size), read-only."""
    size = factor.size
    weights = np.empty(size * size, dtype=np.int64)
    for distance in range(size):
        entries = _shares(_entries(factor, distance)[::-1], factor)
        weights[distance :: size + 1][: size - distance] = entries
        weights[distance * size :: size + 1][: size - distance] = entries
    weights.flags.writeable = False
    return weights.reshape(size, size)


@functools.lru_cache(maxsize=8)
def _steps(factor: ToeplitzRoot) -> _StepWeights:
    begins = [0, 1, *(begin << level for level in range(factor.size.bit_length()) for begin in (2, 3))]
    inner = np.array([begin for begin in begins if begin < factor.size])
    weights = np.zeros((len(inner), len(inner)))
    for row, begin in zip(weights, inner.tolist(), strict=True):
        ends = inner[inner < factor.size - begin]
        row[: len(ends)] = _shares(np.maximum.reduceat(_entries(factor, begin), ends), factor)
    of_distance = np.repeat(np.arange(len(inner)), np.diff(inner, append=factor.size))
    return _StepWeights(np.append(inner, factor.size), of_distance, weights)


def _entries(factor: ToeplitzRoot, distance: int) -> np.ndarray:
    """Return G of all pairs of values that are this far apart, exactly, int64: that of the last value first."""
    column, gains, count = factor.coefficients, factor.gains, factor.size - distance
    return np.cumsum(column[:count] * column[distance:]) * (gains[:count] * gains[distance:])[::-1]


def _shares(entries: np.ndarray, factor: ToeplitzRoot) -> np.ndarray:
    """Return entries of G over D^2 in units of 2^-PAIR_BITS, rounded up: int64, exactly."""
    assert factor.squared_length < _MAX_SQUARED_LENGTH  # and no entry is above it, by Cauchy and Schwarz
    return -(-(entries << np.int64(PAIR_BITS)) // factor.squared_length)
