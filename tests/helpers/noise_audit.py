"""One-run audit of released noise: residuals (released minus exact counters) of two keys of one pipeline run.

Each of six two-sided statistics alarms on correct noise with probability at most 1e-12, so an audit does with
at most 6e-12; what each one detects is shown in test_noise_audit.py.
The reference is the discrete Gaussian of Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.helpers import tolerances

_MOST_BITS = 16


def audit(residuals_a: NDArray[Any], residuals_b: NDArray[Any], sigma_squared: Fraction) -> set[str]:
    """The alarms among mean, variance, chi-square, lag-1, autocorrelation and cross-correlation.

    Residuals are whole numbers of some grid of 2**-bits, at most `_MOST_BITS`.
    """
    first, second = np.ravel(residuals_a), np.ravel(residuals_b)
    bits = next(n for n in range(_MOST_BITS + 1) if _is_whole(first * 2.0**n) and _is_whole(second * 2.0**n))
    first, second = ((each * 2.0**bits).astype(np.int64) for each in (first, second))
    sigma_squared *= 4**bits
    if len(first) != len(second) or len(first) < 10_000:
        raise ValueError(f"residuals must be two equally long vectors of >= 10,000, got {len(first)}, {len(second)}")
    both = np.concatenate([first, second])
    accepted = {
        "mean": tolerances.mean_accepts(both, sigma_squared),
        "variance": tolerances.variance_accepts(both, sigma_squared),
        "chi-square": tolerances.chi_square_accepts(both, sigma_squared),
        "lag-1": _lag_one_accepts(both, sigma_squared),
        "autocorrelation": _autocorrelation_accepts(both, sigma_squared),
        "cross-correlation": _cross_correlation_accepts(first, second, sigma_squared),
    }
    return {name for name, accepts in accepted.items() if not accepts}


def _is_whole(numbers: NDArray[Any]) -> bool:
    return bool(np.all(numbers == np.rint(numbers)))


def _lag_one_accepts(residuals: NDArray[np.int64], sigma_squared: Fraction) -> bool:
    """Whether neighbouring cells are uncorrelated, over disjoint pairs (proved bound)."""
    scaled = residuals[: len(residuals) // 2 * 2] / np.sqrt(float(sigma_squared))
    limit = tolerances.product_sum_limit(len(scaled) / 2, tolerances.FALSE_ALARM)
    return bool(abs(scaled[::2] @ scaled[1::2]) <= limit)


def _autocorrelation_accepts(residuals: NDArray[np.int64], sigma_squared: Fraction) -> bool:
    """Whether cells are uncorrelated at every other lag; overlapping products, hence the smaller level."""
    length = len(residuals)
    sums, _, overlaps = _correlation_sums(residuals, residuals, sigma_squared)
    tested = overlaps >= length / 8
    tested[0] = False
    limits = tolerances.product_sum_limit(overlaps[tested], tolerances.APPROXIMATE_FALSE_ALARM / length)
    return bool(np.all(np.abs(sums[tested]) <= limits))


def _cross_correlation_accepts(first: NDArray[np.int64], second: NDArray[np.int64], sigma_squared: Fraction) -> bool:
    """Whether the two keys are uncorrelated at every lag in both directions (proved bound)."""
    forward, backward, overlaps = _correlation_sums(first, second, sigma_squared)
    tested = overlaps >= len(first) / 8
    limits = tolerances.product_sum_limit(overlaps[tested], tolerances.FALSE_ALARM / (2 * len(first)))
    return bool(np.all(np.abs(forward[tested]) <= limits) and np.all(np.abs(backward[tested]) <= limits))


def _correlation_sums(
    first: NDArray[np.int64], second: NDArray[np.int64], sigma_squared: Fraction
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Scaled sums of first[i + lag] second[i] and of first[i] second[i + lag], and their numbers of terms."""
    length = len(first)
    # Padding to twice the length keeps the circular convolution from wrapping around.
    spectrum = np.fft.rfft(first, 2 * length) * np.conj(np.fft.rfft(second, 2 * length))
    sums = np.fft.irfft(spectrum, 2 * length) / float(sigma_squared)
    lags = np.arange(length)
    return sums[lags], sums[-lags], (length - lags).astype(float)
