"""The curve of Gaussian noise and back, against mpmath, dp_accounting and sums over the lattice."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.privacy.loss import gaussian_curve as curve
from beam_dpsketch.privacy.loss import zcdp
from beam_dpsketch.privacy.noise.drawing import drawn_variance

rhos = st.floats(-18, 7).map(math.exp)
epsilons = st.floats(-7, 7).map(math.exp)
deltas = st.floats(-600, -0.01).map(math.exp)

RHOS = (1e-12, 1e-8, 1e-4, 0.02, 0.125, 1.0, 7.5, 100.0, 1e6)
EPSILONS = (0.0, 1e-6, 1e-3, 0.3, 1.0, 4.0, 30.0, 1e3, 1e6)


def exact(rho: Fraction | float, epsilon: float) -> mpmath.mpf:
    """Delta by the formula, to 60 digits or more."""
    with mpmath.workdps(400):
        fraction = Fraction(rho)
        mu = mpmath.sqrt(2 * mpmath.mpf(fraction.numerator) / fraction.denominator)
        far, half = mpmath.mpf(epsilon) / mu, mu / 2
        return (
            mpmath.erfc((far - half) / mpmath.sqrt(2))
            - mpmath.exp(epsilon) * mpmath.erfc((far + half) / mpmath.sqrt(2))
        ) / 2


def check(rho: Fraction | float, epsilon: float) -> None:
    found, true = mpmath.mpf(curve.delta(rho=rho, epsilon=epsilon)), exact(rho, epsilon)
    assert found >= min(true, 1)
    if true > 1e-290:
        assert found <= true * (1 + mpmath.mpf("1e-10")) + mpmath.mpf(2) ** -67
    else:
        assert found < 1e-280


@pytest.mark.one_fast_case
@pytest.mark.parametrize("rho", RHOS)
def test_delta_is_the_exact_one_rounded_up(rho: float) -> None:
    for epsilon in EPSILONS:
        check(rho, epsilon)


@given(rho=rhos, epsilon=epsilons)
def test_any_delta_is_the_exact_one_rounded_up(rho: float, epsilon: float) -> None:
    check(rho, epsilon)
    check(Fraction(rho) + Fraction(1, 3**40), epsilon)


def test_rounding_to_nearest_or_floats_alone_would_be_below() -> None:
    """The planted faults: the formula in floats, and the nearest float to the exact number."""

    def floats(rho: float, epsilon: float) -> float:
        mu = math.sqrt(2 * rho)
        far, half = epsilon / mu, mu / 2
        return 0.5 * (math.erfc((far - half) / 2**0.5) - math.exp(epsilon) * math.erfc((far + half) / 2**0.5))

    pairs = list(itertools.product((0.02, 0.125, 1.0, 7.5), (1e-3, 0.3, 1.0, 4.0)))
    assert any(floats(*pair) < exact(*pair) for pair in pairs)
    assert any(float(exact(*pair)) < exact(*pair) for pair in pairs)
    assert not any(curve.delta(rho=rho, epsilon=epsilon) < exact(rho, epsilon) for rho, epsilon in pairs)


@given(rho=rhos, delta=deltas)
def test_epsilon_is_at_most_a_thousandth_above_the_exact_one_and_never_below(rho: float, delta: float) -> None:
    found = curve.epsilon(rho=rho, delta=delta)
    assert exact(rho, found) <= delta
    if found > 1e-15:
        assert exact(rho, found * (1 - 1e-6)) > delta or delta < 1e-290


@given(epsilon=epsilons, delta=deltas)
def test_rho_is_the_largest_within_both(epsilon: float, delta: float) -> None:
    found = curve.rho(epsilon=epsilon, delta=delta)
    assert exact(found, epsilon) <= delta
    assert exact(found * (1 + 1e-6), epsilon) > delta or delta < 1e-290
    assert curve.epsilon(rho=found, delta=delta) <= epsilon


@given(rho=rhos, epsilon=epsilons, delta=deltas, more=st.floats(1, 100))
def test_losses_grow_as_they_must(rho: float, epsilon: float, delta: float, more: float) -> None:
    assert curve.delta(rho=rho * more, epsilon=epsilon) >= curve.delta(rho=rho, epsilon=epsilon) * (1 - 1e-10)
    assert curve.delta(rho=rho, epsilon=epsilon * more) <= curve.delta(rho=rho, epsilon=epsilon) * (1 + 1e-10)
    assert curve.epsilon(rho=rho * more, delta=delta) >= curve.epsilon(rho=rho, delta=delta) * (1 - 1e-9)


@given(rho=st.floats(1e-4, 50), delta=st.floats(-40, -3).map(math.exp))
def test_less_is_lost_than_of_any_mechanism_with_this_rho(rho: float, delta: float) -> None:
    assert curve.epsilon(rho=rho, delta=delta) <= zcdp.epsilon(rho=rho, delta=delta)


def test_sigma_at_epsilon_2_is_that_of_the_analytic_mechanism() -> None:
    """Another accountant agrees. The bar is 2.24; the conversion of zCDP needs 2.38."""
    sigma = 1 / math.sqrt(2 * curve.rho(epsilon=2, delta=1e-6))
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(sigma))
    assert accountant.get_epsilon(1e-6) == pytest.approx(2, rel=1e-3)
    assert sigma < 2.24 < 2.38 < 1 / math.sqrt(2 * zcdp.rho(epsilon=2, delta=1e-6))


def test_numbers_far_out_are_safe() -> None:
    """With the margin for noise on whole numbers, 2^-68. `test_both_conversions` has the rest."""
    assert 0 < curve.delta(rho=1e-300, epsilon=0.0) < 1e-20
    assert 50 < curve.epsilon(rho=1.0, delta=1e-300) < 60
    with pytest.raises(ValueError, match="too small for any rho"):
        curve.rho(epsilon=1e-30, delta=1e-30)


# The noise that is drawn, by sums over the lattice.


def on_lattice(change: tuple[int, ...], variance: Fraction, epsilon: float) -> float:
    """The delta of discrete Gaussian noise on counters that change by this, by a sum over all outputs."""
    reach = int(14 * math.sqrt(variance)) + max(map(abs, change)) + 5
    places = np.arange(-reach, reach + 1)
    laws = [np.exp(-((places - shift) ** 2) / (2 * float(variance))) for shift in (0, *change)]
    laws = [law / law.sum() for law in laws]
    first, second = laws[0], laws[1]
    for law in laws[2:]:
        first, second = np.multiply.outer(first, laws[0]), np.multiply.outer(second, law)
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


LATTICE = [
    (rho, change, epsilon)
    for rho in (0.01, 0.1, 0.5, 2.0, 8.0)
    for change in ((1,), (2,), (3,), (5,), (10,), (1, 1), (3, 1), (4, -3))
    for epsilon in (0.05, 0.3, 1.0, 3.0, 6.0)
    if rho >= 0.1 or len(change) == 1
]


def excess(drawn: bool) -> float:
    """How much above the curve the noise is, at most; the sums are right to 1e-9 of numbers above 1e-9."""
    found = []
    for rho, change, epsilon in LATTICE:
        variance = Fraction(sum(each**2 for each in change)) / (2 * Fraction(rho))
        allowed = float(exact(rho, epsilon))
        if allowed > 1e-9:
            found.append(on_lattice(change, drawn_variance(variance) if drawn else variance, epsilon) / allowed - 1)
    return max(found)


def test_noise_that_is_drawn_is_never_above_the_curve() -> None:
    assert excess(drawn=True) <= 1e-9


def test_noise_without_the_four_squared_steps_is_found() -> None:
    """The planted fault: the variance of the continuous noise."""
    assert excess(drawn=False) > 0.1


def test_the_four_squared_steps_are_those_of_the_proof() -> None:
    """Sums see only their absence: the proof needs t = 2.0001 exp(-2 pi^2 s^2) below 2^-112, for s^2 = 4 at least."""
    extra = drawn_variance(Fraction(1)) - 1
    assert extra == 4
    assert 2.0001 * math.exp(-2 * math.pi**2 * extra) < 2.0**-112 < 2.0001 * math.exp(-2 * math.pi**2 * (extra - 1))
