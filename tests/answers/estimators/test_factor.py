"""Decoding of rows, and variances of sums, against the inverse of the whole matrix.

* Variances of many ranges: from a grid, close to the exact ones everywhere in the domain.
* Likely weights: blocks below their noise share their weight evenly, and values in others keep their steps.
* Variances of ranks in the middle of a value: against the covariances of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from beam_dpsketch.answers.estimators import factor as factors
from beam_dpsketch.answers.estimators.factor import FEW, FactorVariances, PartialRanks, likely_weights, range_variances
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


def ranges_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of every length, near both ends and in the middle, more than are worked out one by one."""
    generator = np.random.default_rng(size)
    scales = np.exp(generator.uniform(0, np.log(size), (3, FEW))).astype(np.int64)
    starts = np.concatenate([scales[0] - 1, size - 1 - scales[1], generator.integers(0, size, FEW)])
    ends = starts + np.tile(scales[2], 3)
    inside = (starts >= 0) & (ends < size)
    return starts[inside], ends[inside]


def check_ranges() -> None:
    for size in (180, 900, 5000):
        factor, (first, last) = ToeplitzRoot(size), ranges_of(size)
        assert len(first) > FEW
        some = np.random.default_rng(1).choice(len(first), 300, replace=False)
        exact = range_variances(factor, first[some], last[some])
        found = range_variances(factor, first, last)[some]
        assert np.abs(found / exact - 1).max() < 0.08, "too far"
        assert np.abs(found / exact - 1).mean() < 0.005, "too far on average"


def without_short_ends(exact: Any, factor: ToeplitzRoot) -> Any:
    """All places of a length have the variance of the one in the middle."""
    lengths, variances = exact(factor)
    return lengths, np.repeat(variances[:, [variances.shape[1] // 2]], variances.shape[1], axis=1)


test_many_ranges_are_close_to_exact = laws.mutants(
    {"the middle everywhere": laws.around(factors, "_grid", without_short_ends, "too far")}, check_ranges, intact=True
)


ROW_VARIANCE = 9.0


def deviation_of_blocks(factor: ToeplitzRoot, size: int) -> float:
    """The root of the mean variance of the weights of all blocks of this size, by the inverse of the matrix."""
    exact = np.pad(covariances(factor), ((1, 0), (1, 0)))
    ends = [(start, min(start + size, factor.size)) for start in range(0, factor.size, size)]
    variances = [exact[end, end] - 2 * exact[start, end] + exact[start, start] for start, end in ends]
    return float(np.sqrt(np.mean(variances) * ROW_VARIANCE))


def check_blocks() -> None:
    factor, rng = ToeplitzRoot(16), np.random.default_rng(4)
    sizes = np.array([-3.0, 0.5, 1.95, 2.05]) * deviation_of_blocks(factor, 4)
    weights = np.repeat(sizes / 4, 4) + np.tile([5.0, -5.0, 1.0, -1.0], 4)
    steps = rng.uniform(0, 30, 16)
    found = likely_weights(factor, weights, steps, ROW_VARIANCE).reshape(4, 4)
    for block, size in enumerate(sizes[:3]):
        np.testing.assert_allclose(found[block], max(size, 0.0) / 4, err_msg="a closed block")
    np.testing.assert_allclose(found[3], steps[12:], err_msg="an open block")


def check_blocks_in_blocks() -> None:
    """A block of 4 above its noise in one of 16 below it stays closed, with all of the larger one."""
    factor = ToeplitzRoot(64)
    small, large = (deviation_of_blocks(factor, size) for size in (4, 16))
    weights = np.zeros(64)
    weights[[0, 1]], weights[4] = 1.5 * small, 1.9 * large - 3 * small  # more than 2 of a block of 4, less than 2 of 16
    weights[40] = 3 * large
    steps = np.arange(64.0)
    found = likely_weights(factor, weights, steps, ROW_VARIANCE)
    np.testing.assert_allclose(found[:16], 1.9 * large / 16, err_msg="a closed block")
    np.testing.assert_allclose(found[40:44], steps[40:44], err_msg="an open block")
    assert not found[44:48].any(), "a closed block"


@pytest.mark.parametrize("check", [check_blocks, check_blocks_in_blocks])
def test_blocks_are_opened_above_two_deviations(check: Any) -> None:
    check()


@pytest.mark.parametrize("deviations", [0.0, 1.0, 3.5])
def test_another_threshold_is_found(deviations: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "_OPENED_DEVIATIONS", deviations)
    with pytest.raises(AssertionError, match="block"):
        check_blocks()


def test_weights_are_never_below_0() -> None:
    rng = np.random.default_rng(5)
    for size in (1, 3, 17, 100):
        found = likely_weights(ToeplitzRoot(size), rng.normal(0, 50, size), rng.normal(0, 50, size), ROW_VARIANCE)
        assert (found >= 0).all()


PARTIAL_SIZES = [1, 2, 5, 40]
PARTS = (0.0, 0.3, 1.0)


def coefficients(size: int, value: int, part: float) -> np.ndarray:
    """How much the rank of each value counts in one that has a part of a value."""
    found = np.zeros(size)
    found[value] += part
    if value:
        found[value - 1] += 1 - part
    return found


def check_partial() -> None:
    for size in PARTIAL_SIZES:
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
    check_partial,
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
