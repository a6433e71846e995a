"""Streams: a window is released once, late data do not release it again, and any other second pane is an error."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import window
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from beam_dpsketch import CountSketch, PrivacyId, PrivacySpec, Record, RecordBounds, ReleaseTerms, WindowingError
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.units import Unit
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.planning.kinds.sketched import AnySketch
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from tests.helpers.one_bundle import released_by
from tests.helpers.pipelines import BUNDLE_BASED, SPEC, ExactCounters, seen_by_sink
from tests.helpers.streams import WithStart, with_late_data

PRIVACY = PrivacySpec(rho=0.1, summary_counts=None)
UNITS = {"record": Record(), "privacy id": PrivacyId(len, RecordBounds(max_records=9))}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", UNITS.values(), ids=UNITS)
def test_each_window_of_a_stream_is_released_once(privacy_unit: Unit) -> None:
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | with_late_data() | beam.WindowInto(window.FixedWindows(60))
        return (
            elements | transform | "ReleaseWindow" >> beam.ParDo(WithStart()),
            elements | ExactCounters(transform) | "CountersWindow" >> beam.ParDo(WithStart()),
        ) | beam.Flatten()

    outputs = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    releases = [start for start, output in outputs if isinstance(output, ReleasedSketch)]
    counters = {start: output for start, output in outputs if not isinstance(output, ReleasedSketch)}
    assert sorted(releases) == [0, 120]
    assert len(outputs) == 4
    for start, items in ((0, ["a", "b", "a"]), (120, ["c"])):
        np.testing.assert_array_equal(counters[start], CountSketch(SPEC).accumulate(items).counters)


def once() -> ReleaseOnce:
    return ReleaseOnce(Calibration.of(SPEC, ReleaseTerms(PRIVACY)))


def pane(timing: int, index: int) -> PaneInfo:
    return PaneInfo(index == 0, False, timing, index, index)


ACCUMULATOR = SketchAccumulator(SketchInput(SPEC, RecordBounds(1)))


@pytest.mark.parametrize("timing", [PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE, PaneInfoTiming.UNKNOWN])
def test_only_the_first_pane_of_a_window_is_released(timing: int) -> None:
    (released,) = released_by(once(), ACCUMULATOR.to_sums(), pane(timing, 0))
    assert isinstance(released, ReleasedSketch)
    ((key, released),) = released_by(once(), ACCUMULATOR.to_sums(encode("k")), pane(timing, 0))
    assert key == "k"
    assert isinstance(released, ReleasedSketch)
    if timing == PaneInfoTiming.LATE:
        assert released_by(once(), ACCUMULATOR.to_sums(), pane(timing, 1)) == []
        return
    with pytest.raises(WindowingError, match=r"fired more than once. Remove trigger and allowed_lateness"):
        released_by(once(), ACCUMULATOR.to_sums(), pane(timing, 1))


@pytest.mark.parametrize("index", [0, 1])
def test_an_early_pane_is_not_released(index: int) -> None:
    with pytest.raises(WindowingError, match="fired more than once"):
        released_by(once(), ACCUMULATOR.to_sums(), pane(PaneInfoTiming.EARLY, index))


def test_an_id_is_not_bounded_anew_in_a_second_firing() -> None:
    """`BundleBasedDirectRunner` drops late data only after the end of a window; here the watermark is at its end."""
    times = [window.TimestampedValue("u", time) for time in (1, 2, 3, 4)]
    source = Stream().advance_watermark_to(0).add_elements(times[:2]).advance_watermark_to(60).add_elements(times[2:])
    bounding = BoundContributions(PrivacyId(len, RecordBounds(max_records=2)))
    windows = beam.WindowInto(window.FixedWindows(60))
    kept = seen_by_sink(
        lambda pipeline: pipeline | source.advance_watermark_to_infinity() | windows | bounding,
        "--streaming",
        runner=BUNDLE_BASED,
    )
    assert len(kept) == 2


def test_early_panes_that_reach_the_release_fail_the_pipeline() -> None:
    """The guard is not passed here: a runner that fires early all the same."""
    early = beam.WindowInto(
        window.FixedWindows(60),
        trigger=beam.trigger.AfterWatermark(early=beam.trigger.AfterCount(1)),
        accumulation_mode=beam.trigger.AccumulationMode.ACCUMULATING,
    )
    declared = ReleaseSpec(AnySketch(SPEC), PRIVACY, Record())
    plan = WindowPlan(declared.terms, starts=None, periods=None, is_global=False)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        sums = pipeline | with_late_data() | early | ExactSums(declared, plan, None, {})
        return sums["sums"] | beam.ParDo(once())

    with pytest.raises(Exception, match="A window fired more than once"):
        seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
