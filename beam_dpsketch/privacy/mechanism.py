"""Make integer counters private: the discrete Gaussian mechanism.

Guarantee: adding an independent discrete Gaussian of parameter sigma^2 = Delta^2 / (2 rho) to each integer of a
vector with L2 sensitivity Delta is rho-zCDP, exactly. Counters and noise live in one ring of 64-bit integers that
wrap around, which is post-processing; saturation before the noise would not be. Source: Canonne, Kamath and
Steinke 2020 (arXiv:2004.00010), Theorem 4.
"""

from __future__ import annotations

import enum
import math
import os
from fractions import Fraction

import numpy as np

from beam_dpsketch.privacy import discrete_gaussian
from beam_dpsketch.privacy.discrete_gaussian import MAX_SIGMA_SQUARED, MIN_SIGMA_SQUARED, RandomBytes


class Randomness(enum.Enum):
    """Where the noise comes from; the value says it in words."""

    SYSTEM = "the entropy of the operating system"
    KEYED = (
        "a generator keyed with a secret, so the guarantee holds against those who cannot break it or learn the secret"
    )


def sigma_squared(
    *, squared_sensitivity: Fraction | int, rho: Fraction, share: Fraction = Fraction(1), squared_unit: int = 1
) -> Fraction:
    """Return the noise parameter sigma^2 = Delta^2 / (2 rho share), exactly, for a share of rho.

    Refuses sigma < 0.5, where most noise would be zero, and sigma > 2**50, where counters would wrap around. Where a
    record counts more than 1, and `squared_unit` is the square of that, counters wrap around that much earlier.

    >>> sigma_squared(squared_sensitivity=20, rho=Fraction(1))
    Fraction(10, 1)
    """
    result = Fraction(squared_sensitivity) / (2 * rho * share)
    if result < MIN_SIGMA_SQUARED:
        raise ValueError(
            f"rho must be at most {float(2 * squared_sensitivity / share):g} for this sensitivity, so that sigma is at "
            f"least 0.5; got {float(rho):g}, which hides nothing"
        )
    if result * squared_unit > MAX_SIGMA_SQUARED:
        limit = f"2**{math.isqrt(MAX_SIGMA_SQUARED.numerator // squared_unit).bit_length() - 1}"
        raise ValueError(
            f"rho is too small for these contribution bounds: sigma would exceed {limit}; lower the bounds"
        )
    return result


def add_noise(counters: np.ndarray, sigma_squared: Fraction, *, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
    """Return a new int64 array of the same shape: each counter plus its own discrete Gaussian from fresh bytes."""
    noise = discrete_gaussian.sample(counters.size, sigma_squared, random_bytes=random_bytes)
    return counters + noise.reshape(counters.shape)
