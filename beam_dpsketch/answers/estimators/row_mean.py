"""Huber mean over the rows in a flat sketch, and its error.

The Huber mean is the median over rows plus the rows' mean distance from it, each clamped to one scale. A heavy
collision therefore moves it little, as it does the median. If noise dominates, its variance is 0.74 times the median's
with five rows, and 0.67 times with many. The scale is the typical size of counters, collisions and noise together, and
at least 1.5 sigma. For Laplace noise with its longer tails, it is at least half a sigma.

Guarantee: post-processing of released counters. Bounds have the given confidence over the noise and the seed, for data
of any skew. Over the seed, the row errors of an item are independent, and each error equals each counter with the same
probability (with a random sign, if the sketch has signs). The noisy counters therefore show the error distribution of a
row, heavy tails included, and `upper_margin` computes the error of the Huber mean. Sources: Huber 1964 for the mean;
Charikar, Chen and Farach-Colton 2002 for rows that are independent over the seed.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.sketches.spec import MAX_DEPTH, SketchSpec, at_least
from beam_dpsketch.privacy.noise.laws import Noise

_QUARTER, _HALF = (NormalDist().inv_cdf((1 + share) / 2) for share in (0.25, 0.5))
_SIGMAS = {Noise.GAUSSIAN: 1.5, Noise.LAPLACE: 0.5, Noise.SUM: 1.0}
_DRAWS = 1 << 13
_ROUNDING = 1e-9  # includes an error of exactly the margin that was summed in another order
_VALUES = 1 << 12
_BLOCK = 1 << 14  # items whose rows stay in the processor's cache
_NETWORK_DEPTH, _NETWORK_ITEMS = 16, 128  # sorting is faster for more rows or fewer items


class RowReader:
    """Estimates from flat sketch rows. Unsigned rows are centered: each minus its cells' median.

    Attributes:
      counters: centered counters (depth, width).
      scale: the largest distance from the median with which a row counts.
    """

    def __init__(
        self, spec: SketchSpec, counters: np.ndarray, sigma_squared: Fraction | float, noise: Noise = Noise.GAUSSIAN
    ) -> None:
        self._spec, self._has_signs = spec, spec.kind == "count_sketch"
        self.counters = centred(counters, has_signs=self._has_signs)
        self.scale = robust_scale(self.counters, math.sqrt(sigma_squared), noise)
        self._margins: dict[float, tuple[float, float]] = {}

    def estimates(self, keys: np.ndarray) -> np.ndarray:
        rows = cells.read_rows(self.counters, keys, seed=self._spec.seed, has_signs=self._has_signs)
        return huber_mean(rows, self.scale)

    def margins(self, confidence: float) -> tuple[float, float]:
        if confidence not in self._margins:
            errors, depth = self.counters.ravel(), self._spec.depth
            self._margins[confidence] = margins(
                errors, self.scale, depth=depth, confidence=confidence, has_signs=self._has_signs
            )
        return self._margins[confidence]


def centred(counters: np.ndarray, *, has_signs: bool) -> np.ndarray:
    """Subtract its row's median from each counter without signs."""
    return counters if has_signs else counters - np.median(counters, axis=1, keepdims=True)


def robust_scale(errors: np.ndarray, sigma: float, noise: Noise = Noise.GAUSSIAN) -> float:
    """Compute the standard deviation of most cells as if normal, but at least 1.5 sigma for a Gaussian.

    It is the smaller of two estimates, from the median and from the lower quartile of the absolute values. They agree
    for normal errors. If heavy collisions spread the outer half of the cells, the quartile is smaller and the result
    closer to the median over rows, which is then hard to surpass. If noise dominates, 1.5 sigma averages more of it
    than 1 sigma.
    """
    quartile, middle = np.quantile(np.abs(errors), (0.25, 0.5))
    return max(_SIGMAS[noise] * sigma, min(float(quartile) / _QUARTER, float(middle) / _HALF))


