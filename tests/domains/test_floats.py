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
    resolution=st.sampled_from([1.0, 0.5, 0.1, 0.3, 1 / 3, 1e-3, 7.0]),
)
def test_a_number_stands_for_its_nearest_grid_point(value: float, low: int, steps: int, resolution: float) -> None:
    domain = FloatDomain(low, low + steps * resolution, resolution)
    assert domain.size == steps + 1
    (position,) = domain.index([value])[0].tolist()
    (found,) = domain.values(np.array([position], dtype=np.uint64))
    clamped = min(max(value, domain.low), domain.high)
    assert abs(Fraction(found) - Fraction(clamped)) <= Fraction(resolution) / 2 + Fraction(1, 10**9)


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


def test_the_last_point_is_high_where_steps_do_not_meet_it() -> None:
    domain = FloatDomain(0, 1, 0.6)
    assert domain.values(np.arange(domain.size, dtype=np.uint64)) == [0.0, 0.6, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 1.0, 0.1), "low and high must be finite and low less than high, got 1.0 and 1.0"),
        ((2.0, 1.0, 0.1), "low less than high"),
        ((math.nan, 1.0, 0.1), "low and high must be finite"),
        ((0.0, math.inf, 0.1), "low and high must be finite"),
        ((-1e308, 1e308, 1.0), "resolution must leave at most 2\\*\\*53 grid points"),
        ((0.0, 1.0, 1e-17), "resolution must leave at most 2\\*\\*53 grid points"),
        ((0.0, 1.0, 0.0), "resolution must be finite and greater than 0"),
        ((0.0, 1.0, -1.0), "resolution must be finite and greater than 0"),
        ((0.0, 1.0, math.nan), "resolution must be finite and greater than 0"),
        ((0.0, 1.0, "0.1"), "resolution must be a number, got str"),
    ],
)
def test_bad_grids_are_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        FloatDomain(*arguments)
