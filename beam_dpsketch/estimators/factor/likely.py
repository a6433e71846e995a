"""Likely weights of single values: closer than unbiased ones where a domain is empty, or has much weight in few places.

An unbiased weight has the same noise at each value, also where there is nothing. Two facts are known of weights that
are not negative. Ranks never fall, so the steps of monotone ranks are closer. And where a block of values does not rise
above its noise, its weight is shared evenly, as a tree does with a node that it does not open.

Blocks have 4, 16, 64 and more values, each in one of the next size. From the largest on, a block is opened if its
unbiased weight is above two deviations, and its values have their own steps if all blocks around them are opened.

Guarantee: post-processing. Nothing but released weights and their variances decides what is opened.
"""

from __future__ import annotations

import functools

import numpy as np

from beam_dpsketch.estimators.factor.range_variances import range_variances
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot

_BITS = 2
_OPENED_DEVIATIONS = 2.0
_BLOCKS = 9
"""Of each size, at most this many blocks say how much noise all of them have."""


def likely_weights(factor: ToeplitzRoot, weights: np.ndarray, steps: np.ndarray, row_variance: float) -> np.ndarray:
    """Return the likely weight of each value, float64 of shape (size,), not below 0.

    Args:
      factor: what the rows were made with.
      weights: unbiased ones.
      steps: the steps of monotone ranks, of the same shape.
      row_variance: of the noise in each row.
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
    """Return the size of blocks as a power of two, and their variance, from the largest on; single values apart."""
    found = []
    for shift in range(_BITS, max(factor.size - 1, 1).bit_length(), _BITS):
        count = -(-factor.size >> shift)
        starts = np.unique(np.linspace(0, count - 1, _BLOCKS).astype(np.int64)) << shift
        ends = np.minimum(starts + (1 << shift), factor.size) - 1
        found.append((shift, float(np.mean(range_variances(factor, starts, ends)))))
    return found[::-1]
