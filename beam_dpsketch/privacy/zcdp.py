"""Zero-concentrated differential privacy: its conversion to (epsilon, delta), and how losses compose.

Conversion, by the tight bound and always rounded to the safe side. Guarantee: a rho-zCDP mechanism is (epsilon,
delta)-DP for every pair returned. Source: Canonne, Kamath and Steinke 2020 (arXiv:2004.00010), Corollary 13. The exact
curve of the continuous Gaussian is not used: for discrete noise its delta is too small (by a factor of 1.3 at sigma =
2).

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

Proof of the sum. Bun and Steinke 2016 (arXiv:1605.02065), Lemma 7 and section 8: rho adds. 1 - (1 - d)(1 - d') is lost
of delta, because each mechanism is independent of the other's exceptions. This holds if a later release depends on
earlier ones.

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
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from beam_dpsketch import _validate
from beam_dpsketch._showing import round_up
from beam_dpsketch.errors import ArgumentError

# Exceeds the rounding errors of the formula below; its exponent stays under 10**4 where it matters.
_ROUND_UP = 1 + 1e-9
_LARGE_EPSILON, _NOISY_SHARE = 10, 0.1
_FEW, _MANY = 1e3, 1e6


def delta(*, rho: Fraction | float, epsilon: float) -> float:
    """Return the smallest delta that the conversion gives at this epsilon, rounded up, at most 1.

    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1 / alpha)**alpha. Every
    alpha gives a true bound, so the search for the best one cannot make the result wrong.

    >>> f"{delta(rho=0.1, epsilon=2.14):.2e}"
    '1.02e-06'
    """
    _validate.positive_finite(rho=rho)
    if not 0 <= epsilon < math.inf:
        raise ArgumentError("epsilon", f"must be finite and at least 0, got {epsilon}", "E112")
    rho = max(float(rho) * _ROUND_UP, sys.float_info.min)

    def bound_grows(order_minus_one: float) -> bool:
        """Return whether the bound grows with the order alpha; in alpha - 1, nothing cancels near order 1."""
        return (1 + 2 * order_minus_one) * rho - epsilon - _log_order_ratio(order_minus_one) > 0

    upper = 1.0
    while not bound_grows(upper):
        upper *= 2
    best = _bisect(bound_grows, 0.0, upper)
    logarithm = best * ((1 + best) * rho - epsilon - _log_order_ratio(best)) - math.log1p(best)
    return min(1.0, max(math.exp(min(0.0, logarithm)), sys.float_info.min) * _ROUND_UP)


def epsilon(*, rho: Fraction | float, delta: float) -> float:
    """Return the smallest epsilon that the conversion gives at this delta, rounded up.

    >>> round(epsilon(rho=1, delta=1e-6), 3)
    7.766
    """
    _validate.positive_finite(rho=rho)
    _validate.open_unit_interval(delta=delta)
    if _delta(rho, 0.0) <= delta:
        return 0.0
    upper = float(rho) + 2 * math.sqrt(-float(rho) * math.log(delta)) + 1
    return _bisect(lambda value: _delta(rho, value) <= delta, 0.0, upper)


def rho(*, epsilon: float, delta: float) -> float:
    """Return the largest rho whose conversion stays within (epsilon, delta), rounded down.

    >>> round(rho(epsilon=1.0, delta=1e-6), 4)
    0.0244
    """
    _validate.positive_finite(epsilon=epsilon)
    _validate.open_unit_interval(delta=delta)
    low, high = 0.0, epsilon + 1.0
    while _delta(high, epsilon) <= delta:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _delta(middle, epsilon) <= delta else (low, middle)
    if low <= 0:
        raise ArgumentError("", "epsilon and delta are too small for any rho", "E110")
    return low


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


def _delta(rho: Fraction | float, epsilon: float) -> float:
    return delta(rho=rho, epsilon=epsilon)  # for functions with a parameter named delta


def _log_order_ratio(order_minus_one: float) -> float:
    return math.log1p(1 / order_minus_one) if order_minus_one > sys.float_info.min else -math.log(order_minus_one)


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest float at which a monotone condition holds, given that it holds at `high`."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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
