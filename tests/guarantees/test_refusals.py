"""Misuse fails while the pipeline is built, and the message names the argument and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    Horizon,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TimeRange,
    WindowingError,
)
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies, PrivateSketchFn
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import COUNT_MIN, FN_API, SPEC, run

PRIVACY = PrivacySpec(rho=1.0, summary_counts=None)
BY_ID = PrivacyId(len, RecordBounds(1))
RECORD = Record(max_weight=1)


def globally(*, spec: Any = SPEC, privacy: Any = PRIVACY, privacy_unit: Any = RECORD, **arguments: Any) -> Any:
    return PrivateFrequencies(spec, privacy, privacy_unit=privacy_unit, **arguments)


def per_key(*, keys: Any, privacy_unit: Any = RECORD, **arguments: Any) -> Any:
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, keys=keys, **arguments)


def pipeline(*options: str) -> beam.Pipeline:
    """A pipeline that is built and never run."""
    return beam.Pipeline(runner=FN_API, options=PipelineOptions(list(options)))


class EveryOther(window.NonMergingWindowFn):
    """A window function that the package does not know: each element is in two windows."""

    def assign(self, context: Any) -> list[window.IntervalWindow]:
        return [window.IntervalWindow(0, 10), window.IntervalWindow(10, 20)]

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


class Subclass(window.FixedWindows):
    """Could assign anything."""


FIXED = window.FixedWindows(60)
DISCARDING = trigger.AccumulationMode.DISCARDING
WINDOWINGS: dict[str, tuple[Callable[[], beam.WindowInto], str]] = {
    "early": (
        lambda: beam.WindowInto(
            FIXED, trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)), accumulation_mode=DISCARDING
        ),
        "trigger=AfterWatermark .* Remove it from WindowInto",
    ),
    "late": (
        lambda: beam.WindowInto(
            FIXED, trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)), accumulation_mode=DISCARDING
        ),
        "trigger=AfterWatermark .* Remove it from WindowInto",
    ),
    "repeated": (
        lambda: beam.WindowInto(FIXED, trigger=trigger.Repeatedly(trigger.AfterCount(1)), accumulation_mode=DISCARDING),
        "trigger=Repeatedly .* Remove it from WindowInto",
    ),
    "lateness": (lambda: beam.WindowInto(FIXED, allowed_lateness=10), "allowed_lateness must be 0.* Remove it"),
    "sessions": (lambda: beam.WindowInto(window.Sessions(10)), "Sessions.* Use FixedWindows or SlidingWindows"),
    "earliest": (
        lambda: beam.WindowInto(FIXED, timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_EARLIEST),
        "timestamp_combiner must be OUTPUT_AT_EOW.* Remove it",
    ),
    "latest, global": (
        lambda: beam.WindowInto(window.GlobalWindows(), timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_LATEST),
        "timestamp_combiner must be OUTPUT_AT_EOW.* Remove it",
    ),
    "finer than Beam": (
        lambda: beam.WindowInto(window.SlidingWindows(window.Duration(micros=1000), window.Duration(micros=10))),
        "SlidingWindows must have a size, period and offset in whole milliseconds",
    ),
    "unknown": (lambda: beam.WindowInto(EveryOther()), "EveryOther is not supported.* Use GlobalWindows, FixedWindows"),
    "subclass": (lambda: beam.WindowInto(Subclass(60)), "Subclass is not supported"),
}
TRANSFORMS: dict[str, Callable[[], beam.PTransform]] = {
    "globally": globally,
    "globally, privacy id": lambda: globally(item=len, privacy_unit=BY_ID),
    "per key": lambda: per_key(keys=AssumePublicKeys()),
    "bounding": lambda: BoundContributions(BY_ID),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("windowing", WINDOWINGS)
def test_windowings_that_release_more_than_once_are_refused(windowing: str, transform: str) -> None:
    window_into, message = WINDOWINGS[windowing]
    elements = pipeline() | beam.Create([("a", "b")]) | window_into()
    with pytest.raises(WindowingError, match=message):
        elements | TRANSFORMS[transform]()


@pytest.mark.parametrize("source", ["test stream", "periodic impulse"])
def test_unbounded_input_in_the_global_window_is_refused(source: str) -> None:
    read = Stream().add_elements(["a"]).advance_watermark_to_infinity()
    elements = pipeline() | (read if source == "test stream" else PeriodicImpulse())
    with pytest.raises(WindowingError, match=r"Unbounded input.*Add WindowInto\(FixedWindows"):
        elements | globally()
    assert elements | beam.WindowInto(FIXED) | "Windowed" >> globally() is not None


def test_a_flatten_of_different_windowings_is_refused() -> None:
    source = pipeline() | beam.Create(["a"])
    others = source | "Others" >> beam.Map(str)
    flat = (source | beam.WindowInto(window.FixedWindows(10)), others) | beam.Flatten()
    with pytest.raises(WindowingError, match=r"Flatten .* Add a WindowInto after it"):
        flat | "AfterFlatten" >> globally()
    with pytest.raises(WindowingError, match="Flatten"):
        flat | beam.Map(str) | "AfterMap" >> globally()
    assert flat | "Fixed" >> beam.WindowInto(FIXED) | "AfterWindow" >> globally() is not None
    alike = (source, source | "Str" >> beam.Map(str)) | "Alike" >> beam.Flatten()
    assert alike | "AfterAlike" >> globally() is not None


def test_records_copied_by_earlier_windows_are_refused() -> None:
    """A record of a minute in windows of 60 and 10 seconds would count 6 times under the noise for one."""
    message = (
        "SlidingWindows before another WindowInto .* Remove the first WindowInto, or protect privacy ids with PrivacyId"
    )
    source = pipeline() | beam.Create([("a", "b")])
    sliding = source | "Sliding" >> beam.WindowInto(window.SlidingWindows(60, 10))
    fixed = sliding | "Fixed" >> beam.WindowInto(FIXED)
    shuffled = fixed | beam.Reshuffle()
    others = source | "Others" >> beam.Map(tuple)
    flat = (others, sliding) | beam.Flatten() | "Map" >> beam.Map(tuple) | "Flat" >> beam.WindowInto(FIXED)
    twice = sliding | "Twice" >> beam.WindowInto(window.SlidingWindows(60, 30))
    for name, copied in (("fixed", fixed), ("shuffled", shuffled), ("flat", flat), ("twice", twice)):
        with pytest.raises(WindowingError, match=message):
            copied | f"{name} one" >> globally(item=len)
        with pytest.raises(WindowingError, match=message):
            copied | f"{name} keys" >> per_key(keys=AssumePublicKeys())
        by_id = PrivacyId(len, RecordBounds(1), max_windows=2, period=3600)
        assert copied | f"{name} id" >> globally(privacy_unit=by_id, item=len) is not None
    with pytest.raises(WindowingError, match=message):
        (
            sliding
            | "Global" >> beam.WindowInto(window.GlobalWindows())
            | PrivateFrequencies(SPEC, PRIVACY, windows=Horizon(0, 60, 4), privacy_unit=Record(), item=len)
        )
    assert sliding | "charged" >> globally(item=len) is not None


def test_at_least_once_delivery_is_refused() -> None:
    option = "--dataflow_service_options=streaming_mode_at_least_once"
    with pytest.raises(WindowingError, match=r"streaming_mode_at_least_once .* Remove it"):
        pipeline(option) | beam.Create(["a"]) | globally()


def test_ids_in_overlapping_windows_need_a_limit() -> None:
    sliding = pipeline() | beam.Create([("a", "b")]) | beam.WindowInto(window.SlidingWindows(60, 10))
    message = r"SlidingWindows with a PrivacyId .* max_windows, use FixedWindows, or protect .* with Record\(\)"
    with pytest.raises(WindowingError, match=message):
        sliding | globally(privacy_unit=BY_ID)


def test_public_keys_in_windows_need_a_range_of_time() -> None:
    fixed = pipeline() | beam.Create([("a", "b")]) | beam.WindowInto(FIXED)
    message = (
        r"PublicKeys in undeclared windows .* windows=TimeRange\(start, end\), the global window, or AssumePublicKeys"
    )
    with pytest.raises(WindowingError, match=message):
        fixed | per_key(keys=PublicKeys(["a"]))


def by_id(max_windows: Any = 2, period: Any = None, **arguments: Any) -> Any:
    """A transform that counts an id in some windows only."""
    return globally(privacy_unit=PrivacyId(len, RecordBounds(1), max_windows=max_windows, period=period), **arguments)


DAYS = beam.WindowInto(window.FixedWindows(86_400))
HOURS = beam.WindowInto(window.SlidingWindows(7200, 3600))
LIMITS: dict[str, tuple[beam.WindowInto, dict[str, Any], str]] = {
    "global window": (
        beam.WindowInto(window.GlobalWindows()),
        {},
        r"max_windows is not supported in the global window.* WindowInto\(Fixed",
    ),
    "windows off the period": (DAYS, {"period": 90_000}, "period must be a multiple of 1 day"),
    "period below a window": (
        DAYS,
        {"period": 3600},
        "a multiple of 1 day, the time between window starts, got 1 hour",
    ),
    "slides off the period": (HOURS, {"period": 5400}, "period must be a multiple of 1 hour"),
    "more windows than a period": (
        HOURS,
        {"period": 3600},
        "max_windows must be at most 1, the number of windows in each period",
    ),
    "more windows than the range": (
        DAYS,
        {"windows": TimeRange(0, 86_400)},
        "max_windows must be at most 1, the number of windows in the TimeRange, got 2",
    ),
    "windows finer than Beam": (
        beam.WindowInto(window.FixedWindows(window.Duration(micros=1500))),
        {},
        "max_windows and a NormBound require windows in whole milliseconds",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_that_do_not_fit_the_windows_are_refused(name: str) -> None:
    windowing, arguments, message = LIMITS[name]
    with pytest.raises(WindowingError, match=message):
        pipeline() | beam.Create(["a"]) | windowing | by_id(**arguments)


def test_a_limit_on_unbounded_input_needs_an_end() -> None:
    source = pipeline() | Stream().add_elements(["a"]).advance_watermark_to_infinity() | HOURS
    with pytest.raises(WindowingError, match="max_windows on unbounded input requires a period or windows=TimeRange"):
        source | by_id()
    for name, arguments in (("Period", {"period": 7200}), ("Range", {"windows": TimeRange(0, 86_400)})):
        assert source | name >> by_id(**arguments) is not None
    assert pipeline() | beam.Create(["a"]) | HOURS | by_id() is not None


def by_norm(**arguments: Any) -> Any:
    """A transform that bounds the length of an id."""
    return globally(privacy_unit=PrivacyId(len, NormBound(3), **arguments))


NORMS: dict[str, tuple[bool, beam.WindowInto, dict[str, Any], str]] = {
    "limited windows of a batch": (
        True,
        DAYS,
        {"max_windows": 2},
        "max_windows is not supported with a NormBound on bounded input, because the norm covers all windows, or all",
    ),
    "limited sliding windows of a batch": (
        True,
        HOURS,
        {"max_windows": 2, "period": 86_400},
        "is not supported with a NormBound",
    ),
    "all windows of a stream": (
        False,
        DAYS,
        {"period": 604_800},
        "max_windows is required with a NormBound on unbounded input, because each window is clipped .* PrivacyId",
    ),
    "windows without end": (False, DAYS, {"max_windows": 2}, "max_windows on unbounded input requires a period"),
    "the global window": (
        True,
        beam.WindowInto(window.GlobalWindows()),
        {"period": 60},
        "period is not supported in the global window",
    ),
    "windows off the period": (True, DAYS, {"period": 90_000}, "period must be a multiple of 1 day"),
    "sessions": (True, beam.WindowInto(window.Sessions(10)), {}, "Sessions.* Use FixedWindows or SlidingWindows"),
}


@pytest.mark.parametrize("name", NORMS)
def test_windows_that_one_norm_cannot_cover_are_refused(name: str) -> None:
    is_bounded, windowing, arguments, message = NORMS[name]
    elements = pipeline() | (beam.Create(["a"]) if is_bounded else Stream().add_elements(["a"]))
    with pytest.raises(WindowingError, match=message):
        elements | windowing | by_norm(**arguments)


CONSTRUCTIONS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "rho hides nothing": (
        lambda: globally(privacy=PrivacySpec(rho=1e3)),
        ValueError,
        r"rho must be at most 391\.837 .* got 1000\. With less noise \(sigma below 1/16\), counters would be",
    ),
    "rho hides nothing in a CombineFn": (
        lambda: PrivateSketchFn(SPEC, PrivacySpec(rho=1e3)),
        ValueError,
        "rho must be at most 391",
    ),
    "no unit": (lambda: PrivateFrequencies(SPEC, PRIVACY), TypeError, "missing .* argument: 'privacy_unit'"),
    "nobody": (
        lambda: globally(privacy_unit=None),
        TypeError,
        r"privacy_unit must be PrivacyId\(\"field\", .*, or Record\(\), .*NoneType",
    ),
    "a field as the unit": (
        lambda: globally(privacy_unit="user"),
        TypeError,
        "privacy_unit must be PrivacyId.* Got str",
    ),
    "a privacy id without bounds": (lambda: PrivacyId("user"), TypeError, "missing .* argument: 'bounds'"),
    "bounds that say nothing": (
        lambda: RecordBounds(),
        TypeError,
        r"missing .* 'max_records'\. Call RecordBounds\(max_records, ",
    ),
    **{
        f"weights without a largest one: {name}": (
            build,
            ValueError,
            r"max_weight is required with weight\. .* Example: Record\(max_weight=100\) or NormBound\(200, max_w",
        )
        for name, build in {
            "record": lambda: globally(weight="n", privacy_unit=Record()),
            "bounds of records": lambda: per_key(
                weight="n", privacy_unit=in_keys(BY_ID, "key"), keys=AssumePublicKeys()
            ),
            "CombineFn": lambda: PrivateSketchFn(COUNT_MIN, PRIVACY, weight="n"),
            "bounding": lambda: BoundContributions(BY_ID, weight="n"),
        }.items()
    },
    "more partitions than keys": (
        lambda: per_key(privacy_unit=PrivacyId("u", RecordBounds(1, max_keys=3)), keys=PublicKeys(["a", "b", "a"])),
        ValueError,
        "max_keys must be at most 2, the number of listed keys, got 3. A larger bound only",
    ),
    "an id in a CombineFn": (
        lambda: PrivateSketchFn(SPEC, PRIVACY, privacy_unit=BY_ID),
        TypeError,
        "privacy_unit must be a Record, got PrivacyId",
    ),
    "a list as the keys": (
        lambda: per_key(keys=["a"]),
        TypeError,
        r"keys must be PublicKeys\(\[...\]\), KeySelection.* got list",
    ),
    "a word as the keys": (lambda: per_key(keys="no"), TypeError, "keys must be PublicKeys.* got str"),
    "no public key": (lambda: PublicKeys([]), ValueError, "keys must not be empty"),
    "one text as the keys": (
        lambda: PublicKeys("abc"),
        TypeError,
        "keys must be a list, got one text; put it in a list",
    ),
    "a key that is no key": (lambda: PublicKeys([1.5]), TypeError, "got float"),
    "partitions without keys": (
        lambda: globally(privacy_unit=PrivacyId("user", RecordBounds(1, max_keys=2))),
        ValueError,
        "max_keys is supported only with keys",
    ),
    "no spec": (lambda: globally(spec=(3, 16)), TypeError, "spec must be a SketchSpec"),
    "rho as the privacy": (lambda: globally(privacy=1.0), TypeError, "privacy must be a PrivacySpec"),
    "a number as the bounds": (
        lambda: PrivacyId("user", 3),
        TypeError,
        r"bounds must be NormBound\(...\), AutoNorm\(\) or RecordBounds\(...\), got int",
    ),
    "a selector that selects nothing": (
        lambda: globally(item=3),
        TypeError,
        "item must be a field name, a callable or None, got int",
    ),
    "an empty weight": (lambda: globally(weight=""), TypeError, "weight must be a field name"),
    "an empty privacy id": (lambda: PrivacyId("", RecordBounds(1)), TypeError, "field must be a field name"),
    "a key of a wrong type": (lambda: AssumePublicKeys(1), TypeError, "field must be a field name"),
    "an id of nobody": (lambda: PrivacyId(None, RecordBounds(1)), TypeError, "field is required: .* the privacy id"),
    "bounding of records": (
        lambda: BoundContributions(RECORD),
        TypeError,
        "privacy_unit must be a PrivacyId, got Record",
    ),
    "bounding over windows": (
        lambda: BoundContributions(PrivacyId("user", RecordBounds(1), max_windows=2)),
        ValueError,
        "max_windows must be left out. BoundContributions bounds each window separately",
    ),
    "bounding by a norm": (
        lambda: BoundContributions(PrivacyId("user", NormBound(3))),
        ValueError,
        "bounds must be RecordBounds. BoundContributions has no counters that a NormBound could scale",
    ),
    "an automatic norm over a horizon": (
        lambda: PrivateFrequencies(
            SPEC, PRIVACY, windows=Horizon(0, 60, 4), privacy_unit=PrivacyId("user", AutoNorm())
        ),
        ValueError,
        r"bounds must not be AutoNorm\(\) in continual release. Set the norm that an earlier release reports",
    ),
    "a norm of one record": (lambda: Record(NormBound(3)), TypeError, r"too many positional arguments\. Call Record"),
    "a norm as the unit": (
        lambda: globally(privacy_unit=NormBound(3)),
        TypeError,
        r"privacy_unit must be PrivacyId\(.*Got NormBound",
    ),
    "a norm in a CombineFn": (
        lambda: PrivateSketchFn(SPEC, PRIVACY, privacy_unit=PrivacyId("user", NormBound(3))),
        TypeError,
        "privacy_unit must be a Record, got PrivacyId",
    ),
    "weights without a largest one under a norm": (
        lambda: globally(weight="n", privacy_unit=PrivacyId("user", NormBound(3))),
        ValueError,
        "max_weight is required with weight",
    ),
    "a pair as the windows": (lambda: globally(windows=(0, 60)), TypeError, "a TimeRange or Horizon, got tuple"),
    "a range that ends before it starts": (lambda: TimeRange(60, 0), ValueError, "end must be after start"),
    "a period of nothing": (
        lambda: PrivacyId("user", RecordBounds(1), period=60),
        ValueError,
        "period requires max_windows: the number of windows per period",
    ),
    "no window": (lambda: by_id(0), ValueError, "max_windows must be between 1 and 4294967295, got 0"),
    "half a window": (lambda: by_id(1.5), TypeError, "max_windows must be a whole"),
    "no time": (lambda: by_id(period=0), ValueError, "period must be greater than 0"),
    "time backwards": (lambda: by_id(period=window.Duration(-1)), ValueError, "period must be greater than 0"),
    "less than Beam keeps": (lambda: by_id(period=0.0005), ValueError, "period must be in whole milliseconds"),
    "more time than there is": (lambda: by_id(period=1e30), ValueError, "within the times that Beam supports"),
    "time in words": (lambda: by_id(period="a day"), TypeError, "period must be a duration, such as .*, got str"),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_settings_that_cannot_be_meant_are_refused(name: str) -> None:
    construct, error, message = CONSTRUCTIONS[name]
    with pytest.raises(error, match=message):
        construct()


def test_sigma_of_one_sixteenth_is_the_least_that_is_accepted() -> None:
    """3 rows: the squared change of an added record is 3, and 3 / (2 * 384) is 1/256."""
    assert globally(privacy=PrivacySpec(rho=384, summary_counts=None)) is not None
    with pytest.raises(ValueError, match="rho must be at most 384"):
        globally(privacy=PrivacySpec(rho=384.001, summary_counts=None))


def test_windows_of_a_record_are_charged_before_rho_is_judged() -> None:
    windowed = pipeline() | beam.Create(["a"]) | beam.WindowInto(window.SlidingWindows(60, 10))
    assert windowed | globally(privacy=PrivacySpec(rho=6, summary_counts=None)) is not None


class Visit(NamedTuple):
    user: str
    page: str


UNKNOWN_NAMES: dict[str, dict[str, Any]] = {
    "item": {"item": "word"},
    "weight": {"item": "page", "weight": "word"},
    "privacy_id": {"item": "page", "privacy_unit": PrivacyId("word", RecordBounds(1))},
}


@pytest.mark.parametrize("argument", UNKNOWN_NAMES)
@pytest.mark.parametrize("schema", ["rows", "named tuples"])
def test_names_that_a_declared_schema_lacks_are_refused(schema: str, argument: str) -> None:
    source = pipeline() | beam.Create([1])
    elements = {
        "rows": source | "Rows" >> beam.Map(lambda _: beam.Row(user="u", page="p")),
        "named tuples": source | "Tuples" >> beam.Map(lambda _: Visit("u", "p")).with_output_types(Visit),
    }[schema]
    with pytest.raises(ValueError, match=f"{argument}='word' is not a field. Fields: user, page"):
        elements | globally(**UNKNOWN_NAMES[argument])


def test_a_key_that_a_declared_schema_lacks_is_refused() -> None:
    rows = pipeline() | beam.Create([1]) | beam.Map(lambda _: beam.Row(user="u", page="p"))
    with pytest.raises(ValueError, match=r"key='word' is not a field. Fields:"):
        rows | per_key(item="page", keys=AssumePublicKeys("word"))


def of_id(field: str, item: str | None = "page") -> Any:
    return globally(item=item, privacy_unit=PrivacyId(field, RecordBounds(1)))


BATCH = {"user": ["u"], "page": ["p"], "share": [0.5], "seen": [True], "pages": [["p"]]}
NO_CALLABLE = "must be a column name, because elements are batches"
BATCHES: dict[str, tuple[Callable[[], beam.PTransform], str]] = {
    "missing item": (lambda: globally(item="word"), "item='word' is not a column of the batch"),
    "missing weight": (lambda: globally(item="page", weight="word"), "weight='word' is not a column"),
    "missing id": (lambda: of_id("word"), "privacy_id='word' is not a column"),
    "missing key": (
        lambda: per_key(item="page", keys=AssumePublicKeys("word")),
        "key='word' is not a column of the batch",
    ),
    "float item": (
        lambda: globally(item="share"),
        "item='share' must contain text, bytes or integers, got double. Round the column",
    ),
    "float id": (lambda: of_id("share"), "privacy_id='share' must contain text, bytes or integers, got double"),
    "float key": (
        lambda: per_key(item="page", keys=AssumePublicKeys("share")),
        "key='share' must contain text, bytes or integers, got double",
    ),
    "bool item": (lambda: of_id("user", item="seen"), "item='seen' must contain text"),
    "nested item": (lambda: of_id("user", item="pages"), "item='pages' must contain text"),
    "text weight": (
        lambda: globally(item="page", weight="user"),
        "weight='user' must contain whole numbers, got string. Convert the column to numbers",
    ),
    "callable item": (lambda: globally(item=len), f"item {NO_CALLABLE}"),
    "no item": (globally, f"item {NO_CALLABLE}"),
    "callable weight": (
        lambda: globally(item="page", weight=len, privacy_unit=Record(max_weight=2)),
        f"weight {NO_CALLABLE}",
    ),
    "callable id": (lambda: globally(item="page", privacy_unit=BY_ID), f"privacy_id {NO_CALLABLE}"),
    "callable key": (lambda: per_key(item="page", keys=AssumePublicKeys(len)), f"key {NO_CALLABLE}"),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", BATCHES)
def test_columns_that_cannot_be_read_are_errors(name: str) -> None:
    transform, message = BATCHES[name]
    with pytest.raises(Exception, match=message):
        run([pa.table(BATCH)], transform())


def test_rows_as_items_are_refused() -> None:
    """Runners disagree about what a row is."""
    rows = pipeline() | beam.Create([1]) | beam.Map(lambda _: beam.Row(user="u", page="p"))
    transforms = [globally(), of_id("user", item=None), per_key(keys=AssumePublicKeys("user"))]
    for number, transform in enumerate(transforms):
        with pytest.raises(ValueError, match=r"item is required, because elements are rows. Fields: user, page"):
            rows | str(number) >> transform
    tuples = rows | "Tuples" >> beam.Map(lambda _: Visit("u", "p")).with_output_types(Visit)
    assert tuples | globally() is not None
