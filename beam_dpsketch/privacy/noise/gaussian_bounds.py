"""Bounds for the discrete Gaussian in integer arithmetic: its exponential, its thresholds, and its tail.

Only Python integers are used and every rounding goes outwards, hence the true value lies between the bounds. Bounds on
exp(-numerator / denominator) and threshold tables serve the exact sampler. Tables contain no randomness.

Guarantee for the tail: a bound on P(Z >= t) is never below the true probability. It exceeds it by less than 1 in 10^6
for sigma from 1 to 100, by 2 % at sigma = 1/2, and by less than 6 % for any larger sigma if t is at least 4 sigma.

With P(Z = k) proportional to exp(-k^2 / (2 sigma^2)) over all integers, integers alone bound both parts:

* the tail: terms from t on are added up with every rounding upwards. Their ratios decrease, hence a geometric series
  bounds all terms after the last computed term;
* the whole: the sum over all integers is at least sigma sqrt(2 pi). By Poisson summation it is that times 1 + 2 exp(-2
  pi^2 sigma^2) + ..., and all these terms are positive.

The distribution is from Canonne, Kamath and Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

# Extra bits that absorb the rounding of the series and the squarings.
_GUARD_BITS = 64


def ceiling_shift(value: int, bits: int) -> int:
    """Compute value / 2**bits rounded up, the counterpart of `value >> bits`."""
    return -(-value >> bits)


def exponential_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Compute integers lower <= exp(-numerator / denominator) * 2**bits <= upper, at most 2 apart."""
    if numerator < 0 or denominator <= 0:
        raise ValueError(f"numerator must be >= 0 and denominator > 0, got {numerator} and {denominator}")
    if bits < 1:
        raise ValueError(f"bits must be >= 1, got {bits}")
    if numerator == 0:
        return 1 << bits, 1 << bits
    # exp(-y) = exp(-y / 2**halvings) ** (2**halvings), with a reduced argument below 1/2.
    halvings = 0
    while 2 * numerator >= denominator << halvings:
        halvings += 1
    # A squaring doubles the relative error, hence bits in proportion to the number of squarings.
    working_bits = bits + _GUARD_BITS + 2 * halvings
    lower, upper = _taylor_bounds(numerator, denominator << halvings, working_bits)
    for _ in range(halvings):
        lower = lower * lower >> working_bits
        upper = ceiling_shift(upper * upper, working_bits)
    excess = working_bits - bits
    return lower >> excess, min(ceiling_shift(upper, excess), 1 << bits)


def _taylor_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    lower = upper = term_lower = term_upper = 1 << bits
    order = 0
    while term_upper > 1:
        order += 1
        divisor = denominator * order
        term_lower = term_lower * numerator // divisor
        term_upper = -(-term_upper * numerator // divisor)
        if order % 2:
            lower, upper = lower - term_upper, upper - term_lower
        else:
            lower, upper = lower + term_lower, upper + term_upper
    # The terms alternate and shrink, so the remainder is smaller than the last term, which is at most 1.
    return lower - 1, upper + 1


# Bits carried beyond the precision; the recurrence over n entries loses fewer than 3 log2(n) of them.
_TABLE_GUARD_BITS = 64


@dataclass(frozen=True)
class GaussianTable:
    """`lower[k] <= P(multiple of the step <= k) * 2**precision <= upper[k]`, both nondecreasing in k."""

    precision: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]

    def locate(self, prefix: int, bits: int) -> int | None:
        """Find the k that every uniform starting with these bits selects, or `None` if it is not certain.

        A uniform U selects the smallest k with U < P(multiple <= k).
        """
        shift = self.precision - bits
        index = bisect_left(self.lower, (prefix + 1) << shift)
        if index == len(self.lower):
            return None
        if index > 0 and self.upper[index - 1] > prefix << shift:
            return None
        return index


