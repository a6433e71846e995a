"""How much weight a noisy histogram shows: the lower end always holds, and the rest on tails like those of people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.privacy.aside.lost_histogram import histogram
from beam_dpsketch.privacy.aside.lost_reading import LostWeight, read

BINS, SIGMA = 27, 16.8
"""Of records of weight 1, and about the noise of a fiftieth of epsilon 2."""


def noisy(lost: np.ndarray, generator: np.random.Generator, sigma: float = SIGMA) -> np.ndarray:
    return histogram(lost.astype(np.int64), BINS) + np.round(generator.normal(0, sigma, BINS))


def tail(exponent: float, units: int, norm: int, generator: np.random.Generator) -> np.ndarray:
    """What units of Pareto activity lose to a bound."""
    return np.maximum(np.floor(generator.pareto(exponent, units) + 1) - norm, 0)


@given(st.lists(st.integers(0, 1 << 45)), st.floats(0.5, 0.999))
def test_without_noise_the_lower_end_is_at_most_what_was_lost(lost: list[int], confidence: float) -> None:
    found = read(histogram(np.array(lost, dtype=np.int64), BINS), 1e-9, confidence)
    assert 0 <= found.at_least <= sum(lost)
    assert found.at_least >= sum(lost) / 2.0001 or max(lost) >= 1 << 25  # the last bin has no end


def test_the_lower_end_holds_with_its_confidence() -> None:
    """False alarm at most 1e-9: of 400 readings, each missing with 5 % at most, 58 or more miss with 3e-13."""
    generator = np.random.default_rng(1)
    for lost in (np.zeros(0), tail(1.1, 20_000, 10, generator), np.full(300, 7.0)):
        misses = sum(read(noisy(lost, generator), SIGMA, 0.95).at_least > lost.sum() for _ in range(400))
        assert misses < 58


def test_a_lower_end_without_the_number_of_bins_would_be_found() -> None:
    """The planted fault reads the best of all ends with the confidence of one; found in all but 1e-9 of runs."""
    generator = np.random.default_rng(2)
    counts = generator.normal(0, SIGMA, (400, BINS))
    losses = np.ldexp(1.0, np.arange(BINS) - 2)
    ends = np.cumsum(counts * losses, axis=1) - 1.645 * SIGMA * np.sqrt(np.cumsum(losses**2))
    assert (ends.max(axis=1) > 0).sum() >= 58


@pytest.mark.parametrize(("exponent", "norm"), [(1.1, 5), (1.3, 10), (1.5, 5), (2.0, 3)])
def test_the_share_of_a_power_tail_is_found(exponent: float, norm: int) -> None:
    """Each run is with a seed: the medians are as they are. A tail of more than 1,000 units is within 20 %."""
    generator = np.random.default_rng(3)
    lost = tail(exponent, 60_000, norm, generator)
    assert np.count_nonzero(lost) > 1000
    found = [read(noisy(lost, generator), SIGMA, 0.95) for _ in range(60)]
    kept = 60_000 * norm / 2
    shares = [each.estimate / (each.estimate + kept) for each in found]
    assert np.median(shares) == pytest.approx(lost.sum() / (lost.sum() + kept), rel=0.2)
    assert sum(each.at_most >= lost.sum() for each in found) >= 0.8 * len(found)


def test_equal_losses_have_no_tail() -> None:
    """With a seed: 1,000 units that lost 5 each are one bin, and nothing says that others lost more."""
    generator = np.random.default_rng(5)
    found = [read(noisy(np.full(1000, 5.0), generator), SIGMA, 0.95) for _ in range(60)]
    assert all(3000 < each.at_least < 5000 < each.estimate < each.at_most < 8000 for each in found)


def test_few_units_leave_the_lower_end_alone() -> None:
    generator = np.random.default_rng(4)
    for units in (0, 50, 200):
        found = read(noisy(np.full(units, 100.0), generator), SIGMA, 0.95)
        assert math.isnan(found.estimate)
        assert math.isinf(found.at_most)
    assert not math.isnan(read(noisy(np.full(2000, 100.0), generator), SIGMA, 0.95).estimate)


@given(st.lists(st.integers(-(1 << 62), 1 << 62), min_size=3, max_size=60), st.floats(0.5, 1e6))
def test_all_numbers_are_read_in_order(counts: list[int], sigma: float) -> None:
    found = read(np.array(counts), sigma, 0.95)
    assert found.at_least >= 0
    assert math.isnan(found.estimate) or found.at_least <= found.estimate <= found.at_most


def test_a_reading_is_a_plain_tuple() -> None:
    found: Any = read(np.zeros(BINS, dtype=np.int64), 1.0, 0.95)
    assert isinstance(found, LostWeight)
    assert found.at_least == 0
