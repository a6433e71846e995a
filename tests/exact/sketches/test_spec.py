"""Specs: validated once, compared whole, and accurate as promised."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch import CountMin, CountSketch, SketchSpec
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.sketches.spec import MAX_CELLS, half_or_more
from tests.helpers.raw import raw_of

FALSE_ALARM = 1e-9
_SEEDS = 4000


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"depth": 0}, ValueError, "depth must be between 1 and 64, got 0"),
        ({"depth": 65}, ValueError, "depth must be between 1 and 64"),
        ({"depth": 2.0}, TypeError, "depth must be a whole number, got float"),
        ({"depth": True}, TypeError, "depth must be a whole number, got bool"),
        ({"width": 0}, ValueError, "width must be between 1"),
        ({"width": (1 << 26) + 1}, ValueError, "width must be between 1"),
        ({"width": "8"}, TypeError, "width must be a whole number, got str"),
        ({"depth": 5, "width": 1 << 26}, ValueError, f"depth \\* width must be at most {MAX_CELLS}"),
        ({"seed": -1}, ValueError, "seed must be between 0"),
        ({"seed": 1 << 64}, ValueError, "seed must be between 0"),
        ({"item_hash": "md5"}, ValueError, "item_hash must be one of 'murmur3', 'blake2b', got 'md5'"),
        ({"item_key": bytes(16)}, ValueError, 'item_key must be 0 bytes with the item_hash "murmur3"'),
        ({"item_hash": "blake2b"}, ValueError, 'item_key must be 16 bytes with the item_hash "blake2b"'),
        ({"item_hash": "blake2b", "item_key": "k" * 16}, ValueError, "item_key must be 16 bytes"),
        ({"kind": "bloom"}, ValueError, "kind must be one of"),
        ({"hash_version": 2}, ValueError, "hash_version must be one of 1, got 2"),
    ],
)
def test_a_spec_that_cannot_work_is_refused_by_name(arguments, error, message):
    with pytest.raises(error, match=message):
        SketchSpec(**{"depth": 3, "width": 8, **arguments})


def test_numpy_integers_become_python_integers():
    spec = SketchSpec(depth=np.int8(100 - 64), width=np.uint16(500), seed=np.uint64((1 << 64) - 1))
    assert [type(value) for value in (spec.depth, spec.width, spec.seed, spec.cells)] == [int] * 4
    assert spec == SketchSpec(depth=36, width=500, seed=(1 << 64) - 1)
    assert raw_of(CountMin, spec).accumulate(["a"]).counters.sum() == 36


def test_a_spec_is_frozen_and_hashable_and_its_repr_hides_the_key():
    spec = SketchSpec(depth=3, width=8, item_hash="blake2b", item_key=b"sixteen byte key")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.depth = 4
    assert len({spec, dataclasses.replace(spec)}) == 1
    assert "sixteen" not in repr(spec)


@pytest.mark.parametrize("name", ["relative_error", "failure_probability"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, math.inf])
@pytest.mark.parametrize("make", [SketchSpec.for_accuracy, SketchSpec.paper_dimensions])
def test_accuracies_outside_the_unit_interval_are_refused(name, value, make):
    with pytest.raises(ValueError, match=f"{name} must be greater than 0 and less than 1"):
        make(**{"relative_error": 0.1, "failure_probability": 0.1, name: value})


@pytest.mark.parametrize("relative_error", [0.3, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("failure_probability", [0.5, 0.1, 0.05, 0.01, 1e-4])
def test_count_sketch_width_is_the_least_that_its_rule_allows(relative_error, failure_probability):
    spec = SketchSpec.for_accuracy(relative_error=relative_error, failure_probability=failure_probability)

    def fails(width):
        row = stats.binom(spec.depth, min(1.0, 1 / (2 * relative_error * width)))
        return 2 * row.sf((spec.depth + 1) // 2 - 1)

    assert spec.depth % 2 == 1
    assert spec.depth - math.log(2 / failure_probability) < 2
    assert fails(spec.width) <= failure_probability / 2 * (1 + 1e-9)
    assert fails(spec.width - 1) > failure_probability / 2


def test_published_dimensions():
    accuracy = {"relative_error": 0.01, "failure_probability": 0.01}
    count_min = SketchSpec.for_accuracy(**accuracy, kind="count_min")
    assert (count_min.depth, count_min.width) == (6, math.ceil(math.e / 0.01))
    assert SketchSpec.for_accuracy(**accuracy).width == 512
    assert SketchSpec.paper_dimensions(**accuracy).width == 100
    with pytest.raises(ValueError, match="kind must be one of"):
        SketchSpec.for_accuracy(**accuracy, kind="bloom")


def _error(sketch, item, truth):
    """|estimate - truth| of the sketch's own estimator, without noise."""
    spec, rows = sketch.spec, []
    for row in range(spec.depth):
        columns, signs = cells.columns_and_signs(
            np.array([item], dtype=np.uint64), seed=spec.seed, row=row, width=spec.width
        )
        sign = int(signs[0]) if sketch.has_signs else 1
        rows.append(sign * int(sketch.counters[row, columns[0]]))
    return abs((np.median(rows) if sketch.has_signs else min(rows)) - truth)


