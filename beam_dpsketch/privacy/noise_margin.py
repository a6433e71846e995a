"""How far noise reaches: the margin of an interval around one noisy number.

Guarantee: an interval of this margin holds with the given confidence or more, over the noise. For whole m, P[|noise| >
m] <= P[|normal| > m] at the same sigma: the weights exp(-x^2 / (2 sigma^2)) of x > m sum to less than the integral from
m on, and all weights sum to sigma sqrt(2 pi) or more, by Poisson summation. The noise of combined releases has the same
tails but for a share below 1e-8, if each sigma is 1.5 or more.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

from beam_dpsketch import _validate


def noise_margin(sigma_squared: Fraction, confidence: float) -> int:
    """Return a whole number that noise of this parameter exceeds with a probability of at most 1 - confidence."""
    _validate.open_unit_interval(confidence=confidence)
    return math.ceil(NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(sigma_squared))
