"""Streams: a window is released once, late data do not release it again, and a second pane is an error."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from beam_dpsketch import (
    CountSketch,
    PrivacyId,
    PrivacySpec,
    PrivacyUnit,
    Record,
    RecordBounds,
    ReleasedSketch,
    WindowingError,
)
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.release.statement import Disclosure
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from tests.helpers.pipelines import BUNDLE_BASED, SPEC, ExactCounters, seen_by_sink

PRIVACY = PrivacySpec(rho=0.1)


def stream() -> Stream:
    """Two windows with data, an empty one between them, and data that come too late for the first."""
    stamped = window.TimestampedValue
    return (
        Stream()
        .advance_watermark_to(0)
        .add_elements([stamped("a", 1), stamped("b", 2)])
        .add_elements([stamped("a", 3)])
        .advance_watermark_to(130)
        .add_elements([stamped("late", 5)])
        .add_elements([stamped("c", 131)])
        .advance_watermark_to_infinity()
    )


class WithWindow(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        yield float(window.start), element


UNITS = [
    {"unit": "record"},
    {"privacy_id": len, "bounds": RecordBounds(max_contributions_per_partition=9)},
]


@pytest.mark.parametrize("unit", UNITS, ids=["record", "privacy id"])
def test_each_window_of_a_stream_is_released_once_without_late_data(unit: dict[str, Any]) -> None:
    transform = PrivateFrequencies.Globally(SPEC, PRIVACY, **unit)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | stream() | beam.WindowInto(window.FixedWindows(60))
        return (
            elements | transform | "ReleaseWindow" >> beam.ParDo(WithWindow()),
            elements | ExactCounters(transform) | "CountersWindow" >> beam.ParDo(WithWindow()),
        ) | beam.Flatten()

    outputs = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    releases = [start for start, output in outputs if isinstance(output, ReleasedSketch)]
    counters = {start: output for start, output in outputs if not isinstance(output, ReleasedSketch)}
    assert sorted(releases) == [0, 120]
    assert len(outputs) == 4
    for start, items in ((0, ["a", "b", "a"]), (120, ["c"])):
        np.testing.assert_array_equal(counters[start], CountSketch(SPEC).accumulate(items).counters)


def once(keyed: bool = False) -> ReleaseOnce:
    return ReleaseOnce(
        PRIVACY,
        bounds=RecordBounds(1),
        unit=PrivacyUnit.RECORD,
        windows=1,
        disclosed=Disclosure.NONE,
        keyed=keyed,
    )


def pane(timing: int, index: int) -> PaneInfo:
    return PaneInfo(index == 0, False, timing, index, index)


ACCUMULATOR = SketchAccumulator(SketchInput(SPEC, RecordBounds(1)))


@pytest.mark.parametrize("timing", [PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE, PaneInfoTiming.UNKNOWN])
def test_only_the_first_pane_of_a_window_is_released(timing: int) -> None:
    (released,) = once().process(ACCUMULATOR, pane(timing, 0), window.GlobalWindow())
    assert isinstance(released, ReleasedSketch)
    ((key, released),) = once(keyed=True).process(("k", ACCUMULATOR), pane(timing, 0), window.GlobalWindow())
    assert key == "k"
    assert isinstance(released, ReleasedSketch)
    with pytest.raises(WindowingError, match="fired more than once; remove trigger and allowed_lateness"):
        list(once().process(ACCUMULATOR, pane(timing, 1), window.GlobalWindow()))


@pytest.mark.parametrize("index", [0, 1])
def test_an_early_pane_is_not_released(index: int) -> None:
    with pytest.raises(WindowingError, match="fired more than once"):
        list(once().process(ACCUMULATOR, pane(PaneInfoTiming.EARLY, index), window.GlobalWindow()))


def test_an_id_is_not_bounded_anew_in_a_second_firing() -> None:
    """`BundleBasedDirectRunner` drops late data only after the end of a window; here the watermark is at its end."""
    times = [window.TimestampedValue("u", time) for time in (1, 2, 3, 4)]
    source = Stream().advance_watermark_to(0).add_elements(times[:2]).advance_watermark_to(60).add_elements(times[2:])
    bounding = BoundContributions(RecordBounds(max_contributions_per_partition=2), unit=PrivacyId(len, RecordBounds(1)))
    windows = beam.WindowInto(window.FixedWindows(60))
    with pytest.raises(WindowingError, match="fired more than once"):
        seen_by_sink(
            lambda pipeline: pipeline | source.advance_watermark_to_infinity() | windows | bounding,
            "--streaming",
            runner=BUNDLE_BASED,
        )


def test_early_panes_that_reach_the_release_fail_the_pipeline() -> None:
    """The guard is not passed here: a runner that fires early all the same."""
    early = beam.WindowInto(
        window.FixedWindows(60),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
    )
    combined = PrivateFrequencies.Globally(SPEC, PRIVACY, unit=Record())._combined

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return combined(pipeline | stream() | early) | beam.ParDo(once())

    with pytest.raises(Exception, match="a window fired more than once"):
        seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
