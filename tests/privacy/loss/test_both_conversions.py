"""What holds of both conversions of rho: numbers far out, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch.privacy.loss import gaussian_curve, zcdp

both = pytest.mark.parametrize("curve", [zcdp, gaussian_curve], ids=["zcdp", "gaussian"])


@both
def test_extremes_are_finite_and_safe(curve: Any) -> None:
    assert curve.delta(rho=1e300, epsilon=1.0) == 1.0
    assert 0 < curve.delta(rho=1e-3, epsilon=1e6) < 1e-300
    assert curve.epsilon(rho=1e300, delta=1e-6) >= 1e300
    assert curve.epsilon(rho=1e-300, delta=1e-6) == 0.0
    assert curve.epsilon(rho=Fraction(1, 10**400), delta=1e-6) == 0.0
    assert curve.epsilon(rho=1.0, delta=1 - 1e-12) >= 0.0
    assert curve.rho(epsilon=1e-12, delta=1e-12) > 0


@both
@pytest.mark.parametrize("delta", [0, 1, 1.5, -1e-9, math.nan, math.inf])
def test_deltas_outside_the_unit_interval_are_refused(curve: Any, delta: Any) -> None:
    with pytest.raises(ValueError, match="delta must be greater than 0 and less than 1"):
        curve.epsilon(rho=1.0, delta=delta)
    with pytest.raises(ValueError, match="delta must be greater than 0 and less than 1"):
        curve.rho(epsilon=1.0, delta=delta)


@both
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, 10**400])
def test_rhos_and_epsilons_that_are_not_positive_and_finite_are_refused(curve: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="rho must be finite and greater than 0"):
        curve.epsilon(rho=value, delta=0.1)
    with pytest.raises(ValueError, match="rho must be finite and greater than 0"):
        curve.delta(rho=value, epsilon=1.0)
    with pytest.raises(ValueError, match="epsilon must be finite and greater than 0"):
        curve.rho(epsilon=value, delta=0.1)


@both
@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_an_epsilon_below_zero_or_not_finite_has_no_delta(curve: Any, epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be finite and at least 0"):
        curve.delta(rho=1.0, epsilon=epsilon)


@both
@pytest.mark.parametrize("value", ["1", None, True])
def test_what_is_not_a_number_is_a_type_error(curve: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="rho must be a number"):
        curve.epsilon(rho=value, delta=0.1)
    with pytest.raises(TypeError, match="delta must be a number"):
        curve.epsilon(rho=1.0, delta=value)
    with pytest.raises(TypeError, match="epsilon must be a number"):
        curve.rho(epsilon=value, delta=0.1)
