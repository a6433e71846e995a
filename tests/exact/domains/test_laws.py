"""The laws of every ordered domain: positions keep order, come back as values, and nothing is ever raised."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import FloatDomain, IntegerDomain, IPv4Domain, LogDomain, TimestampDomain
from beam_dpsketch.exact.domains import Domain

START, END = datetime.datetime(1969, 12, 31), datetime.datetime(1970, 1, 3, 5)

DOMAINS: dict[str, tuple[Domain, st.SearchStrategy[Any]]] = {
    "integers": (IntegerDomain(-120, 1500), st.integers(-(1 << 70), 1 << 70) | st.integers(-200, 1600)),
    "all 64-bit integers": (IntegerDomain(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 65), 1 << 65)),
    "one integer": (IntegerDomain(7, 7), st.integers(0, 20)),
    "addresses": (IPv4Domain(), st.integers(0, (1 << 32) - 1)),
    "floats": (FloatDomain(-1.5, 2.5, step=0.125), st.floats(allow_nan=False)),
    "floats off the grid": (FloatDomain(0.1, 7.0, step=0.3), st.floats(-1, 9)),
    "ratios": (LogDomain(0.5, 1e9, 0.05), st.floats(allow_nan=False)),
    "ratios of two": (LogDomain(3.3, 7, 1), st.floats(2, 9)),
    "times": (TimestampDomain(START, END), st.datetimes()),
    "times in days": (TimestampDomain(START, END, datetime.timedelta(days=1)), st.datetimes()),
}

STRANGE = [
    *(None, True, False, float("nan"), "text", "", b"bytes", (1, 2), (1,), [1], [[1]], {}, object(), 1j, 2.5, -0.0),
    *(float("inf"), -float("inf"), 1 << 200, -(1 << 200), 1e300, np.nan, np.datetime64("NaT"), np.timedelta64(1, "ns")),
    *(datetime.date(1970, 1, 1), datetime.timedelta(1), datetime.datetime.min, datetime.datetime.max, np.bool_(True)),
    datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14))),
    datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(-datetime.timedelta(hours=14))),
]

COLUMNS = [
    pa.array([None, "text", ""]),
    pa.array(["a", None], pa.large_string()),
    pa.array([b"x", None]),
    pa.array([True, None]),
    pa.array([[1], None]),
    pa.array([{"a": 1}, None]),
    pa.array([1, None]).cast(pa.decimal128(20, 0)),
    pa.array([datetime.date(1970, 1, 1), None]),
    pa.array([1, None], pa.duration("ns")),
    pa.array([1, None], pa.time64("us")),
    pa.array([1, None], pa.timestamp("ns")),
    pa.array([1, None], pa.timestamp("s")),
    pa.array([1.5, None, float("nan"), float("inf")]),
    pa.array([1, None, 1 << 63], pa.uint64()),
    pa.array(["a", None]).dictionary_encode(),
    pa.array([3, None]).dictionary_encode(),
    pa.DictionaryArray.from_arrays([0, 1, None], pa.array([None, 4])),
    pa.nulls(3),
    *(pa.array([], kind) for kind in (pa.int64(), pa.float64(), pa.string(), pa.timestamp("us"), pa.null())),
]

ARRAYS = [
    np.array([1, 2], "m8[ns]"),
    np.array([1, -(1 << 63)], "M8[ns]"),
    np.array([True, False]),
    np.array(["a", ""]),
    np.array([b"a"]),
    np.array([1j]),
    np.array([1.5, np.nan, np.inf], np.float16),
    np.array([None, (1,), [2]], dtype=object),
    np.array([], dtype=object),
]


def each_domain(function: Any) -> Any:
    return pytest.mark.parametrize("name", DOMAINS)(function)


def position_of(domain: Domain, value: Any) -> int:
    positions, usable = domain.index([value])
    assert positions.dtype == np.uint64
    assert usable.tolist() == [True]
    return int(positions[0])


@each_domain
@given(data=st.data())
def test_positions_keep_order_and_lie_in_the_domain(name: str, data: st.DataObject) -> None:
    domain, values = DOMAINS[name]
    drawn = sorted(data.draw(st.lists(values, max_size=10)))
    positions, usable = domain.index(drawn)
    assert usable.all()
    assert positions.tolist() == sorted(positions.tolist())
    assert all(0 <= position < domain.size for position in positions.tolist())


@each_domain
@given(data=st.data())
def test_values_come_back_as_their_own_positions(name: str, data: st.DataObject) -> None:
    domain, _ = DOMAINS[name]
    edges = st.sampled_from([0, domain.size - 1])
    positions = data.draw(st.lists(edges | st.integers(0, domain.size - 1), max_size=8))
    values = domain.values(np.array(positions, dtype=np.uint64))
    assert domain.index(values)[0].tolist() == positions


@each_domain
@given(data=st.data())
def test_one_by_one_and_all_at_once_agree(name: str, data: st.DataObject) -> None:
    domain, values = DOMAINS[name]
    mixed = data.draw(st.lists(values | st.sampled_from(STRANGE), max_size=8))
    positions, usable = domain.index(mixed)
    singles = [domain.index([value]) for value in mixed]
    assert positions.tolist() == [int(position[0]) for position, _ in singles]
    assert usable.tolist() == [bool(good[0]) for _, good in singles]
    as_objects = np.empty(len(mixed), dtype=object)
    for place, value in enumerate(mixed):
        as_objects[place] = value
    assert [each.tolist() for each in domain.index(as_objects)] == [positions.tolist(), usable.tolist()]


@each_domain
def test_what_is_no_value_is_marked_with_position_zero_and_never_raised(name: str) -> None:
    domain, _ = DOMAINS[name]
    for values in [STRANGE, *COLUMNS, *ARRAYS]:
        positions, usable = domain.index(values)
        assert positions.dtype == np.uint64
        assert usable.dtype == bool
        assert positions.shape == usable.shape == (len(values),)
        assert not positions[~usable].any()
    assert not domain.index([None, True, float("nan"), "text", b"x", (1,), [1], np.datetime64("NaT")])[1].any()


@each_domain
def test_a_column_type_is_read_if_and_only_if_some_value_of_it_is(name: str) -> None:
    domain, _ = DOMAINS[name]
    texts = pa.array(["1.2.3.4", "1970-01-01"])
    samples = [
        *(pa.array([1]), pa.array([1.5]), texts, texts.dictionary_encode(), pa.array([1]).dictionary_encode()),
        *(pa.array([0], pa.timestamp("ns")), pa.array([0], pa.timestamp("us", tz="Asia/Tokyo"))),
        *(pa.array([b"x"]), pa.array([True]), pa.array([[1]]), pa.array([datetime.date(1970, 1, 1)])),
        *(pa.array([decimal.Decimal(1)], pa.decimal128(20)), pa.array([decimal.Decimal("0.5")])),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
    ]
    for column in samples:
        assert domain.reads_column(column.type) == bool(domain.index(column)[1].any()), column.type
    assert domain.reads_column(pa.null())


@each_domain
def test_sizes_and_bits(name: str) -> None:
    domain, _ = DOMAINS[name]
    assert 1 << domain.bits >= domain.size
    assert domain.size == 1 or domain.size > 1 << (domain.bits - 1)
    (last,) = domain.values(np.array([domain.size - 1], dtype=np.uint64))
    assert position_of(domain, last) == domain.size - 1


@each_domain
def test_domains_are_frozen_and_comparable(name: str) -> None:
    domain, _ = DOMAINS[name]
    with pytest.raises(AttributeError):
        domain.low = 3  # type: ignore[attr-defined]
    assert len({domain, domain}) == 1
    assert all((other == domain) == (other is domain) for other, _ in DOMAINS.values())
