"""The word of a value depends on the value alone: else records of a privacy id would not meet."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch.encodings import encode_all
from beam_dpsketch.exact.bounding.parts import shard_hash

VALUES = st.lists(st.one_of(st.binary(max_size=20), st.binary(min_size=60, max_size=80)), min_size=1, max_size=30)


def alone(value: bytes) -> int:
    return int(shard_hash(pa.array([value], pa.large_binary()))[0])


@settings(deadline=None)
@given(VALUES, st.integers(0, 40))
def test_words_are_those_of_each_value_alone(values: list[bytes], start: int) -> None:
    expected = [alone(value) for value in values]
    column = pa.array(values, pa.large_binary())
    assert shard_hash(column).tolist() == expected
    assert shard_hash(column.slice(start)).tolist() == expected[start:]
    assert shard_hash(pa.chunked_array([column.slice(0, 2), column.slice(2)])).tolist() == expected
    assert shard_hash(column.dictionary_encode().cast(pa.large_binary())).tolist() == expected


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40), st.integers(0, 50))
def test_words_of_numbers_are_those_of_their_canonical_bytes(numbers: list[int], start: int) -> None:
    expected = [alone(value) for value in encode_all(numbers).to_pylist()]
    column = pa.array(numbers, pa.int64())
    with mock.patch("beam_dpsketch.exact.bounding.parts._CHUNK", 3):
        assert shard_hash(column).tolist() == expected
    assert shard_hash(column.slice(start)).tolist() == expected[start:]
    assert shard_hash(pa.chunked_array([column.slice(0, 2), column.slice(2)])).tolist() == expected


def test_nothing_and_empty_values_are_columns_too() -> None:
    assert len(shard_hash(pa.array([], pa.large_binary()))) == 0
    assert len(shard_hash(pa.chunked_array([], pa.large_binary()))) == 0
    assert len(set(shard_hash(pa.array([b"", b""], pa.large_binary())).tolist())) == 1


def test_neighbours_and_paddings_differ() -> None:
    values = [b"\0" * size for size in range(80)] + [bytes([letter]) for letter in range(1, 256)]
    assert len(set(shard_hash(pa.array(values, pa.large_binary())).tolist())) == len(values)


def test_shards_of_consecutive_ids_are_even() -> None:
    """Fixed data: chi-square with 255 degrees of freedom; 255 expected, 400 is beyond the 1 - 1e-8 quantile."""
    for ids in (list(range(25_600)), [f"user-{number:06d}@example.com" for number in range(25_600)]):
        found = np.bincount((shard_hash(encode_all(ids)) % np.uint64(256)).astype(int), minlength=256)
        assert ((found - 100) ** 2 / 100).sum() < 400
