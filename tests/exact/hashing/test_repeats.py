"""Counting items that repeat loses and mixes up nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch.exact.hashing import fingerprints as hashing
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.hashing.lookup import (
    count_duplicate_numbers,
    count_duplicates,
    may_repeat,
    sort_by_key,
    sum_by_key,
)
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.privacy.contributions import ONE_RECORD

TEXT = st.sampled_from(["", "a", "b", "é", "\ud800", "long " * 20])
LISTS = st.one_of(
    st.lists(TEXT, max_size=60),
    st.lists(st.sampled_from([b"", b"a", b"\0"]), max_size=60),
    st.lists(st.sampled_from([1, True, 1.0, "1", b"1", None, (1,), np.int64(1)]), max_size=60),
    st.lists(st.integers(-3, 3), max_size=60),
)


def identity(item: Any) -> tuple[str, Any]:
    return type(item).__name__, item


@settings(deadline=None)
@given(LISTS)
def test_the_counts_are_those_of_the_items_and_nothing_equal_but_different_is_merged(items: list[Any]) -> None:
    distinct, counts = count_duplicates(items)
    weights = [1] * len(distinct) if counts is None else counts.tolist()
    found: Counter[Any] = Counter()
    for item, weight in zip(distinct, weights, strict=True):
        found[identity(item)] += weight
    assert found == Counter(map(identity, items))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([3, 1, 3, 3, 1] * 9, pa.uint8()),
        pa.array([-1, 2**63 - 1, -1, -(2**63)] * 9),
        pa.array([2**64 - 1, 0] * 9, pa.uint64()),
        pa.array(["x", "y", "x"] * 9),
        pa.array([b"x", b"", b"x"] * 9, pa.large_binary()),
        pa.DictionaryArray.from_arrays(pa.array([2, 0, 2, 2, 0]), pa.array(["a", "unused", "c"])),
        pa.array([5, 6] * 20).slice(3, 30),
        pa.array([1, None, 1]),
        pa.array([1.5, 1.5]),
        pa.array([], pa.string()),
        pa.array([], pa.int64()),
    ],
    ids=str,
)
def test_columns_are_counted_whatever_their_type(column: pa.Array) -> None:
    distinct, counts = count_duplicates(column)
    weights = np.ones(len(distinct), int) if counts is None else counts
    found = Counter(dict(zip(distinct.to_pylist(), weights.tolist(), strict=True))) if counts is not None else None
    assert (found or Counter(distinct.to_pylist())) == Counter(column.to_pylist())
    assert weights.dtype == np.int64


def test_numbers_that_hardly_repeat_are_left_uncounted_but_in_order() -> None:
    values, counts = count_duplicate_numbers(np.array([5, 3, 9, 1], dtype=np.uint32))
    assert values.tolist() == [1, 3, 5, 9]
    assert counts is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=1), st.integers(-(1 << 63), (1 << 63) - 1)), max_size=30))
def test_weights_of_equal_keys_are_summed_modulo_64_bits(pairs: list[tuple[bytes, int]]) -> None:
    keys = np.array([key + b"." for key, _ in pairs], dtype="S2")
    found, weights = sum_by_key(*sort_by_key(keys, np.array([weight for _, weight in pairs], dtype=np.int64)))
    sums: Counter[bytes] = Counter()
    for key, weight in pairs:
        sums[key + b"."] += weight
    assert found.tolist() == sorted(sums)
    assert [weight % (1 << 64) for weight in weights.tolist()] == [sums[key] % (1 << 64) for key in sorted(sums)]


@pytest.mark.parametrize("kind", ["dictionary", "text", "list"])
def test_text_is_hashed_once_for_each_distinct_value(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    digest = hashing.mmh3.mmh3_x64_128_digest

    def counting(data: bytes) -> bytes:
        hashed.append(data)
        return digest(data)

    monkeypatch.setattr(hashing.mmh3, "mmh3_x64_128_digest", counting)
    words = ["Oslo", "Rome", "Lima"] * 500
    column = pa.array(words)
    items = {"dictionary": column.dictionary_encode(), "text": column, "list": words}[kind]
    recipe = SketchInput(SketchSpec(depth=3, width=16), ONE_RECORD)
    contributions = recipe.contributions(items, None)
    assert sorted(hashed) == [b"sLima", b"sOslo", b"sRome"]
    assert contributions.weights.tolist() == [500] * 3
    assert sorted(contributions.keys) == sorted(fingerprints(["Oslo", "Rome", "Lima"]))


@pytest.mark.parametrize(
    ("items", "repeats"),
    [
        (np.arange(100_000), False),
        (np.arange(100_000) % 5000, True),
        (np.arange(100_000) // 500, True),  # in runs: no two of a thousand far apart are equal
        (pa.array([f"{number // 500}" for number in range(100_000)]), True),
        (pa.array([f"{number}" for number in range(100_000)]), False),
        (pa.array([f"{number:080}" for number in range(10_000)]), True),  # long ones are not hashed by columns
        (np.arange(2000), True),
    ],
    ids=["different", "shuffled", "runs", "runs of text", "different text", "long text", "few"],
)
def test_a_sample_tells_whether_counting_pays(items: Any, repeats: bool) -> None:
    assert may_repeat(pa.array(items)) == repeats
