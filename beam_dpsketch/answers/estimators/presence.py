"""Noise half-widths, and a test whether counters exceed their noise, by their sum and their squares.

Guarantee: post-processing. For noise alone, `exceeds_noise` is true with probability about 1e-3. Source: Wilson and
Hilferty 1931 for the cube root of a chi-square. Squares of other noise vary by its fourth moment. Sums of few such
squares have longer tails, in proportion to the square root of their number. If most of the noise is 0, a sum increases
in whole grid steps, and two steps are common.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.privacy.noise.laws import Noise

_DEVIATIONS, _OF_ONE, _STEPS = 3.3, 1.6, 2


def exceeds_noise(counters: np.ndarray, variance: float, *, has_signs: bool, fourth: float = 0.0) -> bool:
    """Whether counters exceed noise with this variance each.

    Args:
      counters: counters of any shape.
      variance: noise variance per counter.
      has_signs: whether items have random signs, so that the sum contains no information.
      fourth: fourth cumulant of the noise, 0 for a Gaussian.
    """
    size, scaled = counters.size, counters.astype(np.float64) / math.sqrt(variance)
    spread = (2 + fourth / variance**2) / (9 * size)
    energy = (float(np.mean(scaled**2)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    step = math.sqrt(max(fourth / variance - 3 * variance, 0.0) / variance)  # grid size, in deviations
    total = 0.0 if has_signs else (abs(float(scaled.sum())) - _STEPS * step) / math.sqrt(size)
    return max(energy, total) > _DEVIATIONS + (_OF_ONE / math.sqrt(size) if fourth else 0)


def deviations_for(confidence: float, noise: Noise = Noise.GAUSSIAN) -> float:
    """Compute the half-width for sums of noises, in roots of the parameter. See `noise.laws`."""
    _validate.open_unit_interval(confidence=confidence)
    if noise is Noise.GAUSSIAN:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    return noise.plus(noise).deviations((1 - confidence) / 2)
