"""Raw prefix trees: each level counts the beginnings of items, ended items included."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import BytesDomain, PrefixSpec, PrefixTree, TextDomain
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.sketches.trees import END, extend, hash_prefixes, root
from tests.helpers import derivations, laws, strategies

MASK = (1 << 64) - 1
raw_items = st.lists(st.sampled_from([0, 1, 97, 255]), max_size=5).map(bytes) | st.binary(max_size=5)
records = st.lists(st.tuples(raw_items, strategies.weights), max_size=8)


@st.composite
def specs(draw: st.DrawFn) -> PrefixSpec:
    return PrefixSpec(
        domain=BytesDomain(draw(st.integers(1, 4))),
        depth=draw(st.integers(1, 3)),
        width=draw(st.integers(1, 20)),
        seed=draw(st.integers(0, 3) | st.integers(0, MASK)),
    )


def tree_of(spec: PrefixSpec) -> Any:
    def sketch_of(drawn: Any) -> laws.Whole:
        tree = PrefixTree(spec)
        if drawn:
            items, item_weights = zip(*drawn, strict=True)
            tree.accumulate(items, item_weights)
        return laws.Whole(tree)

    return sketch_of


def mixed(word: int, seed: int) -> int:
    """Two SplitMix64 finalisers, a key from BLAKE2b of the seed and row 0 before each."""
    message = seed.to_bytes(8, "little") + bytes(4)
    keys = hashlib.blake2b(message, digest_size=16, person=b"dpsketch cells 1").digest()
    word = word * 0x9E3779B97F4A7C15 & MASK
    for key in (keys[:8], keys[8:]):
        word = word + int.from_bytes(key, "little") & MASK
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & MASK
        word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK
        word ^= word >> 31
    return word


def path(spec: PrefixSpec, item: bytes) -> list[int]:
    """The 64-bit hashes of an item's prefixes, as the definition says: one symbol a level, END after the end."""
    size = spec.domain.max_bytes
    prefix = int(root(spec)[0])
    found = []
    for level in range(size):
        symbol = item[level] if level < len(item) else END
        step = (prefix + (symbol + 1) * 0x9E3779B97F4A7C15) & MASK
        prefix = mixed(step, spec.seed)
        found.append(prefix)
    return found


@given(spec=specs(), drawn=records)
def test_counters_are_those_of_a_dictionary_of_big_integers(spec: PrefixSpec, drawn: Any) -> None:
    tree = tree_of(spec)(drawn).tree
    for number, level in enumerate(tree.levels):
        counters: dict[tuple[int, int], int] = defaultdict(int)
        for item, weight in drawn:
            prefix = path(spec, item)[number]
            for row in range(spec.depth):
                seed = spec.level_spec(number).seed
                column, sign = derivations.cell(prefix, seed=seed, row=row, width=spec.width)
                counters[row, column] += weight * sign
        expected = [
            [(counters[row, column] + (1 << 63)) % (1 << 64) - (1 << 63) for column in range(spec.width)]
            for row in range(spec.depth)
        ]
        assert level.counters.tolist() == expected


@given(first=raw_items, second=raw_items)
def test_two_items_share_a_level_exactly_as_far_as_their_beginnings_agree(first: bytes, second: bytes) -> None:
    """The end of an item is a symbol of its own, so a word and its beginning part where the shorter one ends."""
    spec = PrefixSpec(domain=BytesDomain(4), depth=1, width=1)

    def symbols(item: bytes) -> list[int]:
        return [*item[:4], *[END] * 4][:4]

    keys, _ = spec.domain.index([first, second])
    for level, (prefixes, ended) in enumerate(hash_prefixes(spec, keys)):
        agree = symbols(first)[: level + 1] == symbols(second)[: level + 1]
        assert (prefixes[0] == prefixes[1]) == agree
        assert ended.tolist() == [len(first) <= level, len(second) <= level]


