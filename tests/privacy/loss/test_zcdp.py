"""zCDP to (epsilon, delta) and back, against mpmath, OpenDP, dp_accounting and the exact lattice."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import opendp.prelude as opendp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch.privacy.loss import zcdp

rhos = st.floats(1e-6, 1e3)
epsilons = st.floats(1e-3, 1e3)
deltas = st.floats(-600, -0.01).map(math.exp)

_GRID = [(rho, epsilon) for rho in (1e-4, 0.02, 0.125, 1.0, 7.5, 100.0) for epsilon in (1e-3, 0.3, 1.0, 4.0, 30.0)]


def _least_delta(rho, epsilon):
    """The minimum over alpha of Canonne, Kamath and Steinke's Proposition 12, to 40 digits, by golden section."""
    with mpmath.workdps(60):
        rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def logarithm(log_order):  # of alpha - 1
            order = 1 + mpmath.exp(log_order)
            return (order - 1) * (order * rho - epsilon) - mpmath.log(order - 1) + order * mpmath.log1p(-1 / order)

        low, high = mpmath.mpf(-80), mpmath.mpf(80)
        golden = (mpmath.sqrt(5) - 1) / 2
        for _ in range(260):
            left, right = high - golden * (high - low), low + golden * (high - low)
            if logarithm(left) < logarithm(right):
                high = right
            else:
                low = left
        return min(mpmath.mpf(1), mpmath.exp(logarithm((low + high) / 2)))


def _exact_delta(sigma, change, epsilon):
    """The exact delta at this epsilon of the discrete Gaussian of an integer, when the integer changes by `change`."""
    reach = int(40 * sigma) + change + 10
    x = np.arange(-reach, reach + 1)
    logarithms = -(x.astype(float) ** 2) / (2 * sigma**2)
    total = math.fsum(np.exp(logarithms))
    shifted = -((x - change).astype(float) ** 2) / (2 * sigma**2)
    return math.fsum(np.maximum(0.0, np.exp(logarithms) - np.exp(epsilon + shifted))) / total


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("rho", "epsilon"), _GRID)
def test_delta_is_the_true_minimum_rounded_up(rho, epsilon):
    true = _least_delta(rho, epsilon)
    if true < 1e-307:
        return
    answer = zcdp.delta(rho=rho, epsilon=epsilon)
    assert answer >= true or answer == 1.0
    assert answer <= min(1, float(true) * (1 + 1e-5))


@given(rho=rhos, epsilon=epsilons)
@example(rho=0.1, epsilon=2.14)
def test_delta_is_never_below_the_true_minimum(rho, epsilon):
    answer = zcdp.delta(rho=rho, epsilon=epsilon)
    assert answer == 1.0 or answer >= _least_delta(rho, epsilon)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("change", [1, 2, 6])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0, 3.0, 8.0])
def test_delta_covers_the_discrete_gaussian_on_the_lattice(sigma, change, epsilon):
    answer = zcdp.delta(rho=Fraction(change**2) / (2 * Fraction(sigma) ** 2), epsilon=epsilon)
    assert answer >= _exact_delta(sigma, change, epsilon) * (1 - 1e-9)


def test_the_curve_of_the_continuous_gaussian_would_not_cover_it():
    """The check above has the power to refuse the usual formula."""
    factors = [
        _exact_delta(2.0, 1, epsilon)
        / (stats.norm.cdf(0.25 - 2 * epsilon) - math.exp(epsilon) * stats.norm.cdf(-0.25 - 2 * epsilon))
        for epsilon in np.linspace(0.1, 3, 59)
    ]
    assert max(factors) > 1.2


def _opendp_profile(rho):
    opendp.enable_features("contrib")
    scale = 1 / math.sqrt(2 * rho)
    gaussian = opendp.m.make_gaussian(opendp.atom_domain(T="i64"), opendp.absolute_distance(T="i64"), scale=scale)
    return opendp.c.make_zCDP_to_approxDP(gaussian).map(1)


