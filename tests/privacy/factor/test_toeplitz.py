"""The factor over values: rows are exact, the length is that of the longest column, and nothing wraps unseen."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.factor import square_root, toeplitz
from beam_dpsketch.privacy.factor.toeplitz import MAX_FACTOR_SIZE, MAX_ROW, ToeplitzRoot
from tests.helpers import laws
from tests.helpers.laws import Fault

ONE, ONE_GAIN = 1 << toeplitz._FEW_BITS, 1 << toeplitz.GAIN_BITS
CACHES = toeplitz._parts, toeplitz._spectrum


@pytest.fixture(autouse=True)
def _no_faulty_parts() -> Iterator[None]:
    """Parts are cached: those of a planted fault must not reach another test."""
    for cached in CACHES:
        cached.cache_clear()
    yield
    for cached in CACHES:
        cached.cache_clear()


@functools.cache
def first_column(size: int) -> list[int]:
    """c_k from its definition, rounded: binom(2k, k) / 4^k."""
    return [math.floor(Fraction(ONE * math.comb(2 * k, k), 4**k) + Fraction(1, 2)) for k in range(size)]


@functools.cache
def gains(size: int) -> list[int]:
    """For each column, the largest gain with which it is not longer than the first one with a gain of 1."""
    squares = [each**2 for each in first_column(size)]
    return [math.isqrt(sum(squares) * ONE_GAIN**2 // sum(squares[: size - column])) for column in range(size)]


def matrix(size: int) -> list[list[int]]:
    """W in Python integers, row by row."""
    column, of_columns = first_column(size), gains(size)
    return [[column[i - j] * of_columns[j] if j <= i else 0 for j in range(size)] for i in range(size)]


def exact_rows(counters: list[int]) -> list[int]:
    size = len(counters)
    column, scaled = first_column(size), [g * h for g, h in zip(gains(size), counters, strict=True)]
    return [sum(map(int.__mul__, column[: i + 1], scaled[i::-1])) for i in range(size)]


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_coefficients_and_gains_are_those_of_their_definitions(size: int) -> None:
    factor = ToeplitzRoot(size)
    assert factor.coefficients.tolist() == first_column(size)
    assert factor.gains.tolist() == gains(size)
    assert not any(each.flags.writeable for each in (factor.coefficients, factor.gains))


@pytest.mark.parametrize("size", [4096, 1 << 17, (1 << 17) + 1])
def test_coefficients_do_not_ascend_and_gains_do_not_descend(size: int) -> None:
    """Columns do not grow, gains do; and rounded gains cost at most one unit in any column's length."""
    factor = ToeplitzRoot(size)
    column, of_columns = factor.coefficients, factor.gains
    assert np.all(np.diff(column) <= 0)
    assert np.all(np.diff(of_columns) >= 0)
    assert column[0] == (ONE if size <= 1 << 17 else 4 * ONE)
    assert column[-1] > 0
    squares = np.square(of_columns) * np.cumsum(np.square(column))[::-1]
    assert squares.max() == factor.squared_length
    assert np.sqrt(squares.min() / squares.max()) > 1 - 1 / ONE_GAIN


def check_rows(counters: list[int]) -> None:
    """Exact, or refused where a row is large."""
    expected = exact_rows(counters)
    if max(map(abs, expected)) >= MAX_ROW:
        with pytest.raises(ArgumentError, match="E515"):
            ToeplitzRoot(len(counters)).rows(np.array(counters))
    else:
        found = ToeplitzRoot(len(counters)).rows(np.array(counters))
        assert found.dtype == np.int64
        assert found.tolist() == expected


@given(data=st.data())
def test_rows_are_exact(data: Any) -> None:
    """Half of the limit is left free of tests: there a row may be refused, and need not be."""
    size, bits = data.draw(st.integers(1, 300)), data.draw(st.sampled_from([1, 8, 13, 14, 15, 28, 40]))
    some = st.integers(-(1 << bits), 1 << bits) | st.sampled_from([0, -1, 1 << bits, -(1 << bits)])
    check_rows(data.draw(st.lists(some, min_size=size, max_size=size)))


HARD_ROWS = [
    [1 << 40, *[0] * 299],
    [*[0] * 299, -(1 << 40)],
    [-1] * 300,
    [(-1) ** k * ((1 << 40) - k) for k in range(300)],
    [(1 << 36) - 7 * k for k in range(300)],
    [-(1 << 36) + 7 * k for k in range(300)],
    [(1 << 14) - 1] * 64,
]


@pytest.mark.parametrize("counters", HARD_ROWS)
def test_hard_rows_are_exact(counters: list[int]) -> None:
    check_rows(counters)


