"""Integers and addresses: every column type says the same as a plain list."""

from __future__ import annotations

import decimal
import ipaddress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IntegerDomain, IPv4Domain

INTEGER_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
bounds = st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300)] * 2).map(sorted)


@given(limits=bounds, kind=st.sampled_from(INTEGER_TYPES), data=st.data())
def test_arrays_and_columns_of_every_integer_type_agree_with_lists(limits: Any, kind: str, data: st.DataObject) -> None:
    domain = IntegerDomain(*limits)
    info = np.iinfo(kind)
    values = data.draw(st.lists(st.integers(int(info.min), int(info.max)), max_size=6))
    expected = [min(max(value, domain.low), domain.high) - domain.low for value in values]
    for column in (values, np.array(values, kind), pa.array(values, getattr(pa, kind)())):
        positions, usable = domain.index(column)
        assert positions.tolist() == expected
        assert usable.all()
    coded = pa.array([*values, None], getattr(pa, kind)()).dictionary_encode()
    positions, usable = domain.index(coded)
    assert positions.tolist() == [*expected, 0]
    assert usable.tolist() == [True] * len(values) + [False]


def test_whole_floats_count_and_others_do_not() -> None:
    values = [2.0, 2.5, float("nan"), float("inf"), -float("inf"), -0.0, 1e300]
    expected = ([12, 0, 0, 20, 0, 10, 20], [True, False, False, True, True, True, True])
    domain = IntegerDomain(-10, 10)
    for column in (values, np.array(values), pa.array(values)):
        positions, usable = domain.index(column)
        assert (positions.tolist(), usable.tolist()) == expected


def test_the_largest_domain_has_two_to_the_64_values() -> None:
    for low in (-(1 << 63), 0):
        domain = IntegerDomain(low, low + (1 << 64) - 1)
        assert (domain.size, domain.bits) == (1 << 64, 64)
        assert domain.index([low, domain.high])[0].tolist() == [0, (1 << 64) - 1]
        assert domain.values(np.array([(1 << 64) - 1], dtype=np.uint64)) == [domain.high]


def test_numpy_bounds_become_python_integers() -> None:
    """Those of numpy overflow in `size` and have no `to_bytes`."""
    domain = IntegerDomain(np.int64(-(1 << 63)), np.int64((1 << 63) - 1))
    assert domain.size == 1 << 64
    assert type(domain.low) is type(domain.high) is int


@pytest.mark.parametrize(
    ("low", "high", "error", "message"),
    [
        (5, 4, ValueError, "high must be at least low \\(5\\) and less than low \\+ 2\\*\\*64, got 4"),
        (-1, (1 << 64) - 1, ValueError, "less than low \\+ 2\\*\\*64"),
        (-(1 << 63) - 1, 0, ValueError, "low must be between"),
        (0, 1 << 64, ValueError, "high must be between"),
        (0.0, 4, TypeError, "low must be a whole number, got float"),
        (0, True, TypeError, "high must be a whole number, got bool"),
        (None, 4, TypeError, "low must be a whole number, got NoneType"),
    ],
)
def test_bad_bounds_are_refused_by_name(low: Any, high: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        IntegerDomain(low, high)


addresses = st.ip_addresses(v=4)


@given(drawn=st.lists(addresses, max_size=8))
def test_addresses_in_every_notation_are_the_same_position(drawn: list[ipaddress.IPv4Address]) -> None:
    domain = IPv4Domain()
    numbers, texts = list(map(int, drawn)), list(map(str, drawn))
    columns = [
        *(drawn, numbers, texts, np.array(numbers, np.uint32), np.array(texts, dtype=str)),
        *(pa.array(numbers, pa.uint32()), pa.array(texts, pa.string()), pa.array(texts, pa.large_string())),
        *(pa.array(texts, pa.string()).dictionary_encode(), pa.array(numbers, pa.int64()).dictionary_encode()),
    ]
    for column in columns:
        positions, usable = domain.index(column)
        assert positions.tolist() == numbers
        assert usable.all()
    assert domain.values(np.array(numbers, dtype=np.uint64)) == texts


BAD_ADDRESSES = ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", " 1.2.3.4", "1.2.3.4/8", "::1", "٣.1.1.1", None]


def test_bad_text_and_nulls_are_no_addresses_in_any_column() -> None:
    domain = IPv4Domain()
    mixed = [*BAD_ADDRESSES, "1.2.3.4", *BAD_ADDRESSES]
    expected = [value == "1.2.3.4" for value in mixed]
    coded = pa.array(mixed).dictionary_encode()
    with_null_value = pa.DictionaryArray.from_arrays([0, 1], pa.array([None, "1.2.3.4"]))
    for column in (mixed, pa.array(mixed), coded, pa.array(mixed, pa.large_string())):
        positions, usable = domain.index(column)
        assert usable.tolist() == expected
        assert positions.tolist() == [16909060 if good else 0 for good in expected]
    assert domain.index(with_null_value)[1].tolist() == [False, True]
    assert not domain.index([ipaddress.IPv6Address(1), b"\1\2\3\4", True, ipaddress.IPv4Network("1.0.0.0/8")])[1].any()


@pytest.mark.parametrize("outside", [-1, 1 << 32, 1 << 62, -(1 << 63)])
def test_numbers_that_are_no_addresses_are_unusable(outside: int) -> None:
    """Clamped, they would be counted at 0.0.0.0 and 255.255.255.255, and no statement would mention them."""
    values = [outside, 0, (1 << 32) - 1]
    as_floats, as_decimals = pa.array(values).cast(pa.float64(), safe=False), pa.array([*map(decimal.Decimal, values)])
    for column in (values, np.array(values), pa.array(values), as_floats, as_decimals):
        positions, usable = IPv4Domain().index(column)
        assert (positions.tolist(), usable.tolist()) == ([0, 0, (1 << 32) - 1], [False, True, True])
    assert not IPv4Domain().index([float("inf"), -float("inf"), 1 << 200, -(1 << 200)])[1].any()
