"""Whether noisy counters hold anything: their sum and the sum of their squares, against those of noise alone.

Guarantee: post-processing. Of noise alone, `exceeds_noise` is true with a probability of about 1e-3. Source: Wilson and
Hilferty 1931 for the cube root of a chi-square. The squares of other noise vary by its fourth moment, and sums of few
of them have longer tails, which go with the root of their number.
"""

from __future__ import annotations

import math

import numpy as np

from beam_dpsketch.privacy.noise.laws import Noise

_DEVIATIONS, _OF_ONE = 3.3, 1.6


def exceeds_noise(counters: np.ndarray, variance: float, *, has_signs: bool, noise: Noise = Noise.GAUSSIAN) -> bool:
    """Return whether counters hold more than noise of this variance each.

    Args:
      counters: of any shape.
      variance: of the noise in each of them.
      has_signs: whether items have random signs there, so that the sum says nothing.
      noise: its law.
    """
    size, scaled = counters.size, counters.astype(np.float64) / math.sqrt(variance)
    spread = (noise.fourth_moment - 1) / (9 * size)
    energy = (float(np.mean(scaled**2)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    total = 0.0 if has_signs else abs(float(scaled.sum())) / math.sqrt(size)
    return max(energy, total) > _DEVIATIONS + (0 if noise is Noise.GAUSSIAN else _OF_ONE / math.sqrt(size))
