"""Conversion from zero-concentrated differential privacy to (epsilon, delta), tight, and rounded to the safe side.

Guarantee: a rho-zCDP mechanism is (epsilon, delta)-DP for every returned pair. It covers mechanisms beyond Gaussian
noise, whose curve is in `gaussian_curve`. Source: Canonne, Kamath and Steinke 2020 (arXiv:2004.00010), Corollary 13.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from beam_dpsketch import checks as _validate
from beam_dpsketch.privacy.loss.conversion import check_epsilon, checked_rho, turn

# Exceeds the rounding errors of the formula below; its exponent stays under 10**4 where it matters.
_ROUND_UP = 1 + 1e-9


def delta(*, rho: Fraction | float, epsilon: float) -> float:
    """Compute the smallest delta from the conversion at this epsilon, rounded up, at most 1.

    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1 / alpha)^alpha. Every
    alpha gives a true bound, hence the result is valid even if the search misses the best alpha.

    >>> f"{delta(rho=0.1, epsilon=2.14):.2e}"
    '1.02e-06'
    """
    _validate.positive_finite(rho=rho)
    check_epsilon(epsilon)
    rho = max(float(rho) * _ROUND_UP, sys.float_info.min)

    def bound_grows(order_minus_one: float) -> bool:
        """Whether the bound grows with the order alpha, computed in alpha - 1 to avoid cancellation near order 1."""
        return (1 + 2 * order_minus_one) * rho - epsilon - _log_order_ratio(order_minus_one) > 0

    upper = 1.0
    while not bound_grows(upper):
        upper *= 2
    _, best = turn(bound_grows, 0.0, upper)
    logarithm = best * ((1 + best) * rho - epsilon - _log_order_ratio(best)) - math.log1p(best)
    return min(1.0, max(math.exp(min(0.0, logarithm)), sys.float_info.min) * _ROUND_UP)


def epsilon(*, rho: Fraction | float, delta: float) -> float:
    """Compute the smallest epsilon from the conversion at this delta, rounded up.

    >>> round(epsilon(rho=1, delta=1e-6), 3)
    7.766
    """
    _validate.positive_finite(rho=rho)
    _validate.open_unit_interval(delta=delta)
    if _delta(rho, 0.0) <= delta:
        return 0.0
    upper = float(rho) + 2 * math.sqrt(-float(rho) * math.log(delta)) + 1
    return turn(lambda value: _delta(rho, value) <= delta, 0.0, upper)[1]


def rho(*, epsilon: float, delta: float) -> float:
    """Compute the largest rho whose conversion stays within (epsilon, delta), rounded down.

    >>> round(rho(epsilon=1.0, delta=1e-6), 4)
    0.0244
    """
    _validate.positive_finite(epsilon=epsilon)
    _validate.open_unit_interval(delta=delta)
    high = epsilon + 1.0
    while _delta(high, epsilon) <= delta:
        high *= 2
    return checked_rho(turn(lambda value: _delta(value, epsilon) > delta, 0.0, high)[0])


def _delta(rho: Fraction | float, epsilon: float) -> float:
    return delta(rho=rho, epsilon=epsilon)  # alias for functions with a parameter named delta


def _log_order_ratio(order_minus_one: float) -> float:
    return math.log1p(1 / order_minus_one) if order_minus_one > sys.float_info.min else -math.log(order_minus_one)
