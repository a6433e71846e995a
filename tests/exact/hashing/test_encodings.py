"""Encodings: injective, invertible, the same one by one and all at once, and refusals that show nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import decode, encode, encode_all, is_item
from tests.helpers import strategies


@given(item=strategies.items)
def test_decode_inverts_encode(item):
    decoded = decode(encode(item))
    assert decoded == item
    assert type(decoded) is type(item)


@given(first=strategies.items, second=strategies.items)
def test_distinct_items_have_distinct_encodings(first, second):
    assert (encode(first) == encode(second)) == (first == second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a", b"a"),
        ("1", 1),
        (("a", "b"), ("ab",)),
        (("a", ("b",)), ("a", "b")),
        ((), ((),)),
        ("", b""),
        (-1, (1 << 64) - 1),
        ("é", "e\u0301"),
        ("\ud800\udc00", "\U00010000"),
    ],
)
def test_look_alikes_have_distinct_encodings(first, second):
    assert encode(first) != encode(second)


@given(
    data=st.one_of(
        st.binary(max_size=40),
        st.tuples(st.sampled_from(b"sbunt"), st.binary(max_size=24)).map(lambda parts: bytes([parts[0]]) + parts[1]),
    )
)
def test_decoding_junk_is_a_value_error_and_what_is_decoded_encodes_to_the_same_bytes(data):
    try:
        item = decode(data)
    except ValueError:
        return
    assert encode(item) == data


@pytest.mark.parametrize(
    "data", [b"", b"x", b"u", b"u1234567", b"u123456789", b"n" + bytes(8), b"t\x01", b"t\xff\xff\xff\xffsa", b"s\xff"]
)
def test_bytes_that_encode_nothing_are_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        decode(data)


@given(items=st.lists(st.one_of(strategies.items, st.sampled_from(strategies.UNSUPPORTED)), max_size=8))
def test_encode_all_is_encode_of_each_and_null_for_what_cannot_be_encoded(items):
    assert encode_all(items).to_pylist() == [encode(item) if is_item(item) else None for item in items]


@given(items=strategies.item_lists)
def test_encode_all_of_one_type_is_encode_of_each(items):
    assert encode_all(items).to_pylist() == [encode(item) for item in items]


def test_encode_all_gives_null_for_integers_outside_64_bits():
    assert encode_all([1 << 64, 5, -(1 << 63) - 1]).to_pylist() == [None, encode(5), None]


@pytest.mark.parametrize("number", [np.int8(-3), np.uint8(200), np.int64(-(1 << 63)), np.uint64((1 << 64) - 1)])
def test_numpy_integers_are_the_integers_they_equal(number):
    assert encode(number) == encode(int(number))
    assert encode_all([number]).to_pylist() == [encode(int(number))]


@pytest.mark.parametrize("value", strategies.UNSUPPORTED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: ("a", value), lambda value: (("a", value), 1)])
def test_unsupported_types_are_type_errors_that_name_the_type_and_show_no_value(value, wrap):
    assert not is_item(wrap(value))
    with pytest.raises(TypeError) as caught:
        encode(wrap(value))
    assert type(value).__name__ in str(caught.value)
    assert "8675309" not in str(caught.value)


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, 10**30 + 8_675_309])
def test_integers_outside_64_bits_are_value_errors_that_show_no_value(value):
    assert not is_item(value)
    with pytest.raises(ValueError, match=r"less than 2\*\*64") as caught:
        encode(value)
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize(("nesting", "supported"), [(1, True), (16, True), (17, False), (100_000, False)])
def test_tuples_nest_to_a_limit(nesting, supported):
    item = "a"
    for _ in range(nesting):
        item = (item,)
    assert is_item(item) is supported
    if supported:
        assert decode(encode(item)) == item
    else:
        with pytest.raises(ValueError, match="nest"):
            encode(item)


def test_bytes_that_nest_too_deep_are_refused():
    data = b"b"
    for _ in range(3000):
        data = b"t" + len(data).to_bytes(4, "little") + data
    with pytest.raises(ValueError, match="not the encoding of an item"):
        decode(data)
