"""Noise on counters, drawn on a grid, with low bits far below the noise rounded off afterwards.

Laplace. Guarantee: let scale = Delta / epsilon, where Delta is the L1 sensitivity of the counters, all in grid steps.
The result is epsilon-DP: `discrete_laplace` has the source. The grid is the coarsest that the weights allow, because a
finer grid adds noise.

Gaussian. Guarantee: let sigma^2 = Delta^2 / (2 rho), where Delta is the L2 sensitivity of the counters. The result is
rho-zCDP, and has the (epsilon, delta) curve of a continuous Gaussian with parameter sigma^2 (`gaussian_curve`).

zCDP: by Canonne, Kamath and Steinke 2020 (arXiv:2004.00010), Theorem 4, with sigma^2 alone. More noise costs less.

The curve. With sigma^2 alone it would be false: noise on integers can need a larger delta, by a fifth at sigma^2 = 1/4.
Lemma. Noise with parameter sigma^2 + 4 on d counters f is a post-processing of y = f + N(0, sigma^2), up to a factor
e^(+-d 2^-110) at each point. Proof. Given y, draw integers x with P(x) in proportion to exp(-|x - y|^2 / 8). This step
does not read f. The law of x is the integral over y of n(y - f) g(x - y) / G(y). Here n and g are the densities of N(0,
sigma^2) and N(0, 4), and G(y) is the product over counters of the sum of g(k - y_i) over all integers k. By Poisson
summation each of these sums is within 1 +- t, with t = 2.0001 exp(-8 pi^2) < 2^-112. Without G the integral is the
density of N(0, sigma^2 + 4) at x - f. The discrete Gaussian is that density over its own sum, which is also within 1 +-
t for each counter. Hence the ratio is within ((1 + t) / (1 - t))^d. Its delta is therefore at most e^(2 d 2^-110) times
the curve's delta, at an epsilon smaller by 4 d 2^-110, and `gaussian_curve` rounds up by more, for d up to 2^40.
Peikert 2010 ("An efficient and parallel Gaussian sampler for lattices", Theorem 3.1) sums lattice Gaussians this way.

Tables with different sigma: counters divided by their own sigma are a single Gaussian with variance 1, and mu^2 = 2 rho
is the sum of the squared changes. Hence parts compose as rho adds, and later parts may depend on earlier outputs. Dong,
Roth and Su 2019 (arXiv:1905.02383, Corollary 3.3) prove this if the mu of each part is fixed before, and Smith and
Thakurta 2022 (arXiv:2210.17520) if it depends on earlier parts.

The grid. Four squared steps are negligible if steps are small. Hence Gaussian noise is drawn on a grid finer than the
counters, by `Noise.grid_bits`, and low bits far below the noise are rounded off afterwards. Sigma is at least 2^10
steps, and the four squared steps are at most 2^-18 of the variance. Votes for keys count at least 48 each, hence they
need no other grid. Counters wrap around earlier by the same number of bits: at 2^49 records or later.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch.privacy.noise import discrete_gaussian, discrete_laplace, gaussian_bounds
from beam_dpsketch.privacy.noise.keyed_randomness import RandomBytes
from beam_dpsketch.privacy.noise.laws import EXTRA, Noise, scale_of

MIN_SIGMA_SQUARED = Fraction(1, 256)
"""In squared records. Smaller noise hides nothing."""
MAX_SIGMA_SQUARED = discrete_gaussian.MAX_PARAMETER - EXTRA
"""In squared counters."""
_LIKE_WHOLE = 64


def drawn_variance(sigma_squared: Fraction) -> Fraction:
    """Compute the parameter of the drawn noise from Delta^2 / (2 rho), both in squared grid steps."""
    return sigma_squared + EXTRA


def add_noise(
    counters: np.ndarray,
    parameter: Fraction,
    bits: int = 0,
    *,
    noise: Noise = Noise.GAUSSIAN,
    random_bytes: RandomBytes = os.urandom,
) -> np.ndarray:
    """Add noise from fresh bytes to each counter. Return a new int64 array of the same shape, on a grid of 2**-bits.

    Args:
      counters: exact counters, int64.
      parameter: Delta^2 / (2 rho) for a Gaussian, or 2 (Delta / epsilon)^2 for a Laplace, in counters that count 1.
      bits: bits by which the grid is finer.
      noise: a Gaussian or a Laplace.
      random_bytes: source of the randomness.
    """
    on_grid = parameter * 4**bits
    if noise is Noise.LAPLACE:
        drawn = discrete_laplace.sample(counters.size, scale_of(on_grid), random_bytes=random_bytes)
    else:
        drawn = discrete_gaussian.sample(counters.size, drawn_variance(on_grid), random_bytes=random_bytes)
    return (counters << np.int64(bits)) + drawn.reshape(counters.shape)


def drowned_bits(sigma_squared: Sequence[Fraction], squared_unit: int, grid: int = 0) -> int:
    """Compute the number of low counter bits that count at most sigma / 64, given sigma^2 of each table in records.

    For whole counters with a noise grid of `grid` bits, all grid bits are dropped from sigma = 8 on. Rounding after the
    noise is post-processing. It adds at most sigma^2 / 49,152 to the variance, or sigma^2 / 768 for such counters.

    Args:
      sigma_squared: sigma^2 of each table.
      squared_unit: squared record count, on the grid.
      grid: bits by which the noise grid is finer than counters.
    """
    variance = int(min(sigma_squared) * squared_unit)
    bits = (max(variance >> 12, 1).bit_length() - 1) // 2
    return max(bits, grid) if variance >= _LIKE_WHOLE * 4**grid else bits


def round_off(counters: np.ndarray, bits: int) -> np.ndarray:
    """Round counters to the nearest multiple of 2^bits, in units of 2^bits."""
    return (counters + np.int64(1 << bits >> 1)) >> np.int64(bits)


def least_quantile(noise: Noise, parameter: Fraction, probability: Fraction) -> int:
    """Compute the least t >= 1 whose bound on P(noise >= t) is at most this probability, all in grid steps."""
    if noise is Noise.LAPLACE:
        return discrete_laplace.least_quantile(scale_of(parameter), probability)
    return gaussian_bounds.least_quantile(drawn_variance(parameter), probability)
