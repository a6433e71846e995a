"""Floats on a grid: each number is its nearest grid point."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import FloatDomain


@given(
    value=st.floats(-200, 200),
    low=st.integers(-100, 50),
    steps=st.integers(1, 1000),
    step=st.sampled_from([1.0, 0.5, 0.1, 0.3, 1 / 3, 1e-3, 7.0]),
)
def test_a_number_stands_for_its_nearest_grid_point(value: float, low: int, steps: int, step: float) -> None:
    domain = FloatDomain(low, low + steps * step, step)
    assert domain.size == steps + 1
    (position,) = domain.index([value])[0].tolist()
    (found,) = domain.values(np.array([position], dtype=np.uint64))
    clamped = min(max(value, domain.low), domain.high)
    assert abs(Fraction(found) - Fraction(clamped)) <= Fraction(step) / 2 + Fraction(1, 10**9)


def test_infinities_are_clamped_and_nan_is_not_usable() -> None:
    domain = FloatDomain(-1, 1, 0.5)
    values = [-math.inf, math.inf, math.nan, -0.0, 0.0, 1e308, -1e308, 5e-324]
    expected = ([0, 4, 0, 2, 2, 4, 0, 2], [True, True, False, True, True, True, True, True])
    for column in (values, np.array(values), pa.array(values), pa.array(values).dictionary_encode()):
        positions, usable = domain.index(column)
        assert (positions.tolist(), usable.tolist()) == expected


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint64"])
def test_every_type_of_number_counts(kind: str) -> None:
    domain = FloatDomain(0, 10, 0.5)
    numbers = np.array([0, 1, 3, 10], dtype=kind)
    for column in (numbers, list(numbers), numbers.tolist(), pa.array(numbers)):
        positions, usable = domain.index(column)
        assert positions.tolist() == [0, 2, 6, 20]
        assert usable.all()


def test_nulls_beside_whole_numbers_are_not_usable() -> None:
    positions, usable = FloatDomain(0, 10, 1).index(pa.array([3, None, 4]))
    assert (positions.tolist(), usable.tolist()) == ([3, 0, 4], [True, False, True])


def test_integers_beyond_floats_are_clamped() -> None:
    assert FloatDomain(0, 1, 0.5).index([1 << 5000, -(1 << 5000)])[0].tolist() == [2, 0]


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    steps=st.floats(0.51, 5000),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=9),
)
def test_the_grid_is_even_and_the_nearest_point_counts_wherever_high_is(
    low: float, width: float, steps: float, shares: list[float]
) -> None:
    """Also where steps do not meet high: the last point is the nearest to it, on either side."""
    step = width / steps
    domain = FloatDomain(low, low + width, step)
    points = np.array(domain.values(np.arange(domain.size, dtype=np.uint64)))
    slack = 1e-9 * max(abs(low), width)
    np.testing.assert_allclose(np.diff(points), step, atol=slack)
    assert abs(points[-1] - domain.high) <= step / 2 + slack
    numbers = np.array([low + share * width for share in shares])
    found = np.array(domain.values(domain.index(numbers)[0]))
    numbers = np.clip(numbers, domain.low, domain.high)
    nearest = np.abs(points[:, np.newaxis] - numbers).min(axis=0)
    np.testing.assert_allclose(np.abs(found - numbers), nearest, atol=slack)


@pytest.mark.parametrize(
    ("high", "step", "points"),
    [(1, 0.6, [0, 0.6, 1.2]), (1, 0.55, [0, 0.55, 1.1]), (1, 1.9, [0, 1.9]), (10, 4, [0, 4, 8]), (1, 0.7, [0, 0.7])],
)
def test_the_last_point_may_be_beyond_high_or_before_it(high: float, step: float, points: list[float]) -> None:
    domain = FloatDomain(0, high, step)
    assert domain.values(np.arange(domain.size, dtype=np.uint64)) == points
    assert domain.index([high, 99])[0].tolist() == [len(points) - 1] * 2
    assert domain.index(points)[0].tolist() == [*range(len(points))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 1.0, 0.1), "low must be less than high, and both must be finite, got 1.0 and 1.0"),
        ((2.0, 1.0, 0.1), "low must be less than high"),
        ((math.nan, 1.0, 0.1), "low must be less than high, and both must be finite"),
        ((0.0, math.inf, 0.1), "low must be less than high, and both must be finite"),
        ((-1e308, 1e308, 1.0), "step must leave at most 2\\*\\*53 values"),
        ((0.0, 1.0, 1e-17), "step must leave at most 2\\*\\*53 values"),
        ((0.0, 1.7e308, 1.0e308), "step must be smaller: the value nearest to high is not a finite float"),
        ((0.0, 1.0, 0.0), "step must be finite and greater than 0"),
        ((0.0, 1.0, -1.0), "step must be finite and greater than 0"),
        ((0.0, 1.0, math.nan), "step must be finite and greater than 0"),
        ((0.0, 1.0, "0.1"), "step must be a number, got str"),
        (("a", 1.0, 0.1), "low must be a number, got str"),
        ((0.0, None, 0.1), "high must be a number, got NoneType"),
        ((False, 1.0, 0.1), "low must be a number, got bool"),
        ((-(10**400), 10**400, 0.1), "low must be less than high, and both must be finite"),
    ],
)
def test_bad_grids_are_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        FloatDomain(*arguments)
