"""Answers of released factors: closer than trees, with intervals that hold at heavy values and in empty tails."""

from __future__ import annotations

import functools
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch import (
    ArgumentError,
    DyadicCountSketch,
    FactorizationSpec,
    IntegerDomain,
    PrivacySpec,
    Released,
    ReleaseTerms,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.estimators import comparing
from beam_dpsketch.answers.estimators.factor import inverse as inverse_of
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from tests.helpers import factors, trees

SIZE, RECORDS = 1000, 20_000
DOMAIN = IntegerDomain(0, SIZE - 1)
TERMS = ReleaseTerms(PrivacySpec(rho=0.05, summary_counts=None))


@functools.cache
def counts_of(shape: str) -> np.ndarray:
    generator = np.random.default_rng(3)
    if shape == "heavy values":
        return np.bincount(generator.choice([7, 300, 301, 998], RECORDS), minlength=SIZE)
    if shape == "an empty tail":
        return np.bincount(generator.integers(0, 60, RECORDS), minlength=SIZE)
    if shape == "nothing":
        return np.zeros(SIZE, dtype=np.int64)
    return np.bincount(np.clip(generator.lognormal(4, 1, RECORDS), 0, SIZE - 1).astype(int), minlength=SIZE)


def released_of(shape: str, kind: Any = FactorHistogram, spec: Any = None) -> Any:
    raw = kind(spec or FactorizationSpec(DOMAIN))
    return release(raw.accumulate_keys(np.arange(SIZE, dtype=np.uint64), counts_of(shape)), TERMS)


SHAPES = ["heavy values", "an empty tail", "nothing", "log-normal"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold(shape: str) -> None:
    """400 releases, asked at places far apart: a rank is covered with 0.95, so 0.95 +- 0.011; 7 deviations, 1e-11."""
    true, places = np.cumsum(counts_of(shape)), [0, 6, 7, 59, 150, 300, 500, 900, 999]
    held, total_held = np.zeros(len(places)), 0
    for _ in range(400):
        released = released_of(shape)
        found = released.rank_interval(places)
        held += (found.lower <= true[places] + 1e-6) & (true[places] <= found.upper + 1e-6)
        total = released.total_weight()
        total_held += total.lower <= true[-1] <= total.upper
    least = 0.95 - 7 * np.sqrt(0.95 * 0.05 / 400)
    assert np.all(held / 400 > least)
    assert total_held / 400 > least


def test_one_release_answers_all() -> None:
    released, true = released_of("log-normal"), np.cumsum(counts_of("log-normal"))
    assert isinstance(released, ReleasedFactorization)
    quantiles = released.quantile([0.1, 0.5, 0.9])
    assert [*quantiles.estimate] == sorted(quantiles.estimate)
    assert all(low <= value <= high for value, low, high in quantiles)
    ranks = released.rank(range(SIZE))
    assert np.all(np.diff(ranks) >= 0)
    # Sigma is 3.2 and ranks have 3.1 of it: 120 is 12 deviations of one rank, below 1e-30 for all.
    assert np.abs(ranks - true).max() < 120
    assert released.cdf(SIZE - 1) == 1
    assert released.range_count(0, SIZE - 1) == pytest.approx(released.total_weight().estimate)
    assert np.all(np.asarray(released.estimate(range(SIZE))) >= 0)
    assert len(released.histogram([0, 100, SIZE - 1]).estimate) == 2
    assert "square-root factor" in repr(released)


def test_heavy_values_are_found_and_nothing_else() -> None:
    """Values of 5,000 stand 1,000 deviations out; a list without weight shows 1 in 20 releases, and 12 values never."""
    found = released_of("heavy values").top_k(10)
    assert {7, 300, 301, 998} <= set(found.item)
    assert len(found) < 12
    assert found.detection_limit is not None
    assert len(released_of("nothing").top_k(20)) < 12


def test_a_known_total_is_taken_and_a_wrong_one_refused() -> None:
    released = released_of("log-normal")
    known = released.with_total(RECORDS)
    assert known.total_weight().estimate == known.rank(SIZE - 1) == RECORDS
    assert known.weights.sum() == pytest.approx(RECORDS)
    assert known.rank_interval(SIZE - 1).upper == RECORDS
    assert pickle.loads(pickle.dumps(known)).total_weight().estimate == RECORDS
    with pytest.raises(ArgumentError, match=r"E721"):
        released.with_total(2 * RECORDS)


def test_bytes_come_back_and_two_releases_combine() -> None:
    released, other = released_of("log-normal"), released_of("heavy values")
    assert Released.from_bytes(released.to_bytes()) == released
    both = released.combine(other)
    np.testing.assert_allclose(both.weights, released.weights + other.weights, atol=1e-6)
    assert both.total_weight().estimate == pytest.approx(2 * RECORDS, abs=250)  # sigma of it is 14: 17 deviations
    moved = released.movers(other, 4)
    assert {7, 300} <= set(moved.item)
    assert released.distance(other).estimate > 5000


FIRST, SECOND = np.zeros(100), np.zeros(100)
FIRST[11], SECOND[11] = 20_000, 14_000
NEXT, EVEN = np.roll(SECOND, 1), np.full(100, 200.0)
PAIRS = {"one value": (FIRST, SECOND), "two neighbors": (FIRST, NEXT), "all values": (EVEN, EVEN)}


@pytest.mark.parametrize("pair", PAIRS)
def test_products_and_distances_have_the_variance_of_the_whole_covariance(pair: str) -> None:
    """By the inverse of the matrix; errors are so small that only their products with weights count."""
    first, second = (1000 * each for each in PAIRS[pair])
    factor = ToeplitzRoot(100)
    root = np.linalg.inv(factors.matrix(factor))
    made = [released_counts(each) for each in (first, second)]
    covariance = root @ root.T * made[0]._row_variance
    for given, found in (
        (
            first @ covariance @ first + second @ covariance @ second,
            comparing.inner_product(*(each._table for each in made)),
        ),
        (4 * first @ covariance @ first, comparing.second_moment(made[0]._table)),
        (
            8 * (first - second) @ covariance @ (first - second),
            comparing.second_moment(made[0]._table.minus(made[1]._table)),
        ),
    ):
        assert found.normal == pytest.approx(given, rel=2e-3, abs=2e-6 * (first @ first))


def released_counts(counts: np.ndarray) -> ReleasedFactorization:
    """A release with almost no noise, whose statement says this parameter."""
    spec = FactorizationSpec(IntegerDomain(0, len(counts) - 1))
    rows = np.rint(factors.matrix(spec.factor) @ counts).astype(np.int64) >> spec.factor.dropped_bits
    return ReleasedFactorization(spec, rows, trees.statement(1, sigma_squared_per_level=(Fraction(1, 256),)))


@pytest.mark.parametrize("size", [3, 100, 5000])
def test_intervals_of_values_include_that_rows_are_rounded(size: int) -> None:
    """Rows are whole numbers, but for bits that noise drowns: that adds a twelfth of a squared step to their noise."""
    released = released_counts(np.full(size, 1000.0))
    factor = released.spec.factor
    step = 1 << factor.dropped_bits
    of_rows = factor.squared_length / 256 + step**2 / 12
    place = size // 2
    found = released.range_interval(place, place)
    inverse = np.cumsum(np.square(inverse_of(factor)))[place] / factor.gains[place] ** 2
    margin = stats.norm.isf(0.025) * np.sqrt(inverse * of_rows)
    assert (found.upper - found.lower) / 2 == pytest.approx(margin, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_intervals_of_products_and_distances_hold(pair: str) -> None:
    """Over 600 releases; exact binomial tests with 1e-9 for all together."""
    first, second = PAIRS[pair]
    raws = [
        FactorHistogram(FactorizationSpec(IntegerDomain(0, 99))).accumulate_keys(
            np.arange(100, dtype=np.uint64), each.astype(np.int64)
        )
        for each in (first, second)
    ]
    missed, width = np.zeros(2), 0.0
    for _ in range(600):
        one, other = (release(raw, TERMS) for raw in raws)
        for place, (found, true) in enumerate(
            ((one.inner_product(other), first @ second), (one.distance(other), np.linalg.norm(first - second)))
        ):
            missed[place] += not found.lower <= true <= found.upper
        width += (one.inner_product(other).upper - one.inner_product(other).lower) / 600
    assert all(stats.binomtest(int(each), 600, 0.05, "greater").pvalue > 1e-9 / 6 for each in missed)
    assert pair != "all values" or width < 0.1 * first @ first


def test_methods_of_trees_are_refused() -> None:
    with pytest.raises(ArgumentError, match="chosen"):
        released_of("nothing").rank(3, method="paper")


@pytest.mark.slow
def test_ranks_are_closer_than_those_of_a_tree() -> None:
    """Over 200 releases each: 3.0 against 3.9, by the formulas. A ratio above 0.9 is 10 deviations away."""
    true, tree = np.cumsum(counts_of("log-normal")), TreeSpec.for_memory(DOMAIN)
    errors = []
    for kind, spec in ((FactorHistogram, None), (DyadicCountSketch, tree)):
        runs = [released_of("log-normal", kind, spec).rank(range(SIZE)) - true for _ in range(200)]
        errors.append(np.sqrt(np.mean(np.square(runs))))
    assert errors[0] < 0.9 * errors[1]
