"""Sums over all pairs of windows to which a unit contributes, with a weight for each pair.

Lengths of units over rows are such sums. Weights are whole numbers in units of 2^-PAIR_BITS, at most 1. Sums are exact
in float64 below 2^53. Above, their error is less than the error of 2^28 additions.
"""

from __future__ import annotations

import numpy as np

PAIR_BITS = 20
ONE_PAIR = 1 << PAIR_BITS
_HALF_BITS = PAIR_BITS // 2
_MAX_TOTAL = 1 << 21  # squared, times 2^_HALF_BITS, it is below 2^53
_SPARSE = 16  # with a 16th of all windows, a matrix product is faster than single pairs
_CHUNK = 512


def pair_up(groups: np.ndarray, windows: np.ndarray, sizes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute numbers whose sum over a group is the sum of weight * size * size over its pairs: float64, one per size.

    The group alone determines the algorithm.

    Args:
      groups: group of each size, as a whole number from 0: int64, shape (n,), ascending.
      windows: the window of each size, int64, shape (n,), each only once per group.
      sizes: contribution to each window, nonnegative, shape (n,).
      weights: weight of each pair of windows, int64, shape (windows, windows), from 0 to ONE_PAIR.
    """
    sizes, squares = sizes.astype(np.float64), np.zeros(len(groups))
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    counts = np.diff(np.append(starts, len(groups)))
    totals = np.add.reduceat(sizes, starts) if len(starts) else sizes
    filled = (counts * _SPARSE >= len(weights)) & (totals < _MAX_TOTAL)
    squares[starts[filled]] = _squares_of_filled(starts[filled], counts[filled], windows, sizes, weights)
    rest = np.flatnonzero(np.repeat(~filled, counts))
    squares[rest] = _squares_by_lag(groups[rest], windows[rest], sizes[rest], weights)
    return squares


def _squares_of_filled(
    starts: np.ndarray, counts: np.ndarray, windows: np.ndarray, sizes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Compute the sum over the pairs of each group, by matrix products.

    Products with the high and the low half of the weights are exact in any order, because totals are small.
    """
    squares = [np.zeros(0)]
    if not len(starts):
        return squares[0]
    high, low = (half.astype(np.float64) for half in np.divmod(weights, 1 << _HALF_BITS))
    for chunk in range(0, len(starts), _CHUNK):
        lengths = counts[chunk : chunk + _CHUNK]
        numbers = np.repeat(np.arange(len(lengths)), lengths)
        rows = np.arange(len(numbers)) + (starts[chunk : chunk + _CHUNK] - np.cumsum(lengths) + lengths)[numbers]
        block = np.zeros((len(lengths), len(weights)))
        block[numbers, windows[rows]] = sizes[rows]
        of_high, of_low = (np.einsum("ps,ps->p", block @ half, block) for half in (high, low))
        squares.append(of_high * (1 << _HALF_BITS) + of_low)
    return np.concatenate(squares)


def _squares_by_lag(groups: np.ndarray, windows: np.ndarray, sizes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute, for each size, weight * size^2 and twice weight * size * size for each later size in its group."""
    squares = weights[windows, windows] * sizes * sizes
    first, lag = np.arange(len(groups)), 0
    while len(first):
        lag += 1
        first = first[: np.searchsorted(first, len(groups) - lag)]
        first = first[groups[first] == groups[first + lag]]
        second = first + lag
        squares[first] += 2 * weights[windows[first], windows[second]] * sizes[first] * sizes[second]
    return squares
