"""What several releases cost together: losses, and how they compose.

Guarantee: a mechanism of loss (rho, delta) is delta-approximate rho-zCDP for one unit under one relation. Of releases
with noise of their own, and losses that hold for each:

* `plus`: all of them together lose the sum, where a unit may be in each.
* `larger`: they lose the larger rho and the larger delta, if no unit is in both inputs.
* The releases of one run are one mechanism. Its noise is drawn for the largest change of all its counters together that
  one unit can cause. So all of them, or some, lose what the run loses, once for each draw of the most drawn part.

Proof of the sum. Bun and Steinke 2016 (arXiv:1605.02065), Lemma 7 and section 8: rho adds. 1 - (1 - d)(1 - d') is lost
of delta, because each mechanism is independent of the other's exceptions. This holds if a later release depends on
earlier ones.

Proof of the larger. Added or removed, a unit is in one input, and the output of the other does not change. So is a unit
that is replaced within one input. Its replacement may also enter the other: one input loses a unit, the other gains
one, and both losses add. Each is at most half of what its mechanism loses to a replacement, so the sum is at most the
larger of the two. Why half? Each part of rho has noise for `sensitivity.change_factor` times the square of what a unit
adds, which is 2 or more. Where the parts of keys and sketches share one maximum (`key_selection`), leaving j keys for j
others is one of its cases, and costs a removal twice. If this half holds for two mechanisms, it holds for their sum and
for the larger of both. So three inputs, and combinations of combinations, lose the largest too.

The same for delta. Where a unit is added, exceptions are needed on one of the two inputs: that with the unit. So if a
unit leaves one mechanism, and another enters the other, each of the two data sets has the exceptions of one mechanism.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

_STEPS = 1 << 256


class Loss(NamedTuple):
    """What one release, or several together, lose: delta-approximate rho-zCDP.

    >>> Loss(Fraction(1, 2)).plus(Loss(Fraction(1, 4))).rho
    Fraction(3, 4)
    """

    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def plus(self, other: Loss) -> Loss:
        """Return the loss of both, where a unit may be in both inputs; long fractions are rounded up."""
        return Loss(_short(self.rho + other.rho), composed_delta(self.delta, other.delta))

    def larger(self, other: Loss) -> Loss:
        """Return the loss of both, where no unit is in both inputs; also the least loss that is as large as each."""
        return Loss(max(self.rho, other.rho), max(self.delta, other.delta))


def composed_delta(first: Fraction, second: Fraction) -> Fraction:
    """Return 1 - (1 - first)(1 - second), rounded up to a multiple of 2^-256 where its denominator is longer."""
    return _short(first + second - first * second)


def _short(exact: Fraction) -> Fraction:
    """Return a fraction that thousands of sums do not make longer and longer: a multiple of 2^-256, rounded up."""
    return exact if exact.denominator <= _STEPS else Fraction(math.ceil(exact * _STEPS), _STEPS)
