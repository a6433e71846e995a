"""Streams whose sums and tables are kept in state: the same releases as of a batch, once for each key and window."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import DebugOptions, PipelineOptions

from beam_dpsketch import IntegerDomain, PrivacyId, Record, RecordBounds, TreeSpec
from beam_dpsketch.transforms import BoundContributions, PrivateQuantiles
from beam_dpsketch.transforms.steps.stream_state import keeps_state
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, ExactCounters, seen_by_sink
from tests.helpers.stream_cases import (
    BY_ID,
    CASES,
    END,
    IDS,
    IDS_ONLY,
    PORTABLE,
    PRIVACY,
    RECORDS,
    VISITS,
    Case,
    bounded,
    globally,
    live,
    of_batch,
    outputs,
    stated,
    stateful_steps,
)
from tests.helpers.streams import WithStart, in_windows, state_everywhere, stepped, unbounded
from tests.helpers.tree_pipelines import ExactVectors

AT_ONCE = ("global", "ids, signed", "keyed, declared")


def mostly_slow(cases: dict[str, Case]) -> list[Any]:
    """Their names as parameters; those that are not for the fast tests are marked."""
    return [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.slow) for name in cases]


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("name", mostly_slow(RECORDS | IDS))
def test_a_stream_gives_the_counters_of_a_batch(name: str) -> None:
    windows, make = CASES[name]
    found = outputs(live(windows), ExactCounters(make()), windows, "--streaming", runner=BUNDLE_BASED)
    assert found == of_batch(name)


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("name", mostly_slow(CASES))
def test_a_portable_runner_gives_the_counters_of_a_batch(name: str) -> None:
    windows, make = CASES[name]
    assert outputs(unbounded(VISITS), ExactCounters(make()), windows, runner=FN_API) == of_batch(name)


@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.engine
@pytest.mark.parametrize("runner", PORTABLE)
@pytest.mark.parametrize("name", CASES)
def test_other_runners_give_the_counters_of_a_batch(name: str, runner: str, importable_in_workers: None) -> None:
    windows, make = CASES[name]
    engine, options = PORTABLE[runner]
    assert outputs(unbounded(VISITS), ExactCounters(make()), windows, *options, runner=engine) == of_batch(name)


@pytest.mark.slow
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("name", ["global", "declared", "keyed", "ids"])
def test_a_stream_says_what_a_batch_says_of_its_releases(name: str) -> None:
    windows, make = CASES[name]

    streamed = outputs(live(windows), make(), windows, "--streaming", runner=BUNDLE_BASED)
    batch = outputs(bounded, make(), windows, runner=FN_API)
    assert streamed.keys() == batch.keys()
    assert stated(streamed) == stated(batch)


@pytest.mark.usefixtures(state_everywhere.__name__)
def test_quantiles_of_a_stream_are_those_of_a_batch() -> None:
    def transform() -> beam.PTransform:
        return PrivateQuantiles(
            TreeSpec.for_memory(IntegerDomain(0, 99), 1 << 12),
            PRIVACY,
            item=lambda visit: len(visit.user),
            privacy_unit=Record(),
        )

    streamed = outputs(unbounded(VISITS), ExactVectors(transform()), 60, runner=FN_API)
    assert streamed == outputs(bounded, ExactVectors(transform()), 60, runner=FN_API)


@pytest.mark.usefixtures(state_everywhere.__name__)
def test_bounds_hold_over_all_bundles_of_a_window() -> None:
    """Each id has 18 or 19 records in a window, in 7 bundles; 3 are kept."""
    bounding = BoundContributions(PrivacyId("user", RecordBounds(3)), item="user")

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        kept = pipeline | live(60) | in_windows(60) | bounding
        return kept | beam.ParDo(WithStart())

    found = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    counts: dict[Any, int] = {}
    for start, contribution in found:
        counts[start, contribution.item] = counts.get((start, contribution.item), 0) + 1
    assert set(counts.values()) == {3}
    assert len(counts) == 13 * END // 60


@pytest.mark.slow
@pytest.mark.usefixtures(state_everywhere.__name__)
def test_a_replayed_bundle_shows_one_release_of_each_window() -> None:
    for transform in (globally(privacy_unit=Record()), globally(privacy_unit=BY_ID)):
        found: dict[float, set[bytes]] = {}

        def build(pipeline: beam.Pipeline, transform: beam.PTransform = transform) -> beam.PCollection:
            return unbounded(VISITS)(pipeline) | in_windows(60) | transform | beam.ParDo(WithStart())

        for start, released in seen_by_sink(build, "--direct_runner_bundle_repeat=3", runner=FN_API):
            found.setdefault(start, set()).add(released.to_bytes())
        assert [len(values) for values in found.values()] == [1] * (END // 60)


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(state_everywhere.__name__)
@pytest.mark.parametrize("name", CASES)
def test_only_streams_are_merged_in_state(name: str) -> None:
    windows, make = CASES[name]
    pipeline = beam.Pipeline(runner=FN_API)
    _ = unbounded(VISITS)(pipeline) | in_windows(windows) | make()
    assert len(stateful_steps(pipeline)) == 1
    pipeline = beam.Pipeline(runner=FN_API)
    _ = pipeline | beam.Create([]) | in_windows(windows) | make()
    assert stateful_steps(pipeline) == []


@pytest.mark.parametrize("runner", ["PortableRunner", "PrismRunner", "FlinkRunner"])
def test_streaming_runners_keep_state(runner: str) -> None:
    assert keeps_state(unbounded([])(beam.Pipeline(runner=runner)))


@pytest.mark.one_fast_case
@pytest.mark.filterwarnings("ignore:DirectRunner")
@pytest.mark.parametrize("runner", ["PrismRunner", "DirectRunner"])
@pytest.mark.parametrize("streamed", [True, False])
def test_prism_is_told_not_to_split_what_has_state(streamed: bool, runner: str) -> None:
    """`DirectRunner` may choose Prism, and does without state but for the windows of an id."""
    pipeline = beam.Pipeline(runner=runner)
    elements = unbounded(VISITS)(pipeline)
    elements.is_bounded = not streamed
    limited = globally(privacy_unit=PrivacyId("user", IDS_ONLY, max_windows=1, period=120))
    for name, transform in {"sums": globally(privacy_unit=Record()), "windows of an id": limited}.items():
        _ = elements | f"In windows {name}" >> in_windows(60) | name >> transform
    assert ("prism_disable_sdf_split" in (pipeline.options.view_as(DebugOptions).experiments or [])) == streamed


@pytest.mark.filterwarnings("ignore:DirectRunner")
@pytest.mark.parametrize(
    "options", [(BUNDLE_BASED,), ("DirectRunner",), (FN_API,), ("PortableRunner", "--job_endpoint=embed")]
)
def test_a_runner_that_loses_timers_does_without_state(options: tuple[str, ...]) -> None:
    pipeline = beam.Pipeline(runner=options[0], options=PipelineOptions([*options[1:]]))
    elements = unbounded(VISITS)(pipeline)
    assert not keeps_state(elements)
    _ = elements | in_windows(60) | globally(privacy_unit=Record())
    assert stateful_steps(pipeline) == []


@pytest.mark.slow
@pytest.mark.usefixtures(state_everywhere.__name__)
def test_that_runner_would_lose_it_where_the_watermark_jumps() -> None:
    """If this fails, the runner has learned to hold the watermark, and the exception can go."""
    jumping = stepped(VISITS, END // 2, END)
    found = outputs(jumping, ExactCounters(globally(privacy_unit=Record())), 60, "--streaming", runner=BUNDLE_BASED)
    assert found.keys() < of_batch("global").keys()


def two_transforms() -> dict[float, list[Any]]:
    """The counters of two transforms of one stream in memory, by window."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = unbounded(VISITS)(pipeline) | in_windows(60)
        both = [elements | name >> ExactCounters(globally(privacy_unit=Record())) for name in ("first", "second")]
        return both | beam.Flatten() | beam.ParDo(WithStart())

    found: dict[float, list[Any]] = {}
    for start, counters in seen_by_sink(build, runner=FN_API):
        found.setdefault(start, []).append(counters)
    return found


def test_two_transforms_of_one_stream_have_all_records() -> None:
    assert two_transforms() == {start: [counters, counters] for (start, _), counters in of_batch("global").items()}


@pytest.mark.usefixtures(state_everywhere.__name__)
def test_that_runner_would_lose_one_of_them() -> None:
    """If this fails, the runner keeps timers of several steps apart, and the exception can go."""
    assert [len(counters) for counters in two_transforms().values()] == [1] * (END // 60)
