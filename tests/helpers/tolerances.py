"""Acceptance of noise samples: exact distribution of the discrete Gaussian and two-sided tests against it.

Every statistic accepts correct noise with probability at least 1 - FALSE_ALARM, so a test of 1,000 of them does with
probability at least 1 - 1e-9. Where possible this is proved by a Chernoff bound; otherwise the nominal level is ten
times smaller, because approximations so far out in the tail are good to a factor of a few only, given the bin sizes and
overlaps used here.
Source of the distribution and its tail bound: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

FALSE_ALARM = 1e-12
# The level of tests whose null distribution is an approximation.
APPROXIMATE_FALSE_ALARM = FALSE_ALARM / 10
# Cells expected in each bin of a chi-square test.
_MIN_EXPECTED = 1000


@dataclass(frozen=True)
class DiscreteGaussian:
    """Probabilities of the discrete Gaussian on -reach..reach; what is left out is below 1e-40."""

    support: NDArray[np.int64]
    probabilities: NDArray[np.float64]

    @property
    def reach(self) -> int:
        """The largest integer of the support."""
        return int(self.support[-1])

    def moment(self, order: int) -> float:
        """The mean of x**order."""
        return float(np.sum(self.support.astype(float) ** order * self.probabilities))

    @property
    def variance(self) -> float:
        """The exact variance, slightly below sigma_squared."""
        return self.moment(2)


@functools.lru_cache(maxsize=64)
def discrete_gaussian(sigma_squared: Fraction | float) -> DiscreteGaussian:
    """The exact distribution, up to the rounding of doubles."""
    reach = int(14 * math.sqrt(sigma_squared)) + 8
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support**2) / (2 * float(sigma_squared)))
    return DiscreteGaussian(support, weights / weights.sum())


def mean_p_value(samples: NDArray[np.int64], sigma_squared: Fraction) -> float:
    """Two-sided Chernoff bound: the discrete Gaussian is sub-Gaussian with parameter sigma_squared."""
    mean = float(np.mean(samples))
    return min(1.0, 2 * math.exp(-len(samples) * mean**2 / (2 * float(sigma_squared))))


def variance_p_value(samples: NDArray[np.int64], sigma_squared: Fraction) -> float:
    """Two-sided Chernoff bound on the mean square.

    Tilting x**2 exponentially gives a discrete Gaussian too: the bound is exp(-n KL(tilted | true)) for the
    tilted one that has the observed mean square.
    """
    sigma_squared_float = float(sigma_squared)
    mean_square = float(np.mean(np.square(samples, dtype=float)))
    if len(samples) < 100:
        raise ValueError(f"samples must be >= 100 in number, got {len(samples)}")
    if not sigma_squared_float / 50 < mean_square < sigma_squared_float * 50:
        return 0.0  # 100 samples suffice to make this impossible; the search below would not converge
    tilted_sigma_squared = optimize.brentq(
        lambda parameter: discrete_gaussian.__wrapped__(parameter).variance - mean_square,
        max(0.02, mean_square / 4),
        mean_square * 4 + 1,
        xtol=1e-12,
        rtol=1e-12,
    )
    tilted, true = discrete_gaussian.__wrapped__(tilted_sigma_squared), discrete_gaussian(sigma_squared)
    tilt = 1 / (2 * sigma_squared_float) - 1 / (2 * tilted_sigma_squared)
    centre_ratio = tilted.probabilities[tilted.reach] / true.probabilities[true.reach]
    divergence = max(0.0, tilt * mean_square + math.log(centre_ratio))
    return min(1.0, 2 * math.exp(-len(samples) * divergence))


def chi_square_p_value(samples: NDArray[np.int64], sigma_squared: Fraction) -> float:
    """Chi-square test against the exact probabilities, in bins of >= 1,000 and >= 0.5 % expected samples."""
    exact = discrete_gaussian(sigma_squared)
    clipped = np.clip(samples, -exact.reach, exact.reach) + exact.reach
    observed = np.bincount(clipped, minlength=len(exact.support)).astype(float)
    expected = exact.probabilities * len(samples)
    least = max(_MIN_EXPECTED, len(samples) / 200)
    starts = _bin_starts(expected, least)
    observed_bins, expected_bins = np.add.reduceat(observed, starts), np.add.reduceat(expected, starts)
    if len(starts) < 2:
        raise ValueError(f"samples must fill at least two bins of {least:g} expected samples, got {len(samples)}")
    statistic = float(np.sum((observed_bins - expected_bins) ** 2 / expected_bins))
    return float(stats.chi2.sf(statistic, len(starts) - 1))


def _bin_starts(expected: NDArray[np.float64], least: float) -> list[int]:
    """First index of each bin, filled from the left; what remains on the right joins the last bin."""
    starts, filled = [0], 0.0
    for index, count in enumerate(expected):
        if filled >= least:
            starts.append(index)
            filled = 0.0
        filled += count
    if filled < least and len(starts) > 1:
        starts.pop()
    return starts


def mean_accepts(samples: NDArray[np.int64], sigma_squared: Fraction) -> bool:
    """Whether the mean is plausible; refuses correct noise with probability at most FALSE_ALARM (proved)."""
    return mean_p_value(samples, sigma_squared) >= FALSE_ALARM


def variance_accepts(samples: NDArray[np.int64], sigma_squared: Fraction) -> bool:
    """Whether the mean square is plausible; refuses correct noise with probability at most FALSE_ALARM (proved)."""
    return variance_p_value(samples, sigma_squared) >= FALSE_ALARM


def chi_square_accepts(samples: NDArray[np.int64], sigma_squared: Fraction) -> bool:
    """Whether the histogram is plausible; the nominal level is a tenth of FALSE_ALARM, for the approximation."""
    return chi_square_p_value(samples, sigma_squared) >= APPROXIMATE_FALSE_ALARM


def two_sample_p_value(first: NDArray[np.int64], second: NDArray[np.int64], least: float = 500) -> float:
    """Chi-square test that both samples have one distribution, in pooled bins of at least ``least`` each."""
    low = min(int(first.min()), int(second.min()))
    width = max(int(first.max()), int(second.max())) - low + 1
    table = np.array([np.bincount(sample - low, minlength=width) for sample in (first, second)])
    starts = _bin_starts(table.sum(axis=0) * min(len(first), len(second)) / (len(first) + len(second)), least)
    return float(stats.chi2_contingency(np.add.reduceat(table, starts, axis=1), correction=False).pvalue)


def product_sum_limit(terms: NDArray[np.float64] | float, false_alarm: float) -> NDArray[np.float64]:
    """Bound that |sum of X Y / sigma_squared| over independent pairs exceeds with at most this probability.

    Chernoff: E exp(t X Y / sigma_squared) <= (1 - t**2) ** -1/2 for sub-Gaussians X and Y, as for Gaussians.
    """
    count = np.asarray(terms, dtype=float)
    exponent = math.log(2 / false_alarm)
    # Minimise (exponent - count / 2 log(1 - t**2)) / t over t: a grid gives a valid and almost optimal bound.
    best = np.sqrt(2 * exponent / count)
    limit = np.full(count.shape, np.inf)
    for factor in np.linspace(0.7, 1.0, 31):
        t = np.minimum(0.99, factor * best)
        limit = np.minimum(limit, (exponent - count / 2 * np.log1p(-(t**2))) / t)
    return limit
