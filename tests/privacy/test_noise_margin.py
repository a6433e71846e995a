"""The margin of one noisy number against the exact law of its noise."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from beam_dpsketch.privacy.noise.gaussian_bounds import noise_margin


def tails(*variances: float) -> np.ndarray:
    """P[|noise| > m] for m = 0, 1, ..., of a sum of discrete Gaussians, from their definition."""
    mass = np.ones(1)
    for variance in variances:
        reach = math.ceil(40 * math.sqrt(variance))
        weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
        mass = np.convolve(mass, weights / weights.sum())
    middle = len(mass) // 2
    return 2 * np.cumsum(mass[: middle + 1])[::-1] - 2 * mass[middle::-1]


CONFIDENCES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-6)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("variance", [0.25, 0.3, 0.5, 1, 2.25, 5.1, 24, 1000])
def test_the_margin_holds_for_the_exact_law_of_the_noise_and_is_no_wider_than_a_count(
    variance: float, confidence: float
) -> None:
    margin = noise_margin(Fraction(variance), confidence)
    assert tails(variance)[margin] <= (1 - confidence) * (1 + 1e-9)
    assert margin < math.sqrt(variance) * NormalDist().inv_cdf((1 + confidence) / 2) + 1


def test_a_margin_without_rounding_up_would_be_too_small() -> None:
    """The noise is whole, so a margin of 0.98 holds as much as one of 0."""
    unrounded = 0.5 * NormalDist().inv_cdf(0.975)
    assert tails(0.25)[math.floor(unrounded)] > 4 * 0.05


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("variances", [(2.25, 2.25), (2.25, 1000), (3, 5, 7.5), (2.25,) * 6])
def test_the_margin_holds_for_combined_releases(variances: tuple[float, ...], confidence: float) -> None:
    margin = noise_margin(Fraction(sum(variances)), confidence)
    assert tails(*variances)[margin] <= (1 - confidence) * (1 + 1e-8)
