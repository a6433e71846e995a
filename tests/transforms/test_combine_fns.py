"""`PrivateSketchFn`: exact underneath, released at the end, one raw sketch a level."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    IntegerDomain,
    ListedItems,
    PrivacySpec,
    Record,
    RecordBounds,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.transforms import PrivateSketchFn
from tests.helpers.pipelines import run

FLAT = SketchSpec(depth=3, width=64)
TREE = TreeSpec.for_memory(IntegerDomain(0, 999), 3_000)
VALUES = [value * value % 1000 for value in range(3000)]
HALF = PrivacySpec(rho=0.5, relation=REPLACE_ONE)
SPECS = {
    CountMin: SketchSpec(kind="count_min", depth=3, width=64),
    CountSketch: FLAT,
    DyadicCountSketch: TREE,
    ListedHistogram: ListedItems(range(0, 1000, 3)),
}


def sketched(combine_fn: beam.CombineFn, parts: list[list[int]]) -> beam.CombineFn:
    accumulators = [combine_fn.add_inputs(combine_fn.create_accumulator(), part) for part in parts]
    return combine_fn.merge_accumulators(accumulators)


@pytest.mark.parametrize("raw", SPECS)
def test_accumulators_hold_the_exact_sketch_in_any_parts(raw: Any) -> None:
    combine_fn = PrivateSketchFn(SPECS[raw], HALF)
    direct = raw(SPECS[raw]).accumulate(VALUES)
    assert sketched(combine_fn, [VALUES]).to_sketch() == direct
    assert sketched(combine_fn, [VALUES[:7], [], VALUES[7:2000], VALUES[2000:]]).to_sketch() == direct


@pytest.mark.parametrize("raw", SPECS)
def test_each_output_is_one_release_of_a_record_in_it(raw: Any) -> None:
    combine_fn = PrivateSketchFn(SPECS[raw], HALF, privacy_unit=Record(max_weight=3))
    accumulator = sketched(combine_fn, [VALUES])
    first, second = combine_fn.extract_output(accumulator), combine_fn.extract_output(accumulator)
    assert first.privacy.privacy_unit is PrivacyUnit.RECORD_IN_THIS_RELEASE
    assert first.privacy.bounds == RecordBounds(1, max_weight=3)
    assert first.privacy.release_ids != second.privacy.release_ids
    assert not np.array_equal(first.counters, second.counters)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("raw", SPECS)
def test_in_a_pipeline_with_fanout(raw: Any) -> None:
    combine_fn = PrivateSketchFn(SPECS[raw], PrivacySpec(rho=0.9, relation=REPLACE_ONE))
    (output,) = run(VALUES, beam.CombineGlobally(combine_fn).with_fanout(3))
    exact = raw(SPECS[raw]).accumulate(VALUES).to_vector()
    assert 0 < np.abs(output.counters.ravel() - exact).mean() < 30


def test_weights_are_clamped_to_those_of_the_unit() -> None:
    combine_fn = PrivateSketchFn(FLAT, HALF, privacy_unit=Record(max_weight=3), item=first, weight=second)
    summed = sketched(combine_fn, [[("a", 5), ("b", 2), ("a", -4)]]).to_sketch()
    assert summed == CountSketch(FLAT).accumulate(["a", "b"], [3, 2])


def first(pair: tuple[str, int]) -> str:
    return pair[0]


def second(pair: tuple[str, int]) -> int:
    return pair[1]


def test_every_level_of_a_tree_is_the_sketch_of_the_ancestors() -> None:
    tree = sketched(PrivateSketchFn(TREE, HALF), [VALUES]).to_sketch()
    assert {type(level).__name__ for level in tree.levels} == {"ExactHistogram", "CountSketch"}
    for number, level in enumerate(tree.levels):
        ancestors = np.array(VALUES, dtype=np.uint64) >> np.uint64(TREE.shift(number))
        alone = type(level)(TREE.level_spec(number)).accumulate_keys(ancestors, None)
        assert np.array_equal(level.counters, alone.counters)
