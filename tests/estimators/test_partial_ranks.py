"""Variances of ranks in the middle of a value, against the covariances of all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_dpsketch.estimators.factor import FactorVariances, PartialRanks
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from tests.helpers import laws
from tests.helpers.factors import covariances

SIZES = [1, 2, 5, 40]
PARTS = (0.0, 0.3, 1.0)


def coefficients(size: int, value: int, part: float) -> np.ndarray:
    """How much the rank of each value counts in one that has a part of a value."""
    found = np.zeros(size)
    found[value] += part
    if value:
        found[value - 1] += 1 - part
    return found


def check() -> None:
    for size in SIZES:
        factor = ToeplitzRoot(size)
        places = np.array([(value, part) for value in range(size) for part in PARTS])
        values, parts = places[:, 0].astype(np.int64), places[:, 1]
        rows = np.array([coefficients(size, value, part) for value, part in zip(values, parts, strict=True)])
        for known in (False, True):
            exact = covariances(factor, total=known)
            variances = PartialRanks(FactorVariances(factor, 1.0, known_total=known))
            atol = 2e-3 * max(exact.max(), 1e-9)
            for share in (0.0,) if known else (0.0, 0.4):
                less = rows - share * np.eye(size)[-1]
                wanted = np.einsum("ri,ij,rj->r", less, exact, less)
                found = variances.rank_variance(values, parts, share)
                np.testing.assert_allclose(found, wanted, atol=atol, err_msg="a rank")
            low, high = np.triu_indices(len(values))
            between = rows[high] - rows[low]
            wanted = np.einsum("ri,ij,rj->r", between, exact, between)
            found = variances.range_variance(values[low], parts[low], values[high], parts[high])
            np.testing.assert_allclose(found, wanted, atol=atol, err_msg="a range")


def whole_values(exact: Any, variances: PartialRanks, values: np.ndarray, parts: np.ndarray, *others: Any) -> Any:
    return exact(variances, values, np.ones_like(parts), *others)


def swapped_parts(exact: Any, variances: PartialRanks, low: Any, low_parts: Any, high: Any, high_parts: Any) -> Any:
    return exact(variances, low, high_parts, high, low_parts)


test_variances_are_those_of_the_covariances = laws.mutants(
    {
        "ranks of whole values": laws.around(PartialRanks, "rank_variance", whole_values, "a rank"),
        "parts of the other end": laws.around(PartialRanks, "range_variance", swapped_parts, "a range"),
        "no first value": laws.around(
            PartialRanks, "_between", lambda exact, it, low, high: exact(it, np.maximum(low, 0), high), "a ra"
        ),
    },
    check,
    intact=True,
)


def test_small_parts_and_known_totals_lose_no_digits() -> None:
    """Differences of large variances would leave 1e-16 of them, and so 1e-8 of a deviation."""
    factor, value = ToeplitzRoot(40), np.array([7])
    for known in (False, True):
        of_values = FactorVariances(factor, 4.0, known_total=known)
        variances, part = PartialRanks(of_values), np.array([0.6])
        inside = variances.range_variance(value, part, value, part + 1e-9)
        np.testing.assert_allclose(inside, 1e-18 * of_values.range_variance(value - 1, value), rtol=1e-6)
    last, whole = np.array([39]), np.ones(1)
    assert variances.rank_variance(last, whole, 0.0).tolist() == [0.0]
    assert FactorVariances(factor, 4.0, known_total=False).rank_variance(last, 1.0).tolist() == [0.0]
