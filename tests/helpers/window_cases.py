"""Settings of tables with times, records of ten days, and what a pipeline with the same windows makes of them."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch.config import read_release
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.rows.base import private_transform
from tests.helpers import frame_cases
from tests.helpers.frame_cases import PlantedSecret, counters, keyed
from tests.helpers.pipelines import seen_by_sink

UTC = datetime.UTC
START, DAY = datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.timedelta(days=1)


def _time(place: int) -> datetime.datetime | None:
    """Times from the day before the range to the day after; the edges of windows; some are missing."""
    if place % 50 == 7:
        return None
    return (
        START + DAY * (place % 11 - 1)
        if place % 20 == 3
        else START + datetime.timedelta(minutes=place * 7919 % 14400 - 1440, microseconds=place % 1000)
    )


TABLE = frame_cases.TABLE.append_column(
    "at", pa.array([*map(_time, range(len(frame_cases.TABLE)))], pa.timestamp("us", "UTC"))
)
_DAYS = {"windows": {"start": "2024-01-01", "end": "2024-01-08"}, "time": {"field": "at", "every": "1d"}}
_WEEKS = {**_DAYS, "time": {"field": "at", "every": "1d", "window_size": "3d"}}
_ROWS = {"horizon": {"start": "2024-01-01", "window_size": "1d", "windows": 7}, "time": "at"}
_TREE = {"horizon": {**_ROWS["horizon"], "mechanism": "tree"}, "time": "at"}  # type: ignore[dict-item]


def _in(windows: dict[str, Any], name: str, **unit: Any) -> dict[str, Any]:
    settings = frame_cases.SETTINGS[name]
    return {**settings, **windows, **({"unit": {**settings["unit"], **unit}} if unit else {})}


_METRICS = [
    {"name": "cities", "kind": "frequencies", "item": "city", "spec": {"depth": 3, "width": 32}, "share": "1/4"},
    {**frame_cases._MINUTES, "name": "ranks", "kind": "quantiles", "share": "1/4"},
    {**frame_cases._NUMBERS, "name": "minutes", "share": "1/2"},
]


def _metrics(windows: dict[str, Any], name: str, **unit: Any) -> dict[str, Any]:
    """Return settings of several metrics of the same records, in place of one."""
    of_all = {name: value for name, value in _in(windows, name, **unit).items() if name not in ("item", "spec")}
    metrics = [{name: value for name, value in each.items() if name != "privacy"} for each in _METRICS]
    return {**of_all, "kind": "metrics", "metrics": metrics}


_MAX_3, _OF_3_DAYS = {"max_windows": 2}, {"max_windows": 2, "period": "3d"}
SETTINGS: dict[str, dict[str, Any]] = {
    "records": _in(_DAYS, "records"),
    "records in sliding windows": _in(_WEEKS, "records, weights, listed keys", **_MAX_3),
    "records, max_windows": _in(_DAYS, "records, weights, listed keys", **_MAX_3),
    "records, period": _in(_DAYS, "records, ids are numbers", **_OF_3_DAYS),
    "records, deletions": _in(_DAYS, "records, deletions", **_MAX_3),
    "records, chosen keys": _in(_DAYS, "records, chosen keys"),
    "norm": _in(_DAYS, "norm"),
    "norm in sliding windows": _in(_WEEKS, "norm"),
    "norm, period": _in(_DAYS, "norm", period="2d"),
    "norm, chosen keys": _in(_DAYS, "norm, chosen keys"),
    "chosen norm": _in(_DAYS, "chosen norm"),
    "chosen norm, period, listed keys": _in(_DAYS, "chosen norm, weights, listed keys", period="2d"),
    "single records": _in(_DAYS, "count_min of single records"),
    "single records in sliding windows": _in(_WEEKS, "single records, chosen keys"),
    "a pure epsilon": _in(_DAYS, "a pure epsilon"),
    "listed items": _in(_DAYS, "listed items"),
    "quantiles": _in(_DAYS, "quantiles, norm, listed keys"),
    "top-K of text": _in(_DAYS, "top-K of text"),
    "groups": _in(_DAYS, "groups"),
    "groups, chosen norm": _in(_DAYS, "groups, chosen norm"),
    "groups, records, listed keys": _in(_DAYS, "groups, records, listed keys", **_MAX_3),
    "groups of single records, listed keys": {**_in(_DAYS, "groups, records, listed keys"), "unit": "record"},
    "statistics, listed keys, max_windows": _in(_DAYS, "statistics, weights, listed keys", **_MAX_3),
    "statistics in sliding windows": {**_in(_WEEKS, "statistics, norm, assumed keys"), **frame_cases._LISTED},
    "statistics, chosen norm, period": _in(_DAYS, "statistics, chosen norm, listed keys", period="2d"),
    "rows": _in(_ROWS, "records", **_OF_3_DAYS | {"period": None}),
    "rows, norm, listed keys": _in(_ROWS, "quantiles, norm, listed keys"),
    "rows, chosen keys": _in(_ROWS, "records, chosen keys", **_MAX_3),
    "rows of a tree": _in(_TREE, "count_min of single records"),
    "rows of statistics": _in(_ROWS, "statistics, weights, listed keys", **_MAX_3),
    "metrics in sliding windows": _metrics(_WEEKS, "norm"),
    "metrics, max_windows, listed keys": _metrics(_DAYS, "records, weights, listed keys", **_MAX_3),
    "metrics, chosen norm, period": _metrics(_DAYS, "chosen norm, weights, listed keys", period="2d"),
    "metrics of single records": _metrics(_DAYS, "count_min of single records"),
    "rows of metrics": _metrics(_ROWS, "records, chosen keys", **_MAX_3),
}
CONFIGS = {name: read_release(settings) for name, settings in SETTINGS.items()}


def windows_before(declared: ReleaseSpec) -> beam.PTransform:
    """The windows that a pipeline has before the transform."""
    if (time := declared.time) is None or declared.horizon is not None:
        return beam.Map(lambda element: element)
    every, size = Duration(micros=time.every_micros), Duration(micros=time.size_micros)
    return beam.WindowInto(window.FixedWindows(size) if every == size else window.SlidingWindows(size, every))


def of_pipeline(names: list[str], counted: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The exact counters of some settings, and the released bytes of all, by window and key, or row."""
    rows = [row for row in TABLE.to_pylist() if row["at"] is not None]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = pipeline | beam.Create(rows) | beam.Map(_stamped).with_output_types(dict[str, Any])
        outputs = []
        for name in names:
            declared = CONFIGS[name]
            private = private_transform(dataclasses.replace(declared, time=None))
            private = private.with_idempotent_noise(release_id=name, secret=PlantedSecret())
            before, is_keyed = timed | f"Windows {name}" >> windows_before(declared), declared.is_keyed
            if name in counted:
                sums = before | f"Sums {name}" >> frame_cases._Sums(private)
                is_pair = is_keyed or declared.count.by_item
                outputs.append(sums | f"Counters {name}" >> beam.Map(_sums_of, name, is_pair))
            outputs.append(before | name >> private | f"Bytes {name}" >> beam.Map(_release_of, name, is_keyed))
        return outputs | beam.Flatten()

    found: tuple[dict[str, Any], dict[str, Any]] = ({name: {} for name in counted}, {name: {} for name in names})
    for which, name, place, value in seen_by_sink(build):
        assert place not in found[which][name]
        found[which][name][place] = value
    return found


