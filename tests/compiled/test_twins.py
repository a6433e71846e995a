"""Each compiled function returns the bits of its twin in numpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IPv4Domain
from beam_dpsketch.hashing import cells, repeats
from beam_dpsketch.sketches import CountMin, CountSketch, DyadicCountSketch
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from tests.helpers.kernels import compiled, numpy_only, uses_kernels

pytestmark = pytest.mark.compiled

LOW, HIGH = -(2**63), 2**63 - 1
WEIGHTS = st.one_of(st.sampled_from([LOW, LOW + 1, -1, 0, 1, HIGH]), st.integers(LOW, HIGH))
KEYS = st.one_of(st.integers(0, 5), st.sampled_from([2**32 - 1, 2**32, 2**64 - 1]), st.integers(0, 2**64 - 1))
PAIRS = st.lists(st.tuples(KEYS, WEIGHTS), max_size=80)
SIZES = (0, 1, 2, 1023, 1024, 1025, 4096, 4097, 40_000)


def split(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Keys and weights as arrays."""
    return np.array([key for key, _ in pairs], np.uint64), np.array([weight for _, weight in pairs], np.int64)


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """What numpy makes, and what kernels do; they are used."""
    with numpy_only():
        expected = work()
    with compiled() as kernels:
        found = work()
    assert uses_kernels(kernels)
    return expected, found


def counters(
    keys: np.ndarray, weights: np.ndarray | None, depth: int, width: int, has_signs: bool, start: int = 0
) -> np.ndarray:
    """The cells of a table that had a number in each."""
    table = np.full((depth, width), start, dtype=np.int64)
    cells.add_to_rows(table, keys, weights, seed=3, has_signs=has_signs)
    return table


@pytest.mark.parametrize("has_signs", [False, True])
@given(PAIRS, st.integers(1, 6), st.sampled_from([1, 2, 3, 64, 1000]), st.booleans(), WEIGHTS)
def test_cells(has_signs: bool, pairs: Any, depth: int, width: int, weighted: bool, start: int) -> None:
    """Sums wrap around, as in numpy."""
    keys, weights = split(pairs)
    expected, found = both(lambda: counters(keys, weights if weighted else None, depth, width, has_signs, start))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", SIZES)
def test_cells_at_the_edges_of_blocks(size: int) -> None:
    """Also of keys and weights that do not follow each other in memory."""
    keys = np.random.default_rng(size).integers(0, 2**64, 2 * size, dtype=np.uint64)
    weights = keys.view(np.int64)
    for one in (weights[::2], np.broadcast_to(np.int64(-7), size), None):
        expected, found = both(lambda one=one: counters(keys[::2], one, 5, 4096, True))
        np.testing.assert_array_equal(found, expected)


@given(PAIRS)
def test_sorted_sums(pairs: Any) -> None:
    keys, weights = split(pairs)
    expected, found = both(lambda: repeats.sum_by_key(*repeats.sort_by_key(keys, weights)))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("bits", [1, 11, 12, 22, 23, 32, 63, 64])
def test_sorting_by_every_digit(bits: int) -> None:
    keys = np.random.default_rng(bits).integers(0, 2**bits, 5000, dtype=np.uint64)
    weights = np.arange(5000)
    (_, expected), (ordered, found) = both(lambda: repeats.sum_by_key(*repeats.sort_by_key(keys, weights)))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(ordered, np.unique(keys))


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
@pytest.mark.parametrize("most", [1, 2, 3000, 10_000, 2**32])
@pytest.mark.parametrize("size", SIZES)
def test_counts_of_repeats_add_up(size: int, most: int, kind: Any) -> None:
    values = np.random.default_rng(size).integers(0, most, size, dtype=np.uint64).astype(kind)
    with compiled() as kernels:
        found, counts = repeats.count_duplicate_numbers(values)
    assert uses_kernels(kernels)
    assert found.dtype == kind
    total: Counter[int] = Counter()
    for value, count in zip(found.tolist(), [1] * len(found) if counts is None else counts.tolist(), strict=True):
        total[value] += count
    assert total == Counter(values.tolist())
    assert len(found) <= size
    if 0 < 20 * most < size:
        assert len(found) == len(total)


ITEMS = [
    np.random.default_rng(1).zipf(1.3, 70_000) % 2**32,
    np.random.default_rng(2).integers(0, 2**32, 70_000),
    pa.array([f"item {n * n % 999}" for n in range(70_000)]),
]


@pytest.mark.parametrize("items", ITEMS, ids=["skewed", "uniform", "text"])
@pytest.mark.parametrize("kind", ["count_sketch", "count_min"])
def test_sketches(kind: str, items: Any) -> None:
    made = {"count_sketch": CountSketch, "count_min": CountMin}[kind]
    flat = SketchSpec(kind=kind, depth=5, width=1000)

    def counted() -> Any:
        keys, counts, size = made.counted(flat, items if isinstance(items, pa.Array) else pa.array(items))
        assert size == len(items)
        return made(flat).accumulate_keys(keys, counts)

    for work in (lambda: made(flat).accumulate(items), counted):
        expected, found = both(work)
        assert found == expected


@pytest.mark.parametrize("items", ITEMS[:2], ids=["skewed", "uniform"])
def test_trees(items: np.ndarray) -> None:
    spec = TreeSpec.for_memory(IPv4Domain())
    expected, found = both(lambda: DyadicCountSketch(spec).accumulate(items))
    assert found == expected
