"""The variance of the weight of a range of values, which rows of a factor say: exactly, or from a grid of ranges.

One range takes a sum over all rows before its end. Where many are asked, a grid is worked out once: of short
lengths and of those near the whole domain, at places near both ends of it, each at growing steps. The others are
between four of them, and interpolated.

Guarantee: exact for up to `FEW` ranges, within 8 % for more, which is 4 % of an interval.
"""

from __future__ import annotations

import functools

import numpy as np

from beam_dpsketch.estimators.factor.decoding import inverse_sums, row_weights, steps
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot

_LENGTHS, _PLACES = 20, 25
FEW = 2 * _LENGTHS * _PLACES
_PIECES = 12
"""From here on, one transform is faster than a shifted sum for each piece."""


def range_variances(factor: ToeplitzRoot, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the variance of the weight from a first to a later value, both included, for each range."""
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
    place = (1 + (before - after) / np.where(most > 0, most, 1.0)) / 2 * (_PLACES - 1)
    column = np.clip(place.astype(np.int64), 0, _PLACES - 2)
    across = place - column
    shorter, longer = (
        (1 - across) * variances[each, column] + across * variances[each, column + 1] for each in (row, row + 1)
    )
    found: np.ndarray = (1 - along) * shorter + along * longer
    return found


@functools.lru_cache(maxsize=16)
def _grid(factor: ToeplitzRoot) -> tuple[np.ndarray, np.ndarray]:
    """Return how far apart the ends are, ascending, and the variances, of shape (lengths, places)."""
    scales = np.geomspace(1, factor.size - 1, _LENGTHS)
    lengths = np.unique(np.rint(np.append(scales, factor.size - scales)).astype(np.int64))
    found = np.empty((len(lengths), _PLACES))
    for row, length in enumerate(lengths.tolist()):
        room = factor.size - length
        ratios = float(room) ** np.linspace(-1, 1, _PLACES)  # of the places before, and after, with one more of each
        starts = np.rint(ratios * (room + 1) / (1 + ratios) - 1).astype(np.int64)
        known = {start: _range_variance(factor, start, start + length) for start in {*starts.tolist()}}
        found[row] = [known[start] for start in starts.tolist()]
    return lengths, found


def _range_variance(factor: ToeplitzRoot, first: int, last: int) -> float:
    """Return that of one range: of a few pieces of equal gains, each a difference of shifted sums of L^-1, or of all.

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
