"""Rejection step of both exact samplers: candidates with a uniform offset and a sign, some of them accepted.

Guarantee: a candidate is accepted with probability exp(-x) for an exact rational x. Floats decide only if they are
certain. Otherwise integer bounds decide, with as many random bits as necessary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from beam_dpsketch.privacy.noise.gaussian_bounds import exponential_bounds
from beam_dpsketch.privacy.noise.keyed_randomness import WORD_BITS, RandomBytes, append_random_word, random_words

DRAWN_AT_ONCE = 1 << 13
"""Candidates drawn at a time: few enough for the cache and for memory that malloc reuses (arrays below 128 kilobytes),
many enough to hide the cost of a numpy call."""
_FLOAT_SLACK = 2.0**-40  # acceptance probabilities are wrong by less than 2**-50; the filter allows 1,000 times that


def fill(size: int, draw_accepted: Callable[[int], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Collect the first accepted numbers, this many. `draw_accepted` receives a number of candidates.

    Candidates are independent of their places. Hence some are drawn in reserve, and those beyond the last are dropped.
    """
    values = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        left = size - filled
        accepted = draw_accepted(min(DRAWN_AT_ONCE, left + left // 64 + 16))[:left]
        values[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return values


def draw_offsets(
    count: int, step_bits: int, random_bytes: RandomBytes, bits: int = WORD_BITS
) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger], int]:
    """Draw uniform offsets below 2**step_bits. Return them, the first bits of deciding uniforms, and their number.

    A word has this many `bits`.
    """
    words = random_words(count, random_bytes, bits)
    # High bits: the offset. Low bits: the uniform.
    uniform_bits, word = bits - step_bits, words.dtype.type
    return (words >> word(uniform_bits)).astype(np.int64), words & word((1 << uniform_bits) - 1), uniform_bits


def accept(
    exponents: NDArray[np.floating],
    uniform: NDArray[np.unsignedinteger],
    bits: int,
    accepts_exactly: Callable[[int], bool],
) -> NDArray[np.bool_]:
    """Compare uniforms with exp(exponent), given the first bits of each. Return the mask of smaller uniforms.

    Args:
      exponents: 0 or less.
      uniform: the first bits of each uniform.
      bits: their number.
      accepts_exactly: decides at an index where floats cannot.
    """
    excess = np.exp(exponents) - uniform * 2.0**-bits
    keep: NDArray[np.bool_] = excess > 0
    # The true uniform is up to 2**-bits above the given value.
    for index in np.flatnonzero(np.abs(excess) <= 2.0**-bits + _FLOAT_SLACK).tolist():
        keep[index] = accepts_exactly(index)
    return keep


def is_below_exponential(numerator: int, denominator: int, uniform: int, bits: int, random_bytes: RandomBytes) -> bool:
    """Decide uniform < exp(-numerator / denominator), given its first bits, with more bits if needed."""
    while True:
        lower, upper = exponential_bounds(numerator, denominator, bits)
        if uniform + 1 <= lower:
            return True
        if uniform >= upper:
            return False
        uniform = append_random_word(uniform, random_bytes)
        bits += WORD_BITS


def with_signs(magnitude: NDArray[np.int64], sign: NDArray[np.int64]) -> NDArray[np.int64]:
    """Negate numbers whose sign is 1, in place."""
    magnitude ^= -sign  # two's complement
    magnitude += sign
    return magnitude