def huber_mean(rows: np.ndarray, scale: float) -> np.ndarray:
    """Compute the Huber mean over the first axis of rows (depth, n)."""
    means = []
    for block in np.array_split(rows, max(1, rows.shape[1] // _BLOCK), axis=1):
        middle = median_of_rows(block)
        means.append(middle + np.clip(block - middle, -scale, scale).mean(axis=0))
    return np.concatenate(means)


def median_of_rows(rows: np.ndarray) -> np.ndarray:
    """Compute the median over the first axis of rows (depth, n), several times faster than numpy."""
    depth, half = len(rows), (len(rows) - 1) // 2
    if depth > _NETWORK_DEPTH or rows.shape[1] < _NETWORK_ITEMS:
        whole = np.sort(rows, axis=0)
        return (whole[half] + whole[depth // 2]) / 2
    ordered = list(rows)
    for last in range(depth - 1, half - 1, -1):  # moves the largest row before `last` to it
        for place in range(last):
            low, high = ordered[place : place + 2]
            ordered[place : place + 2] = np.minimum(low, high), np.maximum(low, high)
    return (ordered[half] + ordered[depth // 2]) / 2


def margins(errors: np.ndarray, scale: float, *, depth: int, confidence: float, has_signs: bool) -> tuple[float, float]:
    """Compute margins below and above the Huber mean if rows have such errors."""
    failure = (1 - confidence) / 2
    if has_signs:
        margin = upper_margin(np.append(errors, -errors), scale, depth=depth, failure_probability=failure)
        return margin, margin
    below, above = (upper_margin(each, scale, depth=depth, failure_probability=failure) for each in (errors, -errors))
    return below, above


def upper_margin(errors: np.ndarray, scale: float, *, depth: int, failure_probability: float) -> float:
    """Compute a bound that the Huber mean of `depth` independent draws exceeds with this probability, or 0.

    The middle row, at even depths the upper one of two, has each of many ranks in turn, evenly in the logarithm of the
    rank, each with the probability of its stretch. The other rows are drawn below and above it. A probability of 1e-6
    is therefore resolved like 0.05: the draws move a margin by 1 % or less. They are the same in every process.

    One more error stands for values that the counters cannot show: the largest, plus a noise that is exceeded with this
    probability.
    """
    largest = errors.max() - scale * NormalDist().inv_cdf(failure_probability)
    ordered = np.append(np.sort(errors), largest)[::-1]
    ranks, weights = _middle_ranks(ordered, scale, depth, failure_probability)
    rows, above = [_at(ordered, ranks)], (depth - 1) // 2
    for row in range(depth - 1):
        shares = _shares(row)
        rows.append(_at(ordered, ranks * shares if row < above else ranks + (1 - ranks) * shares))
    means = huber_mean(np.array(rows), scale)
    order = np.argsort(-means)
    exceeds = np.searchsorted(np.cumsum(weights[order]), failure_probability, side="right")
    return max(0.0, float(means[order[exceeds]])) + _ROUNDING * scale


@functools.lru_cache(maxsize=128)
def noise_margin(depth: int, confidence: float, noise: Noise = Noise.GAUSSIAN) -> float:
    """Compute the two-sided margin from noise alone at this confidence, in sigmas."""
    above = np.array([noise.deviations((place + 0.5) / _VALUES) for place in range(_VALUES // 2)])
    errors = np.append(above, -above)
    scale = robust_scale(errors, 1.0, noise)
    return upper_margin(errors, scale, depth=depth, failure_probability=(1 - confidence) / 2)


@functools.lru_cache(maxsize=MAX_DEPTH)
def _shares(row: int) -> np.ndarray:
    """Draw from [0, 1) for one row: the multiples of a number, modulo 1, are more even than random draws."""
    number = cells.mix(np.array([row], dtype=np.uint64), seed=0, row=0)
    return np.arange(_DRAWS, dtype=np.uint64) * number / 2.0**64


def _middle_ranks(ordered: np.ndarray, scale: float, depth: int, failure: float) -> tuple[np.ndarray, np.ndarray]:
    """List ranks of the upper middle row, as shares of larger errors, with their probabilities.

    The mean is within a window shorter than the scale, around the middle rows. Upper middle rows that are a scale below
    the quantile of the lower middle row are therefore irrelevant. Ranks beyond a thousandth of the failure probability
    count as one rank.
    """
    half = (depth + 1) // 2
    window = _at(ordered, _row_share(depth, depth // 2 + 1, failure)) - scale
    first = np.searchsorted(-ordered, -window, side="right") / len(ordered)
    last = _row_share(depth, half, failure) * 1e-3 ** (1 / half)
    edges = np.append(np.geomspace(first, last, _DRAWS), 0.0)
    return (edges[1:] + edges[:-1]) / 2, -np.diff(at_least(half, depth, edges))


def _at(ordered: np.ndarray, ranks: np.ndarray | float) -> np.ndarray:
    places = np.asarray(ranks * len(ordered)).astype(np.int64)
    return ordered[np.minimum(places, len(ordered) - 1)]


def _row_share(depth: int, rows: int, failure: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        low, high = (share, high) if at_least(rows, depth, share) <= failure else (low, share)
    return low
