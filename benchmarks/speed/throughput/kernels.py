"""Nanoseconds an item of the sketches alone, beside numpy and DataSketches; growth with depth, width and universe."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import CountSketch, DyadicCountSketch, IntegerDomain, IPv4Domain, ListedItems, SketchSpec, TreeSpec
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from benchmarks import ordered_data, sources
from benchmarks.speed.throughput.turns import Against, Row, Turns

SHAPE = SketchSpec(depth=5, width=4096)
SEED = 1
LISTED_ITEMS, LISTED = 5000, "ListedItems of 5,000"
FLAT, TREE, SORT, THEIRS = "CountSketch 5 x 4096", "quantile tree, U = 2^32", "np.sort", "DataSketches Count-Min"


def addresses(size: int) -> np.ndarray:
    """Uniform 32-bit numbers, uint64."""
    return np.random.default_rng(SEED).integers(0, 1 << 32, size, dtype=np.uint64)


def skewed(size: int) -> np.ndarray:
    """Zipf(1.0) over 65,535 values that lie anywhere in 32 bits, uint64."""
    generator = np.random.default_rng(SEED)
    values = generator.integers(0, 1 << 32, ordered_data.ZIPF_RANKS, dtype=np.uint64)
    return values[ordered_data.zipf(generator, size) - np.uint64(1)]


def flat(items: Any) -> Callable[[int], object]:
    return lambda size: CountSketch(SHAPE).accumulate(items[:size])


def tree(items: np.ndarray, spec: TreeSpec) -> Callable[[int], object]:
    return lambda size: DyadicCountSketch(spec).accumulate(items[:size])


def listed(items: Any, spec: ListedItems) -> Callable[[int], object]:
    return lambda size: ListedHistogram(spec).accumulate(items[:size])


def _sort(numbers: np.ndarray, many: int) -> np.ndarray:
    return np.sort(numbers[:many])


def measure(turns: Turns) -> None:
    """Prints the blocks of kernels."""
    size = turns.sizes(0, 1_000_000)
    slow = turns.sizes(0, 100_000)
    try:
        datasketches = importlib.import_module("datasketches")
    except ImportError:
        datasketches = None
        print("\nSkipped: DataSketches is not installed (pip install -e '.[peers]')")
    for title, numbers in (("uniform", addresses(size[1])), ("Zipf", skewed(size[1]))):
        rows = [
            Row(SORT, partial(_sort, numbers), size),
            Row("np.bincount of 16 bits", _bincount(numbers), size),
            Row(FLAT, flat(numbers), size, (Against(SORT, 8), *_faster(datasketches))),
            Row(TREE, tree(numbers, TreeSpec.for_memory(IPv4Domain())), size, (Against(SORT, 45),)),
        ]
        if datasketches:
            rows += [
                Row(THEIRS, _count_min(datasketches, numbers.tolist()), slow),
                Row("DataSketches KLL", _kll(datasketches, numbers.astype(float)), size),
            ]
        turns.block(f"Numbers in memory, {title}, {size[1]:,} of 32 bits", rows)
    _, text = sources.columns(slow[1], 1, SEED)
    rows = [Row(FLAT, flat(text), slow, _faster(datasketches))]
    if datasketches:
        rows.append(Row(THEIRS, _count_min(datasketches, text), slow))
    turns.block(f"Text in memory, 27 characters, Zipf, {slow[1]:,}", rows)
    _listed(turns, size)
    _growth(turns, size)


def _listed(turns: Turns, size: tuple[int, int]) -> None:
    """Prints what counting a list costs, where all records are in it."""
    distinct = addresses(LISTED_ITEMS)
    names = np.array([f"item number {number}" for number in distinct])
    places = ordered_data.zipf(np.random.default_rng(SEED), size[1]) % np.uint64(LISTED_ITEMS)
    text = names[places].tolist()
    kinds = {
        "numbers in memory": (distinct, distinct[places]),
        "text in memory": (names, text),
        "a column of text": (names, pa.array(text)),
    }
    for title, (items, records) in kinds.items():
        rows = [
            Row(FLAT, flat(records), size),
            Row(LISTED, listed(records, ListedItems(items.tolist())), size, (Against(FLAT, 1.1),)),
        ]
        turns.block(f"A list known beforehand, {title}, Zipf, {size[1]:,}", rows)


def _growth(turns: Turns, size: tuple[int, int]) -> None:
    numbers = addresses(size[1])
    shapes = [(5, 256), (5, 4096), (3, 4096), (9, 4096), (5, 1 << 16), (5, 1 << 20)]
    rows = [
        Row(f"CountSketch {depth} x {width}", _shaped(SketchSpec(depth=depth, width=width), numbers), size)
        for depth, width in shapes
    ]
    turns.block("Growth with depth and width, uniform numbers", rows)
    rows = []
    for bits in (16, 24, 32, 48, 64):
        domain = IntegerDomain(0, (1 << bits) - 1)
        values = np.random.default_rng(SEED).integers(0, (1 << bits) - 1, size[1], dtype=np.uint64)
        rows.append(Row(f"quantile tree, U = 2^{bits}", tree(values, TreeSpec.for_memory(domain)), size))
    turns.block("Growth with the universe, 490,000 bytes, uniform numbers", rows)


def _shaped(spec: SketchSpec, items: np.ndarray) -> Callable[[int], object]:
    return lambda size: CountSketch(spec).accumulate(items[:size])


def _faster(datasketches: Any) -> tuple[Against, ...]:
    return (Against(THEIRS, 1, faster=True),) if datasketches else ()


def _bincount(numbers: np.ndarray) -> Callable[[int], object]:
    small = (numbers & np.uint64(0xFFFF)).astype(np.int64)
    return lambda size: np.bincount(small[:size], minlength=1 << 16)


def _count_min(datasketches: Any, items: list[Any]) -> Callable[[int], None]:
    def run(size: int) -> None:
        update = datasketches.count_min_sketch(5, 4096).update
        for item in items[:size]:
            update(item)

    return run


def _kll(datasketches: Any, numbers: np.ndarray) -> Callable[[int], object]:
    return lambda size: datasketches.kll_doubles_sketch(200).update(numbers[:size])
