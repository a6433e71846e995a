"""With which probability to release a key where a unit is in one key at most, by a pure epsilon and a delta.

Setting: a unit counts 1 in one key. A key of n units is released with probability p(n), by random bits of its own.

Guarantee: adding or removing one unit changes which keys are released by at most (epsilon, delta), and no table with
this guarantee releases a key of any size with a larger probability. The rule is p(0) = 0, and

    p(n + 1) = min(e^epsilon p(n) + delta, 1 - e^-epsilon (1 - p(n) - delta), 1).

Proof. Two Bernoulli laws p and q are (epsilon, delta) apart if and only if q <= e^epsilon p + delta, the same with p
and q exchanged, and both for 1 - p and 1 - q. As p grows, only the two bounds above bind. Each is monotone in p(n), so
the largest p(n) gives the largest p(n + 1). Rounding is downwards: a smaller p(n + 1) stays within both bounds, and p
never falls, so the other two hold as well.

Composition. Two laws that are (epsilon, delta) apart are both made, by one post-processing, of two others: with
probability delta it is told which one it is, else it is told by randomized response of epsilon (Kairouz, Oh and
Viswanath 2015, arXiv:1311.0776, Theorem 3.1). So the choice is a pure epsilon, but for exceptions with probability
delta on each input, and is added up as such (`loss.composition`).

Source: Desfontaines, Voss, Gipson and Mandayam 2022 (arXiv:2006.03684), Theorem 1, the truncated geometric mechanism.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.keep_table import MAX_SIZE, KeepTable
from beam_dpsketch.privacy.noise.gaussian_bounds import exponential_bounds

_BITS = 128
_ONE = 1 << _BITS
_GUARDED = _BITS + 64


@functools.lru_cache(maxsize=32)
def geometric_table(grid: int, epsilon: Fraction, delta: Fraction) -> KeepTable:
    """Return the table of largest probabilities, by a statistic in which each unit counts `grid`.

    Args:
      grid: what one unit counts.
      epsilon: of one unit, above 0.
      delta: of one unit, at least 2^-96.
    """
    reserve = math.floor(delta * _ONE)
    shrunk = exponential_bounds(epsilon.numerator, epsilon.denominator, _GUARDED)[1]  # e^-epsilon, rounded up
    thresholds, found = [0] * grid, 0
    while found < _ONE:
        grown = (found << _GUARDED) // shrunk + reserve
        from_above = _ONE - -((-(_ONE - reserve - found) * shrunk) >> _GUARDED) if found + reserve < _ONE else _ONE
        found = min(max(grown, found), max(from_above, found), _ONE)
        if len(thresholds) + grid > MAX_SIZE:
            raise ArgumentError("", "epsilon is too small, with this delta, for a choice of keys", "E312")
        thresholds.extend([found] * grid)
    return KeepTable(tuple(thresholds[:-grid]))
