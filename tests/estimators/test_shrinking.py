"""Shrinking: the fitted law against another optimiser, posterior means against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from beam_dpsketch.estimators import decoding
from beam_dpsketch.estimators.decoding import LIMIT, MIN_ITEMS, WeightLaw, shrink

GENERATOR = np.random.default_rng(7)
WEIGHTS = GENERATOR.choice([0, 1, 2, 40], p=[0.5, 0.3, 0.1, 0.1], size=4000).astype(np.float64)
DEVIATIONS = GENERATOR.choice([1.5, 3.0], size=4000)
ESTIMATES = WEIGHTS + DEVIATIONS * GENERATOR.standard_normal(4000)
LAW = WeightLaw(ESTIMATES, DEVIATIONS, signed=False)


def likelihoods(estimates: np.ndarray, deviations: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * ((estimates[:, None] - grid) / deviations[:, None]) ** 2)


def test_the_fitted_law_is_nearly_as_likely_as_the_best_one() -> None:
    """The best shares on a coarse grid, by another method, are at most 1 in 1,000 an item more likely."""
    some = slice(0, 500)
    fitted = WeightLaw(ESTIMATES[some], DEVIATIONS[some], signed=False)
    coarse = likelihoods(ESTIMATES[some], DEVIATIONS[some], np.arange(0, 60, 2.0))

    def loss(logits: np.ndarray) -> tuple[float, np.ndarray]:
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        mixed = coarse @ shares
        slopes = shares * (coarse / mixed[:, None]).mean(axis=0)
        return float(-np.log(mixed).mean()), -(slopes - shares * slopes.sum())

    best = optimize.minimize(loss, np.zeros(coarse.shape[1]), jac=True, method="L-BFGS-B").fun
    own = likelihoods(ESTIMATES[some], DEVIATIONS[some], fitted.grid) @ fitted.shares
    assert -np.log(own).mean() <= best + 1e-3
    assert fitted.shares.sum() == pytest.approx(1)


def test_posterior_means_and_their_errors_are_those_of_sums_over_the_grid() -> None:
    chances = likelihoods(ESTIMATES, DEVIATIONS, LAW.grid) * LAW.shares
    chances /= chances.sum(axis=1, keepdims=True)
    exact = chances @ LAW.grid
    spread = chances @ LAW.grid**2 - exact**2
    found, squares = LAW.shrink(ESTIMATES, DEVIATIONS)
    limited = np.clip(exact, ESTIMATES - LIMIT * DEVIATIONS, ESTIMATES + LIMIT * DEVIATIONS)
    near = ESTIMATES < 24 * DEVIATIONS  # beyond, nothing is shrunk
    np.testing.assert_allclose(found[near], limited[near], atol=0.1)
    np.testing.assert_allclose(squares[near], (spread + (limited - exact) ** 2)[near], atol=0.4)
    far = ESTIMATES > 26 * DEVIATIONS
    assert far.any()
    np.testing.assert_array_equal(found[far], ESTIMATES[far])


def test_the_stated_errors_are_those_made_and_smaller_than_the_noise() -> None:
    found, squares = LAW.shrink(ESTIMATES, DEVIATIONS)
    made = np.mean((found - WEIGHTS) ** 2)
    assert made == pytest.approx(squares.mean(), rel=0.1)
    assert made < 0.5 * np.mean(DEVIATIONS**2)


@pytest.mark.parametrize("signed", [False, True])
def test_no_value_moves_further_than_the_limit_and_heavy_ones_stay(signed: bool) -> None:
    estimates = np.append(GENERATOR.standard_normal(1000), [9.0, 500.0, 1e9, -9.0])
    found = shrink(estimates, np.ones(1004), signed=signed)
    assert np.max(np.abs(found - estimates)) <= LIMIT + 1e-9
    assert found[1001:1003].tolist() == [500.0, 1e9]
    assert np.mean(found[:1000] ** 2) < 0.1
    assert (found >= 0).all() != signed or found[-1] == pytest.approx(-9 + LIMIT)


def test_only_signed_weights_may_be_negative() -> None:
    estimates = np.repeat([-50.0, 50.0], 500)
    np.testing.assert_allclose(shrink(estimates, np.ones(1000), signed=True), estimates, atol=0.5)
    assert (shrink(estimates, np.ones(1000), signed=False)[:500] == -50 + LIMIT).all()
    mirrored = WeightLaw(estimates, np.ones(1000), signed=True).grid
    np.testing.assert_array_equal(mirrored, -mirrored[::-1])


def test_too_few_estimates_stay_as_they_are() -> None:
    few = GENERATOR.standard_normal(MIN_ITEMS - 1)
    assert shrink(few, np.ones(len(few)), signed=False) is few
    more = np.append(few, 0.0)
    assert np.abs(shrink(more, np.ones(len(more)), signed=False)).max() < np.abs(more).max()


def test_a_grid_reaches_its_end_and_is_fine_near_zero() -> None:
    for smallest, reach in ((0.01, 0.3), (0.5, 1e7), (300.0, 9000.0)):
        grid = decoding._grid(smallest, reach, signed=False)
        steps = np.diff(grid)
        assert grid[0] == 0
        assert grid[-1] >= reach
        assert steps[0] == pytest.approx(min(1.0, smallest / 2))
        assert (steps[1:] >= steps[:-1] * (1 - 1e-9)).all()
