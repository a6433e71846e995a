"""How far noise reaches, and whether noisy counters hold anything: their sum and squares, against those of noise alone.

Guarantee: post-processing. Of noise alone, `exceeds_noise` is true with a probability of about 1e-3. Source: Wilson and
Hilferty 1931 for the cube root of a chi-square. The squares of other noise vary by its fourth moment, and sums of few
of them have longer tails, which go with the root of their number. Where most of the noise is 0, a sum takes whole steps
of its grid, and two of them are usual.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.privacy.noise.laws import Noise

_DEVIATIONS, _OF_ONE, _STEPS = 3.3, 1.6, 2


def exceeds_noise(counters: np.ndarray, variance: float, *, has_signs: bool, fourth: float = 0.0) -> bool:
    """Return whether counters hold more than noise of this variance each.

    Args:
      counters: of any shape.
      variance: of the noise in each of them.
      has_signs: whether items have random signs there, so that the sum says nothing.
      fourth: its fourth cumulant, which is 0 of a Gaussian.
    """
    size, scaled = counters.size, counters.astype(np.float64) / math.sqrt(variance)
    spread = (2 + fourth / variance**2) / (9 * size)
    energy = (float(np.mean(scaled**2)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    step = math.sqrt(max(fourth / variance - 3 * variance, 0.0) / variance)  # of the grid, in deviations
    total = 0.0 if has_signs else (abs(float(scaled.sum())) - _STEPS * step) / math.sqrt(size)
    return max(energy, total) > _DEVIATIONS + (_OF_ONE / math.sqrt(size) if fourth else 0)


def deviations_for(confidence: float, noise: Noise = Noise.GAUSSIAN) -> float:
    """Return how many roots of its parameter an interval of sums of noises reaches to each side; see `noise.laws`."""
    _validate.open_unit_interval(confidence=confidence)
    if noise is Noise.GAUSSIAN:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return noise.plus(noise).deviations((1 - confidence) / 2)
