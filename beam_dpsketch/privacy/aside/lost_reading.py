"""How much weight a noisy histogram of losses shows: a lower end that holds, an estimate, and an upper end by a model.

Guarantee: post-processing.

The lower end. A unit in a bin lost the smallest loss of that bin or more. So the counts up to any bin, times these
losses, are a lower bound plus noise whose variance is known. The end is the largest of these bounds over all bins. Each
may fail with half the probability of the one before, because noise in the bins of large losses weighs more. So the end
holds with the confidence asked for, on all data, and the more it says wrongly, the less often it does.

The estimate. The highest bin that shows above the noise is the last one whose units are counted: by three standard
deviations if the bin below shows by four, else by five, because noise far above all units would weigh most. Laplace
noise needs more deviations, which it surpasses as rarely. Within a bin, losses are taken to follow a power
whose exponent the neighbours give. Above, heavy units are rare, and few can lose much: their counts are taken to go on
as a power of the loss, up to some end. All exponents and ends are weighed by how well they fit the noisy counts from
three bins before the last one shown, or from the fullest of these four on. The estimate is the median of the totals
that they give.

The upper end is the 95 % quantile of these totals, with losses near the upper ends of their bins, and with noise added.
It holds if the heaviest units go on as the others do. No number that hides one unit can say more: one unit alone may
have lost any amount.

Fewer units than 25 standard deviations of the noise leave the exponent open, and then only the lower end is said. So it
is where the model alone would say most: over twenty times what is shown.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from beam_dpsketch.privacy.aside.lost_histogram import least_losses
from beam_dpsketch.privacy.noise.laws import Noise

_NORMAL = NormalDist()
_DEVIATIONS, _BELOW, _ALONE = 3, 4, 5  # from which on a bin shows, with the bin below it, or alone
TOLD = 25  # standard deviations: fewer units do not say how losses go on
_MOST_ABOVE = 20  # times what is shown: more than that above it is the model alone
_FITTED = 4  # bins up to the last one that shows, to which a power is fitted
_RELATIVE_ERROR = 0.1  # of a count as a power of the loss
_LEAST_UNITS = 0.7  # in the last bin of a tail
_EXPONENTS = np.arange(0.1, 4.01, 0.1)
_STEEPEST, _STEEPER = 4.0, 4.0
_UPPER_SHARE = 0.95


class LostWeight(NamedTuple):
    """Weight that bounding took, as a noisy histogram shows it.

    Attributes:
      at_least: a lower bound that holds with the confidence asked for, over the noise.
      estimate: the weight, by a model of heavy units; NaN if too few units lost anything.
      at_most: an upper bound by that model; infinite without it.
    """

    at_least: float
    estimate: float
    at_most: float


def read(noisy: np.ndarray, sigma: float, confidence: float, noise: Noise = Noise.GAUSSIAN) -> LostWeight:
    """Return how much weight was lost.

    Args:
      noisy: the counts, of shape (bins,).
      sigma: the root of the parameter of the noise of each.
      confidence: of `at_least`, alone.
      noise: its law. A sum of counts that have no Gaussian noise is taken as a sum of noises.
    """
    counts, losses = noisy.astype(np.float64), least_losses(len(noisy))
    of_sums = noise.plus(noise)
    deviations = np.array([of_sums.deviations((1 - confidence) / 2**place) for place in range(1, len(losses) + 1)])
    ends = np.cumsum(counts * losses) - deviations * sigma * np.sqrt(np.cumsum(losses**2))
    at_least = max(0.0, float(ends.max()))
    after, below, alone = (noise.deviations(_NORMAL.cdf(-each)) for each in (_DEVIATIONS, _BELOW, _ALONE))
    near = np.append(0, counts[:-1]) > below * sigma
    shown = np.flatnonzero(counts > np.where(near, after, alone) * sigma)
    if not len(shown) or counts[: shown[-1] + 1].sum() < TOLD * sigma:
        return LostWeight(at_least, math.nan, math.inf)
    last = int(shown[-1])
    slopes = _slopes(np.maximum(counts, sigma))[: last + 1]
    seen, low = counts[: last + 1], losses[: last + 1]
    weights = low * _mean(slopes)
    total, above = float(seen @ weights), _tails(counts, losses, last, sigma)
    middle = _quantile(*above, 0.5)
    if middle > _MOST_ABOVE * total:
        return LostWeight(at_least, math.nan, math.inf)
    estimate = max(total + middle, at_least)
    above_noise = noise.deviations(1 - _UPPER_SHARE) * sigma * math.sqrt(float(weights @ weights))
    highest = max(float(np.maximum(seen, 0) @ (low * _mean(slopes + _STEEPER))), estimate)
    return LostWeight(at_least, estimate, highest + _quantile(*above, _UPPER_SHARE) + above_noise)


def _slopes(counts: np.ndarray) -> np.ndarray:
    """Return how much the logarithm of the counts to the base 2 grows from bin to bin, by the neighbours of each."""
    slopes = np.gradient(np.log2(counts))
    return np.clip(slopes, -_STEEPEST, _STEEPEST)


def _mean(slopes: np.ndarray) -> np.ndarray:
    """Return the mean of x in [1, 2) with density in proportion to x^(slope - 1)."""
    slopes = np.where(np.minimum(np.abs(slopes), np.abs(slopes + 1)) < 1e-6, slopes + 1e-5, slopes)
    return slopes / (slopes + 1) * np.expm1((slopes + 1) * math.log(2)) / np.expm1(slopes * math.log(2))


def _tails(counts: np.ndarray, losses: np.ndarray, last: int, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight lost above the last bin that shows, for each exponent and end, and how well each fits."""
    first = max(0, last - _FITTED + 1)
    first += int(counts[first : last + 1].argmax())
    counts, losses, last = counts[first:], losses[first:], last - first
    precision = 1 / (sigma**2 + np.maximum(counts, 1) + (_RELATIVE_ERROR * np.maximum(counts, 0)) ** 2)
    places, ends = np.arange(len(counts)), np.arange(last, len(counts))
    shapes = 2.0 ** (-_EXPONENTS[:, None, None] * places) * (places <= ends[:, None])
    sizes = (shapes @ (precision * counts)) / ((shapes**2) @ precision)
    fitted = np.maximum(sizes, 0)[..., None] * shapes
    fits = -0.5 * (precision * (counts - fitted) ** 2).sum(axis=2)
    above = (fitted[..., last + 1 :] @ losses[last + 1 :]) * _mean(-_EXPONENTS)[:, None]
    has_units = fitted[:, np.arange(len(ends)), ends] >= _LEAST_UNITS
    has_units[:, 0] = True  # an end at the last bin that shows
    return above[has_units], np.exp(fits[has_units] - fits[has_units].max())


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(sums, share * sums[-1]), len(values) - 1)])
