"""How much weight a noisy histogram shows: the lower end always holds, and the rest on tails like those of people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch.answers.estimators import lost_weight
from beam_dpsketch.answers.estimators.lost_weight import LostWeight, read, told_units
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import BINS, histogram, least_losses

SIGMA, FALSE_ALARM = 16.8, 1e-9
"""The noise of a fiftieth of epsilon 2, about; the probability that a test of chance fails without a fault."""
every_noise = pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.LAPLACE], ids=lambda noise: noise.name)


def drawn(
    lost: Any, generator: np.random.Generator, noise: Noise = Noise.GAUSSIAN, confidence: float = 0.95
) -> LostWeight:
    """Read the histogram of losses of whole records with noise."""
    if noise is Noise.GAUSSIAN:
        errors = generator.normal(0, SIGMA, BINS)
    else:
        errors = generator.laplace(0, SIGMA / math.sqrt(2), BINS)
    noisy = histogram(np.asarray(lost).astype(np.int64), 0) + np.round(errors)
    return read(noisy, least_losses(0), SIGMA, confidence, noise)


def tail(exponent: float, units: int, norm: int, generator: np.random.Generator, most: float = math.inf) -> np.ndarray:
    """What units of Pareto activity, up to a largest one, lose to a bound."""
    return np.maximum(np.floor(np.minimum(generator.pareto(exponent, units) + 1, most)) - norm, 0)


def check_rarely(wrong: int, times: int, allowed: float) -> None:
    """Raise if this is wrong more often than is allowed; a false alarm with `FALSE_ALARM` at most."""
    assert stats.binomtest(wrong, times, allowed, "greater").pvalue >= FALSE_ALARM, "wrong too often"


@given(st.lists(st.integers(0, 1 << 45)), st.floats(0.5, 0.999))
def test_without_noise_the_lower_end_is_at_most_what_was_lost(lost: list[int], confidence: float) -> None:
    found = read(histogram(np.array(lost, dtype=np.int64), 0), least_losses(0), 1e-9, confidence)
    assert 0 <= found.at_least <= sum(lost)
    assert found.at_least >= sum(lost) / 4.0001 or max(lost) >= 4**BINS  # the last bin has no end
    assert found.units == pytest.approx(np.count_nonzero(lost))


def check_lower_ends(noise: Noise) -> None:
    generator, times = np.random.default_rng(1), 400
    for lost in (np.zeros(0), tail(1.1, 20_000, 10, generator), np.full(300, 16.0), np.full(90, 4.0**10)):
        found = [drawn(lost, generator, noise) for _ in range(times)]
        check_rarely(sum(each.at_least > lost.sum() for each in found), times, 0.05)
        check_rarely(sum(each.most_units < np.count_nonzero(lost) for each in found), times, 0.05)


@every_noise
def test_the_lower_end_and_the_most_units_hold_with_their_confidence(noise: Noise) -> None:
    check_lower_ends(noise)


def test_a_lower_end_without_the_number_of_bins_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault reads the best of all ends with the confidence of one: 20 % are wrong, not 5."""
    exact = Noise.deviations
    monkeypatch.setattr(Noise, "deviations", lambda self, probability: exact(self, max(probability, 0.05)))
    with pytest.raises(AssertionError, match="wrong too often"):
        check_lower_ends(Noise.GAUSSIAN)


TAILS = [(0.7, 200), (1.1, 400), (1.5, 200), (2.0, 1000), (2.5, 4000)]
"""The exponent, and about how many units lose some."""


def check_ranges(*, most_wrong: float = 0.1) -> None:
    """Check that the range holds for units whose losses follow a power law that has an end, as the model takes it."""
    generator, times = np.random.default_rng(3), 60
    for exponent, units in TAILS:
        wrong = 0
        for _ in range(times):
            lost = tail(exponent, units, 0, generator, 4.0 ** generator.integers(3, 8))
            found = drawn(lost, generator)
            assert not math.isnan(found.estimate), "says too little"
            wrong += not found.at_least <= lost.sum() <= found.at_most
        check_rarely(wrong, times, most_wrong)