# A 96-bit table needs about 0.2 megabytes for a large sigma, and up to 6 without a step, hence the small cache.
@functools.lru_cache(maxsize=8)
def gaussian_table(sigma_squared: Fraction, step_bits: int, precision: int) -> GaussianTable:
    """Build the table of P(k) proportional to exp(-(step k)**2 / (2 sigma_squared)), k = 0, 1, ..."""
    variance_numerator, variance_denominator = sigma_squared.as_integer_ratio()
    step_squared = 1 << (2 * step_bits)
    # exp(-(step last)**2 / (2 sigma_squared)) < 2**-precision, so entries after the last are below the resolution.
    last = math.isqrt(2 * precision * variance_numerator // (variance_denominator * step_squared)) + 4
    bits = precision + _TABLE_GUARD_BITS
    one = 1 << bits

    # weight[k + 1] = weight[k] * ratio[k] and ratio[k + 1] = ratio[k] * ratio_step: two exponentials suffice.
    exponent = step_squared * variance_denominator
    ratio_lower, ratio_upper = exponential_bounds(exponent, 2 * variance_numerator, bits)
    ratio_step_lower, ratio_step_upper = exponential_bounds(exponent, variance_numerator, bits)
    weight_lower = weight_upper = sum_lower = sum_upper = one
    sums_lower, sums_upper = [sum_lower], [sum_upper]
    for _ in range(last):
        weight_lower = weight_lower * ratio_lower >> bits
        weight_upper = ceiling_shift(weight_upper * ratio_upper, bits)
        ratio_lower = ratio_lower * ratio_step_lower >> bits
        ratio_upper = ceiling_shift(ratio_upper * ratio_step_upper, bits)
        sum_lower += weight_lower
        sum_upper += weight_upper
        sums_lower.append(sum_lower)
        sums_upper.append(sum_upper)

    # The ratios decrease, so a geometric series bounds the tail after the last entry.
    tail_upper = (weight_upper << bits) // (one - ratio_upper) + 1
    total_lower, total_upper = sum_lower, sum_upper + tail_upper
    whole = 1 << precision
    return GaussianTable(
        precision=precision,
        lower=tuple((cumulative << precision) // total_upper for cumulative in sums_lower),
        upper=tuple(min(whole, -((-cumulative << precision) // total_lower)) for cumulative in sums_upper),
    )


_BITS = 512  # tails down to 2**-400 keep 100 bits
_TERMS = 1024
_TWO_PI = Fraction(6283185307179586476925286766559, 10**30)  # rounded down


def tail_bound(sigma_squared: Fraction, start: int) -> Fraction:
    """Compute an upper bound on P(Z >= start), at most 1, for start >= 1.

    >>> f"{float(tail_bound(Fraction(1), 3)):.6f}"
    '0.004567'
    """
    numerator, denominator = 2 * sigma_squared.numerator, sigma_squared.denominator
    one = 1 << _BITS
    term = exponential_bounds(start * start * denominator, numerator, _BITS)[1]
    ratio = exponential_bounds((2 * start + 1) * denominator, numerator, _BITS)[1]
    ratio_step = exponential_bounds(2 * denominator, numerator, _BITS)[1]
    total = 0
    for left in range(_TERMS, 0, -1):
        if term == 1 and 2 * ratio <= one:  # rounded up, all later terms are also 1
            total += left
            break
        total += term
        term = ceiling_shift(term * ratio, _BITS)
        ratio = ceiling_shift(ratio * ratio_step, _BITS)
    total += -((-term << _BITS) // (one - ratio))
    whole = math.isqrt(math.floor(_TWO_PI * sigma_squared * one * one))
    return min(Fraction(total, whole), Fraction(1))


@functools.lru_cache(maxsize=1024)
def least_quantile(sigma_squared: Fraction, probability: Fraction) -> int:
    """Compute the least t >= 1 whose bound on P(Z >= t) is at most this probability.

    >>> least_quantile(Fraction(1), Fraction(1, 100))
    3
    """
    tail = functools.cache(functools.partial(tail_bound, sigma_squared))
    return least_start(tail, probability, _rough_quantile(tail, sigma_squared, probability))


def _rough_quantile(tail: Callable[[int], Fraction], sigma_squared: Fraction, probability: Fraction) -> int:
    """Approximate the quantile by a normal law and two Newton steps on the logarithm."""
    sigma = math.isqrt(math.floor(sigma_squared))
    start = max(1, _times(sigma, -NormalDist().inv_cdf(min(max(float(probability), 1e-300), 0.5))))
    for _ in range(2):
        too_much = _logarithm(tail(start)) - _logarithm(probability)
        start = max(1, start + _times(math.floor(sigma_squared / max(start, sigma)), too_much))
    return start


def _times(whole: int, factor: float) -> int:
    """Approximate the product with a number that may be too long for a float."""
    return whole * round(factor * (1 << 32)) >> 32


def _logarithm(number: Fraction) -> float:
    return math.log(number.numerator) - math.log(number.denominator)


def least_start(tail: Callable[[int], Fraction], probability: Fraction, near: int = 1) -> int:
    """Compute the least t >= 1 whose tail, which does not grow with t, is at most this probability.

    The search begins at `near`, which affects only its duration.
    """
    low, high, step = 0, near, 1
    while tail(high) > probability:
        low, high, step = high, high + step, 2 * step
    while low == 0 and step < high and tail(high - step) <= probability:
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) <= probability else (middle, high)
    return high