def _equal_items(relative_error):
    """The worst case: any one collision costs more than relative_error * N."""
    return np.ones(round(1 / relative_error) - 1, dtype=np.int64)


def _two_levels(relative_error):
    """Half as many items, twice over the threshold, and a light queried one."""
    return np.array([1] + [50] * (round(1 / relative_error) // 2))


def _one_heavy(relative_error):
    del relative_error
    return np.array([1, 1000] + [3] * 20)


def _failures(kind, spec, relative_error, weights):
    """In how many of the seeds the estimate of the first item is off by more than relative_error * N."""
    items, allowed = np.arange(len(weights)), relative_error * int(weights.sum())
    failures = 0
    for seed in range(_SEEDS):
        sketch = raw_of(kind, dataclasses.replace(spec, seed=seed)).accumulate(items, weights)
        failures += _error(sketch, 0, weights[0]) > allowed
    return failures


def _accepts(failures, failure_probability):
    """One-sided exact binomial test of `failure rate <= failure_probability / 2`; false alarm at most 1e-9."""
    return stats.binomtest(int(failures), _SEEDS, failure_probability / 2, "greater").pvalue >= FALSE_ALARM


@pytest.mark.one_fast_case
@pytest.mark.parametrize("kind", [CountMin, CountSketch])
@pytest.mark.parametrize("failure_probability", [0.1, pytest.param(0.02, marks=pytest.mark.slow)])
@pytest.mark.parametrize("weights_of", [_equal_items, _two_levels, _one_heavy])
def test_for_accuracy_keeps_its_promise_on_worst_inputs(kind, failure_probability, weights_of):
    """False alarm at most 1e-9 for each case (exact binomial); the seeds are fixed."""
    accuracy = {"relative_error": 0.05, "failure_probability": failure_probability}
    spec = SketchSpec.for_accuracy(**accuracy, kind=kind.name)
    failures = _failures(kind, spec, 0.05, weights_of(0.05))
    assert _accepts(failures, failure_probability)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("kind", [CountMin, CountSketch])
@pytest.mark.parametrize("failure_probability", [0.1, pytest.param(0.02, marks=pytest.mark.slow)])
def test_the_dimensions_of_the_paper_do_not_keep_it(kind, failure_probability):
    """The same check has the power to refuse the width 1 / relative_error."""
    spec = SketchSpec.paper_dimensions(relative_error=0.05, failure_probability=failure_probability)
    failures = _failures(kind, spec, 0.05, _equal_items(0.05))
    assert not _accepts(failures, failure_probability)


@pytest.mark.parametrize("trials", [1, 2, 3, 4, 5, 8, 9, 64])
def test_half_or_more_is_the_upper_tail_for_one_probability_or_many(trials: int) -> None:
    probabilities = np.linspace(0, 1, 21)
    expected = stats.binom(trials, probabilities).sf((trials - 1) // 2)
    np.testing.assert_allclose(half_or_more(trials, probabilities), expected, rtol=1e-9, atol=1e-15)
    for probability, tail in zip(probabilities.tolist(), expected.tolist(), strict=True):
        assert half_or_more(trials, probability) == pytest.approx(tail, rel=1e-9, abs=1e-15)
