"""`time_range`: which windows are released is declared, and the data change only what is inside."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import window
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    AssumePublicKeys,
    CountSketch,
    IntegerDomain,
    PrivacySpec,
    PrivacyUnit,
    PublicKeys,
    Record,
    RecordBounds,
    ReleasedSketch,
    WindowingError,
)
from beam_dpsketch.release.statement import Disclosure
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK
from beam_dpsketch.transforms.outputs import key_and_release
from beam_dpsketch.transforms.windows.time_range import TimeRange
from tests.guarantees.test_windows_streaming import WithWindow, stream
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, ExactCounters, seen_by_sink

PRIVACY = PrivacySpec(rho=0.1)
FIXED, SLIDING = window.FixedWindows(60), window.SlidingWindows(60, 20)
RANGE = (0, 300)
KEYS = ["a", "absent"]
DOMAIN = IntegerDomain(0, 15)
TRANSFORMS: dict[str, Callable[..., beam.PTransform]] = {
    "frequencies": lambda **arguments: PrivateFrequencies.Globally(SPEC, PRIVACY, **arguments),
    "frequencies per key": lambda **arguments: PrivateFrequencies.PerKey(SPEC, PRIVACY, **arguments),
    "quantiles": lambda **arguments: PrivateQuantiles.Globally(DOMAIN, PRIVACY, item=len, **arguments),
    "quantiles per key": lambda **arguments: PrivateQuantiles.PerKey(DOMAIN, PRIVACY, item=len, **arguments),
    "top-K": lambda **arguments: PrivateTopK.Globally(DOMAIN, PRIVACY, k=1, item=len, **arguments),
    "top-K per key": lambda **arguments: PrivateTopK.PerKey(DOMAIN, PRIVACY, k=1, item=len, **arguments),
}
BOUNDED = {"privacy_id": str, "bounds": RecordBounds(max_contributions_per_partition=9)}


def paired(item: str) -> tuple[str, str]:
    return item, item


def stamp(timed: tuple[Any, float]) -> window.TimestampedValue:
    return window.TimestampedValue(*timed)


def frequencies(**arguments: Any) -> PrivateFrequencies.Globally:
    return PrivateFrequencies.Globally(SPEC, PRIVACY, **{"unit": "record", "time_range": RANGE, **arguments})


def at_times(pipeline: beam.Pipeline, timed: list[tuple[Any, float]], windows: Any) -> beam.PCollection:
    return pipeline | beam.Create(timed) | beam.Map(stamp) | beam.WindowInto(windows)


@pytest.mark.parametrize("unit", [{"unit": "record"}, BOUNDED], ids=["record", "privacy id"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_window_of_a_stream_has_one_release_of_each_key_and_says_so(name: str, unit: dict[str, Any]) -> None:
    keyed = name.endswith("key")
    transform = TRANSFORMS[name](**unit, **{"public_keys": KEYS} if keyed else {}, windows=TimeRange(*RANGE))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | stream() | beam.WindowInto(FIXED)
        return (elements | beam.Map(paired) if keyed else elements) | transform | beam.ParDo(WithWindow())

    outputs = [
        (start, *key_and_release(output)) for start, output in seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    ]
    seen = Counter((start, key) for start, key, _ in outputs)
    assert seen == Counter(itertools.product(range(0, 300, 60), KEYS if keyed else [None]))
    for _, _, release in outputs:
        assert release.counters.any()
        assert release.privacy.disclosed is Disclosure.NONE
        assert "which windows" not in str(release.privacy)
        assert release.privacy.unit is (PrivacyUnit.RECORD if "unit" in unit else PrivacyUnit.PRIVACY_ID_IN_WINDOW)


TIMED = [("before", -1), ("a", 0), ("b", 59.5), ("c", 131), ("d", 299.9), ("after", 300), ("long after", 9000)]


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("unit", [{"unit": "record"}, {**BOUNDED, "unit": None}], ids=["record", "privacy id"])
def test_a_window_holds_its_data_and_data_outside_the_range_are_dropped(runner: str, unit: dict[str, Any]) -> None:
    counters = counters_by_window(TIMED, FIXED, frequencies(**unit), runner=runner)
    assert_counters(counters, {0: "ab", 60: "", 120: "c", 180: "", 240: "d"})


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_of_sliding_windows_those_wholly_in_the_range_are_released(runner: str) -> None:
    counters = counters_by_window(TIMED, SLIDING, frequencies(windows=TimeRange(-20, 180)), runner=runner)
    expected = {-20: ["before", "a"], 0: "ab", 20: "b", 40: "b", 60: "", 80: "c", 100: "c", 120: "c"}
    assert_counters(counters, expected)


def test_late_data_are_in_no_window() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | stream() | beam.WindowInto(FIXED)
        return elements | ExactCounters(frequencies()) | beam.ParDo(WithWindow())

    counters = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    assert_counters(dict(counters), {0: "aab", 60: "", 120: "c", 180: "", 240: ""})
    assert len(counters) == 5


def test_a_trigger_at_the_watermark_is_accepted_as_well() -> None:
    once = beam.WindowInto(FIXED, trigger=AfterWatermark(), accumulation_mode=AccumulationMode.DISCARDING)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | stream() | once | frequencies(unit=None, **BOUNDED) | beam.ParDo(WithWindow())

    outputs = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    assert sorted(start for start, _ in outputs) == [0, 60, 120, 180, 240]


def counters_by_window(
    timed: list[tuple[Any, float]], windows: Any, transform: Any, *, runner: str
) -> dict[float, np.ndarray]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return at_times(pipeline, timed, windows) | ExactCounters(transform) | beam.ParDo(WithWindow())

    outputs = seen_by_sink(build, runner=runner)
    assert len(dict(outputs)) == len(outputs)
    return dict(outputs)


def assert_counters(counters: dict[float, Any], expected: dict[float, Any]) -> None:
    assert set(counters) == set(expected)
    for start, items in expected.items():
        np.testing.assert_array_equal(counters[start], CountSketch(SPEC).accumulate(list(items)).counters)


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_without_any_data_every_window_has_a_release_with_noise_of_its_own(runner: str) -> None:
    outputs = seen_by_sink(lambda pipeline: at_times(pipeline, [], FIXED) | frequencies(), runner=runner)
    assert len(outputs) == 5
    assert all(isinstance(output, ReleasedSketch) for output in outputs)
    assert len({output.counters.tobytes() for output in outputs}) == 5


def test_a_replayed_bundle_makes_no_second_release() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return at_times(pipeline, TIMED, FIXED) | frequencies() | beam.ParDo(WithWindow())

    outputs = seen_by_sink(build, "--direct_runner_bundle_repeat=3")
    assert len({(start, release.counters.tobytes()) for start, release in outputs}) == 5


class Visit(NamedTuple):
    page: str


ELEMENTS: dict[str, Callable[[str], Any]] = {
    "row": lambda page: beam.Row(page=page),
    "named tuple": Visit,
    "dict": lambda page: {"page": page},
    "batch": lambda page: pa.table({"page": [page]}),
}


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_of_every_kind_are_counted_beside_windows_without_data(kind: str, runner: str) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = at_times(pipeline, TIMED, FIXED) | "Elements" >> beam.Map(ELEMENTS[kind])
        return elements | ExactCounters(frequencies(item="page")) | beam.ParDo(WithWindow())

    assert_counters(dict(seen_by_sink(build, runner=runner)), {0: "ab", 60: "", 120: "c", 180: "", 240: "d"})


@given(
    size=st.integers(1, 20),
    period=st.integers(1, 20),
    offset=st.integers(0, 19),
    first=st.integers(-5, 5),
    count=st.integers(1, 30),
    sliding=st.booleans(),
)
def test_the_windows_are_those_that_beam_makes_wholly_inside(
    size: int, period: int, offset: int, first: int, count: int, sliding: bool
) -> None:
    period = period if sliding else size
    windows = window.SlidingWindows(size, period, offset) if sliding else window.FixedWindows(size, offset)
    start = first * period + offset % period
    end = start + (count - 1) * period + size
    made = {
        found
        for time in range(start, end)
        for found in windows.assign(window.WindowFn.AssignContext(Timestamp(time)))
        if start <= found.start and found.end <= end
    }
    starts = TimeRange.declared((start, end)).window_starts(windows, 1)
    assert sorted(starts) == sorted(found.start.micros for found in made)
    assert len(starts) == count


def test_a_range_may_be_written_as_timestamps_datetimes_or_seconds() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    ranges = [
        (0, 3600),
        [0.0, 3600.0],
        (np.int64(0), np.float64(3600)),
        (Timestamp(0), Timestamp(3600)),
        (datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 1)),
        (datetime.datetime(1970, 1, 1, 2, tzinfo=zone), datetime.datetime(1970, 1, 1, 3, tzinfo=zone)),
        (np.datetime64("1970-01-01"), Timestamp(3600)),
    ]
    assert set(map(TimeRange.declared, ranges)) == {TimeRange(0, 3600 * 10**6)}
    assert TimeRange.declared((0.5, 1)) == TimeRange(500_000, 1_000_000)


@pytest.mark.parametrize(
    ("time_range", "error", "message"),
    [
        (60, TypeError, r"time_range must be a pair \(start, end\)"),
        ((1, 2, 3), TypeError, "time_range must be a pair"),
        ("ab", TypeError, "time_range must be a pair"),
        (("1970", "1971"), TypeError, "time_range must hold Timestamps, datetimes or seconds, got str"),
        ((0, None), TypeError, "time_range must hold .*, got NoneType"),
        ((False, True), TypeError, "time_range must hold .*, got bool"),
        ((datetime.date(1970, 1, 1), 60), TypeError, "time_range must hold .*, got date"),
        ((60, 60), ValueError, "time_range must end after it starts"),
        ((60, 0), ValueError, "time_range must end after it starts"),
        ((0, math.inf), ValueError, "time_range must be finite"),
        ((math.nan, 60), ValueError, "time_range must be finite"),
        ((0, np.int64(1) << 62), ValueError, "time_range must be finite"),
    ],
)
def test_a_range_that_is_none_is_refused_at_construction(time_range: Any, error: type, message: str) -> None:
    for transform in (frequencies, lambda **arguments: TRANSFORMS["top-K"](**arguments, unit=Record())):
        with pytest.raises(error, match=message):
            transform(windows=TimeRange(*time_range))


def test_a_range_of_keys_from_the_data_is_refused() -> None:
    for name in ("frequencies per key", "quantiles per key", "top-K per key"):
        with pytest.raises(ValueError, match=r"time_range with keys_are_public=True .* list the keys with"):
            TRANSFORMS[name](unit=Record(), keys=AssumePublicKeys(), windows=TimeRange(*RANGE))


@pytest.mark.parametrize(
    ("windows", "time_range", "message"),
    [
        (
            window.GlobalWindows(),
            RANGE,
            r"time_range needs windows: put WindowInto\(FixedWindows.* or leave time_range",
        ),
        (FIXED, (1, 300), r"must start where a window starts .* declare \(Timestamp\(0\), Timestamp\(300\)\)"),
        (FIXED, (0, 299), r"end where one ends; instead of .* declare \(Timestamp\(0\), Timestamp\(300\)\)"),
        (FIXED, (59, 61), r"declare \(Timestamp\(0\), Timestamp\(120\)\), or give FixedWindows another offset"),
        (window.FixedWindows(60, 30), RANGE, r"declare \(Timestamp\(-30\), Timestamp\(330\)\)"),
        (SLIDING, (0, 20), r"declare \(Timestamp\(0\), Timestamp\(60\)\), or give SlidingWindows another offset"),
        (SLIDING, (10, 70), r"declare \(Timestamp\(0\), Timestamp\(80\)\)"),
        (window.FixedWindows(1), (0, 10**7), r"10000000 releases \(10000000 windows, 1 in each\), more than 1000000"),
    ],
)
def test_a_range_that_does_not_fit_the_windows_is_refused_with_one_that_does(
    windows: Any, time_range: Any, message: str
) -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create(["a"]) | beam.WindowInto(windows)
    with pytest.raises(WindowingError, match=message):
        elements | frequencies(windows=TimeRange(*time_range))


def test_the_number_of_keys_counts_towards_the_largest_range() -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create([("a", "b")]) | beam.WindowInto(window.FixedWindows(1))
    transform = PrivateFrequencies.PerKey(
        SPEC, PRIVACY, unit=Record(), keys=PublicKeys(range(1000)), windows=TimeRange(0, 1001)
    )
    with pytest.raises(WindowingError, match=r"1001000 releases \(1001 windows, 1000 in each\).* fewer public_keys"):
        elements | transform


def test_display_data_show_the_range() -> None:
    items = {item.key: item.value for item in DisplayData.create_from(frequencies()).items}
    assert items["time_range"] == "(Timestamp(0), Timestamp(300))"
    assert "time_range" not in {item.key for item in DisplayData.create_from(frequencies()).items}


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_sliding_window_has_a_release_without_data_whatever_their_number(count: int) -> None:
    transform = frequencies(windows=TimeRange(0, 60 + 20 * (count - 1)))
    counters = counters_by_window([], SLIDING, transform, runner=FN_API)
    assert_counters(counters, {20.0 * number: "" for number in range(count)})
