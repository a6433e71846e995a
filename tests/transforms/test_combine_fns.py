"""The CombineFns for direct use: exact underneath, released at the end, one raw sketch a level."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    CountMin,
    CountSketch,
    DyadicCountSketch,
    IntegerDomain,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.transforms import PrivateSketchFn
from tests.helpers.pipelines import run

FLAT = SketchSpec(depth=3, width=64)
TREE = TreeSpec.for_memory(IntegerDomain(0, 999), 3_000)
VALUES = [value * value % 1000 for value in range(3000)]
CASES = [
    (PrivateSketchFn, CountMin, FLAT),
    (PrivateSketchFn, CountSketch, FLAT),
    (PrivateSketchFn, DyadicCountSketch, TREE),
]


def sketched(combine_fn: beam.CombineFn, parts: list[list[int]]) -> beam.CombineFn:
    accumulators = [combine_fn.add_inputs(combine_fn.create_accumulator(), part) for part in parts]
    return combine_fn.merge_accumulators(accumulators)


@pytest.mark.parametrize(("fn", "raw", "spec"), CASES)
def test_accumulators_hold_the_exact_sketch_however_the_input_is_split(fn, raw, spec) -> None:
    combine_fn = fn(spec, PrivacySpec(0.5))
    direct = raw(spec).accumulate(VALUES)
    assert sketched(combine_fn, [VALUES]).to_sketch() == direct
    assert sketched(combine_fn, [VALUES[:7], [], VALUES[7:2000], VALUES[2000:]]).to_sketch() == direct


@pytest.mark.parametrize(("fn", "raw", "spec"), CASES)
def test_each_output_is_one_release_of_a_record_in_it(fn, raw, spec) -> None:
    del raw
    combine_fn = fn(spec, PrivacySpec(0.5), bounds=RecordBounds(1, max_weight=3))
    accumulator = sketched(combine_fn, [VALUES])
    first, second = combine_fn.extract_output(accumulator), combine_fn.extract_output(accumulator)
    assert first.privacy.unit is PrivacyUnit.RECORD_IN_THIS_RELEASE
    assert first.privacy.release_ids != second.privacy.release_ids
    assert not np.array_equal(first.counters, second.counters)


@pytest.mark.parametrize(("fn", "raw", "spec"), CASES)
def test_in_a_pipeline_with_fanout(fn, raw, spec) -> None:
    (output,) = run(VALUES, beam.CombineGlobally(fn(spec, PrivacySpec(0.9))).with_fanout(3))
    exact = raw(spec).accumulate(VALUES).to_vector()
    assert 0 < np.abs(output.counters.ravel() - exact).mean() < 30


@pytest.mark.parametrize(("fn", "raw", "spec"), CASES)
def test_a_spec_of_another_sketch_is_refused(fn, raw, spec) -> None:
    del raw
    other = TREE if spec is FLAT else FLAT
    with pytest.raises(TypeError, match="spec must be a"):
        fn(other, PrivacySpec(0.5))


def test_every_level_of_a_tree_is_the_sketch_of_the_ancestors() -> None:
    tree = sketched(PrivateSketchFn(TREE, PrivacySpec(0.5)), [VALUES]).to_sketch()
    assert {type(level).__name__ for level in tree.levels} == {"ExactHistogram", "CountSketch"}
    for number, level in enumerate(tree.levels):
        ancestors = np.array(VALUES, dtype=np.uint64) >> np.uint64(TREE.shift(number))
        alone = type(level)(TREE.level_spec(number)).accumulate_keys(ancestors, None)
        assert np.array_equal(level.counters, alone.counters)
