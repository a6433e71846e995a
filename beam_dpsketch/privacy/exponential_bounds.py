"""Lower and upper integer bounds of exp(-numerator / denominator), scaled by a power of two.

Only Python integers are used and every rounding goes outwards, so the true value lies between the bounds.
The bounds serve the exact sampler of Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

# Bits carried beyond the requested ones; they absorb the rounding of the series and of the squarings.
_GUARD_BITS = 64


def ceiling_shift(value: int, bits: int) -> int:
    """Return value / 2**bits rounded up, the counterpart of `value >> bits`."""
    return -(-value >> bits)


def exponential_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Return integers lower <= exp(-numerator / denominator) * 2**bits <= upper, at most 2 apart."""
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
    """Bound exp(-numerator / denominator) * 2**bits for an argument in (0, 1/2]."""
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
