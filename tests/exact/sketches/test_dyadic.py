"""Raw trees: each level is the flat sketch of the ancestors, and the whole is linear."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import CountMin, CountSketch, DyadicCountSketch, IntegerDomain, IPv4Domain, SketchSpec, TreeSpec
from beam_dpsketch.errors import IncompatibleSketchError
from tests.helpers import derivations, laws, strategies, trees

small_layouts = trees.layouts(st.integers(1, 70).map(lambda size: IntegerDomain(-3, size - 4)))
records = st.lists(st.tuples(st.integers(-10, 80), strategies.weights), max_size=12)


def tree_of(spec: TreeSpec) -> Any:
    def sketch_of(drawn: Any) -> laws.Whole:
        tree = DyadicCountSketch(spec)
        if drawn:
            items, item_weights = zip(*drawn, strict=True)
            tree.accumulate(items, item_weights)
        return laws.Whole(tree)

    return sketch_of


def reference(spec: TreeSpec, drawn: Any) -> list[list[list[int]]]:
    """Counters as the definition says, record by record and level by level, wrapped to 64 bits."""
    tables = []
    for number, level in enumerate(spec.levels):
        counters: dict[tuple[int, int], int] = defaultdict(int)
        for value, weight in drawn:
            position = min(max(value, spec.domain.low), spec.domain.high) - spec.domain.low
            node = position >> spec.shift(number)
            for row in range(level.depth):
                if level.sketch in ("exact", "factor"):
                    counters[row, node] += weight
                    continue
                seed = spec.level_spec(number).seed
                column, sign = derivations.cell(node, seed=seed, row=row, width=level.width)
                counters[row, column] += weight * (sign if level.sketch == "count_sketch" else 1)
        tables.append(
            [
                [(counters[row, column] + (1 << 63)) % (1 << 64) - (1 << 63) for column in range(level.width)]
                for row in range(level.depth)
            ]
        )
    return tables


@given(spec=small_layouts, drawn=records)
def test_counters_are_those_of_a_dictionary_of_big_integers(spec: TreeSpec, drawn: Any) -> None:
    assert [level.counters.tolist() for level in tree_of(spec)(drawn).tree.levels] == reference(spec, drawn)


@given(spec=trees.layouts(), positions=st.lists(st.integers(0, (1 << 64) - 1), max_size=8))
def test_each_level_is_the_flat_sketch_of_the_ancestors(spec: TreeSpec, positions: list[int]) -> None:
    inside = [position % spec.domain.size for position in positions]
    tree = DyadicCountSketch(spec).accumulate_keys(np.array(inside, dtype=np.uint64), None)
    for number, level in enumerate(spec.levels):
        ancestors = [position >> spec.shift(number) for position in inside]
        if level.sketch in ("exact", "factor"):
            expected = np.bincount(np.array(ancestors, dtype=np.int64), minlength=level.width)[None, :]
        else:
            flat = {"count_sketch": CountSketch, "count_min": CountMin}[level.sketch]
            level_spec = SketchSpec(
                kind=level.sketch, depth=level.depth, width=level.width, seed=spec.level_spec(number).seed
            )
            expected = flat(level_spec).accumulate(ancestors).counters
        np.testing.assert_array_equal(tree.levels[number].counters, expected)


@given(spec=small_layouts, parts=st.tuples(*[records] * 3))
def test_trees_are_a_commutative_monoid(spec: TreeSpec, parts: Any) -> None:
    laws.check_commutative_monoid(tree_of(spec), *parts)


@given(spec=small_layouts, drawn=records)
def test_deletion_is_the_inverse_of_insertion(spec: TreeSpec, drawn: Any) -> None:
    laws.check_deletion_is_inverse(tree_of(spec), drawn)


@given(spec=small_layouts, first=records, second=records)
def test_merge_changes_only_the_left(spec: TreeSpec, first: Any, second: Any) -> None:
    laws.check_merge_changes_only_the_left(tree_of(spec), first, second)


@given(spec=small_layouts, kept=st.lists(st.integers(0, 60)), deleted=st.lists(st.integers(0, 60)))
def test_what_was_deleted_might_never_have_been_there(spec: TreeSpec, kept: list[int], deleted: list[int]) -> None:
    """Equal exact counters, so the release has the distribution of one of what was kept."""
    alone = DyadicCountSketch(spec).accumulate(kept)
    both = DyadicCountSketch(spec).accumulate(kept + deleted).accumulate(deleted, [-1] * len(deleted))
    np.testing.assert_array_equal(both.to_vector(), alone.to_vector())


@given(spec=small_layouts, items=st.lists(st.integers(-10, 80), max_size=12))
def test_lists_arrays_columns_and_unit_weights_agree(spec: TreeSpec, items: list[int]) -> None:
    expected = DyadicCountSketch(spec).accumulate(items)
    assert not expected.is_weighted
    for column in (np.array(items, dtype=np.int64), pa.array(items, pa.int64()), pa.chunked_array([items], pa.int64())):
        assert DyadicCountSketch(spec).accumulate(column) == expected
    weighted = DyadicCountSketch(spec).accumulate(items, [1] * len(items))
    assert weighted == expected
    assert weighted.is_weighted


@given(spec=trees.layouts())
def test_counters_survive_the_way_through_a_vector(spec: TreeSpec) -> None:
    vector = np.arange(spec.cells, dtype=np.int64) - 7
    tree = DyadicCountSketch.from_vector(spec, vector)
    np.testing.assert_array_equal(tree.to_vector(), vector)


def test_values_that_cannot_be_counted_are_left_out_with_their_weights() -> None:
    spec = trees.exact_tree(10)
    expected = DyadicCountSketch(spec).accumulate([3, 9], [5, 7])
    assert DyadicCountSketch(spec).accumulate([3, None, "x", 99], [5, 100, 100, 7]) == expected
    assert DyadicCountSketch(spec).accumulate(pa.array([3, None, 99]), [5, 100, 7]) == expected


def test_weights_must_be_as_many_as_items() -> None:
    with pytest.raises(ValueError, match="weights must have the same length as items"):
        DyadicCountSketch(trees.exact_tree(10)).accumulate([1, 2], [1])


def test_only_trees_of_one_spec_merge() -> None:
    first, second = trees.exact_tree(10), trees.exact_tree(11)
    with pytest.raises(IncompatibleSketchError):
        DyadicCountSketch(first).merge(DyadicCountSketch(second))
    sketched = TreeSpec.for_memory(IPv4Domain(), 10_000)
    with pytest.raises(IncompatibleSketchError):
        DyadicCountSketch(sketched).merge(DyadicCountSketch(TreeSpec.for_memory(IPv4Domain(), 10_000, seed=1)))


def test_repr_shows_no_counter() -> None:
    shown = repr(DyadicCountSketch(trees.exact_tree(5)).accumulate([1] * 987_654 + [2]))
    assert "987654" not in shown
    assert "987653" not in shown


def test_the_shares_and_cells_that_the_privacy_side_sees() -> None:
    spec = trees.custom(IntegerDomain(0, 63), (2, "exact", 1, 0), (2, "count_sketch", 3, 5), (2, "count_min", 2, 4))
    assert [table[:3] for table in DyadicCountSketch.tables(spec)] == [
        (1, False, spec.levels[0].share),
        (3, True, spec.levels[1].share),
        (2, False, spec.levels[2].share),
    ]
