"""Cumulative thresholds of the discrete Gaussian on the half-line 0, step, 2 step, ..., step = 2**step_bits.

Each threshold is an integer interval that contains the true cumulative probability times 2**precision.
The tables hold no randomness and serve the exact sampler of Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

from beam_dpsketch.privacy.exponential_bounds import ceiling_shift, exponential_bounds

# Bits carried beyond the precision; the recurrence over n entries loses fewer than 3 log2(n) of them.
_GUARD_BITS = 64


@dataclass(frozen=True)
class GaussianTable:
    """`lower[k] <= P(multiple of the step <= k) * 2**precision <= upper[k]`, both nondecreasing in k."""

    precision: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]

    def locate(self, prefix: int, bits: int) -> int | None:
        """Return the k that every uniform starting with these bits selects, or None if that is not certain.

        A uniform U selects the smallest k with U < P(multiple <= k).
        """
        shift = self.precision - bits
        index = bisect_left(self.lower, (prefix + 1) << shift)
        if index == len(self.lower):
            return None
        if index > 0 and self.upper[index - 1] > prefix << shift:
            return None
        return index


# A table of 128 bits takes about 0.2 megabytes when sigma is large, hence few.
@functools.lru_cache(maxsize=8)
def gaussian_table(sigma_squared: Fraction, step_bits: int, precision: int) -> GaussianTable:
    """Build the table of P(k) proportional to exp(-(step k)**2 / (2 sigma_squared)), k = 0, 1, ..."""
    variance_numerator, variance_denominator = sigma_squared.as_integer_ratio()
    step_squared = 1 << (2 * step_bits)
    # exp(-(step last)**2 / (2 sigma_squared)) < 2**-precision, so entries after the last are below the resolution.
    last = math.isqrt(2 * precision * variance_numerator // (variance_denominator * step_squared)) + 4
    bits = precision + _GUARD_BITS
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