def test_the_range_holds_on_powers_with_an_end() -> None:
    """From 200 units on. A reading without an estimate, which fails the test, has a probability below 1e-12."""
    check_ranges()


@pytest.mark.parametrize(("name", "value"), [("_EXPONENTS", np.array([3.0])), ("_UPPER_SHARE", 0.3)])
def test_a_range_that_does_not_hold_is_found(name: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tails that are all steep, and a range up to less than the median."""
    monkeypatch.setattr(lost_weight, name, value)
    with pytest.raises(AssertionError, match="wrong too often"):
        check_ranges()


@pytest.mark.parametrize(("exponent", "norm"), [(1.1, 5), (1.3, 10), (1.5, 5), (2.0, 3)])
def test_the_share_of_a_power_tail_is_found(exponent: float, norm: int) -> None:
    """Each run is with a seed: the medians are as they are. A tail of more than 1,000 units is within 20 %."""
    generator = np.random.default_rng(3)
    lost = tail(exponent, 60_000, norm, generator)
    assert np.count_nonzero(lost) > 1000
    found = [drawn(lost, generator) for _ in range(60)]
    kept = 60_000 * norm / 2
    shares = [each.estimate / (each.estimate + kept) for each in found]
    assert np.median(shares) == pytest.approx(lost.sum() / (lost.sum() + kept), rel=0.2)
    assert sum(each.at_most >= lost.sum() for each in found) >= 0.9 * len(found)


def test_equal_losses_have_little_of_a_tail() -> None:
    """With a seed: 1,000 units that lost 6 each are one bin, and a tail would have shown."""
    generator = np.random.default_rng(5)
    found = [drawn(np.full(1000, 6.0), generator) for _ in range(60)]
    assert all(3500 < each.at_least < 6000 < each.estimate < each.at_most < 20_000 for each in found)


@every_noise
def test_few_units_leave_the_lower_end_alone_and_enough_do_not(noise: Noise) -> None:
    """With a seed, and a tail of four bins."""
    generator, enough = np.random.default_rng(4), told_units(SIGMA, noise)
    weights = np.array([0.3, 0.4, 0.2, 0.1])
    for units, often in ((0, 0.02), (enough / 4, 0.2), (enough, 0.9)):
        lost = np.repeat([4, 16, 64, 256], np.round(weights * units).astype(int))
        found = [drawn(lost, generator, noise) for _ in range(60)]
        told = np.mean([not math.isnan(each.estimate) for each in found])
        assert told >= often if often > 0.5 else told <= often
        assert all(math.isinf(each.at_most) for each in found if math.isnan(each.estimate))
        assert np.median([each.units for each in found]) == pytest.approx(units, abs=2 * SIGMA)


def test_two_hundred_units_suffice_at_a_fiftieth_of_epsilon_2() -> None:
    assert 180 < told_units(15.77, Noise.GAUSSIAN) < 200


@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=3, max_size=60), st.floats(0.5, 1e6), st.integers(-20, 20))
def test_all_numbers_are_read_in_order(counts: list[int], sigma: float, first: int) -> None:
    found = read(np.array(counts), least_losses(first, len(counts)), sigma, 0.95)
    assert found.at_least >= 0
    assert math.isnan(found.estimate) or found.at_least <= found.estimate <= found.at_most < math.inf
    assert 0 <= found.units <= found.most_units


def test_a_mean_loss_of_a_bin_is_that_of_its_power() -> None:
    """Against sums over a fine grid."""
    for exponent in (0.25, 1.0, 2.75):
        grid = np.linspace(1, 4, 300_001)
        wanted = np.average(grid, weights=grid ** (-exponent - 1))
        assert lost_weight._mean(np.array([exponent]))[0] == pytest.approx(wanted, rel=1e-4)
    assert lost_weight._mean(np.array([1e-7]))[0] == pytest.approx(lost_weight._EVEN_MEAN, rel=1e-5)