@pytest.mark.parametrize("rho", [0.001, 0.02, 0.125, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_epsilon_agrees_with_opendp(rho, delta):
    assert zcdp.epsilon(rho=rho, delta=delta) == pytest.approx(_opendp_profile(rho).epsilon(delta), rel=1e-6)


@pytest.mark.parametrize("rho", [0.02, 0.125, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_delta_agrees_with_opendp(rho, epsilon):
    assert zcdp.delta(rho=rho, epsilon=epsilon) == pytest.approx(_opendp_profile(rho).delta(epsilon), rel=1e-5)


@pytest.mark.parametrize("rho", [0.02, 0.125, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_epsilon_is_at_least_as_tight_as_the_accountant_and_close_to_it(rho, delta):
    """dp_accounting minimises over a fixed list of orders, so it is never below the best order."""
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(rho=rho))
    theirs = accountant.get_epsilon(delta)
    ours = zcdp.epsilon(rho=rho, delta=delta)
    assert ours <= theirs * (1 + 1e-7)
    assert ours == pytest.approx(theirs, rel=2e-2)


@given(epsilon=epsilons, delta=deltas)
def test_rho_is_rounded_down(epsilon, delta):
    rho = zcdp.rho(epsilon=epsilon, delta=delta)
    assert zcdp.delta(rho=rho, epsilon=epsilon) <= delta
    assert zcdp.delta(rho=rho * (1 + 1e-7), epsilon=epsilon) > delta


@given(rho=rhos, delta=deltas)
def test_epsilon_is_rounded_up(rho, delta):
    epsilon = zcdp.epsilon(rho=rho, delta=delta)
    assert zcdp.delta(rho=rho, epsilon=epsilon) <= delta
    if epsilon > 0:
        assert zcdp.delta(rho=rho, epsilon=epsilon * (1 - 1e-6)) > delta


@given(rho=rhos, delta=deltas)
def test_there_and_back_loses_almost_nothing_and_gains_nothing(rho, delta):
    epsilon = zcdp.epsilon(rho=rho, delta=delta)
    if epsilon > 0:
        assert zcdp.rho(epsilon=epsilon, delta=delta) == pytest.approx(rho, rel=1e-6)


@given(rho=rhos, more=st.floats(1.001, 100), epsilon=epsilons, delta=deltas)
def test_monotone(rho, more, epsilon, delta):
    assert zcdp.delta(rho=rho * more, epsilon=epsilon) >= zcdp.delta(rho=rho, epsilon=epsilon)
    assert zcdp.delta(rho=rho, epsilon=epsilon * more) <= zcdp.delta(rho=rho, epsilon=epsilon)
    assert zcdp.epsilon(rho=rho * more, delta=delta) >= zcdp.epsilon(rho=rho, delta=delta)
    assert zcdp.epsilon(rho=rho, delta=delta / more) >= zcdp.epsilon(rho=rho, delta=delta)
    assert zcdp.rho(epsilon=epsilon * more, delta=delta) >= zcdp.rho(epsilon=epsilon, delta=delta)


def test_extremes_are_finite_and_safe():
    assert 0 < zcdp.delta(rho=1e-300, epsilon=0.0) < 1e-100
    assert 50 < zcdp.epsilon(rho=1.0, delta=5e-324) < 60
    assert zcdp.rho(epsilon=1e300, delta=0.5) <= 1e300


@pytest.mark.parametrize(("rho", "epsilon"), [(19.0, 1.0), (17.0, 0.015625), (30.0, 2.0), (8.0, 0.0)])
def test_delta_near_1_is_rounded_up_by_no_more_than_it_says(rho, epsilon):
    """Near order 1 a formula in the order itself loses all its digits; the reference has 60."""
    exact = float(_least_delta(rho, epsilon))
    assert exact <= zcdp.delta(rho=rho, epsilon=epsilon) <= min(1.0, exact * (1 + 1e-7))
