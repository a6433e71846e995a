"""A late record that a runner lets through is dropped: it stops no job, and no window is released again.

`BundleBasedDirectRunner` does so with a record that comes when the watermark is exactly at the end of its window.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, GlobalWindow, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from beam_dpsketch import (
    AssumePublicKeys,
    Horizon,
    ListedItems,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    SketchTimeline,
    WindowingError,
)
from beam_dpsketch.noise.run import Place
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.windows import fires_again_late, place_of
from tests.helpers.pipelines import BUNDLE_BASED, seen_by_sink

WEIGHT = 1000  # noise has a sigma below 50, and exceeds half of this with a probability below 1e-22
VISIT = {"user": "u", "item": "a", "weight": WEIGHT, "key": "k"}
SPEC, PRIVACY = ListedItems(["a"]), PrivacySpec(rho=1000, summary_counts=None)
BOUNDS = RecordBounds(1, max_weight=WEIGHT)
COLUMNS: dict[str, Any] = {"item": "item", "weight": "weight"}
KEYS = AssumePublicKeys("key")
HORIZON = Horizon(0, 60, 2)
UNITS = {
    "record": Record(max_weight=WEIGHT),
    "id": PrivacyId("user", BOUNDS),
    "id of one key": PrivacyId("user", dataclasses.replace(BOUNDS, max_keys=1)),
    "period": PrivacyId("user", BOUNDS, max_windows=1, period=120),
    "horizon": PrivacyId("user", BOUNDS, max_windows=1),
}
CASES = [
    ("record", "Globally", False),
    ("id", "Globally", False),
    ("period", "Globally", False),
    ("record", "PerKey", False),
    ("id of one key", "PerKey", False),
    ("record", "Globally", True),
    ("horizon", "Globally", True),
]


def released(privacy_unit: str, which: str, over_time: bool) -> list[Any]:
    """Return all releases of one visit in time, and one at the end of its window."""
    keys = {"keys": KEYS} if which == "PerKey" else {}
    windows: Any = HORIZON if over_time else None
    transform = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=UNITS[privacy_unit], windows=windows, **COLUMNS, **keys
    ).check([VISIT])
    source = Stream().advance_watermark_to(0).add_elements([TimestampedValue(VISIT, 10)]).advance_watermark_to(60)
    source = source.add_elements([TimestampedValue(VISIT, 20)]).advance_watermark_to_infinity()

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | source
        return (elements if over_time else elements | beam.WindowInto(FixedWindows(60))) | transform

    return seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("privacy_unit", "which", "over_time"), CASES)
def test_a_late_record_is_dropped(privacy_unit: str, which: str, over_time: bool) -> None:
    found = released(privacy_unit, which, over_time)
    if over_time:
        assert len(found) == 2
        answer = SketchTimeline(found, HORIZON).between(0, 0)
    else:
        (one,) = found
        answer = one[1] if which == "PerKey" else one
    assert WEIGHT / 2 < answer.estimate(["a"])[0] < 1.5 * WEIGHT


def test_the_record_reaches_the_release_without_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_dpsketch.transforms.steps.windows.fires_again_late", lambda _: False)
    with pytest.raises(ValueError, match="too many values"):
        test_a_late_record_is_dropped("record", "Globally", False)


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("timing", [getattr(PaneInfoTiming, name) for name in ("EARLY", "ON_TIME", "LATE", "UNKNOWN")])
def test_only_late_data_may_fire_again(timing: int, index: int) -> None:
    pane = PaneInfo(index == 0, False, timing, index, index)
    if timing == PaneInfoTiming.EARLY or (index and timing != PaneInfoTiming.LATE):
        with pytest.raises(WindowingError, match="fired more than once"):
            fires_again_late(pane)
    else:
        assert fires_again_late(pane) is (index > 0)


def test_a_step_with_noise_asks_for_late_data_and_times_before_it_has_a_place() -> None:
    window, no_time = IntervalWindow(60, 120), IntervalWindow(MIN_TIMESTAMP, MIN_TIMESTAMP + 60)
    on_time = PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)
    late = PaneInfo(False, False, PaneInfoTiming.LATE, 1, 1)
    assert place_of(window, on_time, "key") == Place(("key",), 60_000_000, 120_000_000, 0)
    assert place_of(GlobalWindow(), on_time) == Place()
    assert place_of(window, late) is place_of(no_time, late) is None
    with pytest.raises(WindowingError, match="no timestamps"):
        place_of(no_time, on_time)
