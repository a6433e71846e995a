"""Noise on counters: drawn on a grid that is finer than they are, and what it drowns is rounded off afterwards.

Guarantee: let sigma^2 = Delta^2 / (2 rho), where Delta is the L2 sensitivity of the counters. The result is rho-zCDP,
and has the (epsilon, delta) curve of a continuous Gaussian of parameter sigma^2, which `gaussian_curve` computes.

zCDP: by Canonne, Kamath and Steinke 2020 (arXiv:2004.00010), Theorem 4, with sigma^2 alone; more noise costs less.

The curve. With sigma^2 alone it would not hold: noise on integers can need a larger delta, by a fifth at sigma^2 = 1/4.
Lemma. Noise of parameter sigma^2 + 4 on d counters f is a post-processing of y = f + N(0, sigma^2), up to a factor of
e^(+-d 2^-110) at each point.
Proof. Given y, draw integers x with P(x) in proportion to exp(-|x - y|^2 / 8). This step does not know f. The law of
x is the integral over y of n(y - f) g(x - y) / G(y). Here n and g are the densities of N(0, sigma^2) and N(0, 4), and
G(y) is the product over counters of the sum of g(k - y_i) over all integers k. By Poisson summation each of these sums
is within 1 +- t, with t = 2.0001 exp(-8 pi^2) < 2^-112. Without G the integral is the density of N(0, sigma^2 + 4) at
x - f. The discrete Gaussian is that density over its own sum, which is within 1 +- t for each counter too. So the
ratio is within ((1 + t) / (1 - t))^d. Hence its delta is at most e^(2 d 2^-110) times that of the curve, at an epsilon
smaller by 4 d 2^-110, and `gaussian_curve` rounds up by more, for d up to 2^40. Peikert 2010 ("An efficient and
parallel Gaussian sampler for lattices", Theorem 3.1) sums lattice Gaussians in this way.

Tables with different sigma: counters divided by their own sigma are one Gaussian of variance 1, and mu^2 = 2 rho is the
sum of the squared changes. So parts compose as rho adds, and later parts may depend on what earlier ones say. Dong,
Roth and Su 2019 (arXiv:1905.02383, Corollary 3.3) prove this where the mu of each part is fixed before, and Smith and
Thakurta 2022 (arXiv:2210.17520) where it depends on earlier parts.

The grid. Four squared steps cost nothing where steps are small. So noise is drawn on a grid that is finer than the
counters, by `grid_bits`, and what the noise drowns is rounded off afterwards. Sigma is 2^10 steps or more, and the four
squared steps are at most 2^-18 of the variance. Votes for keys count 48 or more each, so they need no other grid.
Counters wrap around earlier by as many bits: at 2^49 records or later.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch.privacy.noise import discrete_gaussian
from beam_dpsketch.privacy.noise.discrete_gaussian import RandomBytes

MIN_SIGMA_SQUARED = Fraction(1, 256)
"""In squared records; less hides nothing."""
_EXTRA = 4
MAX_SIGMA_SQUARED = discrete_gaussian.MAX_SIGMA_SQUARED - _EXTRA
"""In squared counters."""
_LEAST_STEPS = 1 << 10
_LIKE_WHOLE = 64


def drawn_variance(sigma_squared: Fraction) -> Fraction:
    """Return the parameter of the noise that is drawn, given Delta^2 / (2 rho); both in squared steps of its grid."""
    return sigma_squared + _EXTRA


def grid_bits(sigma_squared: Fraction, squared_unit: int = 1) -> int:
    """Return by how many bits the grid of the noise is finer than counters.

    Args:
      sigma_squared: Delta^2 / (2 rho), in squared records; of several tables, the smallest.
      squared_unit: the square of what a record counts.
    """
    steps = math.isqrt(math.floor(sigma_squared * squared_unit * _LEAST_STEPS**2))  # of 2^-10 of a counter
    return max(0, (-(-(_LEAST_STEPS**2) // max(steps, 1)) - 1).bit_length())


def add_noise(
    counters: np.ndarray, sigma_squared: Fraction, bits: int = 0, *, random_bytes: RandomBytes = os.urandom
) -> np.ndarray:
    """Return a new int64 array of the same shape, on a grid of 2**-bits: each counter with noise from fresh bytes.

    Args:
      counters: what is exact, int64.
      sigma_squared: Delta^2 / (2 rho), where counters count 1.
      bits: how much finer the grid is.
      random_bytes: where the randomness comes from.
    """
    noise = discrete_gaussian.sample(counters.size, drawn_variance(sigma_squared * 4**bits), random_bytes=random_bytes)
    return (counters << np.int64(bits)) + noise.reshape(counters.shape)


def add_whole_noise(
    counters: np.ndarray, sigma_squared: Fraction, *, random_bytes: RandomBytes = os.urandom
) -> np.ndarray:
    """Return what `add_noise` does on the grid that suits, rounded to whole numbers: up to 1/12 more variance."""
    bits = grid_bits(sigma_squared)
    return round_off(add_noise(counters, sigma_squared, bits, random_bytes=random_bytes), bits)


def drowned_bits(sigma_squared: Sequence[Fraction], squared_unit: int, grid: int = 0) -> int:
    """Return how many low bits of counters count at most sigma / 64, given sigma^2 of each table in records.

    Of whole counters whose noise has a grid of this many bits, all of these go from a sigma of 8 on. Rounding off after
    the noise is post-processing. It adds at most sigma^2 / 49,152 to the variance, or sigma^2 / 768 there.

    Args:
      sigma_squared: of each table.
      squared_unit: the square of what a record counts, on the grid.
      grid: how much finer the grid of the noise is than counters.
    """
    variance = int(min(sigma_squared) * squared_unit)
    bits = (max(variance >> 12, 1).bit_length() - 1) // 2
    return max(bits, grid) if variance >= _LIKE_WHOLE * 4**grid else bits


def round_off(counters: np.ndarray, bits: int) -> np.ndarray:
    """Return counters in units of 2^bits of their own, rounded to the nearest."""
    return (counters + np.int64(1 << bits >> 1)) >> np.int64(bits)
