"""Noise is drawn once for each key, whatever is retried, fanned out, pickled or asked again."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections import defaultdict
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.internal import cloudpickle_pickler

from beam_dpsketch import (
    AssumePublicKeys,
    CountSketch,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.bounding.bounded import MergeTables
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies, PrivateSketchFn
from beam_dpsketch.transforms.outputs import each_release
from beam_dpsketch.transforms.steps.bounding import BoundShard, ShardRecords, ShardWindowedRecords
from beam_dpsketch.transforms.steps.exact_sums import KeyRecords
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from beam_dpsketch.transforms.steps.stream_state import MergeInState
from beam_dpsketch.transforms.steps.sums import MergeSums, RawSketchFn, SumBundle
from tests.helpers import noise
from tests.helpers.one_bundle import released_by
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, run, seen_by_sink, summed

# Two releases agree by chance with probability < 1e-40: 600 counters, none of whose noises has p > 1/20.
WIDE = SketchSpec(depth=3, width=200)
PRIVACY = PrivacySpec(rho=0.01)
REPLAYED = "--direct_runner_bundle_repeat=3"


class WithoutReshuffle(beam.PTransform):
    """The steps of a private transform without the last one."""

    def __init__(self, private: Any, *, keyed: bool) -> None:
        super().__init__()
        self._private, self._keyed = private, keyed

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        once = beam.ParDo(ReleaseOnce(Calibration.of(SPEC, ReleaseTerms(PRIVACY))))
        return summed(pcoll, self._private) | once | "Each" >> beam.FlatMap(each_release)


def released_ids(outputs: list[Any]) -> dict[Any, set[bytes]]:
    """The releases of each key that the sink saw."""
    seen: dict[Any, set[bytes]] = defaultdict(set)
    for output in outputs:
        key, released = output if isinstance(output, tuple) else (None, output)
        seen[key].add(released.to_bytes())
    return seen


def per_key() -> beam.PTransform:
    return PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record(), keys=PublicKeys(["a", "b", "c"]))


def test_a_sink_sees_one_release_per_key_of_replayed_bundles() -> None:
    pairs = [("a", "x"), ("b", "x"), ("a", "y")]
    seen = released_ids(run(pairs, per_key(), REPLAYED))
    assert {key: len(releases) for key, releases in seen.items()} == {"a": 1, "b": 1, "c": 1}
    globally = PrivateFrequencies(WIDE, PRIVACY, privacy_unit=PrivacyId(lambda word: word, RecordBounds(1)))
    assert len(released_ids(run(["x", "y"], globally, REPLAYED))[None]) == 1


def test_without_the_reshuffle_a_sink_sees_several_releases() -> None:
    seen = released_ids(run([("a", "x")], WithoutReshuffle(per_key(), keyed=True), REPLAYED))
    assert {len(releases) for releases in seen.values()} == {4}


def test_empty_input_and_every_public_key_give_one_release() -> None:
    for transform in (
        PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record()),
        PrivateFrequencies(WIDE, PRIVACY, privacy_unit=PrivacyId("user", RecordBounds(1))),
    ):
        (released,) = run([], transform)
        assert isinstance(released, ReleasedSketch)
        assert released.counters.any()
    outputs = run([], per_key(), runner=BUNDLE_BASED)
    assert sorted(key for key, _ in outputs) == ["a", "b", "c"]
    assert all(released.counters.any() for _, released in outputs)


@pytest.mark.slow
def test_forty_keys_on_two_processes_have_noise_of_their_own(importable_in_workers: None) -> None:
    keys = [f"key {i}" for i in range(40)]
    outputs = run(
        [(key, "x") for key in keys],
        PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record(), keys=AssumePublicKeys()),
        "--direct_running_mode=multi_processing",
        "--direct_num_workers=2",
    )
    assert len(outputs) == 40
    assert len({released.counters.tobytes() for _, released in outputs}) == 40


def test_fan_out_gives_one_release_of_the_same_exact_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise of zero planted, counters of all paths are the exact ones; each draws noise once."""
    draws: list[int] = []

    def no_noise(*given: Any, **source: Any) -> np.ndarray:
        draws.append(1)
        return noise.exact(*given, **source)

    monkeypatch.setattr(tables, "add_noise", no_noise)
    words = [f"word {i % 13}" for i in range(500)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(words)
        pairs = elements | beam.WithKeys(lambda word: "all")
        return (
            elements | "Plain" >> beam.CombineGlobally(PrivateSketchFn(SPEC, PRIVACY)),
            elements | "FanOut" >> beam.CombineGlobally(PrivateSketchFn(SPEC, PRIVACY)).with_fanout(3),
            pairs
            | "Hot" >> beam.CombinePerKey(PrivateSketchFn(SPEC, PRIVACY)).with_hot_key_fanout(3)
            | "HotValues" >> beam.Values(),
            pairs | "Keys" >> beam.CombinePerKey(PrivateSketchFn(SPEC, PRIVACY)) | "Values" >> beam.Values(),
        ) | beam.Flatten()

    outputs = seen_by_sink(build, runner=FN_API)
    assert len(outputs) == 4
    assert len(draws) == 2 * 4  # the sketch and its count of records
    for released in outputs:
        np.testing.assert_array_equal(released.counters, CountSketch(SPEC).accumulate(words).counters)


def test_fan_out_and_plain_combining_draw_noise_of_their_own() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(["x"] * 9)
        fn = PrivateSketchFn(WIDE, PRIVACY)
        return (
            elements | "Plain" >> beam.CombineGlobally(fn),
            elements | "FanOut" >> beam.CombineGlobally(fn).with_fanout(3),
        ) | beam.Flatten()

    first, second = seen_by_sink(build)
    assert not np.array_equal(first.counters, second.counters)
    assert first.privacy.release_ids != second.privacy.release_ids
    assert first.privacy.privacy_unit is PrivacyUnit.RECORD_IN_THIS_RELEASE


@pytest.mark.parametrize("kind", FLAT_KINDS)
def test_extract_output_draws_anew_and_keeps_the_accumulator(kind: str) -> None:
    fn = PrivateSketchFn(dataclasses.replace(WIDE, kind=kind), PRIVACY)
    accumulator = fn.add_inputs(fn.create_accumulator(), ["a"] * 900)
    before = accumulator.to_bytes()
    first, second = fn.extract_output(accumulator), fn.extract_output(accumulator)
    assert accumulator.to_bytes() == before
    assert not np.array_equal(first.counters, second.counters)
    fn.add_input(accumulator, "a")
    assert abs(accumulator.to_sketch().counters).max() == 901


INPUT = SketchInput(WIDE, RecordBounds(1))
RECORDS = RecordReader(Selectors(privacy_id="user"), per_key=False)
BOUND = RecordRule(RecordBounds(1), RandomPriorities(1))
SHIPPED = [
    PrivateSketchFn(WIDE, PRIVACY),
    PrivateSketchFn(dataclasses.replace(WIDE, kind="count_min"), PRIVACY, item="word"),
    RawSketchFn(INPUT, Selectors()),
    ReleaseOnce(Calibration.of(SPEC, ReleaseTerms(PRIVACY))),
    KeyRecords(RECORDS, INPUT),
    ShardRecords(RECORDS, BOUND, INPUT),
    ShardWindowedRecords(RECORDS, BOUND, INPUT),
    BoundShard(BOUND),
    SumBundle(RawSketchFn(INPUT, Selectors()), per_key=True),
    MergeInState(MergeSums(INPUT)),
    MergeInState(MergeTables(BOUND)),
    PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record()),
    PrivateFrequencies(WIDE, PRIVACY, privacy_unit=Record(), keys=PublicKeys([1])),
    BoundContributions(PrivacyId("user", RecordBounds(1))),
]
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence)


