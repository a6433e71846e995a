"""The Huber mean over rows and its margins, against integrals, binomial tails and simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from beam_dpsketch.answers.estimators import row_mean
from beam_dpsketch.answers.estimators.row_mean import (
    huber_mean,
    margins,
    median_of_rows,
    noise_margin,
    robust_scale,
    upper_margin,
)
from tests.helpers import laws

UNIFORM = (np.arange(1_000_000) + 0.5) / 500_000 - 1
NORMAL = special.ndtri((np.arange(200_000) + 0.5) / 200_000)


def by_hand(rows: list[float], scale: float) -> float:
    ordered = sorted(rows)
    middle = (ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2
    return middle + sum(min(max(row - middle, -scale), scale) for row in rows) / len(rows)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 8])
def test_the_huber_mean_is_the_median_and_the_mean_of_clipped_distances(depth: int) -> None:
    rows = np.random.default_rng(1).standard_cauchy((depth, 50)) * 7 + 100
    found = huber_mean(rows, 5.0)
    assert found == pytest.approx([by_hand(each.tolist(), 5.0) for each in rows.T])
    np.testing.assert_allclose(huber_mean(-rows, 5.0), -found)
    np.testing.assert_allclose(huber_mean(rows, 0.0), np.median(rows, axis=0))
    np.testing.assert_allclose(huber_mean(rows, 1e9), rows.mean(axis=0))


@pytest.mark.parametrize("depth", [1, 2, 5, 8, 16, 17, 64])
@pytest.mark.parametrize("size", [0, 1, 1000, 50_001])
def test_blocks_and_the_network_change_no_bit(depth: int, size: int) -> None:
    rows = np.random.default_rng(depth).standard_cauchy((depth, size)).round(1)
    middle = np.median(rows, axis=0)
    assert np.array_equal(median_of_rows(rows), middle)
    whole = middle + np.clip(rows - middle, -5.0, 5.0).mean(axis=0)
    assert huber_mean(rows, 5.0).tobytes() == whole.tobytes()


def test_the_scale_is_that_of_most_cells_and_not_below_the_noise() -> None:
    normal = 7 * NORMAL
    assert robust_scale(normal, 0.5) == pytest.approx(7, rel=1e-3)
    assert robust_scale(normal, 9.0) == 1.5 * 9
    spoilt = normal.copy()
    spoilt[::20] = 1e12  # 5 % of the cells
    assert robust_scale(spoilt, 0.5) == pytest.approx(7, rel=0.1)
    halved = np.append(normal, 1e3 * normal)
    assert robust_scale(halved, 0.5) < np.median(np.abs(halved)) < robust_scale(1e3 * normal, 0.5)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("depth", "failure"),
    [
        *itertools.product([1, 2, 3, 4, 5, 8, 64], [0.2, 0.025, 1e-4]),
        *itertools.product([5, 8, 64], [1e-9]),  # a million errors are too few for fewer rows
    ],
)
def test_without_a_scale_the_margin_is_that_of_the_median(depth: int, failure: float) -> None:
    """A binomial tail at odd depths: half the rows or more exceed it. At even ones it is between two such tails."""
    row_fails = (1 - upper_margin(UNIFORM, 1e-9, depth=depth, failure_probability=failure)) / 2
    half, more = (stats.binom(depth, row_fails).sf(rows - 1) for rows in ((depth + 1) // 2, depth // 2 + 1))
    assert 0.95 * more < failure < 1.05 * half


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 8])
def test_with_a_large_scale_the_margin_is_that_of_the_mean(depth: int) -> None:
    """The mean of uniform values exceeds t with the probability of Irwin and Hall.

    The margin's own draws, the same in each run, move the probability by up to a tenth here, and the margin by 2 %.
    """
    margin = upper_margin(UNIFORM, 2.0, depth=depth, failure_probability=0.01)
    top = depth * (1 - margin) / 2
    terms = ((-1) ** k * math.comb(depth, k) * max(top - k, 0) ** depth for k in range(depth + 1))
    assert sum(terms) / math.factorial(depth) == pytest.approx(0.01, rel=0.15)


def exceeds_of_three(limit: float) -> float:
    """P[Huber mean of three standard normals > limit], clipped at 1: an integral over the middle and the largest."""
    middle, above = np.linspace(-1, 7, 1601)[:, None], np.linspace(0, 8, 1601)
    needed = 3 * (middle - limit) + np.minimum(above, 1)  # the smallest may be this much below the middle
    smallest = np.where(needed > 1, 1.0, 0.0) * special.ndtr(middle)
    smallest += np.where((needed > 0) & (needed <= 1), special.ndtr(middle) - special.ndtr(middle - needed), 0.0)
    inner = integrate.trapezoid(stats.norm.pdf(middle + above) * smallest, above, axis=1)
    return float(integrate.trapezoid(6 * stats.norm.pdf(middle[:, 0]) * inner, middle[:, 0]))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("failure", [0.025, 1e-4, 2.5e-7])
def test_the_margin_of_three_normal_rows_is_that_of_an_integral(failure: float) -> None:
    """A margin 2 % larger has a probability 8 % smaller at 0.025, 44 % smaller at 2.5e-7."""
    margin = upper_margin(NORMAL, 1.0, depth=3, failure_probability=failure)
    assert exceeds_of_three(0.99 * margin) > failure > exceeds_of_three(1.02 * margin)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("errors", ["normal", "skewed", "whole"])
def test_the_margin_holds_in_a_simulation_and_no_more_than_that(depth: int, errors: str) -> None:
    """10,000 of 400,000 exceed it, with a standard deviation of 99: seven of them up or down.

    The margin's own draws, the same in each run, move the number by up to 4 %.
    """
    values = {
        "normal": NORMAL,
        "skewed": np.where(NORMAL > 1, np.exp(4 * NORMAL), NORMAL),
        "whole": np.rint(0.8 * NORMAL),
    }[errors]
    margin = upper_margin(values, 1.0, depth=depth, failure_probability=0.025)
    rows = np.random.default_rng(2).choice(values, (depth, 400_000))
    means = huber_mean(rows, 1.0)
    assert np.sum(means > margin) <= 10_000 * 1.04 + 700
    assert np.sum(means >= margin * (1 - 1e-6)) >= 10_000 * 0.96 - 700
    assert np.sum(means > (0.3 if errors == "skewed" else 0.8) * margin) > 10_000 * 1.04 + 700


def test_margins_of_skewed_errors_differ_by_side_and_grow_with_confidence() -> None:
    errors = np.exp(NORMAL) - 1
    up, down = (upper_margin(each, 1.0, depth=5, failure_probability=0.025) for each in (errors, -errors))
    assert up > 1.5 * down > 0
    margins = [upper_margin(errors, 1.0, depth=5, failure_probability=10.0**-power) for power in range(1, 17)]
    assert margins == sorted(margins)
    assert margins == [upper_margin(errors, 1.0, depth=5, failure_probability=10.0**-power) for power in range(1, 17)]


def test_beyond_what_the_counters_show_the_margin_is_the_largest_and_noise() -> None:
    """One row, 1,000 errors: nothing is known of probabilities below 1 / 1,000."""
    errors = np.zeros(1000)
    errors[0] = 50
    for failure in (1e-4, 1e-12):
        margin = upper_margin(errors, 2.0, depth=1, failure_probability=failure)
        assert margin == pytest.approx(50 - 2 * special.ndtri(failure))
    assert upper_margin(errors, 2.0, depth=1, failure_probability=0.0015) == pytest.approx(50)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("depth", [1, 3, 4, 5, 9, 16])
def test_noise_alone_is_within_its_margin_as_often_as_said(depth: int) -> None:
    """Of a million normal rows of this depth, 95 % by 0.4 % more or less: 18 standard deviations."""
    rows = np.random.default_rng(depth).standard_normal((depth, 1_000_000), dtype=np.float32)
    within = np.mean(np.abs(huber_mean(rows, 1.5)) <= noise_margin(depth, 0.95))
    assert within == pytest.approx(0.95, abs=0.004)


def check_both_margins() -> None:
    """Collisions of rows without signs raise an estimate, so the truth is below it. As above, 99 is one deviation."""
    errors = np.where(NORMAL > 0.5, np.exp(4 * NORMAL), NORMAL)
    below, above = margins(errors, 1.0, depth=3, confidence=0.95, has_signs=False)
    means = huber_mean(np.random.default_rng(3).choice(errors, (3, 400_000)), 1.0)
    assert [np.count_nonzero(means > below), np.count_nonzero(means < -above)] == pytest.approx([10_000] * 2, rel=0.15)


test_margins_of_the_other_side_are_found = laws.mutants(
    {
        "errors with the other sign": laws.around(
            row_mean, "upper_margin", lambda exact, errors, *given, **names: exact(-errors, *given, **names)
        )
    },
    check_both_margins,
    intact=True,
)
