"""Ids are equal if and only if their canonical bytes are, whichever form a column of them has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import encode, encode_all
from beam_dpsketch.exact.reading.columns import encode_ids, id_column

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
LARGE = st.integers(1 << 63, (1 << 64) - 1)
IDS = st.one_of(NUMBERS, LARGE, st.text(max_size=3), st.binary(max_size=3), st.tuples(NUMBERS), st.just(1.5), st.none())


def as_bytes(column: pa.Array) -> list[bytes | None]:
    return encode_ids(pa.chunked_array([column])).to_pylist()


@given(st.one_of(st.lists(NUMBERS), st.lists(IDS)))
def test_elements_have_the_canonical_bytes_of_each(ids: list[Any]) -> None:
    column = id_column(ids)
    assert as_bytes(column) == encode_all(ids).to_pylist()
    all_numbers = set(map(type, ids)) == {int} and max(ids) < 1 << 63
    assert column.type == (pa.int64() if all_numbers else pa.large_binary())


TYPES = [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.string(), pa.binary()]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("as_dictionary", [False, True])
def test_batches_of_any_type_have_the_canonical_bytes_of_each(kind: pa.DataType, as_dictionary: bool) -> None:
    ids = [3, None, 0, 3, 127] if pa.types.is_integer(kind) else [b"3", None, b"", b"3", b"a longer one"]
    values = pa.array(ids, pa.int64() if pa.types.is_integer(kind) else pa.binary()).cast(kind)
    expected = [None if value is None else encode(value) for value in values.to_pylist()]
    column = id_column(values.dictionary_encode() if as_dictionary else values)
    assert as_bytes(column) == expected
    assert as_bytes(column.slice(1)) == expected[1:]
    assert (column.type == pa.int64()) == pa.types.is_integer(kind)


@pytest.mark.parametrize("large", [1 << 63, (1 << 64) - 1])
def test_numbers_that_64_bits_with_a_sign_do_not_hold_are_bytes(large: int) -> None:
    ids = [1, large, None]
    for values in (pa.array(ids, pa.uint64()), pa.array(ids, pa.uint64()).dictionary_encode()):
        assert as_bytes(id_column(values)) == [encode(1), encode(large), None]
    assert as_bytes(id_column(ids[:2])) == [encode(1), encode(large)]


def test_numpy_numbers_and_empty_columns() -> None:
    assert as_bytes(id_column([np.int64(1), 1, np.uint8(1)])) == [encode(1)] * 3
    assert not len(id_column([]))
    for kind in (pa.null(), pa.int64(), pa.string()):
        assert not len(id_column(pa.array([], kind)))
    assert id_column(pa.nulls(2)).null_count == 2
    assert not len(encode_ids(pa.chunked_array([], pa.int64())))


@pytest.mark.parametrize("read", [id_column, encode_all])
@pytest.mark.parametrize("values", [["secret", "b"], [1, 2]])
def test_columns_in_chunks_are_refused(read: Any, values: list[Any]) -> None:
    with pytest.raises(TypeError, match="a column must be a single array") as caught:
        read(pa.chunked_array([values, values]))
    assert "secret" not in str(caught.value)
