"""Decoding of rows, and variances of sums, against the inverse of the whole matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from beam_dpsketch.estimators import factor as factors
from beam_dpsketch.estimators.factor import FEW, FactorVariances, likely_weights, range_variances
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from tests.helpers import laws
from tests.helpers.factors import covariances

SIZES = [1, 2, 3, 7, 64, 150]


def check_weights() -> None:
    for size in SIZES:
        factor, counts = ToeplitzRoot(size), np.random.default_rng(size).integers(-(1 << 30), 1 << 30, size)
        found = factors.decode(factor, factor.rows(counts).astype(np.float64))
        assert np.abs(found - counts).max() < 1e-3, "biased"


def few_of(low: np.ndarray, high: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """As many pairs at a time as are worked out exactly."""
    for start in range(0, len(low), FEW):
        yield low[start : start + FEW], high[start : start + FEW]


def check_variances() -> None:
    for size in SIZES:
        factor, places = ToeplitzRoot(size), np.arange(size)
        for known in (False, True):
            exact = covariances(factor, total=known)
            of_factor = FactorVariances(factor, 1.0, known_total=known)
            atol = 1e-9 * exact.max(initial=1e-9) + 1e-18
            np.testing.assert_allclose(of_factor.rank_variance(places), np.diag(exact), rtol=1e-3, atol=atol)
            low, high = np.triu_indices(size)
            wanted = exact[high, high] - 2 * exact[low, high] + exact[low, low]
            found = np.concatenate([of_factor.range_variance(*some) for some in few_of(low, high)])
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=atol)
        exact, share = covariances(factor), 0.3
        wanted = np.diag(exact) - 2 * share * exact[:, -1] + share**2 * exact[-1, -1]
        found = FactorVariances(factor, 1.0, known_total=False).rank_variance(places, share)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-12)


def without_gains(exact: Any, factor: ToeplitzRoot, rows: np.ndarray) -> np.ndarray:
    return exact(factor, rows) * factor.gains / factor.gains[0]


test_decoded_weights_are_unbiased = laws.mutants(
    {"without the gains": laws.around(factors, "decode", without_gains, "biased")}, check_weights, intact=True
)
test_variances_are_those_of_the_inverse = laws.mutants(
    {
        "values without gains": laws.around(
            factors, "value_variances", lambda exact, factor: exact(factor) * factor.gains**2, "Not equal"
        ),
        "ranges without what is common": laws.around(
            factors, "total_covariances", lambda exact, factor: exact(factor) * 0.5, "Not equal"
        ),
    },
    check_variances,
    intact=True,
)


@pytest.mark.parametrize("size", [3000, 1 << 17])
def test_interpolated_variances_are_close(size: int) -> None:
    factor = ToeplitzRoot(size)
    places = np.unique(np.append(np.random.default_rng(1).integers(0, size, 20), [0, 1, 2, size - 2, size - 1]))
    exact = range_variances(factor, np.zeros(len(places), dtype=np.int64), places)
    np.testing.assert_allclose(factors.rank_variances(factor)[places], exact, rtol=1e-3)


def test_ranks_have_the_error_that_the_papers_say() -> None:
    """In units of Delta / sqrt(2 rho): 2.997 at 1,024 values, and 3.98 of the best tree (arity 4, equal shares)."""
    factor = ToeplitzRoot(1024)
    scale = factor.squared_length
    assert abs(np.sqrt(factors.rank_variances(factor).mean() * scale) - 2.997) < 0.01
    assert abs(np.sqrt(factors.value_variances(factor).mean() * scale) - 1.943) < 0.01


def test_empty_blocks_have_no_noise_of_their_own_and_heavy_values_keep_their_weight() -> None:
    factor, generator = ToeplitzRoot(1000), np.random.default_rng(5)
    counts = np.zeros(1000)
    counts[[10, 500]] = 1000.0
    noise = factors.decode(factor, generator.normal(0, np.sqrt(factor.squared_length), 1000))
    weights = counts + noise
    ranks = np.maximum.accumulate(np.cumsum(weights))
    found = likely_weights(factor, weights, np.diff(ranks, prepend=0.0), float(factor.squared_length))
    assert np.all(found >= 0)
    assert np.mean((found - counts) ** 2) < 0.5 * np.mean((np.maximum(weights, 0) - counts) ** 2)
    assert np.all(np.abs(found[[10, 500]] - 1000) < 30)