@given(spec=specs(), item=raw_items)
def test_extending_symbol_by_symbol_walks_the_same_path(spec: PrefixSpec, item: bytes) -> None:
    prefix = root(spec)
    for level, expected in enumerate(path(spec, item)):
        symbol = item[level] if level < len(item) else END
        prefix = extend(spec, prefix, np.array([symbol]))
        assert prefix.tolist() == [expected]


@given(spec=specs(), parts=st.tuples(*[records] * 3))
def test_prefix_trees_are_a_commutative_monoid(spec: PrefixSpec, parts: Any) -> None:
    laws.check_commutative_monoid(tree_of(spec), *parts)


@given(spec=specs(), drawn=records)
def test_deletion_is_the_inverse_of_insertion(spec: PrefixSpec, drawn: Any) -> None:
    laws.check_deletion_is_inverse(tree_of(spec), drawn)


@given(spec=specs(), first=records, second=records)
def test_merge_changes_only_the_left(spec: PrefixSpec, first: Any, second: Any) -> None:
    laws.check_merge_changes_only_the_left(tree_of(spec), first, second)


@given(items=st.lists(st.text(max_size=5), max_size=6))
def test_text_counts_as_its_bytes_in_lists_and_columns(items: list[str]) -> None:
    def tree(domain: BytesDomain, column: Any) -> list[int]:
        return PrefixTree(PrefixSpec(domain=domain, depth=2, width=9)).accumulate(column).to_vector().tolist()

    expected = tree(BytesDomain(4), [item.encode() for item in items])
    assert tree(TextDomain(4), items) == expected
    assert tree(TextDomain(4), pa.array(items, pa.string())) == expected
    assert tree(TextDomain(4), [*items, None, 3]) == expected


def test_longer_items_count_as_their_beginning_and_as_items_of_just_that_length() -> None:
    spec = PrefixSpec(domain=BytesDomain(3), depth=1, width=999)
    tree = PrefixTree(spec)
    assert PrefixTree(spec).accumulate([b"abcdef"]) == tree.accumulate([b"abc"])
    assert PrefixTree(spec).accumulate([b"ab"]) != tree


def test_the_shares_that_the_privacy_side_sees_sum_to_one() -> None:
    for size in (1, 3, 7, 254):
        spec = PrefixSpec(domain=BytesDomain(size), depth=3, width=2)
        tables = PrefixTree.tables(spec)
        assert {table[:3] for table in tables} == {(3, True, Fraction(1, size))}
        assert sum(table.share for table in tables) == 1


def test_memory_is_respected_or_refused_with_a_number_that_is_enough() -> None:
    for memory in (1_921, 50_000, 490_000):
        spec = PrefixSpec.for_memory(TextDomain(6), memory)
        assert spec.cells * 4 <= memory < (spec.cells + 30) * 4
    with pytest.raises(ValueError, match="memory must be at least 1920 bytes for 6 levels of 5 rows, got 1919"):
        PrefixSpec.for_memory(TextDomain(6), 1919)
    assert PrefixSpec.for_memory(TextDomain(6), 1920).width == 16


def test_only_trees_of_one_spec_merge_and_repr_shows_no_counter() -> None:
    text = PrefixTree(PrefixSpec(domain=TextDomain(2), depth=1, width=3)).accumulate(["a"] * 987_654)
    assert "987654" not in repr(text)
    with pytest.raises(IncompatibleSketchError):
        text.merge(PrefixTree(PrefixSpec(domain=BytesDomain(2), depth=1, width=3)))
    with pytest.raises(IncompatibleSketchError):
        text.merge(PrefixTree(PrefixSpec(domain=TextDomain(2), depth=1, width=3, seed=1)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"domain": "text"}, "domain must be a BytesDomain, got str"),
        ({"depth": 0}, "depth must be between 1 and 64"),
        ({"width": 0}, "width must be between 1"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"hash_version": 2}, "hash_version must be one of 1, got 2"),
    ],
)
def test_bad_settings_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        PrefixSpec(**({"domain": TextDomain(3), "depth": 1, "width": 1} | arguments))
