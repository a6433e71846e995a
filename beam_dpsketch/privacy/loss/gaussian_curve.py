"""Gaussian privacy curve: the exact (epsilon, delta) of Gaussian noise, always rounded to the safe side.

Guarantee: Gaussian noise that is rho-zCDP is (epsilon, delta)-DP for every returned pair. With mu = sqrt(2 rho), delta
is Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu), and no smaller delta is valid. Sources: Balle and
Wang 2018 (arXiv:1805.06530), Theorem 8, and Dong, Roth and Su 2019 (arXiv:1905.02383), Corollary 2.13.

Integer noise, as drawn by `noise.drawing`, has at most e^(2 d 2^-110) times the delta at epsilon - s. Here s is 4 d
2^-110 for d counters. `delta` adds this for up to 2^40 counters, over all composed releases. If epsilon is below s, the
delta at epsilon - s is at most the delta at 0, plus s - epsilon.

Proof of the rounding. Let a = mu / 2 - epsilon / mu, and t = mu / 2 + epsilon / mu. With phi the density of a normal
law and R(x) = (1 - Phi(x)) / phi(x), e^epsilon phi(t) = phi(a). Hence delta is phi(a) (R(-a) - R(t)). If a is above 0,
it is 1 - phi(a) (R(a) + R(t)). All of these numbers are decimals with many digits, and every operation is right to half
a unit in the last place. R is a half less a sum of positive terms, in 30 more digits. For larger x it is the continued
fraction 1 / (x + 1 / (x + 2 / (x + ...))), whose convergents are alternately above and below it: two equal convergents
enclose it. No other step subtracts. Hence errors with relative size at most 10^5 units remain, times the condition of
the exponent, |a| (mu + epsilon / mu). Their sum is added to delta. The computation is repeated with twice the digits
until that sum is at most 10^-12 of delta.

`epsilon` and `rho` search with floats first. Then they return the first float that `delta` confirms, hence each stays
within the other's result.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from beam_dpsketch import checks as _validate
from beam_dpsketch.privacy.loss.conversion import check_epsilon, checked_rho, turn

_DIGITS, _UNITS, _PRECISE = 50, 5, Decimal("1e-12")
_FAR = 60  # beyond it, a normal law has less than any float
_SERIES_UNTIL = 8
_SHIFT, _TIMES = Decimal(2) ** -68, 1 + Decimal(2) ** -60  # of epsilon and delta, for integer noise
_LEAST = math.ulp(0.0)
_SMALL_MU = 1e-4
_STEP = 8


def delta(*, rho: Fraction | float, epsilon: float) -> float:
    """Compute the delta of Gaussian noise at this epsilon, rounded up by at most 10^-11 of it, and never 0.

    >>> f"{delta(rho=0.1, epsilon=2.0):.2e}"
    '9.45e-07'
    """
    _validate.positive_finite(rho=rho)
    check_epsilon(epsilon)
    digits, exact = _DIGITS, Fraction(rho)
    while True:
        with decimal.localcontext(_context(digits)):
            left = Decimal(epsilon) - _SHIFT
            found, error = _delta(exact, max(left, Decimal(0)))
            if error <= _PRECISE * found or found + error < Decimal(_LEAST):
                upper = (found + error + max(-left, Decimal(0))) * _TIMES
                return min(1.0, max(math.nextafter(float(upper), math.inf), _LEAST))
        digits *= 2


def epsilon(*, rho: Fraction | float, delta: float) -> float:
    """Compute the smallest epsilon at this delta, rounded up.

    >>> round(epsilon(rho=1, delta=1e-6), 3)
    7.286
    """
    _validate.positive_finite(rho=rho)
    _validate.open_unit_interval(delta=delta)
    return _epsilon(Fraction(rho), delta)


@functools.lru_cache(maxsize=256)
def _epsilon(rho: Fraction, delta: float) -> float:
    """Cache the result: each plan, warning and statement of a release needs it."""
    if _confirmed(rho, 0.0, delta):
        return 0.0
    mu, high = _mu(rho), 1.0
    while _rough(mu, high) > delta:
        high *= 2
    _, least = turn(lambda value: _rough(mu, value) <= delta, 0.0, high)
    return _near(max(least, float(_SHIFT)), lambda value: _confirmed(rho, value, delta))[1]


def rho(*, epsilon: float, delta: float) -> float:
    """Compute the largest rho for which Gaussian noise is (epsilon, delta)-DP, rounded down.

    >>> round(rho(epsilon=1.0, delta=1e-6), 4)
    0.028
    """
    _validate.positive_finite(epsilon=epsilon)
    _validate.open_unit_interval(delta=delta)
    return checked_rho(_rho(epsilon, delta))


@functools.lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float) -> float:
    """Cache the result, or 0 without a solution: plans need it at the same few epsilons."""
    high = 1.0
    while _rough(_mu(high), epsilon) <= delta:
        high *= 2
    _, most = turn(lambda value: _rough(_mu(value), epsilon) > delta, 0.0, high)
    return _near(most, lambda value: value > 0 and not _confirmed(value, epsilon, delta))[0]


def _near(start: float, holds: Callable[[float], bool]) -> tuple[float, float]:
    """Find the turn of a condition that becomes true near the start."""
    margin = 2.0**-48
    while not holds(high := start * (1 + margin)):
        margin *= _STEP
    while holds(low := start * max(0.0, 1 - margin)):
        margin *= _STEP
    return turn(holds, low, high)


def _confirmed(rho: Fraction | float, epsilon: float, wanted: float) -> bool:
    return delta(rho=rho, epsilon=epsilon) <= wanted


def _context(digits: int) -> decimal.Context:
    return decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=decimal.ROUND_HALF_EVEN)


def _delta(rho: Fraction, epsilon: Decimal) -> tuple[Decimal, Decimal]:
    square = 2 * rho
    mu = (Decimal(square.numerator) / square.denominator).sqrt()
    far, half = epsilon / mu, mu / 2
    a, t = half - far, half + far
    unit = Decimal(10) ** (_UNITS - decimal.getcontext().prec)
    blur = unit * t  # error of a and t
    if a < -_FAR - blur:
        return Decimal(0), Decimal(_LEAST) / 4
    if a > _FAR + blur:
        return Decimal(1), Decimal(0)
    density = (-a * a / 2).exp() / (2 * _pi(decimal.getcontext().prec)).sqrt()
    below = density * _mills(t)
    if a > 0:
        below, above = below + density * _mills(a), Decimal(1)
    else:
        above = density * _mills(-a)
    return above - below, (above + below) * (unit + (abs(a) + 2) * blur)


def _mills(x: Decimal) -> Decimal:
    """Compute (1 - Phi(x)) / phi(x) for x >= 0."""
    if x > _SERIES_UNTIL:
        return _fraction(x)
    with decimal.localcontext() as context:
        context.prec += 30  # the half and the sum agree in up to 17 digits
        term, total, place, square = x, x, 1, x * x
        while term > total.scaleb(-context.prec) or place < 2 * square:
            place += 2
            term = term * square / place
            total += term
        value = (square / 2).exp() * (2 * _pi(context.prec)).sqrt() / 2 - total
    return +value


def _fraction(x: Decimal) -> Decimal:
    """Compute the same by convergents, until two agree."""
    digits = decimal.getcontext().prec - 1
    numerators, denominators, place = (Decimal(0), Decimal(1)), (Decimal(1), x), 0
    while True:
        place += 1
        numerators = numerators[1], x * numerators[1] + place * numerators[0]
        denominators = denominators[1], x * denominators[1] + place * denominators[0]
        first, second = numerators[0] / denominators[0], numerators[1] / denominators[1]
        if abs(first - second) <= second.scaleb(-digits):
            return second


@functools.lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Compute pi by Machin's formula."""
    with decimal.localcontext(_context(digits + 10)):
        return 16 * _arctangent(5) - 4 * _arctangent(239)


def _arctangent(inverse: int) -> Decimal:
    """Compute arctan(1 / inverse) by its alternating series."""
    power, total, place = Decimal(1) / inverse, Decimal(0), 1
    while power > Decimal(1).scaleb(-decimal.getcontext().prec):
        total += power / place if place % 4 == 1 else -power / place
        power, place = power / inverse**2, place + 2
    return total


def _mu(rho: Fraction | float) -> float:
    return math.sqrt(2 * max(float(rho), _LEAST))


def _rough(mu: float, epsilon: float) -> float:
    far = epsilon / mu
    a, t = mu / 2 - far, mu / 2 + far
    if a > 0:
        return 0.5 * math.erfc(-a / math.sqrt(2)) - _density(a) * _rough_mills(t)
    if mu < _SMALL_MU:
        return _density(a) * mu * (1 - far * _rough_mills(far))
    return _density(a) * (_rough_mills(-a) - _rough_mills(t))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi) if abs(x) < _FAR else 0.0


def _rough_mills(x: float) -> float:
    if x < _SERIES_UNTIL:
        return 0.5 * math.erfc(x / math.sqrt(2)) / _density(x)
    found = x
    for place in range(40, 0, -1):
        found = x + place / found
    return 1 / found
