"""Upper bounds of the tail of the discrete Gaussian, P(Z >= t), as exact fractions, and how far noise reaches.

Guarantee: a bound is never below the true probability. It exceeds it by less than 1 in 10^6 for sigma from 1 to 100,
by 2 % at sigma = 1/2, and by less than 5 % for any larger sigma where t is at least 4 sigma.

With P(Z = k) proportional to exp(-k^2 / (2 sigma^2)) over all integers, both parts are bounded by integers alone:

* the tail: terms from t on are added up with every rounding upwards; their ratios decrease, so a geometric series
  bounds what follows the last one;
* the whole: the sum over all integers is at least sigma sqrt(2 pi). By Poisson summation it is that times
  1 + 2 exp(-2 pi^2 sigma^2) + ..., and all these terms are positive.

`noise_margin` is the margin of an interval around one noisy number. Such an interval holds with the given confidence or
more, over the noise. For whole m, P[|noise| > m] <= P[|normal| > m] at the same sigma: the weights exp(-x^2 / (2
sigma^2)) of x > m sum to less than the integral from m on, and all weights sum to sigma sqrt(2 pi) or more, as above.
The noise of combined releases has the same tails but for a share below 1e-8, if each sigma is 1.5 or more.

The distribution is that of Canonne, Kamath and Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from statistics import NormalDist

from beam_dpsketch import _validate
from beam_dpsketch.privacy.exponential_bounds import ceiling_shift, exponential_bounds

_BITS = 512  # tails down to 2**-400 keep 100 bits
_TERMS = 1024
_TWO_PI = Fraction(6283185307179586476925286766559, 10**30)  # rounded down


def tail_bound(sigma_squared: Fraction, start: int) -> Fraction:
    """Return an upper bound of P(Z >= start), at most 1, for start >= 1.

    >>> f"{float(tail_bound(Fraction(1), 3)):.6f}"
    '0.004567'
    """
    numerator, denominator = 2 * sigma_squared.numerator, sigma_squared.denominator
    one = 1 << _BITS
    term = exponential_bounds(start * start * denominator, numerator, _BITS)[1]
    ratio = exponential_bounds((2 * start + 1) * denominator, numerator, _BITS)[1]
    ratio_step = exponential_bounds(2 * denominator, numerator, _BITS)[1]
    total = 0
    for _ in range(_TERMS):
        total += term
        term = ceiling_shift(term * ratio, _BITS)
        ratio = ceiling_shift(ratio * ratio_step, _BITS)
    total += -((-term << _BITS) // (one - ratio))
    whole = math.isqrt(math.floor(_TWO_PI * sigma_squared * one * one))
    return min(Fraction(total, whole), Fraction(1))


@functools.lru_cache(maxsize=1024)
def least_quantile(sigma_squared: Fraction, probability: Fraction) -> int:
    """Return the least t >= 1 whose bound of P(Z >= t) is at most this probability.

    >>> least_quantile(Fraction(1), Fraction(1, 100))
    3
    """
    low, high = 0, 1
    while tail_bound(sigma_squared, high) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail_bound(sigma_squared, middle) <= probability else (middle, high)
    return high


def noise_margin(sigma_squared: Fraction, confidence: float) -> int:
    """Return a whole number that noise of this parameter exceeds with a probability of at most 1 - confidence."""
    _validate.open_unit_interval(confidence=confidence)
    return math.ceil(NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(sigma_squared))
