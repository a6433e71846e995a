"""Tails of the discrete Gaussian, summed by mpmath."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import mpmath

BITS = 700
REACH = 31  # in sigma: what lies beyond is less than 2**-600 of what lies beyond 8 sigma


@functools.cache
def true_tails(sigma_squared: Fraction) -> list[Fraction]:
    """Return P(Z >= t) for t from 0 to 8 sigma, and 2 more, each rounded by less than 2**-600 of itself."""
    sigma = math.sqrt(sigma_squared)
    with mpmath.workprec(BITS):
        variance = mpmath.mpf(sigma_squared.numerator) / sigma_squared.denominator
        terms = [
            mpmath.exp(-(place * place) / (2 * variance)) for place in map(mpmath.mpf, range(int(REACH * sigma) + 40))
        ]
        tail, tails = mpmath.mpf(0), []
        for term in reversed(terms):
            tail += term
            tails.append(tail)
        whole = 2 * tail - 1
        found = [each / whole for each in reversed(tails)][: int(8 * sigma) + 3]
    return [Fraction(int(each.man)) * Fraction(2) ** int(each.exp) for each in found]


def true_cumulative(sigma_squared: Fraction, step_bits: int, entries: int) -> list[mpmath.mpf]:
    """P(multiple <= k) for the first k, at the precision of mpmath; the total by Poisson summation."""
    variance = mpmath.mpf(sigma_squared.numerator) / sigma_squared.denominator / 4**step_bits
    if variance > 1:
        # Independent of the table's own tail bound.
        dual = sum(mpmath.exp(-2 * mpmath.pi**2 * variance * k * k) for k in range(-40, 41))
        total = (mpmath.sqrt(2 * mpmath.pi * variance) * dual + 1) / 2
    else:
        total = sum(mpmath.exp(-mpmath.mpf(k * k) / (2 * variance)) for k in range(60))
    cumulative, partial = [], mpmath.mpf(0)
    for k in range(entries):
        partial += mpmath.exp(-mpmath.mpf(k * k) / (2 * variance))
        cumulative.append(partial / total)
    return cumulative
