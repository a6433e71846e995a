"""Clipped weight from a noisy clipping histogram: a lower bound, an estimate, and an upper end from a model.

Guarantee: post-processing.

The lower end. A unit in a bin lost at least the bin's smallest loss. The counts up to any bin, times these losses, are
therefore a lower bound plus noise with known variance. The end is the largest of these bounds over all bins. Each may
fail with half the probability of the one before, because noise in the bins of large losses weighs more. Therefore the
end has the requested confidence on all data, and larger errors are less frequent.

All counts sum to the number of units, with the noise of all bins. Its upper end has the confidence too.

The estimate. Some run of bins must exceed the noise of its sum by four standard deviations, or by the equally rare
number for Laplace noise. From the fullest bin of the run that exceeds it most, losses are modeled by a power law with
an end: in bin k there are size x 4^(-exponent k) units, up to the last bin, which has half a unit or more. All sizes,
exponents and last bins are equally likely before the counts are known (sizes by their logarithm), and afterwards in
proportion to the probability of the counts. This gives a distribution of the clipped weight. The estimate is its
median, and the upper end its 97.5 % quantile. In the bins before the fullest one, the counts themselves are multiplied
by the mean loss. Within a bin up to the fullest one, losses are modeled as even in logarithm, within the later ones as
following the power, and for the upper end as even in all.

The upper end is valid if the heaviest units follow the others' trend. No number that hides one unit can be more exact,
because a single unit may have lost any amount.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import FACTOR

_SHOWN = NormalDist().cdf(-4)  # probability that a sum of empty bins is mistaken for units
_SIZES = np.linspace(-4, 4, 25)  # standard deviations around the fullest bin
_EXPONENTS = np.arange(0.25, 3.01, 0.25)
_RELATIVE_ERROR = 0.2  # of a count as a power of the loss
_LEAST_UNITS = 0.5  # in the last bin that has any
_UPPER_SHARE = 0.975
_EVEN_MEAN = (FACTOR - 1) / math.log(FACTOR)  # `_mean` for an exponent near 0
_UPPER_MEAN = (FACTOR + 1) / 2  # for losses that are even in a bin


class LostWeight(NamedTuple):
    """Clipped weight, as a noisy histogram shows it.

    Attributes:
      at_least: a lower bound with the requested confidence, over the noise.
      estimate: the weight, from a model of heavy units. NaN if too few units were clipped.
      at_most: an upper bound from that model. Infinite without it.
      units: how many units are in the histogram.
      most_units: an upper bound for `units`, with the requested confidence.
    """

    at_least: float
    estimate: float = math.nan
    at_most: float = math.nan
    units: float = math.nan
    most_units: float = math.nan


def read(
    noisy: np.ndarray, losses: np.ndarray, sigma: float, confidence: float, noise: Noise = Noise.GAUSSIAN
) -> LostWeight:
    """Estimate the clipped weight.

    Args:
      noisy: the counts (bins,).
      losses: the smallest loss in each bin, as `summary_counts.least_losses` returns it.
      sigma: the root of the noise parameter per count.
      confidence: confidence for `at_least` alone and for `most_units` alone.
      noise: the noise distribution. Without Gaussian noise, summed counts are treated as a sum of noises.
    """
    counts, of_sums = noisy.astype(np.float64), noise.plus(noise)
    deviations = np.array([of_sums.deviations((1 - confidence) / 2**place) for place in range(1, len(losses) + 1)])
    ends = np.cumsum(counts * losses) - deviations * sigma * np.sqrt(np.cumsum(losses**2))
    at_least, units = max(0.0, float(ends.max())), max(0.0, float(counts.sum()))
    most_units = units + of_sums.deviations(1 - confidence) * sigma * math.sqrt(len(counts))
    found = _quantiles(counts, losses, sigma, noise)
    if found is None:
        return LostWeight(at_least, math.nan, math.inf, units, most_units)
    estimate = max(found[0], at_least)
    return LostWeight(at_least, estimate, max(found[1], estimate), units, most_units)


def told_units(sigma: float, noise: Noise) -> float:
    """Compute how many units suffice for an estimate in nine of ten histograms with tails over four bins."""
    return 3 * noise.deviations(_SHOWN) * sigma


def _quantiles(counts: np.ndarray, losses: np.ndarray, sigma: float, noise: Noise) -> tuple[float, float] | None:
    """Compute the clipped weight's median and upper quantile, or `None` if no run of bins shows units."""
    sums = np.append(0.0, np.cumsum(counts))
    runs = [(start, end) for start in range(len(counts)) for end in range(start + 1, len(counts) + 1)]
    above = [(sums[end] - sums[start]) / (sigma * math.sqrt(end - start)) for start, end in runs]
    start, end = runs[int(np.argmax(above))]
    if max(above) < noise.deviations(_SHOWN):
        return None
    first = start + int(counts[start:end].argmax())
    tail, places = counts[first:], np.arange(len(counts) - first)
    margin = _SIZES * math.sqrt(sigma**2 + tail[0] + (_RELATIVE_ERROR * tail[0]) ** 2)
    sizes = (tail[0] + margin)[tail[0] + margin >= 1, None, None, None]
    powers = FACTOR ** (-_EXPONENTS[:, None, None] * places)
    laws = sizes * powers * (places <= places[:, None])  # of shape (sizes, exponents, last bins, bins)
    of_laws = (_RELATIVE_ERROR * laws) ** 2
    variances = sigma**2 + laws + of_laws
    squares = (tail - laws) ** 2 / variances
    fits = -0.5 * (squares + np.log(variances)).sum(axis=-1)
    fits -= np.log(sizes[..., 0])
    fits[np.diagonal(laws, axis1=2, axis2=3) < _LEAST_UNITS] = -np.inf
    expected = laws + (tail - laws) * (of_laws / variances)
    weights, least = np.exp(fits - fits.max()), expected * losses[first:]
    below, means = float(np.maximum(counts[:first], 0) @ losses[:first]), _mean(_EXPONENTS)[:, None]
    totals = _EVEN_MEAN * (below + least[..., 0]) + means * least[..., 1:].sum(axis=-1)
    highest = _UPPER_MEAN * (below + least.sum(axis=-1))
    return _quantile(totals, weights, 0.5), _quantile(highest, weights, _UPPER_SHARE)


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    order = np.argsort(values, axis=None)
    sums = np.cumsum(weights.ravel()[order])
    return float(values.ravel()[order][np.searchsorted(sums, share * sums[-1])])


def _mean(exponents: np.ndarray) -> np.ndarray:
    """Compute the mean loss in a bin over its smallest loss, if x losses or more are in proportion to x^-exponent."""
    exponents = np.where(np.abs(exponents - 1) < 1e-6, exponents + 1e-5, exponents)
    return exponents / (1 - exponents) * (FACTOR ** (1 - exponents) - 1) / (1 - FACTOR**-exponents)
