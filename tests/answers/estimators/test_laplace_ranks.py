"""Intervals of ranks and ranges of a histogram with Laplace noise, against the exact law of sums of noises."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch import IntegerDomain, TreeSpec
from beam_dpsketch.answers.estimators.tree_fit import CumulativeTree, fitted_tree
from beam_dpsketch.answers.estimators.tree_levels import tree_levels
from beam_dpsketch.privacy.noise.laws import Noise

SIZE = 64
CONFIDENCES = (0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-6)
SCALES = [Fraction(1, 8), Fraction(10, 31), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(10)]


def law_of_sum(scale: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of a sum of discrete Laplaces."""
    reach = 1 << math.ceil(math.log2(60 * scale * math.sqrt(count) + 40 * scale + 64))
    steps = np.arange(-reach, reach)
    weights = np.exp(-np.abs(steps) / scale)
    mass = np.fft.rfft(np.fft.ifftshift(weights / weights.sum())) ** count
    return steps, np.fft.fftshift(np.fft.irfft(mass, len(steps)))


def ranks(scale: Fraction, noise: Noise, step_bits: int = 0) -> CumulativeTree:
    """Ranks of a large histogram without noise, which are told as if it had some."""
    spec = TreeSpec.histogram(IntegerDomain(0, SIZE - 1))
    counters, parameter = np.full(SIZE, 1_000_000), (float(2 * scale**2),)
    levels = tree_levels(spec, counters, parameter, noise=noise, weight_bits=step_bits)
    return CumulativeTree(levels, fitted_tree(levels), size=SIZE, total=None)


def missed(scale: Fraction, width: int, confidence: float, noise: Noise = Noise.LAPLACE) -> float:
    """How often the interval of a range of this width misses, over what it may."""
    low = np.array([10], dtype=np.uint64)
    middle, _, upper = ranks(scale, noise).range_bounds(low, low + np.uint64(width - 1), confidence)
    steps, mass = law_of_sum(float(scale), width)
    return float(mass[np.abs(steps) > (upper - middle)[0] * (1 + 1e-12)].sum()) / (1 - confidence)


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 5, 12, 40])
def test_intervals_of_ranges_hold_for_the_exact_law(scale: Fraction, width: int) -> None:
    assert max(missed(scale, width, confidence) for confidence in CONFIDENCES) < 1.002


def test_those_of_gaussian_noise_would_not() -> None:
    assert missed(Fraction(7, 3), 1, 0.999, Noise.GAUSSIAN) > 5


def test_half_a_step_is_needed_where_there_is_little_noise() -> None:
    """At a scale of 10/31 the margin of a fine grid ends just below the first step."""
    margin = Noise.SUM.deviations(0.025) * math.sqrt(2) * 10 / 31
    steps, mass = law_of_sum(10 / 31, 1)
    assert margin < 1
    assert mass[np.abs(steps) > margin].sum() > 1.5 * 0.05


def test_they_are_hardly_wider_than_needed() -> None:
    """By a twelfth at 95 % for sums of many, and half a step."""
    low = np.zeros(1, dtype=np.uint64)
    middle, _, upper = ranks(Fraction(10), Noise.LAPLACE).range_bounds(low, low + np.uint64(39), 0.95)
    assert (upper - middle)[0] < 1.09 * 1.96 * math.sqrt(40 * 200) + 0.5
