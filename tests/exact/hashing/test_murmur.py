"""Hashing a column gives the bits that `mmh3` gives its values, whatever their length and its type."""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import BYTES_TAG
from beam_dpsketch.exact.hashing import fingerprints as module
from beam_dpsketch.exact.hashing import murmur
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.hashing.murmur import murmur3
from tests.helpers import laws


def one_by_one(values: list[bytes]) -> list[int]:
    return [int.from_bytes(mmh3.mmh3_x64_128_digest(value)[:8], "little") for value in values]


def check() -> None:
    generator = np.random.default_rng(1)
    for length in range(70):
        values = generator.integers(0, 256, (9, length), dtype=np.uint8)
        for tag in (b"", b"s"):
            found = murmur3(values, tag)
            assert found.tolist() == one_by_one([tag + bytes(value) for value in values]), "other bits"


test_every_length_has_the_bits_of_mmh3 = laws.mutants(
    {
        "shifts the other way": laws.around(
            murmur, "_rotate", lambda exact, word, bits: exact(word, 64 - bits), "other bits"
        ),
        "no last mixing": laws.put(murmur, "_finished", lambda word: word, "other bits"),
    },
    check,
    intact=True,
)


@given(st.lists(st.binary(max_size=70), max_size=80), st.integers(0, 5), st.sampled_from([1, 16]))
def test_columns_have_the_bits_of_their_values(values: list[bytes], start: int, few: int) -> None:
    expected = one_by_one([BYTES_TAG + value for value in values[start:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", few)
        for kind in (pa.binary(), pa.large_binary()):
            column = pa.array(values, kind).slice(start)
            assert fingerprints(column).tolist() == expected
            assert fingerprints(pa.chunked_array([column])).tolist() == expected
            assert fingerprints(column.dictionary_encode()).tolist() == expected


@pytest.mark.parametrize("repeats", [1, 50])
def test_long_columns_are_hashed_in_parts(repeats: int) -> None:
    values = [f"value {place % (40_000 // repeats)}" for place in range(40_000)]
    found = fingerprints(pa.array(values))
    assert found.tolist() == fingerprints(values).tolist()


def test_columns_of_views_are_hashed_too() -> None:
    values = [f"value {place}" for place in range(5000)]
    assert fingerprints(pa.array(values, pa.string_view())).tolist() == fingerprints(values).tolist()


def test_nulls_of_a_dictionary_are_refused() -> None:
    column: Any = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    with pytest.raises(TypeError):
        fingerprints(column)
