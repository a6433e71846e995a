"""The mechanism: sigma^2 as an exact fraction, one noise per cell, one ring of 64-bit integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import CountMin, CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.privacy.mechanism import sigma_squared
from beam_dpsketch.privacy.noise import discrete_gaussian
from beam_dpsketch.privacy.noise.drawing import add_noise
from tests.helpers.raw import raw_of


@pytest.fixture
def frozen_noise(monkeypatch):
    """Every call of the sampler gives the same noise; the list holds the arguments of the calls."""
    calls = []

    def sample(size, sigma_squared, random_bytes):
        calls.append((size, sigma_squared))
        return np.random.default_rng(5).integers(-50, 50, size)

    monkeypatch.setattr(discrete_gaussian, "sample", sample)
    return calls


@given(squared=st.integers(1, 1 << 80), rho=st.fractions(Fraction(1, 1 << 19), 1 << 19))
def test_sigma_squared_spends_exactly_rho(squared, rho):
    if not Fraction(1, 256) <= squared / (2 * rho) <= (1 << 100) - 4:
        return
    answer = sigma_squared(squared_sensitivity=squared, rho=rho)
    assert isinstance(answer, Fraction)
    assert Fraction(squared) / (2 * answer) == rho


def test_sigma_below_one_sixteenth_is_refused_with_the_largest_rho_that_works():
    assert sigma_squared(squared_sensitivity=20, rho=Fraction(2560)) == Fraction(1, 256)
    with pytest.raises(ValueError, match=r"rho must be at most 2560 for these bounds .* got 2560\.1\. With less noise"):
        sigma_squared(squared_sensitivity=20, rho=Fraction(25601, 10))


def test_sigma_above_2_to_the_50_is_refused():
    assert sigma_squared(squared_sensitivity=1, rho=Fraction(1, 1 << 100)) == 1 << 99
    with pytest.raises(ValueError, match="sigma would exceed"):
        sigma_squared(squared_sensitivity=2, rho=Fraction(1, (1 << 100) + 1))


@pytest.mark.parametrize("kind", [CountMin, CountSketch])
def test_a_release_refuses_what_hides_nothing(kind):
    with pytest.raises(ValueError, match="With less noise"):
        release(raw_of(kind, SketchSpec(depth=1, width=4)), ReleaseTerms(PrivacySpec(rho=1000.0)))


def test_noise_is_drawn_once_for_each_cell(frozen_noise):
    counters = np.arange(35, dtype=np.int64).reshape(5, 7)
    noisy = add_noise(counters, Fraction(9))
    assert frozen_noise == [(35, Fraction(9 + 4))]
    np.testing.assert_array_equal(noisy - counters, np.random.default_rng(5).integers(-50, 50, 35).reshape(5, 7))
    np.testing.assert_array_equal(counters.ravel(), np.arange(35))


def test_noise_is_int64_and_fresh():
    counters = np.zeros((3, 1000), dtype=np.int64)
    first, second = add_noise(counters, Fraction(100)), add_noise(counters, Fraction(100))
    assert first.dtype == np.int64
    assert (first != second).any()
    assert not counters.any()


@pytest.mark.parametrize("kind", [CountMin, CountSketch])
@pytest.mark.parametrize("start", [(1 << 63) - 1, (1 << 63) - 20, -(1 << 63), -(1 << 63) + 20, 0])
@pytest.mark.parametrize("weight", [1, 7, -7])
@pytest.mark.filterwarnings("error")
def test_releases_of_neighbours_differ_by_the_weight_modulo_2_to_the_64(frozen_noise, kind, start, weight):
    """Counters that overflow wrap around and come back: saturation would betray them."""
    spec = SketchSpec(depth=1, width=3)
    at = raw_of(kind, spec).accumulate(["x"]).counters
    sketches = [
        raw_of(kind, spec).accumulate(["x"], [start]),
        raw_of(kind, spec).accumulate(["x", "x"], [start, weight]),
    ]
    first, second = (add_noise(sketch.counters, Fraction(25)) for sketch in sketches)
    difference = (second.astype(object) - first.astype(object)) % (1 << 64)
    np.testing.assert_array_equal(difference, at.astype(object) * weight % (1 << 64))
    assert len(frozen_noise) == 2
