"""What releases lose: their epsilon at a delta, how losses compose, and which are foolish.

The loss of a mechanism is rho, its zero-concentrated differential privacy, and the delta of rare exceptions. Where rho
is that of Gaussian noise alone, epsilon follows from the curve of the Gaussian (`gaussian_curve`). Else it follows from
that of all mechanisms with this rho (`zcdp`). Both are rounded up.

A mechanism is d-approximate rho-zCDP if, except with probability d on each of the two inputs, it is rho-zCDP (Bun and
Steinke 2016, arXiv:1605.02065, section 8). Let P = (1 - d) P' + d P'' be its output, and the same with Q. Where P' and
Q' are (epsilon, c)-DP, P(S) <= (1 - d)(e^epsilon Q'(S) + c) + d <= e^epsilon Q(S) + (1 - d) c + d. So d is lost of
delta first, and c = (delta - d) / (1 - d) is left for the conversion.

Composition. Guarantee: a mechanism of loss (rho, delta) is delta-approximate rho-zCDP for one unit under one relation.
Of releases with noise of their own, and losses that hold for each:

* `plus`: all of them together lose the sum, where a unit may be in each.
* `larger`: they lose the larger rho and the larger delta, if no unit is in both inputs.
* The releases of one run are one mechanism. Its noise is drawn for the largest change of all its counters together that
  one unit can cause. So all of them, or some, lose what the run loses, once for each draw of the most drawn part.

Proof of the sum. Bun and Steinke 2016 (arXiv:1605.02065), Lemma 7 and section 8: rho adds. Of Gaussian noise, mu =
sqrt(2 rho) composes in the root of squares, so rho adds too, and the sum has the curve of a Gaussian (`mechanism`). Of
delta, 1 - (1 - d)(1 - d') is lost, because each mechanism is independent of the other's exceptions. This holds if a
later release depends on earlier ones.

Proof of the larger. Added or removed, a unit is in one input, and the output of the other does not change. So is a unit
that is replaced within one input. Its replacement may also enter the other: one input loses a unit, the other gains
one, and both losses add. Each is at most half of what its mechanism loses to a replacement, so the sum is at most the
larger of the two. Why half? Each part of rho has noise for `mechanism.change_factor` times the square of what a unit
adds, which is 2 or more. Where the parts of keys and sketches share one maximum (`selection`), leaving j keys for j
others is one of its cases, and costs a removal twice. If this half holds for two mechanisms, it holds for their sum and
for the larger of both. So three inputs, and combinations of combinations, lose the largest too.

The same for delta. Where a unit is added, exceptions are needed on one of the two inputs: that with the unit. So if a
unit leaves one mechanism, and another enters the other, each of the two data sets has the exceptions of one mechanism.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from beam_dpsketch._showing import round_up
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.loss import gaussian_curve, zcdp

_LARGE_EPSILON, _NOISY_SHARE = 10, 0.1
_FEW, _MANY = 1e3, 1e6
_STEPS = 1 << 256


class Loss(NamedTuple):
    """What one release, or several together, lose: delta-approximate rho-zCDP.

    Attributes:
      rho: exact.
      delta: of exceptions, exact.
      is_gaussian: whether rho is that of Gaussian noise alone, whose curve is smaller than that of any rho.

    >>> Loss(Fraction(1, 2)).plus(Loss(Fraction(1, 4))).rho
    Fraction(3, 4)
    """

    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    is_gaussian: bool = True

    def plus(self, other: Loss) -> Loss:
        """Return the loss of both, where a unit may be in both inputs; long fractions are rounded up."""
        rho, delta = _short(self.rho + other.rho), composed_delta(self.delta, other.delta)
        return Loss(rho, delta, self.is_gaussian and other.is_gaussian)

    def larger(self, other: Loss) -> Loss:
        """Return the loss of both, where no unit is in both inputs; also the least loss that is as large as each."""
        rho, delta = max(self.rho, other.rho), max(self.delta, other.delta)
        return Loss(rho, delta, self.is_gaussian and other.is_gaussian)

    def epsilon(self, delta: float) -> float:
        """Return epsilon at this delta, rounded up; refuse a delta that is not above that of exceptions."""
        left = left_of_delta(delta, self.delta)
        return (gaussian_curve if self.is_gaussian else zcdp).epsilon(rho=self.rho, delta=left)


def composed_delta(first: Fraction, second: Fraction) -> Fraction:
    """Return 1 - (1 - first)(1 - second), rounded up to a multiple of 2^-256 where its denominator is longer."""
    return _short(first + second - first * second)


def _short(exact: Fraction) -> Fraction:
    """Return a fraction that thousands of sums do not make longer and longer: a multiple of 2^-256, rounded up."""
    return exact if exact.denominator <= _STEPS else Fraction(math.ceil(exact * _STEPS), _STEPS)


def foolish(
    *, rho: Fraction | float, epsilon: float, delta: float, people: float | None = None, who: str = "people"
) -> list[str]:
    """Return what no release should lose or promise, in words; an empty list if the loss suits.

    Args:
      rho: the loss of all that is released together.
      epsilon: the same, at this delta.
      delta: at which epsilon is shown.
      people: about how many there are, or a noisy count of them. `None` finds what suits none of 1,000 to a million.
      who: what they are called.

    >>> foolish(rho=0.1, epsilon=2.2, delta=1e-6, people=10_000)
    []
    >>> foolish(rho=4, epsilon=20, delta=1e-6)
    ['epsilon = 20 at delta = 1e-06 protects hardly anyone; take 10 or less, better 1 to 3']
    """
    few, many = (_FEW, _MANY) if people is None else (max(people, 1.0),) * 2
    known = "" if people is None else f", which is about {1 / few:.2g}"
    found = []
    if epsilon > _LARGE_EPSILON:
        said = f"epsilon = {round_up(epsilon, 4):g} at delta = {delta:g}"
        found.append(f"{said} protects hardly anyone; take 10 or less, better 1 to 3")
    if delta * few > 1:
        found.append(
            f"delta = {delta:g} is more than 1 over the number of {who}{known}, so its epsilon may fail for some "
            f"of them; take much less, as {_smaller(few):g}"
        )
    if (noise := 1 / math.sqrt(2 * rho)) > _NOISY_SHARE * many:
        found.append(
            f"epsilon = {epsilon:.4g} at delta = {delta:g} is so small that answers are mostly noise: as much as what "
            f"about {noise:,.0f} {who} add; raise epsilon, or rho"
        )
    return found


def _smaller(people: float) -> float:
    """Return a round delta that is at most a tenth of 1 over the number of people."""
    return min(1e-6, 10.0 ** (math.floor(-math.log10(people)) - 1))


def left_of_delta(delta: Fraction | float, lost: Fraction) -> float:
    """Return (delta - lost) / (1 - lost), rounded down: what is left for the conversion; refuse a delta not above lost.

    >>> left_of_delta(1e-6, Fraction(1, 2_000_000))
    5.00000250000125e-07
    """
    exact = delta if isinstance(delta, Fraction) else Fraction(repr(float(delta)))
    if exact <= lost:
        raise ArgumentError(
            "delta",
            f"must be above {float(lost):g}, the delta of $KeySelection or $Groups, because what is left "
            f"makes the epsilon; got {float(delta):g}",
            "E111",
        )
    left = (exact - lost) / (1 - lost)
    nearest = float(left)
    return nearest if Fraction(nearest) <= left else math.nextafter(nearest, 0.0)