@pytest.mark.parametrize("size", [5000, 1 << 17])
def test_rows_of_large_factors_are_exact_where_all_limbs_are_full(size: int) -> None:
    """The last rows, in Python integers, of counters whose limbs have all bits, with signs or without."""
    factor = ToeplitzRoot(size)
    for sign in (1, -1):
        counters = np.full(size, sign * ((1 << 34) - 1)) // factor.gains
        found = factor.rows(counters)
        scaled = (counters * factor.gains).astype(object)
        for row in (0, size // 2, size - 1):
            assert int(found[row]) == int(factor.coefficients[: row + 1].astype(object) @ scaled[row::-1])


def check_length(size: int) -> None:
    """D is what the longest column has, by rows of single values."""
    factor = ToeplitzRoot(size)
    columns = [factor.rows(row).tolist() for row in np.eye(size, dtype=np.int64)]
    assert columns == [list(column) for column in zip(*matrix(size), strict=True)]
    assert factor.squared_length == max(sum(each**2 for each in column) for column in columns), "the length is wrong"


@pytest.mark.parametrize("size", range(1, 13))
def test_the_length_is_that_of_the_longest_column(size: int) -> None:
    check_length(size)


def check_sensitivity(size: int, most: int = 3) -> None:
    """All histograms of weight up to `most`, and all pairs of them."""
    factor = ToeplitzRoot(size)
    columns = np.array([factor.rows(row) for row in np.eye(size, dtype=np.int64)])
    for signed in (False, True):
        low = -most if signed else 0
        drawn = (h for h in itertools.product(range(low, most + 1), repeat=size) if sum(map(abs, h)) <= most)
        rows = np.array(list(drawn)) @ columns
        products = rows @ rows.T
        squares = np.diag(products)
        added = int(squares.max())
        replaced = int((squares[:, np.newaxis] + squares - 2 * products).max())
        limit = most**2 * factor.squared_length
        assert added <= limit, "a unit that is added changes rows by more"
        assert replaced <= (4 if signed else 2) * limit, "a unit that is replaced changes rows by more"
        assert added == limit, "one value attains it"
        assert not signed or replaced == 4 * limit, "one value with both signs attains it"


@pytest.mark.parametrize("size", range(1, 7))
def test_no_unit_changes_rows_by_more(size: int) -> None:
    check_sensitivity(size)


def test_two_is_nearly_attained_without_signs_and_not_enough_with_them() -> None:
    """The first value against the last."""
    factor = ToeplitzRoot(1024)
    first, last = np.eye(1024, dtype=np.int64)[[0, -1]]
    change = factor.rows(first) - factor.rows(last)
    assert 1.97 < int(change @ change) / factor.squared_length <= 2


@pytest.mark.parametrize("size", [1, 5, 300, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_rows_are_refused_before_they_wrap(size: int, sign: int) -> None:
    """The heaviest first value that fits is exact, and all above it are refused, up to the largest there are."""
    factor, counters = ToeplitzRoot(size), np.zeros(size, dtype=np.int64)
    most = (MAX_ROW - 1) // (ONE_GAIN * ONE)
    counters[0] = sign * (most - (most >> 19))
    assert int(factor.rows(counters)[0]) == ONE_GAIN * ONE * int(counters[0])
    for weight in (most + 1, most + (most >> 3), most << 3, MAX_ROW, (1 << 63) - 1):
        counters[0] = sign * weight
        with pytest.raises(ArgumentError, match="E515"):
            factor.rows(counters)
    counters[0] = -(1 << 63)
    with pytest.raises(ArgumentError, match="E515"):
        factor.rows(counters)


def test_a_row_of_many_values_is_refused_although_each_of_them_fits() -> None:
    factor = ToeplitzRoot(300)
    least = MAX_ROW // sum(matrix(300)[-1]) + 1
    assert factor.rows(np.full(300, least - (least >> 18)))[-1] > 0
    with pytest.raises(ArgumentError, match="E515"):
        factor.rows(np.full(300, least))


def test_rows_that_will_be_shifted_are_refused_sooner() -> None:
    factor, counters = ToeplitzRoot(9), np.zeros(9, dtype=np.int64)
    first, most = ONE * ONE_GAIN, (MAX_ROW >> 4) // (ONE * ONE_GAIN)
    counters[0] = most - (most >> 19)
    assert int(factor.rows(counters, 4)[0]) == int(counters[0]) * first
    for row in (counters, -counters):
        with pytest.raises(ArgumentError, match="E515"):
            factor.rows(row, 5)


@pytest.mark.parametrize("size", [0, -1, MAX_FACTOR_SIZE + 1])
def test_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(ArgumentError, match="size"):
        ToeplitzRoot(size)


def length_without_gains(exact: Any, squared_columns: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    return exact(squared_columns, bits)[0], int(squared_columns.max())


def gains_rounded_up(exact: Any, squared_columns: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    found, length = exact(squared_columns, bits)
    return found + (np.square(found) * squared_columns < length), length


def last_column(exact: Any, squared_columns: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    found, _ = exact(squared_columns, bits)
    return found, int(found[-1] ** 2 * squared_columns[-1])


def no_gains(exact: Any, squared_columns: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    return np.full(len(squared_columns), 1 << bits), exact(squared_columns, bits)[1]


def gains_by(faulty: Any) -> Fault:
    return laws.around(toeplitz, "gains_of", faulty, "changes rows by more", 6)


test_planted_faults_in_lengths_are_found = laws.mutants(
    {
        "the length without gains": gains_by(length_without_gains),
        "the length of the last column": gains_by(last_column),
        "gains rounded up": gains_by(gains_rounded_up),
    },
    check_sensitivity,
    intact=False,
)

test_planted_faults_in_columns_are_found = laws.mutants(
    {
        "no gains": laws.around(toeplitz, "gains_of", no_gains, "", 6),
        "coefficients rounded down": laws.put(
            toeplitz, "coefficients", lambda size: (each - (1 << 53) for each in square_root.coefficients(size)), "", 12
        ),
    },
    check_length,
    intact=False,
)

test_planted_faults_in_rows_are_found = laws.mutants(
    {
        "all bits in one limb": laws.put(toeplitz, "_LIMB_BITS", 62, "", HARD_ROWS[3]),
        "the last limb left out": Fault(
            lambda patch: patch.setattr(toeplitz, "range", lambda count: builtins.range(count - 1), raising=False)
        ).found("", HARD_ROWS[0]),
        "a transform that is too short": laws.put(toeplitz, "_padded", lambda size: size, "", HARD_ROWS[5]),
    },
    check_rows,
    intact=False,
)
