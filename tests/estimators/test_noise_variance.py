"""The variance of discrete Gaussian noise against mpmath, at 50 digits."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from beam_dpsketch.estimators.comparing import noise_variance


def at_fifty_digits(sigma_squared: Fraction) -> float:
    """The second moment of P(x) ~ exp(-x^2 / (2 sigma^2)) over the integers."""
    with mpmath.workdps(50):
        exact = mpmath.mpf(sigma_squared.numerator) / sigma_squared.denominator
        weights = {x: mpmath.exp(-mpmath.mpf(x * x) / (2 * exact)) for x in range(-200, 201)}
        return float(mpmath.fsum(x * x * w for x, w in weights.items()) / mpmath.fsum(weights.values()))


@pytest.mark.parametrize("sigma_squared", ["1/4", "1/3", "1/2", "1", "9/4", "399/100", "4", "5", "100"])
def test_it_is_that_of_the_distribution(sigma_squared: str) -> None:
    exact = Fraction(sigma_squared)
    assert noise_variance(exact) == pytest.approx(at_fifty_digits(exact), rel=1e-14)


def test_small_noise_varies_less_than_its_parameter_and_large_noise_by_as_much() -> None:
    assert noise_variance(Fraction(1, 4)) < 0.87 / 4
    assert noise_variance(Fraction(9, 4)) == pytest.approx(2.25, rel=1e-9)
    assert noise_variance(Fraction(10**30)) == 1e30


def test_combined_noise_has_the_variances_of_its_parts() -> None:
    assert noise_variance(Fraction(1), releases=4) == pytest.approx(4 * at_fifty_digits(Fraction(1, 4)), rel=1e-14)


def test_noise_in_small_units_is_like_normal() -> None:
    assert noise_variance(Fraction(1, 4), scale_bits=16) == 0.25
