"""Fingerprints: every container of the same items gives the same ones; what cannot be counted is refused."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from tests.helpers import strategies
from tests.helpers.strategies import UNSUPPORTED

_HASHES = [{}, {"item_hash": "blake2b", "item_key": bytes(range(16))}]
pytestmark = pytest.mark.parametrize("hashed", _HASHES, ids=["murmur3", "blake2b"])


def _check_same(containers, items, hashed):
    expected = np.array([fingerprints([item], **hashed)[0] for item in items], dtype=np.uint64)
    for container in containers:
        answer = fingerprints(container, **hashed)
        assert answer.dtype == np.uint64
        np.testing.assert_array_equal(answer, expected)


def _arrow_forms(array):
    """One column as an array, a slice, chunks, a dictionary, and chunks with different dictionaries."""
    half = len(array) // 2
    padded = pa.concat_arrays([array, array])
    yield array
    yield padded.slice(len(array))
    yield pa.chunked_array([array.slice(0, half), array.slice(half)])
    yield pa.chunked_array([array.slice(0, half), array.slice(0, 0), array.slice(half)], array.type)
    yield array.dictionary_encode()
    yield pa.chunked_array([array.slice(0, half).dictionary_encode(), array.slice(half).dictionary_encode()])


@given(items=st.lists(strategies.texts.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))))
def test_texts_in_any_container(hashed, items):
    arrow = (form for kind in (pa.string(), pa.large_string()) for form in _arrow_forms(pa.array(items, kind)))
    objects = np.array([*items, None], dtype=object)[:-1]
    _check_same([items, tuple(items), iter(items), objects, pd.Series(items, dtype=object), *arrow], items, hashed)


@given(items=st.lists(st.binary(max_size=8)))
def test_bytes_in_any_container(hashed, items):
    arrow = (form for kind in (pa.binary(), pa.large_binary()) for form in _arrow_forms(pa.array(items, kind)))
    _check_same([items, np.array([*items, None], dtype=object)[:-1], *arrow], items, hashed)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_of_any_width_in_any_container(hashed, name):
    limits = np.iinfo(name)
    items = [0, 1, 2, 1, int(limits.min), int(limits.max), int(limits.max) - 1]
    array = np.array(items, dtype=name)
    strided = np.repeat(array, 3)[::3]
    swapped = array.astype(array.dtype.newbyteorder())
    containers = [items, array, strided, swapped, list(array), pd.Series(array), *_arrow_forms(pa.array(array))]
    before = array.copy()
    _check_same(containers, items, hashed)
    np.testing.assert_array_equal(array, before)


@given(items=strategies.item_lists)
def test_mixed_items_are_hashed_as_if_alone(hashed, items):
    _check_same([items, iter(items)], items, hashed)


@pytest.mark.parametrize(
    "empty",
    [
        [],
        (),
        np.array([]),
        np.array([], dtype=np.int8),
        np.array([], dtype=object),
        pa.array([], pa.int16()),
        pa.array([], pa.string()),
        pa.array([], pa.string()).dictionary_encode(),
        pa.chunked_array([], pa.string()),
        pa.chunked_array([], pa.int64()),
        pa.chunked_array([], pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_nothing_has_no_fingerprints(hashed, empty):
    answer = fingerprints(empty, **hashed)
    assert answer.shape == (0,)
    assert answer.dtype == np.uint64


@pytest.mark.parametrize("value", UNSUPPORTED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("others", [[], ["a"], [1], [b"a"], [("a",)]])
def test_unsupported_types_are_type_errors_that_name_the_type_and_show_no_value(hashed, value, others):
    with pytest.raises(TypeError) as caught:
        fingerprints([*others, value], **hashed)
    assert type(value).__name__ in str(caught.value)
    assert "8675309" not in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.5]),
        np.array([True]),
        np.array([[1]]),
        np.array(["2020-01-01"], dtype="datetime64[ns]"),
        np.array(["2020-01-01"], dtype="datetime64[s]"),
        np.array([1], dtype="timedelta64[ns]"),
        pa.array([1.5]),
        pa.array([True]),
        pa.array([1, None]),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([decimal.Decimal("1.5")]),
        pa.array([1], pa.timestamp("ns")),
        pa.chunked_array([[1], [None]]),
        pd.Series([1.5]),
    ],
    ids=lambda column: f"{type(column).__name__}-{getattr(column, 'type', getattr(column, 'dtype', ''))}",
)
def test_columns_of_unsupported_types_are_type_errors(hashed, column):
    with pytest.raises(TypeError, match="items"):
        fingerprints(column, **hashed)


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1])
@pytest.mark.parametrize("others", [[], [5], ["a"]])
def test_integers_outside_64_bits_are_value_errors(hashed, value, others):
    with pytest.raises(ValueError, match="64") as caught:
        fingerprints([*others, value], **hashed)
    assert str(value) not in str(caught.value)


def test_the_key_chooses_the_function(hashed):
    del hashed
    items = [1, "a", b"a", (1, "a")]
    keys = [bytes(16), bytes(15) + b"\x01"]
    first, second = (fingerprints(items, item_hash="blake2b", item_key=key) for key in keys)
    assert (first != second).all()


@pytest.mark.parametrize("one", ["abc", b"abc"])
def test_one_text_is_not_many_items(hashed, one):
    del hashed
    with pytest.raises(TypeError, match="items must be a list, got one text"):
        fingerprints(one)
