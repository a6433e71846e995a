"""`TimeRange`: which windows are released is declared, and the data change only what is inside."""

from __future__ import annotations

import datetime
import itertools
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
    ListedItems,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TimeRange,
    WindowingError,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.declared.windows import window_starts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateStatistics, PrivateTopK
from beam_dpsketch.transforms.outputs import key_and_release
from beam_dpsketch.transforms.steps.windows import describe_windowing
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, SPEC, ExactCounters, seen_by_sink
from tests.helpers.streams import WithStart, with_late_data
from tests.helpers.timed import at_times

PRIVACY = PrivacySpec(rho=0.1)
FIXED, SLIDING = window.FixedWindows(60), window.SlidingWindows(60, 20)
RANGE = TimeRange(0, 300)
KEYS = ["a", "absent"]
DOMAIN = IntegerDomain(0, 15)
TRANSFORMS: dict[str, Callable[..., beam.PTransform]] = {
    "frequencies": lambda **arguments: PrivateFrequencies(SPEC, PRIVACY, **arguments),
    "frequencies per key": lambda **arguments: PrivateFrequencies(SPEC, PRIVACY, **arguments),
    "quantiles": lambda **arguments: PrivateQuantiles(DOMAIN, PRIVACY, item=len, **arguments),
    "quantiles per key": lambda **arguments: PrivateQuantiles(DOMAIN, PRIVACY, item=len, **arguments),
    "top-K": lambda **arguments: PrivateTopK(DOMAIN, PRIVACY, k=1, item=len, **arguments),
    "top-K per key": lambda **arguments: PrivateTopK(DOMAIN, PRIVACY, k=1, item=len, **arguments),
    "listed items": lambda **arguments: PrivateFrequencies(ListedItems(["a", "c"]), PRIVACY, **arguments),
    "numbers per key": lambda **arguments: PrivateStatistics(DOMAIN, PRIVACY, item=len, **arguments),
}
RECORD, BOUNDED = Record(), PrivacyId(str, RecordBounds(9))


def paired(item: str) -> tuple[str, str]:
    return item, item


def frequencies(
    windows: TimeRange | None = RANGE, *, privacy_unit: Any = RECORD, item: Any = None
) -> PrivateFrequencies:
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, item=item, windows=windows)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", [RECORD, BOUNDED], ids=["record", "privacy id"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_window_of_a_stream_has_one_release_of_each_key(name: str, privacy_unit: Any) -> None:
    keyed = name.endswith("key")
    if keyed and privacy_unit is BOUNDED:
        privacy_unit = PrivacyId(str, RecordBounds(9, max_keys=1))
    transform = TRANSFORMS[name](
        privacy_unit=privacy_unit, windows=RANGE, **{"keys": PublicKeys(KEYS)} if keyed else {}
    )

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | with_late_data() | beam.WindowInto(FIXED)
        return (elements | beam.Map(paired) if keyed else elements) | transform | beam.ParDo(WithStart())

    outputs = [
        (start, *key_and_release(output)) for start, output in seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    ]
    seen = Counter((start, key) for start, key, _ in outputs)
    assert seen == Counter(itertools.product(range(0, 300, 60), KEYS if keyed else [None]))
    for _, _, release in outputs:
        assert release.counters.any()
        assert release.privacy.disclosed is Disclosure.NONE
        assert "which windows" not in str(release.privacy)
        assert release.privacy.privacy_unit is (
            PrivacyUnit.RECORD if privacy_unit is RECORD else PrivacyUnit.PRIVACY_ID_IN_WINDOW
        )


TIMED = [("before", -1), ("a", 0), ("b", 59.5), ("c", 131), ("d", 299.9), ("after", 300), ("long after", 9000)]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("privacy_unit", [RECORD, BOUNDED], ids=["record", "privacy id"])
def test_data_outside_the_range_are_dropped(runner: str, privacy_unit: Any) -> None:
    counters = counters_by_window(TIMED, FIXED, frequencies(privacy_unit=privacy_unit), runner=runner)
    assert_counters(counters, {0: "ab", 60: "", 120: "c", 180: "", 240: "d"})


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_sliding_windows_wholly_in_the_range_are_released(runner: str) -> None:
    counters = counters_by_window(TIMED, SLIDING, frequencies(TimeRange(-20, 180)), runner=runner)
    expected = {-20: ["before", "a"], 0: "ab", 20: "b", 40: "b", 60: "", 80: "c", 100: "c", 120: "c"}
    assert_counters(counters, expected)


def test_late_data_are_in_no_window() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | with_late_data() | beam.WindowInto(FIXED)
        return elements | ExactCounters(frequencies()) | beam.ParDo(WithStart())

    counters = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    assert_counters(dict(counters), {0: "aab", 60: "", 120: "c", 180: "", 240: ""})
    assert len(counters) == 5


def test_a_trigger_at_the_watermark_is_accepted_as_well() -> None:
    once = beam.WindowInto(FIXED, trigger=AfterWatermark(), accumulation_mode=AccumulationMode.DISCARDING)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | with_late_data() | once | frequencies(privacy_unit=BOUNDED) | beam.ParDo(WithStart())

    outputs = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    assert sorted(start for start, _ in outputs) == [0, 60, 120, 180, 240]