def reachable(value: Any, depth: int = 6) -> list[Any]:
    """A value and what its attributes and items hold."""
    held = [value]
    if depth and not isinstance(value, (str, bytes, int, type)):
        inner = list(getattr(value, "__dict__", {}).values())
        inner += [value.func, value.args, value.keywords] if hasattr(value, "keywords") else []
        inner += list(value.values()) if isinstance(value, dict) else []
        inner += list(value) if isinstance(value, (list, tuple, set)) else []
        held += [each for one in inner for each in reachable(one, depth - 1)]
    return held


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: type(shipped).__qualname__)
def test_nothing_shipped_to_workers_holds_a_random_generator(shipped: Any) -> None:
    for original in (shipped, pickle.loads(pickle.dumps(shipped))):
        held = reachable(original)
        assert len(held) > 1
        assert not [each for each in held if isinstance(each, GENERATORS)]
    assert cloudpickle_pickler.loads(cloudpickle_pickler.dumps(shipped)) is not None


def test_the_search_for_generators_would_find_one() -> None:
    planted = ReleaseOnce(Calibration.of(SPEC, ReleaseTerms(PRIVACY)))
    planted._planted = {"rng": [np.random.default_rng(1)]}
    assert [each for each in reachable(planted) if isinstance(each, GENERATORS)]


@pytest.mark.parametrize("pickler", [pickle, cloudpickle_pickler], ids=["pickle", "cloudpickle"])
def test_copies_made_by_pickling_do_not_repeat_noise(pickler: Any) -> None:
    fn, once = PrivateSketchFn(WIDE, PRIVACY), ReleaseOnce(Calibration.of(SPEC, ReleaseTerms(PRIVACY)))
    counters = []
    for shipped in [pickler.dumps((fn, once))] * 2:
        copied_fn, copied_once = pickler.loads(shipped)
        accumulator = copied_fn.create_accumulator()
        counters.append(copied_fn.extract_output(accumulator).counters.tobytes())
        counters += [released.counters.tobytes() for released in released_by(copied_once, accumulator.to_sums())]
    assert len(set(counters)) == len(counters) == 4
