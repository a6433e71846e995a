"""What an analyst may lose who chooses amounts by what was seen: more, where a limit trades them for one another."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from beam_dpsketch import LossLimit, PrivacySpec
from beam_dpsketch.privacy.loss.composition import Loss

EPSILON, DELTA = 2.0, 1e-6
RHO = PrivacySpec(epsilon=EPSILON, delta=DELTA, noise="gaussian").rho
FIRST = RHO * Fraction(7, 10)
STEPS = 100_001


def exceeded(epsilon: np.ndarray | float, mu: float) -> np.ndarray:
    """The delta of Gaussian noise at an epsilon, by Balle and Wang 2018, Theorem 8."""
    least = np.exp(np.minimum(epsilon, 700) + norm.logcdf(-mu / 2 - epsilon / mu))
    return np.asarray(norm.cdf(mu / 2 - epsilon / mu) - least)


def test_who_chooses_by_what_was_seen_loses_almost_twice_the_delta() -> None:
    """After 0.7 of rho, each way is within the limit, and the better one of both for each outcome is not."""
    first, second = (float(2 * rho) ** 0.5 for rho in (FIRST, RHO - FIRST))
    keys = (DELTA - float(exceeded(EPSILON, first))) * 0.999
    limit = LossLimit(epsilon=EPSILON, delta=DELTA)
    for more in (Loss(RHO - FIRST), Loss(Fraction(1, 10**9), Fraction(keys))):
        assert limit.holds(Loss(FIRST).plus(more))
    lost = np.linspace(first**2 / 2 - 12 * first, first**2 / 2 + 12 * first, STEPS)
    weight = norm.pdf(lost, first**2 / 2, first)
    of_rho = exceeded(EPSILON - lost, second)
    of_keys = keys + (1 - keys) * np.maximum(0, -np.expm1(np.minimum(EPSILON - lost, 0)))
    ways = [float(np.average(way, weights=weight)) for way in (of_rho, of_keys, np.maximum(of_rho, of_keys))]
    assert max(ways[:2]) <= DELTA * 1.0001
    assert ways[2] == pytest.approx(1.98e-6, rel=3e-3)


def test_caps_of_their_own_refuse_one_of_both() -> None:
    limit = LossLimit(rho=RHO, delta=1e-8)
    spent = Loss(FIRST)
    assert limit.holds(spent.plus(Loss(RHO - FIRST)))
    assert not limit.holds(spent.plus(Loss(Fraction(1, 10**9), Fraction(9, 10**7))))
