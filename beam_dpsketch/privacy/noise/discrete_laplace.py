"""Exact vectorized sampler of the discrete Laplace: integers x with P(x) ~ exp(-|x| / scale).

Integer intervals certify every decision, or further random bits refine it until they do. Hence uniform random bytes
give exactly this distribution, and no generator, seed or random buffer outlives a call.

Guarantee: let Delta be the L1 sensitivity of integer counters, the largest sum of absolute changes by a unit. With an
independent sample with scale Delta / epsilon added to each, they are exactly epsilon-differentially private. Source of
the guarantee: Ghosh, Roughgarden, Sundararajan 2009 (arXiv:0811.2841), the geometric mechanism. Source of the
distribution in this form: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import functools
import math
import os
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from beam_dpsketch.privacy.noise.gaussian_bounds import ceiling_shift, exponential_bounds, least_start
from beam_dpsketch.privacy.noise.keyed_randomness import (
    WORD_BITS,
    RandomBytes,
    append_random_word,
    check_parameter,
    check_size,
    random_words,
)
from beam_dpsketch.privacy.noise.rejection import accept, draw_offsets, fill, is_below_exponential, with_signs

MIN_SCALE = Fraction(1, 20)
MAX_SCALE = Fraction(2**50)

_PREFIX_BITS = WORD_BITS - 1  # the remaining bit of a word is the sign
# Multiples of the step are drawn from a table; scale / step < 2**7 keeps it below 6,000 entries.
_MAX_BASE_SCALE_BITS = 7
# The highest bits of a prefix already decide most multiples; they index a table that fits the L1 cache.
_INDEX_BITS = 12
# Bits carried beyond the prefix; entries are narrow because they lose fewer than 20 of them.
_GUARD_BITS = 64
_UNKNOWN = -1
_TAIL_BITS = 512


def sample(size: int, scale: Fraction, *, random_bytes: RandomBytes = os.urandom) -> NDArray[np.int64]:
    """Draw `size` independent discrete Laplace integers with this scale (1/20 to 2^50).

    `random_bytes(n)` must return n independent uniform bytes. Replace the default only in tests.

    The support is unbounded: no tail is cut. An integer outside the int64 range is returned modulo 2^64, as int64
    counters wrap around, hence the guarantee also covers them. Its probability is below exp(-8000).
    """
    return _sampler(check_parameter("scale", scale, MIN_SCALE, MAX_SCALE)).sample(check_size(size), random_bytes)


def variance(scale: Fraction) -> float:
    """Compute the variance 2 q / (1 - q)**2 with q = exp(-1 / scale), within 1 part in 10**14.

    >>> f"{variance(Fraction(3)):.6f}"
    '17.834255'
    """
    # This equals 1 / (2 sinh(1 / (2 scale))**2), which avoids cancellation.
    return 0.5 / math.sinh(1 / (2 * check_parameter("scale", scale, MIN_SCALE, MAX_SCALE))) ** 2


def least_quantile(scale: Fraction, probability: Fraction) -> int:
    """Compute the least t >= 1 whose bound on P(x >= t) = p^t / (1 + p) is at most this, where p = exp(-1 / scale).

    The bound exceeds the true probability by less than one part in 2^200.

    >>> least_quantile(Fraction(1), Fraction(1, 100))
    5
    """
    return least_start(functools.partial(_tail, scale), probability)


def _tail(scale: Fraction, start: int) -> Fraction:
    bits = _TAIL_BITS
    power = exponential_bounds(start * scale.denominator, scale.numerator, bits)[1]
    p = exponential_bounds(scale.denominator, scale.numerator, bits)[0]
    return Fraction(power, (1 << bits) + p)


class _LaplaceSampler:
    """Tables for a scale, immutable and without randomness.

    Split |x| = step * multiple + offset. Both are independent, because exp(-|x| / scale) is a product with a factor for
    each. The multiple is drawn by inversion: a uniform U gives the largest k with U >= 1 - exp(-step k / scale). The
    offset is uniform below the step, and accepted with probability exp(-offset / scale). A fair sign follows, and -0 is
    rejected because 0 would otherwise count twice.

    Fewer `prefix_bits` and more `step_bits` than the default make the rare paths frequent, for tests.
    """

    def __init__(self, scale: Fraction, prefix_bits: int = _PREFIX_BITS, step_bits: int | None = None) -> None:
        if step_bits is None:
            step_bits = max(0, int(scale).bit_length() - _MAX_BASE_SCALE_BITS)
        self._scale = scale
        self._prefix_bits = prefix_bits
        self._step_bits = step_bits
        self._exponent_scale = -float(1 / scale)

        bits = prefix_bits + _GUARD_BITS
        whole = 1 << prefix_bits
        ratio_lower, ratio_upper = self._exponential_bounds(1 << step_bits, bits)
        power_lower = power_upper = 1 << bits
        certain_from: list[int] = []
        certain_below: list[int] = []
        while not certain_from or certain_from[-1] < whole:
            power_lower = power_lower * ratio_lower >> bits
            power_upper = ceiling_shift(power_upper * ratio_upper, bits)
            certain_from.append(whole - (power_lower >> _GUARD_BITS))
            certain_below.append(whole - ceiling_shift(power_upper, _GUARD_BITS))
        # A prefix >= certain_from[k] proves "more than k", one < certain_below[k] proves "at most k".
        # No prefix reaches the last entry; the refinement handles larger multiples.
        self._certain_from = np.array(certain_from, dtype=np.uint64)
        self._certain_below = np.array(certain_below, dtype=np.uint64)

        self._index_shift = np.uint64(max(0, prefix_bits - _INDEX_BITS))
        first = np.arange(1 << min(prefix_bits, _INDEX_BITS), dtype=np.uint64) << self._index_shift
        last = first + np.uint64((1 << int(self._index_shift)) - 1)
        least, is_certain = self._search(first)
        most, is_last_certain = self._search(last)
        self._multiple_by_index = np.where(is_certain & is_last_certain & (least == most), least, _UNKNOWN)

    def _exponential_bounds(self, magnitude: int, bits: int) -> tuple[int, int]:
        return exponential_bounds(magnitude * self._scale.denominator, self._scale.numerator, bits)

    def sample(self, size: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
        return fill(size, functools.partial(self._draw_accepted, random_bytes=random_bytes))

    def _draw_accepted(self, candidates: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
        words = random_words(candidates, random_bytes)
        # Prefix and sign are disjoint bits of the word, hence independent.
        magnitude = self._invert_prefixes(words >> np.uint64(WORD_BITS - self._prefix_bits), random_bytes)
        sign = (words & np.uint64(1)).view(np.int64)
        if self._step_bits:
            offset, keep = self._draw_offsets(candidates, random_bytes)
            # Before the shift, which may wrap around: only -0 has neither a multiple nor an offset.
            keep &= (magnitude | offset) >= sign
            magnitude <<= self._step_bits
            magnitude += offset
        else:
            keep = magnitude >= sign  # false for -0 only
        return with_signs(magnitude, sign)[keep]

    def _invert_prefixes(self, prefixes: NDArray[np.uint64], random_bytes: RandomBytes) -> NDArray[np.int64]:
        multiples = self._multiple_by_index.take((prefixes >> self._index_shift).view(np.int64))
        unknown = np.flatnonzero(multiples == _UNKNOWN)
        multiples[unknown], is_certain = self._search(prefixes[unknown])
        for index in unknown[~is_certain]:
            multiples[index] = self._refine_multiple(int(multiples[index]), int(prefixes[index]), random_bytes)
        return multiples

    def _search(self, prefixes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Compute the smallest multiple of each uniform with these prefixes, and mask the decided ones."""
        multiples = np.searchsorted(self._certain_from, prefixes, side="right").astype(np.int64, copy=False)
        return multiples, prefixes < self._certain_below.take(multiples)

    def _refine_multiple(self, multiple: int, prefix: int, random_bytes: RandomBytes) -> int:
        """Extend a uniform's prefix until its multiple, at least the given multiple, is certain."""
        bits = self._prefix_bits
        while True:
            lower, upper = self._exponential_bounds((multiple + 1) << self._step_bits, bits)
            # The uniform is at least 1 - rest / 2**bits, and below 1 - (rest - 1) / 2**bits.
            rest = (1 << bits) - prefix
            if rest <= lower:
                multiple += 1
            elif rest > upper:
                return multiple
            else:
                prefix = append_random_word(prefix, random_bytes)
                bits += WORD_BITS

    def _draw_offsets(self, candidates: int, random_bytes: RandomBytes) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Draw uniform offsets below the step, and their acceptance mask."""
        offset, uniform, bits = draw_offsets(candidates, self._step_bits, random_bytes)

        def accepts_exactly(at: int) -> bool:
            return self._accepts_exactly(int(offset[at]), int(uniform[at]), bits, random_bytes)

        return offset, accept(offset * self._exponent_scale, uniform, bits, accepts_exactly)

    def _accepts_exactly(self, offset: int, uniform: int, bits: int, random_bytes: RandomBytes) -> bool:
        """Decide uniform < exp(-offset / scale), with more bits if needed."""
        numerator = offset * self._scale.denominator
        return is_below_exponential(numerator, self._scale.numerator, uniform, bits, random_bytes)


@functools.lru_cache(maxsize=64)
def _sampler(scale: Fraction) -> _LaplaceSampler:
    """Build the sampler for a scale, which needs up to a few milliseconds."""
    return _LaplaceSampler(scale)
