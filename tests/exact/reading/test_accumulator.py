"""Accumulators are exact in every state: waiting, hashed, dense; merged in any grouping; and small."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import CountSketch, FactorizationSpec, IntegerDomain, NormBound, RecordBounds, SketchSpec
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.transforms.steps.sums import RawSketchFn
from tests.helpers.pipelines import REPOSITORY

SMALL, LARGE = SketchSpec(depth=3, width=8), SketchSpec(depth=3, width=4096)
BOUNDS = RecordBounds(1, max_weight=1000, signed=True)
RECIPES = [
    SketchInput(FactorizationSpec(IntegerDomain(-5, 5)), BOUNDS),
    *(
        SketchInput(dataclasses.replace(spec, kind=kind), BOUNDS)
        for kind in ("count_min", "count_sketch")
        for spec in (SMALL, LARGE)
    ),
]
ITEMS = st.one_of(st.integers(-5, 5), st.text(max_size=2), st.binary(max_size=2), st.tuples(st.integers(0, 2)))
RECORDS = st.lists(st.tuples(ITEMS, st.integers(-9, 9)), max_size=40)
# How a part of the data gets in: one by one, with weights, hashed already; and what happens to it afterwards.
PARTS = st.lists(
    st.tuples(
        RECORDS, st.sampled_from(["plain", "weighted", "hashed"]), st.sampled_from(["", "flush", "bytes", "pickle"])
    ),
    max_size=6,
)


def add(accumulator: SketchAccumulator, recipe: SketchInput, records: list[Any], how: str) -> None:
    items, weights = [item for item, _ in records], [weight for _, weight in records]
    if how == "hashed":
        contributions = recipe.contributions(items, weights)
        for values in contributions[:2]:
            values.flags.writeable = False
        accumulator.add_contributions(contributions)
    for item, weight in records if how != "hashed" else ():
        if how == "plain":
            accumulator.add(item)
        else:
            accumulator.add_weighted(item, weight)


def after(accumulator: SketchAccumulator, recipe: SketchInput, what: str) -> SketchAccumulator:
    if what == "flush":
        accumulator.flush()
    if what == "bytes":
        return SketchAccumulator.from_bytes(recipe, accumulator.to_bytes())
    return pickle.loads(pickle.dumps(accumulator)) if what == "pickle" else accumulator


def direct(recipe: SketchInput, parts: list[Any]) -> np.ndarray:
    sketch = recipe.kind(recipe.spec)
    for records, how, _ in parts:
        items, weights = [item for item, _ in records], [weight for _, weight in records]
        sketch.accumulate(items, None if how == "plain" else weights)
    return sketch.counters


def accumulators(recipe: SketchInput, parts: list[Any]) -> list[SketchAccumulator]:
    made = []
    for records, how, what in parts:
        accumulator = SketchAccumulator(recipe)
        add(accumulator, recipe, records, how)
        made.append(after(accumulator, recipe, what))
    return made


@given(st.sampled_from(RECIPES), PARTS)
def test_an_accumulator_in_any_state_holds_the_sketch(recipe: SketchInput, parts: list[Any]) -> None:
    if len({how for _, how, _ in parts} & {"plain", "weighted"}) > 1:
        parts = [(records, "hashed" if how == "plain" else how, what) for records, how, what in parts]
    accumulator = SketchAccumulator(recipe)
    for records, how, what in parts:
        add(accumulator, recipe, records, how)
        accumulator = after(accumulator, recipe, what)
    np.testing.assert_array_equal(accumulator.to_sketch().counters, direct(recipe, parts))
    np.testing.assert_array_equal(accumulator.to_sketch().counters, direct(recipe, parts))


@given(st.sampled_from(RECIPES), PARTS, st.randoms(use_true_random=False))
def test_merging_in_any_grouping_gives_identical_counters(recipe: SketchInput, parts: list[Any], random: Any) -> None:
    fn = RawSketchFn(recipe, Selectors())
    waiting = accumulators(recipe, parts)
    while len(waiting) > 1:
        random.shuffle(waiting)
        size = random.randint(1, len(waiting))
        waiting = [*waiting[size:], fn.merge_accumulators(iter(waiting[:size]))]
        if random.random() < 0.3:
            waiting[-1] = fn.compact(waiting[-1])
    merged = fn.merge_accumulators(waiting)
    np.testing.assert_array_equal(merged.to_sketch().counters, direct(recipe, parts))


@given(st.sampled_from(RECIPES), PARTS)
def test_merging_leaves_the_merged_ones_as_they_are(recipe: SketchInput, parts: list[Any]) -> None:
    fn = RawSketchFn(recipe, Selectors())
    made = accumulators(recipe, parts)
    before = [accumulator.to_bytes() for accumulator in made]
    merged = fn.merge_accumulators(made)
    add(merged, recipe, [("more", 1)], "weighted" if merged.weights is not None else "hashed")
    assert [accumulator.to_bytes() for accumulator in made] == before


@pytest.mark.parametrize("recipe", RECIPES)
def test_merging_nothing_and_empty_accumulators_gives_zeros(recipe: SketchInput) -> None:
    fn = RawSketchFn(recipe, Selectors())
    for merged in (
        fn.merge_accumulators([]),
        fn.merge_accumulators(iter([fn.create_accumulator()] * 3)),
        SketchAccumulator.from_bytes(recipe, fn.create_accumulator().to_bytes()),
    ):
        assert not merged.to_sketch().counters.any()


@pytest.mark.parametrize("spec", [SMALL, LARGE])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
def test_the_steps_from_waiting_to_dense_lose_nothing(spec: SketchSpec, count: int) -> None:
    recipe = SketchInput(spec, BOUNDS)
    fn = RawSketchFn(recipe, Selectors())
    items = [f"item {i % 77}" for i in range(count)]
    one_by_one = functools.reduce(fn.add_input, items, fn.create_accumulator())
    at_once = fn.add_inputs(fn.create_accumulator(), items)
    expected = CountSketch(spec).accumulate(items).counters
    np.testing.assert_array_equal(one_by_one.to_sketch().counters, expected)
    np.testing.assert_array_equal(at_once.to_sketch().counters, expected)


@pytest.mark.parametrize("distinct", [5000, 50_000])
def test_repeated_keys_count_once_and_others_do_not_pile_up(distinct: int) -> None:
    recipe, accumulator = RECIPES[-1], SketchAccumulator(RECIPES[-1])
    expected = CountSketch(LARGE)
    for batch in range(20):
        keys = np.arange(5000 * batch, 5000 * (batch + 1), dtype=np.uint64) % np.uint64(distinct)
        accumulator.add_contributions(WeightedItems(keys, np.full(5000, 1 << 60)))
        expected.accumulate_keys(keys, np.full(5000, 1 << 60))
        sums = accumulator.to_sums()
        assert len(sums.items) <= recipe.spec.cells
        assert len(sums.dense) == (distinct > 5000 and 5000 * (batch + 1) > recipe.spec.cells)
    np.testing.assert_array_equal(accumulator.to_sketch().counters, expected.counters)


@pytest.mark.parametrize(
    "weights", [[1] * 40, [1] * 39 + [3], [-1] * 40, [2] * 40, [9] * 40, [1, -1] * 20, [-9, 9] * 20]
)
@pytest.mark.parametrize("copies", [None, [1] * 40, [1, 2] * 20])
def test_bounded_records_count_clamped_weights_and_repeats(weights: list[int], copies: list[int] | None) -> None:
    spec = dataclasses.replace(SMALL, kind="count_min")
    recipe = SketchInput(spec, RecordBounds(1, max_weight=4, signed=True))
    for items in (list(range(40)), [item % 3 for item in range(40)]):
        kept = pa.table({"item": pa.array(items, pa.uint64()), "weight": weights})
        kept = kept if copies is None else kept.append_column("copies", pa.array(copies))
        found = Bounded(kept).to_items(recipe)
        clamped = np.clip(weights, recipe.bounds.min_weight, recipe.bounds.max_weight)
        expected = np.zeros(40, dtype=np.int64)
        np.add.at(expected, items, clamped * np.array(copies or 1))
        counted = np.zeros(40, dtype=np.int64)
        np.add.at(counted, found.keys.astype(int), found.weights)
        assert counted.tolist() == expected.tolist()
        are_equal = len(set((clamped * np.array(copies or 1)).tolist())) == 1
        assert len(found.keys) == (3 if are_equal and items[3] == 0 else 40)


def test_counters_of_any_size_survive_the_bytes() -> None:
    for weight in (1, 127, 128, 1 << 15, (1 << 31) - 1, 1 << 31, 1 << 40, -(1 << 63)):
        for spec in (SMALL, LARGE):
            recipe = SketchInput(dataclasses.replace(spec, kind="count_min"), BOUNDS)
            accumulator = SketchAccumulator(recipe)
            keys = np.arange(20, dtype=np.uint64)
            accumulator.add_contributions(WeightedItems(keys, np.full(20, weight, dtype=np.int64)))
            copied = SketchAccumulator.from_bytes(recipe, accumulator.to_bytes())
            np.testing.assert_array_equal(copied.to_sketch().counters, accumulator.to_sketch().counters)


ITEMS_OF_A_NORM = WeightedItems(np.arange(3, dtype=np.uint64), np.ones(3, dtype=np.int64))
OTHER_NORM = ITEMS_OF_A_NORM._replace(max_norm=Fraction(86_753, 16))


def norm_added(accumulator: SketchAccumulator, recipe: SketchInput) -> None:
    accumulator.add_contributions(OTHER_NORM)


def norm_absorbed(accumulator: SketchAccumulator, recipe: SketchInput) -> None:
    other = SketchAccumulator(recipe)
    norm_added(other, recipe)
    accumulator.absorb(other.to_sums())


def norm_merged_from_bytes(accumulator: SketchAccumulator, recipe: SketchInput) -> None:
    other = SketchAccumulator(recipe)
    other.add_contributions(recipe.empty()._replace(max_norm=OTHER_NORM.max_norm))
    RawSketchFn(recipe, Selectors()).merge_accumulators(
        SketchAccumulator.from_bytes(recipe, each.to_bytes()) for each in (accumulator, other)
    )


@pytest.mark.parametrize("merge", [norm_added, norm_absorbed, norm_merged_from_bytes])
def test_a_second_norm_is_refused_and_not_said(merge: Any) -> None:
    recipe = SketchInput(SMALL, NormBound(1))
    accumulator = SketchAccumulator(recipe)
    accumulator.add_contributions(ITEMS_OF_A_NORM)
    accumulator.add_contributions(ITEMS_OF_A_NORM._replace(max_norm=Fraction(97, 16)))
    accumulator.absorb(SketchAccumulator(recipe).to_sums())
    with pytest.raises(RuntimeError, match="The norm was chosen twice") as raised:
        merge(accumulator, recipe)
    assert not any(character.isdigit() for character in str(raised.value))
    assert accumulator.max_norm == Fraction(97, 16)


def test_what_cannot_be_counted_contributes_nothing() -> None:
    recipe = SketchInput(SMALL, BOUNDS)
    accumulator = SketchAccumulator(recipe)
    bad = [None, 1.5, True, [], {}, object(), 1 << 64, -(1 << 63) - 1, ("a", None), (1, (2.0,)), np.float64(1)]
    for item in [*bad, "good", np.int64(3), *bad]:
        accumulator.add(item)
    expected = CountSketch(SMALL).accumulate(["good", 3]).counters
    np.testing.assert_array_equal(accumulator.to_sketch().counters, expected)


def test_the_text_form_shows_no_data() -> None:
    accumulator = SketchAccumulator(SketchInput(SMALL, BOUNDS))
    accumulator.add("planted secret")
    assert "secret" not in repr(accumulator) + str(accumulator)


MEASURE = """
import resource, sys
import apache_beam as beam
from beam_dpsketch import RecordBounds, SketchSpec
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.transforms.steps.sums import RawSketchFn

def run(keys):
    recipe = SketchInput(SketchSpec(depth=5, width=2048), RecordBounds(1))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        pairs = pipeline | beam.Create(range(keys), reshuffle=False) | beam.Map(lambda key: (key, "x"))
        combined = pairs | beam.CombinePerKey(RawSketchFn(recipe, Selectors()))
        combined | beam.combiners.Count.Globally() | beam.Map(lambda count: None)

peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
run(10)
before = peak()
run(10_000)
print(peak() - before)
"""


@pytest.mark.slow
def test_ten_thousand_keys_take_less_than_250_megabytes() -> None:
    """Dense counters from the start would take 10,000 * 5 * 2048 * 8 bytes = 780 megabytes."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert float(done.stdout) < 250
