"""Peeling and rounds: collisions fade, rows do not decide for themselves, and the guards hold.

Shrinking: the fitted law against another optimiser, posterior means against sums by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from beam_dpsketch import CountMin, CountSketch
from beam_dpsketch.answers.estimators import decoding
from beam_dpsketch.answers.estimators.decoding import (
    LIMIT,
    MIN_ITEMS,
    FreedRows,
    Rounds,
    WeightLaw,
    shrink,
    weighted_huber_mean,
    weighted_median,
)
from beam_dpsketch.answers.estimators.row_mean import huber_mean
from tests.helpers.decoding import noisy_release, places, root_mean_square, zipf_weights


def of_release(released: Any, keys: np.ndarray, *, signed: bool = False) -> Rounds:
    return Rounds(
        released.counters,
        places(released.spec, keys),
        sigma_squared=float(released.privacy.sigma_squared),
        has_signs=released.spec.kind == "count_sketch",
        signed=signed,
    )


def freed(released: Any, items: int) -> FreedRows:
    return of_release(released, np.arange(items, dtype=np.uint64)).run()


@pytest.mark.parametrize("kind", [CountSketch, CountMin])
def test_collisions_fade_to_the_noise(kind: Any) -> None:
    weights = zipf_weights(1500)
    released = noisy_release(weights, sigma=5, kind=kind, width=1024)
    found = freed(released, 1500)
    assert root_mean_square(found.residual) < 1.3 * 5
    assert root_mean_square(found.residual) < 0.1 * root_mean_square(released.counters)
    assert root_mean_square(found.rows - weights) < 1.3 * 5
    standard = root_mean_square((found.rows - weights) / np.sqrt(found.variances))
    assert standard == pytest.approx(1, abs=0.1)


def own_noise_in_errors(patch: pytest.MonkeyPatch | None) -> float:
    """How much of its own counter's noise is in the error of a row: 1, unless the row took a part of it along."""
    weights = np.random.default_rng(3).integers(1, 40, 3000)
    shares = []
    for seed in range(2):
        released = noisy_release(weights, sigma=6, width=1024, seed=seed)
        exact = noisy_release(weights, sigma=0, width=1024, seed=seed, sigma_squared_per_level=(1,))
        keys = np.arange(3000, dtype=np.uint64)
        found = of_release(released, keys)
        if patch is not None:
            everyone = np.ones(5, dtype=bool)
            patch.setattr(found, "_groups", [(everyone, everyone)])
        errors = found.run().rows - weights
        noise = places(released.spec, keys).read(released.counters - exact.counters)
        shares.append(float(np.mean(errors * noise) / np.mean(noise**2)))
    return float(np.mean(shares))


def test_a_row_keeps_all_of_its_noise_because_others_decide_what_it_subtracts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_noise_in_errors(None) == pytest.approx(1, abs=0.06)
    assert own_noise_in_errors(monkeypatch) < 0.7  # the mistake


def test_energy_falls_with_the_rounds_or_nothing_is_subtracted() -> None:
    released = noisy_release(zipf_weights(1500), sigma=5)
    alone = freed(released, 1)
    few, many = freed(released, 300), freed(released, 1500)
    assert many.energy < few.energy < alone.energy
    unrelated = of_release(released, np.arange(10_000, 12_000, dtype=np.uint64)).run()
    assert not unrelated.subtracted.any()


def test_a_heavy_item_that_is_not_listed_does_not_stop_the_rounds() -> None:
    weights = np.append(zipf_weights(1500), 10_000_000)
    found = freed(noisy_release(weights, sigma=5, width=1024), 1500)
    assert np.median(np.abs(found.residual)) < 5
    assert found.energy < 2 * 5**2


def test_at_most_a_quarter_as_many_items_as_columns_are_peeled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_PEELS", 1)
    monkeypatch.setattr(decoding, "_ROUNDS", 0)
    found = freed(noisy_release(np.full(40, 10_000), sigma=2, width=64), 40)
    peeled = [np.count_nonzero(row) for row in found.subtracted]
    assert 0 < min(peeled) <= max(peeled) <= 16


@pytest.mark.parametrize("depth", [1, 2])
def test_fewer_than_three_rows_are_read_as_they_are(depth: int) -> None:
    released = noisy_release(zipf_weights(300), sigma=5, depth=depth, width=64)
    found = freed(released, 300)
    assert not found.subtracted.any()
    np.testing.assert_array_equal(found.residual, released.counters)


def test_more_rows_than_groups_are_decided_by_other_groups() -> None:
    released = noisy_release(zipf_weights(600), sigma=5, depth=8, width=256)
    found = freed(released, 600)
    for row in range(3):
        np.testing.assert_array_equal(found.subtracted[row], found.subtracted[row + 5])
    assert not np.array_equal(found.subtracted[0], found.subtracted[1])


@settings(max_examples=20)
@given(st.integers(3, 7), st.integers(1, 5), st.booleans(), st.sampled_from([1, 7, 199, 300]), st.integers(0, 9))
def test_any_small_sketch_gives_finite_rows(depth: int, width: int, is_signed: bool, items: int, seed: int) -> None:
    weights = zipf_weights(40, heaviest=1e9 if seed % 2 else 50)
    for kind in (CountSketch, CountMin):
        released = noisy_release(weights, sigma=1 + seed, kind=kind, depth=depth, width=width, seed=seed)
        found = of_release(released, np.arange(items, dtype=np.uint64), signed=is_signed).run()
        assert np.isfinite(found.rows).all()
        assert (found.variances >= (1 + seed) ** 2).all()


@given(st.integers(1, 6), st.integers(0, 100))
def test_rows_of_equal_deviation_have_the_plain_huber_mean(depth: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.standard_cauchy((depth, 30))
    np.testing.assert_allclose(weighted_huber_mean(rows, np.full_like(rows, 2.0), 0.7), huber_mean(rows, 1.4))
    deviations = generator.uniform(0.1, 9, rows.shape)
    means = (rows / deviations**2).sum(axis=0) / (1 / deviations**2).sum(axis=0)
    np.testing.assert_allclose(weighted_huber_mean(rows, deviations, 1e12), means, atol=1e-6)


def test_the_weighted_median_has_half_the_weight_on_either_side() -> None:
    rows = np.array([[5.0, 1, 1], [1, 2, 9], [3, 3, 4]])
    weights = np.array([[1.0, 1, 2], [1, 1, 1], [1, 2, 1]])
    assert weighted_median(rows, weights).tolist() == [3, 2.5, 2.5]
    assert weighted_huber_mean(np.array([[0.0], [90], [100]]), np.array([[0.1], [50], [50]]), 1.5)[0] < 1


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
