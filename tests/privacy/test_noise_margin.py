"""The margin of one noisy number against the exact law of its noise."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from beam_dpsketch.privacy.noise.drawing import drawn_variance
from beam_dpsketch.privacy.noise.laws import Noise


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
@pytest.mark.parametrize("variance", [1 / 256, 0.25, 0.3, 0.5, 1, 2.25, 5.1, 24, 1000])
def test_the_margin_holds_for_the_exact_law_of_the_noise_and_is_hardly_wider(
    variance: float, confidence: float
) -> None:
    bits = Noise.GAUSSIAN.grid_bits(Fraction(variance))
    margin = Noise.GAUSSIAN.margin(Fraction(variance), confidence, bits)
    steps = round(margin * 2**bits)
    assert steps == margin * 2**bits
    assert tails(float(drawn_variance(Fraction(variance) * 4**bits)))[steps] <= (1 - confidence) * (1 + 1e-9)
    assert margin < math.sqrt(variance) * NormalDist().inv_cdf((1 + confidence) / 2) * (1 + 2e-5) + 2**-bits


def test_a_margin_without_rounding_up_would_be_too_small() -> None:
    """The noise is whole, so a margin of 0.98 holds as much as one of 0."""
    unrounded = 0.5 * NormalDist().inv_cdf(0.975)
    assert tails(0.25)[math.floor(unrounded)] > 4 * 0.05


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("variances", [(2.25, 2.25), (2.25, 1000), (3, 5, 7.5), (2.25,) * 6])
def test_the_margin_holds_for_combined_releases(variances: tuple[float, ...], confidence: float) -> None:
    margin = Noise.GAUSSIAN.margin(Fraction(sum(variances)), confidence, 3)
    on_grid = [each * 64 for each in variances]
    assert tails(*on_grid)[round(margin * 8)] <= (1 - confidence) * (1 + 1e-8)


# Laplace noise, and sums with it.


def laplace_tails(scale: float, steps: int) -> float:
    """P(|x| > steps), from the weights of all whole numbers."""
    weights = np.exp(-np.arange(0, int(60 * scale) + 60) / scale)
    weights[1:] *= 2
    return float(weights[steps + 1 :].sum() / weights.sum())


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize(("scale", "bits"), [("1/16", 0), ("1/4", 0), ("1/2", 0), ("3", 0), ("70", 0), ("1/7", 16)])
def test_the_margin_of_a_laplace_is_the_least_that_holds(scale: str, bits: int, confidence: float) -> None:
    exact = Fraction(scale)
    margin = Noise.LAPLACE.margin(2 * exact**2, confidence, bits)
    steps = round(margin * 2**bits)
    assert steps == margin * 2**bits >= 1
    assert laplace_tails(float(exact) * 2**bits, steps) <= (1 - confidence) * (1 + 1e-9)
    assert steps == 1 or laplace_tails(float(exact) * 2**bits, steps - 1) > (1 - confidence) * (1 - 1e-6)


def density(law: Noise, deviation: float, points: np.ndarray) -> np.ndarray:
    if law is Noise.GAUSSIAN:
        found = np.exp(-(points**2) / (2 * deviation**2))
    else:
        found = np.exp(-np.abs(points) * math.sqrt(2) / deviation)
    return found / found.sum()


MIXTURES = [
    [(Noise.LAPLACE, 1.0)] * 2,
    [(Noise.LAPLACE, 1.0)] * 3,
    [(Noise.LAPLACE, 1.0)] * 5,
    [(Noise.LAPLACE, 1.0)] * 12,
    *([(Noise.LAPLACE, 1.0), (Noise.LAPLACE, each)] for each in (0.1, 0.3, 0.6)),
    *([(Noise.LAPLACE, 1.0), (Noise.GAUSSIAN, each)] for each in (0.1, 0.3, 0.6, 1.0, 2.0, 5.0)),
    [(Noise.LAPLACE, 1.0)] * 4 + [(Noise.GAUSSIAN, 1.0)],
]


POINTS = np.arange(-1 << 15, (1 << 15) + 1) * 2.0**-9


@functools.lru_cache(maxsize=2)
def law_of_sum(mixture: tuple[tuple[Noise, float], ...]) -> np.ndarray:
    mass = np.fft.rfft(np.fft.ifftshift(density(*mixture[0], POINTS)))
    for each in mixture[1:]:
        mass = mass * np.fft.rfft(np.fft.ifftshift(density(*each, POINTS)))
    return np.fft.fftshift(np.fft.irfft(mass, len(POINTS)))


def excess(mixture: list[tuple[Noise, float]], law: Noise, confidence: float) -> float:
    """By what factor the margin of a law fails more often than said, for a sum of these noises."""
    parameter = Fraction(sum(deviation**2 for _, deviation in mixture))
    margin = law.margin(parameter, confidence, 16)
    return float(law_of_sum(tuple(mixture))[np.abs(POINTS) > margin].sum()) / (1 - confidence)


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
def test_the_margin_of_a_sum_holds_for_all_mixtures(mixture: list[tuple[Noise, float]]) -> None:
    assert (
        max(excess(mixture, Noise.SUM, each) for each in (0.3, 0.5, 0.8, 0.9, 0.905, 0.91, 0.95, 0.99, 0.999)) < 1.001
    )


def test_the_margin_of_one_law_would_not_hold_for_a_sum() -> None:
    both = [(Noise.LAPLACE, 1.0)] * 2
    assert excess(both, Noise.GAUSSIAN, 0.999) > 2
    assert excess(both, Noise.LAPLACE, 0.5) > 1.1