def _stamped(row: dict[str, Any]) -> window.TimestampedValue:
    micros = (row["at"] - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(microseconds=1)
    return window.TimestampedValue(row, Timestamp(micros=micros))


def _sums_of(output: Any, name: str, is_pair: bool, at: Any = beam.DoFn.WindowParam) -> tuple[int, str, Any, Any]:
    key, summed = output if is_pair else (None, output)
    return 0, name, (at.start.micros, key), counters(summed)


def _release_of(output: Any, name: str, is_keyed: bool, at: Any = beam.DoFn.WindowParam) -> tuple[int, str, Any, Any]:
    key, released = output if is_keyed else (None, output)
    released = getattr(released, "release", released)
    which = released.number if released.is_row else at.start.micros
    return 1, name, (which, key), released.to_bytes()


def bytes_of_frame(name: str, table: Any = TABLE) -> dict[tuple[int, Any], bytes]:
    """The bytes of what `release_frame` makes of a table, by the start of the window, or the row, and the key."""
    declared = CONFIGS[name]
    released, _ = release_table(table, declared, keyed(name))
    if declared.horizon is not None:
        by_key = released if declared.is_keyed else {None: released}
        return {(row.number, key): row.to_bytes() for key, rows in by_key.items() for row in rows}
    found = {}
    for each, of_window in released.items():
        start = int(each.start.timestamp()) * 1_000_000
        by_key = of_window if declared.is_keyed else {None: of_window}
        found |= {(start, key): one.to_bytes() for key, one in by_key.items()}
    return found
