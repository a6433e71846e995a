"""Text and bytes as keys: equal keys for equal beginnings, different ones for anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import BytesDomain, TextDomain

SIZE = 4
raw = st.binary(max_size=7) | st.lists(st.sampled_from([0, 1, 255]), max_size=6).map(bytes)


def keys_of(domain: BytesDomain, items: Any) -> list[bytes]:
    keys, usable = domain.index(items)
    assert usable.all()
    assert keys.dtype == domain.key_type
    return keys.tolist()


@given(first=raw, second=raw)
def test_keys_are_equal_exactly_where_the_beginnings_that_count_are(first: bytes, second: bytes) -> None:
    """Zero bytes inside and at the end count like any other."""
    one, other = keys_of(BytesDomain(SIZE), [first, second])
    assert (one == other) == (first[:SIZE] == second[:SIZE])


@given(items=st.lists(st.text(st.characters(), max_size=4), max_size=5))
def test_text_has_the_keys_of_its_bytes_in_every_column(items: list[str]) -> None:
    domain = TextDomain(SIZE)
    expected = keys_of(BytesDomain(SIZE), [item.encode("utf-8", "surrogatepass") for item in items])
    assert keys_of(domain, items) == expected
    proper = [item.encode("utf-8", "replace").decode() for item in items]
    for column in (pa.array(proper, pa.string()), pa.array(proper, pa.large_string()).dictionary_encode()):
        assert keys_of(domain, column) == keys_of(domain, proper)


def test_other_types_and_nulls_are_not_usable_and_have_the_empty_key() -> None:
    for domain, good, bad in ((TextDomain(3), "a", b"a"), (BytesDomain(3), b"a", "a")):
        mixed = [good, bad, None, 1, 1.5, ("a",), bytearray(b"a")]
        keys, usable = domain.index(mixed)
        assert usable.tolist() == [True] + [False] * 6
        assert set(keys[1:].tolist()) == set(keys_of(domain, [good[:0]]))
        keys, usable = domain.index(pa.array([good, None]))
        assert usable.tolist() == [True, False]
        assert not domain.index(pa.array([1, 2]))[1].any()
        assert len(domain.index([])[0]) == 0


@given(items=st.lists(raw | st.none(), max_size=9), start=st.integers(0, 9), is_text=st.booleans())
def test_slices_have_the_keys_of_their_rows(items: list[bytes | None], start: int, is_text: bool) -> None:
    domain = TextDomain(SIZE) if is_text else BytesDomain(SIZE)
    values = [item.decode("latin-1") if is_text and item is not None else item for item in items]
    column = pa.array(values, pa.string() if is_text else pa.binary())
    for each in (column, column.dictionary_encode()):
        for found, expected in zip(domain.index(each[start:]), domain.index(values[start:]), strict=True):
            assert found.tobytes() == expected.tobytes()


def test_column_types_that_hold_no_item_are_not_read() -> None:
    text, raw_bytes = TextDomain(3), BytesDomain(3)
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.null()):
        assert text.reads_column(kind)
        assert raw_bytes.reads_column(kind) == pa.types.is_null(kind)
    for kind in (pa.binary(), pa.large_binary(), pa.binary(3)):
        assert raw_bytes.reads_column(kind)
        assert not text.reads_column(kind)
    for kind in (pa.int64(), pa.float64(), pa.timestamp("s"), pa.bool_()):
        assert not text.reads_column(kind)


def test_bytes_that_are_no_text_have_no_item() -> None:
    assert TextDomain(3).from_bytes(b"\xff") is None
    assert TextDomain(3).from_bytes("é".encode()) == "é"
    assert BytesDomain(3).from_bytes(b"\xff") == b"\xff"


def test_the_longest_domain_loses_nothing() -> None:
    domain = BytesDomain(254)
    items = [bytes(length) for length in range(256)]
    assert len(set(keys_of(domain, items))) == 255  # the two that are cut are one


@pytest.mark.parametrize("kind", [TextDomain, BytesDomain])
@pytest.mark.parametrize(("size", "message"), [(0, "between 1 and 254, got 0"), (255, "got 255"), (2.0, "got float")])
def test_bad_sizes_are_refused_by_name(kind: type[BytesDomain], size: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"max_bytes must be .*{message}"):
        kind(size)


def test_numpy_arrays_of_text_are_read() -> None:
    assert keys_of(TextDomain(SIZE), np.array(["a", "bcdef"])) == keys_of(TextDomain(SIZE), ["a", "bcdef"])