def counters_by_window(
    timed: list[tuple[Any, float]], windows: Any, transform: Any, *, runner: str
) -> dict[float, np.ndarray]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return at_times(pipeline, timed, windows) | ExactCounters(transform) | beam.ParDo(WithStart())

    outputs = seen_by_sink(build, runner=runner)
    assert len(dict(outputs)) == len(outputs)
    return dict(outputs)


def assert_counters(counters: dict[float, Any], expected: dict[float, Any]) -> None:
    assert set(counters) == set(expected)
    for start, items in expected.items():
        np.testing.assert_array_equal(counters[start], CountSketch(SPEC).accumulate(list(items)).counters)


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_without_data_every_window_has_noise_of_its_own(runner: str) -> None:
    outputs = seen_by_sink(lambda pipeline: at_times(pipeline, [], FIXED) | frequencies(), runner=runner)
    assert len(outputs) == 5
    assert all(isinstance(output, ReleasedSketch) for output in outputs)
    assert len({output.counters.tobytes() for output in outputs}) == 5


def test_a_replayed_bundle_makes_no_second_release() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return at_times(pipeline, TIMED, FIXED) | frequencies() | beam.ParDo(WithStart())

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


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("kind", ELEMENTS)
def test_every_kind_of_element_goes_with_windows_without_data(kind: str, runner: str) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = at_times(pipeline, TIMED, FIXED) | "Elements" >> beam.Map(ELEMENTS[kind])
        return elements | ExactCounters(frequencies(item="page")) | beam.ParDo(WithStart())

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
    starts = window_starts(TimeRange(start, end), describe_windowing(windows), 1)
    assert sorted(starts) == sorted(found.start.micros for found in made)
    assert len(starts) == count


def test_a_range_may_be_of_timestamps_datetimes_or_seconds() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    ranges = [
        (0, 3600),
        (0.0, 3600.0),
        (np.int64(0), np.float64(3600)),
        (Timestamp(0), Timestamp(3600)),
        (datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 1)),
        (datetime.datetime(1970, 1, 1, 2, tzinfo=zone), datetime.datetime(1970, 1, 1, 3, tzinfo=zone)),
        (np.datetime64("1970-01-01"), Timestamp(3600)),
    ]
    for start, end in ranges:
        assert (TimeRange(start, end).start_micros, TimeRange(start, end).end_micros) == (0, 3600 * 10**6)
    assert TimeRange(0.5, 1).start_micros == 500_000


def test_a_range_of_keys_from_the_data_is_refused() -> None:
    for name in ("frequencies per key", "quantiles per key", "top-K per key"):
        with pytest.raises(
            ValueError,
            match=r"TimeRange\(...\) cannot be combined with AssumePublicKeys: .* List the keys with PublicKeys",
        ):
            TRANSFORMS[name](privacy_unit=RECORD, keys=AssumePublicKeys(), windows=RANGE)


def suggested(start: int, end: int) -> str:
    """Return the pattern of the part of a message that says which range fits."""
    return rf"Use TimeRange\(Timestamp\({start}\), Timestamp\({end}\)\)"


@pytest.mark.parametrize(
    ("windows", "declared", "message"),
    [
        (
            window.GlobalWindows(),
            RANGE,
            r"TimeRange\(...\) is not supported in the global window.* WindowInto\(FixedWindows.* or remove windows",
        ),
        (FIXED, TimeRange(1, 300), f"windows must begin and end at window boundaries.* {suggested(0, 300)}"),
        (FIXED, TimeRange(0, 299), rf"end at window boundaries\. {suggested(0, 300)}"),
        (FIXED, TimeRange(59, 61), f"{suggested(0, 120)}, or change the offset of FixedWindows"),
        (window.FixedWindows(60, 30), RANGE, suggested(-30, 330)),
        (SLIDING, TimeRange(0, 20), f"{suggested(0, 60)}, or change the offset of SlidingWindows"),
        (SLIDING, TimeRange(10, 70), suggested(0, 80)),
        (
            window.FixedWindows(1),
            TimeRange(0, 10**7),
            "10,000,000 releases, more than 10,000: a window every 1 second. Use",
        ),
    ],
)
def test_a_range_that_does_not_fit_is_refused_with_one_that_does(
    windows: Any, declared: TimeRange, message: str
) -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create(["a"]) | beam.WindowInto(windows)
    with pytest.raises(WindowingError, match=message):
        elements | frequencies(declared)


def test_the_number_of_keys_counts_towards_the_largest_range() -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create([("a", "b")]) | beam.WindowInto(window.FixedWindows(1))
    transform = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=RECORD, keys=PublicKeys(range(1000)), windows=TimeRange(0, 1001)
    )
    message = "1,001,000 releases, more than 10,000: a window every 1 second for each of 1,000 keys. Use longer windows"
    with pytest.raises(WindowingError, match=message):
        elements | transform


def test_display_data_show_the_range() -> None:
    items = {item.key: item.value for item in DisplayData.create_from(frequencies()).items}
    assert items["windows"] == "TimeRange(start=0, end=300)"
    assert "windows" not in {item.key for item in DisplayData.create_from(frequencies(None)).items}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_sliding_window_has_a_release_without_data(count: int) -> None:
    transform = frequencies(TimeRange(0, 60 + 20 * (count - 1)))
    counters = counters_by_window([], SLIDING, transform, runner=FN_API)
    assert_counters(counters, {20.0 * number: "" for number in range(count)})
