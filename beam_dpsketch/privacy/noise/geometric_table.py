"""Release probability of a key if each unit is in at most one key, under a pure epsilon and a delta.

Setting: a unit counts 1 in a single key. A key with n units is released with probability p(n), independently.

Guarantee: adding or removing a unit changes the set of released keys by at most (epsilon, delta), and no table with
this guarantee releases a key of any size with a larger probability. The rule is p(0) = 0, and

    p(n + 1) = min(e^epsilon p(n) + delta, 1 - e^-epsilon (1 - p(n) - delta), 1).

Proof. Two Bernoulli laws p and q are (epsilon, delta) apart if and only if q <= e^epsilon p + delta, the same with p
and q exchanged, and both for 1 - p and 1 - q. As p grows, only the two bounds above bind. Each is monotone in p(n),
hence the largest p(n) gives the largest p(n + 1). Rounding is downwards: a smaller p(n + 1) stays within both bounds,
and p never falls, hence the other two bounds are also satisfied.

Composition. Two laws that are (epsilon, delta) apart are both made, by the same post-processing, from two others: with
probability delta the law is revealed, and otherwise only through randomized response with epsilon (Kairouz, Oh and
Viswanath 2015, arXiv:1311.0776, Theorem 3.1). Hence the choice is a pure epsilon, except for exceptions with
probability delta on each input, and is added up as such (`loss.composition`).

Source: Desfontaines, Voss, Gipson and Mandayam 2022 (arXiv:2006.03684), Theorem 1, the truncated geometric mechanism.
"""

from __future__ import annotations

import bisect
import functools
import math
from dataclasses import dataclass, field
from fractions import Fraction

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.noise.gaussian_bounds import exponential_bounds
from beam_dpsketch.privacy.noise.keyed_randomness import RandomBytes

_MAX_SIZE = 1 << 19
_BYTES = 16
_BITS = 8 * _BYTES
_ONE = 1 << _BITS
_GUARDED = _BITS + 64


@dataclass(frozen=True)
class KeepTable:
    """Release probability of a key by its statistic. Statistics beyond the end are released with certainty."""

    thresholds: tuple[int, ...] = field(repr=False)

    def keeps(self, statistic: int, random_bytes: RandomBytes) -> bool:
        """Decide at random whether to release a key, with exactly 16 of the uniform `random_bytes`."""
        word = random_bytes(_BYTES)
        if len(word) != _BYTES:
            raise ValueError(f"random_bytes must return {_BYTES} bytes, got {len(word)}")
        return int.from_bytes(word, "little") < self._threshold(statistic)

    def probability(self, statistic: int) -> Fraction:
        """Compute the exact release probability of a key with this statistic."""
        return Fraction(self._threshold(statistic), _ONE)

    def least(self, probability: Fraction) -> int:
        """Find the least statistic that is released with at least this probability, from 0 to 1."""
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must be between 0 and 1, got {probability}")
        return bisect.bisect_left(self.thresholds, math.ceil(probability * _ONE))

    def _threshold(self, statistic: int) -> int:
        if statistic < 0:
            return 0
        return self.thresholds[statistic] if statistic < len(self.thresholds) else _ONE


@functools.lru_cache(maxsize=32)
def geometric_table(grid: int, epsilon: Fraction, delta: Fraction) -> KeepTable:
    """Build the table with the largest release probabilities that epsilon and delta allow, rounded down.

    Args:
      grid: the amount that each unit adds to the statistic of its key.
      epsilon: epsilon that a unit spends, above 0.
      delta: delta that a unit spends, at least 2^-96.
    """
    reserve = math.floor(delta * _ONE)
    shrunk = exponential_bounds(epsilon.numerator, epsilon.denominator, _GUARDED)[1]  # e^-epsilon, rounded up
    thresholds, found = [0] * grid, 0
    while found < _ONE:
        grown = (found << _GUARDED) // shrunk + reserve
        from_above = _ONE - -((-(_ONE - reserve - found) * shrunk) >> _GUARDED) if found + reserve < _ONE else _ONE
        found = min(max(grown, found), max(from_above, found), _ONE)
        if len(thresholds) + grid > _MAX_SIZE:
            raise ArgumentError(
                "", "Epsilon is too small for key selection with this delta. Use a larger epsilon or delta", "E312"
            )
        thresholds.extend([found] * grid)
    return KeepTable(tuple(thresholds[:-grid]))
