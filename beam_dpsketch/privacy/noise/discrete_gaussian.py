"""Exact vectorized sampler of the discrete Gaussian: integers x with P(x) ~ exp(-x^2 / (2 sigma_squared)).

Integer intervals certify every decision, or further random bits refine it until they do. Hence uniform random bytes
give exactly this distribution, and no generator, seed or random buffer outlives a call. The distribution and its
privacy guarantee are from Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import functools
import math
import os
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from beam_dpsketch.privacy.noise.gaussian_bounds import ceiling_shift, gaussian_table
from beam_dpsketch.privacy.noise.keyed_randomness import (
    WORD_BITS,
    RandomBytes,
    append_random_word,
    check_parameter,
    check_size,
    random_words,
)
from beam_dpsketch.privacy.noise.rejection import accept, draw_offsets, fill, is_below_exponential, with_signs

MIN_PARAMETER = Fraction(1, 4)
MAX_PARAMETER = Fraction(2**100)

# A prefix, its sign, and an offset with its uniform need 32 bits each, because undecided draws get more bits.
_SHORT_BITS = 32
_PREFIX_BITS = _SHORT_BITS - 1
# Less than 16 bits of a uniform leave too many acceptances undecided: larger steps have longer words.
_MAX_SHORT_STEP_BITS = 16

# Multiples of the step are drawn from a table; sigma / step < 2**7 keeps that table in the L1 cache.
_MAX_BASE_SIGMA_BITS = 7
# A table of all integers, in the L2 cache, needs no offsets. This many draws repay its construction.
_MAX_STEPLESS_SIGMA = 1 << 12
_MIN_STEPLESS_DRAWS = 1 << 21
_TABLE_PRECISION = _PREFIX_BITS + WORD_BITS + 1  # decides nearly all prefixes extended by a word
_GUIDES_PER_SIGMA_BITS, _NOT_GUIDED = 5, -1


def sample(size: int, sigma_squared: Fraction, *, random_bytes: RandomBytes = os.urandom) -> NDArray[np.int64]:
    """Draw `size` independent discrete Gaussian integers with parameter `sigma_squared` (1/4 to 2**100).

    `random_bytes(n)` must return n independent uniform bytes. Replace the default only in tests.

    Many draws use another table, with the same distribution. Its choice reads `size` and `sigma_squared` alone: the
    public shape and scale of the noise. Hence equal calls read equal bytes of a stream, and a replay is identical.
    """
    sigma_squared = check_parameter("sigma_squared", sigma_squared, MIN_PARAMETER, MAX_PARAMETER)
    is_stepless = check_size(size) >= _MIN_STEPLESS_DRAWS and sigma_squared < _MAX_STEPLESS_SIGMA**2
    return _sampler(sigma_squared, 0 if is_stepless else None).sample(int(size), random_bytes)


class _Sampler:
    """Tables for a sigma_squared, immutable and without randomness.

    Split |x| = base + offset. The base is a multiple of the step, by inversion of P(base) ~ exp(-base**2 / (2
    sigma_squared)). The offset is uniform below the step. The pair is accepted with probability exp(-offset (offset + 2
    base) / (2 sigma_squared)). The product is exp(-x^2 / (2 sigma_squared)). A fair sign follows, and -0 is rejected
    because 0 would otherwise count twice. With a step of 1, the base alone is |x|.

    Proof that no bit is lost. Inversion and acceptance compare a uniform with an exact number. The first bits of the
    uniform confine it to an interval, and integer bounds confine the number. A comparison is decided only if it is the
    same for all pairs, and otherwise the uniform gets 64 more bits. Hence each decision equals that of a uniform with
    infinitely many bits, however many are drawn first. The refinement ends with probability 1. Prefix, sign, offset,
    uniform and further bits are disjoint bits of the stream, and therefore independent.

    Fewer `prefix_bits` and more `step_bits` than the default make the rare paths frequent, for tests.
    """

    def __init__(self, sigma_squared: Fraction, prefix_bits: int = _PREFIX_BITS, step_bits: int | None = None) -> None:
        sigma_bits = math.isqrt(int(sigma_squared)).bit_length()
        if step_bits is None:
            step_bits = max(0, sigma_bits - _MAX_BASE_SIGMA_BITS)
        self._sigma_squared = sigma_squared
        self._prefix_bits = prefix_bits
        self._step_bits = step_bits
        self._exponent_scale = -float(1 / (2 * sigma_squared))

        table = gaussian_table(sigma_squared, step_bits, _TABLE_PRECISION)
        shift = _TABLE_PRECISION - prefix_bits
        lower = [threshold >> shift for threshold in table.lower]
        upper = [ceiling_shift(threshold, shift) for threshold in table.upper]
        # With C the cumulative probability, prefix < lower[k] proves U < C(k), >= upper[k] proves U >= C(k).
        # No prefix reaches a saturated upper[k]; the refinement handles entries after the first of these.
        entries = upper.index(1 << prefix_bits) + 1
        self._lower = np.array(lower[:entries], dtype=np.uint32)
        guide_bits = min(prefix_bits, max(0, sigma_bits - step_bits) + _GUIDES_PER_SIGMA_BITS)
        self._guide, self._guide_shift = _guide_to(self._lower, prefix_bits, guide_bits)
        # The smallest prefix that proves "at least k thresholds are <= U"; k = 0 needs no proof.
        self._certain_from = np.array([0, *upper[:entries]], dtype=np.uint32)

    def sample(self, size: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
        return fill(size, functools.partial(self._draw_accepted, random_bytes=random_bytes))

    def _draw_accepted(self, candidates: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
        words = random_words(candidates, random_bytes, _SHORT_BITS)
        magnitude = self._invert_prefixes(words >> np.uint32(_SHORT_BITS - self._prefix_bits), random_bytes)
        sign = (words & np.uint32(1)).astype(np.int64)
        if self._step_bits:
            magnitude <<= self._step_bits
            keep = self._add_offsets(magnitude, random_bytes)
            keep &= magnitude >= sign
        else:
            keep = magnitude >= sign  # false for -0 only
        return with_signs(magnitude, sign)[keep]

    def _invert_prefixes(self, prefixes: NDArray[np.unsignedinteger], random_bytes: RandomBytes) -> NDArray[np.int64]:
        multiples = self._guide.take(prefixes >> self._guide_shift).astype(np.int64)
        left = np.flatnonzero(multiples == _NOT_GUIDED)
        multiples[left] = np.searchsorted(self._lower, prefixes[left], side="right")
        undecided = self._certain_from.take(multiples) > prefixes
        for index in np.flatnonzero(undecided):
            multiples[index] = self._refine_multiple(int(prefixes[index]), random_bytes)
        return multiples

    def _refine_multiple(self, prefix: int, random_bytes: RandomBytes) -> int:
        """Extend the prefix until the multiple is certain."""
        bits = self._prefix_bits
        while True:
            prefix = append_random_word(prefix, random_bytes)
            bits += WORD_BITS
            precision = -(-bits // _TABLE_PRECISION) * _TABLE_PRECISION
            multiple = gaussian_table(self._sigma_squared, self._step_bits, precision).locate(prefix, bits)
            if multiple is not None:
                return multiple

    def _add_offsets(self, magnitude: NDArray[np.int64], random_bytes: RandomBytes) -> NDArray[np.bool_]:
        """Add a uniform offset below the step to each multiple, in place. Return the acceptance mask."""
        word_bits = _SHORT_BITS if self._step_bits <= _MAX_SHORT_STEP_BITS else WORD_BITS
        offset, uniform, bits = draw_offsets(len(magnitude), self._step_bits, random_bytes, word_bits)

        def accepts_exactly(at: int) -> bool:
            return self._accepts_exactly(int(magnitude[at]), int(offset[at]), int(uniform[at]), bits, random_bytes)

        # The product of the integers would overflow for a large sigma.
        product = offset * (magnitude * 2 + offset).astype(np.float64)
        keep = accept(product * self._exponent_scale, uniform, bits, accepts_exactly)
        magnitude += offset
        return keep

    def _accepts_exactly(self, base: int, offset: int, uniform: int, bits: int, random_bytes: RandomBytes) -> bool:
        """Decide uniform < exp(-offset (offset + 2 base) / (2 sigma_squared)), with more bits if needed."""
        numerator = offset * (offset + 2 * base) * self._sigma_squared.denominator
        return is_below_exponential(numerator, 2 * self._sigma_squared.numerator, uniform, bits, random_bytes)


def _guide_to(lower: NDArray[np.uint32], prefix_bits: int, guide_bits: int) -> tuple[NDArray[np.int16], np.uint32]:
    """Compute the table index for each possible start of a prefix, and the number of remaining bits."""
    shift = np.uint32(prefix_bits - guide_bits)
    starts = np.arange(1 << guide_bits, dtype=np.uint32) << shift
    first, last = (
        np.searchsorted(lower, prefixes, side="right")
        for prefixes in (starts, starts + ((np.uint32(1) << shift) - np.uint32(1)))
    )
    return np.where(first == last, first, _NOT_GUIDED).astype(np.int16), shift


@functools.lru_cache(maxsize=64)
def _sampler(sigma_squared: Fraction, step_bits: int | None = None) -> _Sampler:
    """Build the sampler for a parameter, which needs up to a few milliseconds, or 50 without a step."""
    return _Sampler(sigma_squared, step_bits=step_bits)
