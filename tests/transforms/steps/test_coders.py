"""What is encoded comes back, by coder and by pickle, and takes few bytes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from apache_beam import coders
from apache_beam.internal import cloudpickle_pickler

from beam_dpsketch import CountMin, CountSketch, PrivacySpec, RecordBounds, Released, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.transforms.combine_fns import PrivateSketchFn
from beam_dpsketch.transforms.outputs import ReleasedCoder
from beam_dpsketch.transforms.steps.sums import AccumulatorCoder, RawSketchFn

SPEC = SketchSpec(depth=5, width=2048)
RECIPE = SketchInput(SPEC, RecordBounds(1))


def filled(count: int) -> SketchAccumulator:
    accumulator = SketchAccumulator(RECIPE)
    for number in range(count):
        accumulator.add(number)
    return accumulator


@pytest.mark.parametrize("count", [0, 1, 5000, 30_000])
@pytest.mark.parametrize("pickler", [None, pickle, cloudpickle_pickler], ids=["coder", "pickle", "cloudpickle"])
def test_accumulators_come_back_and_go_on_accumulating(count: int, pickler: object) -> None:
    accumulator = filled(count)
    if pickler is None:
        coder = AccumulatorCoder(RECIPE)
        copied = coder.decode(coder.encode(accumulator))
    else:
        copied = pickler.loads(pickler.dumps(accumulator))
    for each in (accumulator, copied):
        each.add("more")
    expected = CountSketch(SPEC).accumulate([*range(count)]).accumulate(["more"])
    assert accumulator.to_sketch() == copied.to_sketch() == expected


def test_accumulators_are_small_at_first_and_narrow_when_dense() -> None:
    one, many = filled(1), filled(30_000)
    assert len(one.to_bytes()) < 64
    assert len(pickle.dumps(one)) < 1000
    assert len(many.to_bytes()) <= SPEC.cells + 100  # one byte a counter, where int64 takes eight


def test_decoded_counters_may_be_added_to() -> None:
    copied = AccumulatorCoder(RECIPE).decode(filled(30_000).to_bytes())
    copied.add_contributions(WeightedItems(np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.int64)))
    assert copied.to_sketch() == CountSketch(SPEC).accumulate([*range(30_000), 0])


def test_combine_fns_name_their_coder() -> None:
    for fn in (RawSketchFn(RECIPE, Selectors()), PrivateSketchFn(SPEC, PrivacySpec(rho=0.1))):
        assert isinstance(fn.get_accumulator_coder(), AccumulatorCoder)
        assert not fn.get_accumulator_coder().is_deterministic()


@pytest.mark.parametrize(
    "raw", [CountSketch(SPEC), CountMin(SketchSpec(kind="count_min", width=64))], ids=["count_sketch", "count_min"]
)
def test_releases_travel_in_their_published_form(raw: CountMin | CountSketch) -> None:
    released = release(raw.accumulate(["a"]), ReleaseTerms(PrivacySpec(rho=0.1)))
    coder = coders.registry.get_coder(ReleasedSketch)
    assert isinstance(coder, ReleasedCoder)
    assert coder.is_deterministic()
    assert coder.to_type_hint() is Released
    assert coder.encode(released) == released.to_bytes()
    assert coder.decode(coder.encode(released)) == released
    assert pickle.loads(pickle.dumps(released)) == released
