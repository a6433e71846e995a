"""Windows of a table are those of a pipeline: exact counters, and under one secret the same releases, byte for byte."""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch import ArgumentError, ConfigError, SketchTimeline, rehearse
from beam_dpsketch.config import read_release
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.frames.releasing import read_declared, release_table
from beam_dpsketch.frames.steps import drawing as over_time
from beam_dpsketch.frames.steps import sums, tables
from beam_dpsketch.frames.steps.plan import resolve
from beam_dpsketch.frames.steps.windows import TimedWindows
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.rows.base import private_transform
from beam_dpsketch.statement.accounting import add_up
from tests.helpers import frame_cases, laws
from tests.helpers.frame_cases import ORDER, PlantedSecret, counters, exact_of_frame, keyed
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
_WEEKS = {  # the size is no multiple of the step
    "windows": {"start": "2024-01-01", "end": "2024-01-08T12:00:00Z"},
    "time": {"field": "at", "every": "1d", "window_size": "60h"},
}
_ROWS = {"horizon": {"start": "2024-01-01", "window_size": "1d", "windows": 7}, "time": "at"}
_TREE = {"horizon": {**_ROWS["horizon"], "mechanism": "tree"}, "time": "at"}  # type: ignore[dict-item]


def _in(windows: dict[str, Any], name: str, **privacy_unit: Any) -> dict[str, Any]:
    settings = frame_cases.SETTINGS[name]
    return {
        **settings,
        **windows,
        **({"privacy_unit": {**settings["privacy_unit"], **privacy_unit}} if privacy_unit else {}),
    }


_METRICS = [
    {"name": "cities", "kind": "frequencies", "item": "city", "spec": {"depth": 3, "width": 32}, "share": "1/4"},
    {**frame_cases._MINUTES, "name": "ranks", "kind": "quantiles", "share": "1/4"},
    {**frame_cases._NUMBERS, "name": "minutes", "share": "1/2"},
]


def _metrics(windows: dict[str, Any], name: str, **privacy_unit: Any) -> dict[str, Any]:
    """Return settings of several metrics of the same records, in place of one."""
    of_all = {name: value for name, value in _in(windows, name, **privacy_unit).items() if name not in ("item", "spec")}
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
    "groups of single records, listed keys": {**_in(_DAYS, "groups, records, listed keys"), "privacy_unit": "record"},
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


FAST = [
    "records, period",
    "chosen norm, period, listed keys",
    "single records in sliding windows",
    "groups",
    "statistics, listed keys, max_windows",
    "metrics, chosen norm, period",
    "rows",
]


@functools.cache
def expected(name: str) -> dict[tuple[int, Any], bytes]:
    """The bytes of the table as it is, which all its forms must give."""
    return bytes_of_frame(name)


def assert_same(names: list[str]) -> None:
    """Compare counters and bytes with those of one pipeline."""
    counted = [name for name in names if CONFIGS[name].horizon is None]
    sums_of, bytes_of = of_pipeline(names, counted)
    assert {name: exact_of_frame(CONFIGS[name], name, TABLE) for name in counted} == sums_of
    assert {name: bytes_of_frame(name) for name in names} == bytes_of


@pytest.mark.pipeline
def test_counters_and_releases_are_those_of_a_pipeline() -> None:
    assert_same([*FAST[::2], "rows of metrics"])


@pytest.mark.slow
@pytest.mark.pipeline
def test_counters_and_releases_of_every_second_setting_are_those_of_a_pipeline() -> None:
    assert_same([*CONFIGS][::2])


def as_text(zone: str) -> Any:
    def convert(times: pa.ChunkedArray) -> pa.Array:
        moved = datetime.timezone(datetime.timedelta(hours=int(zone[:3])))
        return pa.array([None if each is None else each.astimezone(moved).isoformat() for each in times.to_pylist()])

    return convert


TIMES: dict[str, Callable[[pa.ChunkedArray], Any]] = {
    "nanoseconds, rounded down": lambda times: pc.add(
        times.cast(pa.timestamp("ns")), pa.scalar(999, pa.duration("ns"))
    ),
    "another zone": lambda times: times.cast(pa.timestamp("us", "Asia/Kolkata")),
    "without a zone": lambda times: times.cast(pa.timestamp("us")),
    "text": as_text("+00:00"),
    "text of another zone": as_text("-09:00"),
    "text in a dictionary": lambda times: as_text("+05:00")(times).dictionary_encode(),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("form", TIMES)
def test_times_of_every_form_lead_to_the_same_windows(form: str) -> None:
    place = TABLE.schema.get_field_index("at")
    other = TABLE.set_column(place, "at", TIMES[form](TABLE["at"]))
    for name in FAST:
        assert bytes_of_frame(name, other) == expected(name), name


@pytest.mark.one_fast_case
@pytest.mark.parametrize("unit", ["s", "ms", "date32", "date64"])
def test_coarse_times_and_dates_lead_to_the_same_windows(unit: str) -> None:
    """No window is shorter than a day, so nothing moves to another one; sliding windows begin at noon too."""
    kind = {"date32": pa.date32(), "date64": pa.date64()}.get(unit) or pa.timestamp(unit)
    coarse = TABLE["at"].cast(pa.timestamp("us")).cast(kind, safe=False)
    other = TABLE.set_column(TABLE.schema.get_field_index("at"), "at", coarse)
    for name in FAST:
        if not (unit.startswith("date") and "sliding" in name):
            assert bytes_of_frame(name, other) == expected(name), name


@pytest.mark.parametrize(
    "form", ["pandas", "pandas, times as objects", "Polars", pytest.param("small parts", marks=pytest.mark.slow)]
)
def test_every_form_of_a_table_gives_the_same_releases(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FAST:
        expected(name)  # before parts become small
    table: Any = TABLE.take(pa.array(ORDER))
    if form.startswith("pandas"):
        table = table.to_pandas().set_index(np.linspace(0, 1, len(TABLE)))  # positions count, and not the index
    if form.endswith("objects"):
        table["at"] = pd.Series(table["at"].dt.to_pydatetime(), dtype=object, index=table.index)
    if form == "Polars":
        table = pytest.importorskip("polars").from_arrow(table)
    if form == "small parts":
        monkeypatch.setattr(tables, "ROWS", 113)
        monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 200)
    for name in FAST:
        assert bytes_of_frame(name, table) == expected(name), name


def test_every_declared_window_has_a_release_in_the_order_of_time() -> None:
    nobody = TABLE.slice(0, 0)
    for name, of_window in (("records", None), ("quantiles", ["NO", "IT", "FR"]), ("groups", None)):
        for table in (TABLE, nobody):
            released, _ = release_table(table, CONFIGS[name])
            assert [*released] == [(START + n * DAY, START + (n + 1) * DAY) for n in range(7)]
            assert {each.privacy.disclosed for window in released.values() for each in leaves(window)} == {
                Disclosure.NONE
            }
            if of_window is not None:
                assert [[*window] for window in released.values()] == [of_window] * 7


def leaves(released: Any) -> list[Any]:
    return [*released.values()] if isinstance(released, dict) else [released]


def test_where_no_key_is_chosen_every_window_is_empty_and_the_run_says_what_it_spent() -> None:
    released, _ = release_table(TABLE.slice(0, 0), CONFIGS["records, chosen keys"])
    assert [len(each) for each in released.values()] == [0] * 7
    assert released.unreleased.privacy.rho > 0
    rows, _ = release_table(TABLE.slice(0, 0), CONFIGS["rows, chosen keys"])
    assert (dict(rows), rows.unreleased is None) == ({}, False)


def test_all_windows_of_a_run_cost_once() -> None:
    released, _ = release_table(TABLE, CONFIGS["quantiles"])
    (spent,) = add_up([each.privacy for window in released.values() for each in leaves(window)])
    assert spent.rho == CONFIGS["quantiles"].terms.privacy.rho


def test_rows_of_a_table_answer_over_time() -> None:
    """A row lost, or a window counted twice, moves an answer by over 100. Sigma is below 6: 60 are 10 of it, 1e-22."""
    declared = read_release({**SETTINGS["rows of a tree"], "privacy": {"rho": 5}})
    rows, _ = release_table(TABLE, declared)
    assert declared.horizon is not None
    timeline = SketchTimeline(rows, declared.horizon)
    inside = [each for each in TABLE.to_pylist() if each["at"] and START <= each["at"] < START + 7 * DAY]
    assert timeline.available == 7
    assert abs(timeline.prefix(6).records().estimate - sum(each["city"] is not None for each in inside)) < 60


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([START, None] * 200, "about 50 % of the rows have no value"),
        (
            ["2024-01-01", "yesterday"] * 200,
            "about 50 % of the values cannot be read as times, dates, or text in ISO 8601",
        ),
        (
            ["2024-01-01"] * 399 + ["yesterday"],
            "under 1 % of the values cannot be read as times, dates, or text in ISO 8601",
        ),
        (
            [START - DAY] * 400,
            "is outside the declared windows in every row, so no row would count. Check start and end",
        ),
        (
            ["31/01/2024"] * 400,
            "all of the values cannot be read as times, dates, or text in ISO 8601. They look like 99/99/99",
        ),
        ([START, START + 9 * DAY] * 200, "about 50 % of the rows are outside the declared windows"),
        ([START] * 399 + [START + 9 * DAY], None),
    ],
)
def test_times_that_are_dropped_are_told(times: list[Any], words: str | None) -> None:
    table = pa.table({"person": [*range(400)], "city": ["Oslo"] * 400, "at": times})
    try:
        _, told = release_table(table, CONFIGS["norm"])
    except ArgumentError as error:
        told = [str(error)]
    found = [each for each in told if each.startswith("time=")]
    assert (words is None and not found) or found[0].replace(": ", " ").startswith(f"time='at' {words}")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            "number",
            "time='number' must contain times, dates, or text in ISO 8601, got int64. Convert the column to times",
        ),
        ("when", "time.field: 'when' is not a column of the table"),
    ],
)
def test_columns_without_times_are_refused(column: str, words: str) -> None:
    settings = {**SETTINGS["norm"], "time": {"field": column, "every": "1d"}}
    with pytest.raises((ValueError, TypeError), match=words):
        release_table(TABLE, read_release(settings))


def test_a_pipeline_refuses_a_column_of_times() -> None:
    with pytest.raises(ArgumentError, match=r"time is supported only for tables.*E429"), beam.Pipeline() as pipeline:
        pipeline | beam.Create([{"city": "Oslo"}]) | private_transform(CONFIGS["single records"])


@pytest.mark.parametrize("name", FAST)
def test_a_rehearsal_refuses_windows(name: str) -> None:
    with pytest.raises(ConfigError, match=r"time: must be left out. A rehearsal uses the whole sample.*E429"):
        rehearse(TABLE, SETTINGS[name])


def one_early(exact: Any, windows: Any, times: Any) -> Any:
    return exact(windows, pc.subtract(times, pa.scalar(1, pa.duration("us"))))


def of_each_window(exact: Any, windows: Any, window: Any) -> Any:
    return windows.last_millisecond(window)


FAULTS = {
    "a time moves at the edge": laws.around(TimedWindows, "_assign", one_early, "", "records"),
    "a norm of each window alone": laws.around(TimedWindows, "period", of_each_window, "", "norm"),
    "a period of each window alone": laws.around(TimedWindows, "period", of_each_window, "", "records, period"),
    "any number of windows": laws.put(
        sums, "rule_of", lambda given, priorities, _: rule_of(given, priorities), "", "records, max_windows"
    ),
    "a window without data is missing": laws.around(
        sums.ExactSums,
        "by_window",
        lambda exact, *given: {window: each for window, each in exact(*given).items() if window.start % 2},
        "",
        "single records",
    ),
    "rows of other windows": laws.around(
        over_time, "Place", lambda exact, key=(), start=0, end=0: exact(key, start + 1, end), "", "rows of a tree"
    ),
}


@pytest.fixture(scope="module")
def exact() -> dict[str, Any]:
    return {name: bytes_of_frame(name) for name in {fault.given[0] for fault in FAULTS.values()}}


def check(name: str, exact: dict[str, Any]) -> None:
    """Data, secrets and so all choices are fixed: a fault is found always or never."""
    assert bytes_of_frame(name) == exact[name]


test_planted_faults_are_found = laws.mutants(FAULTS, check, error=(AssertionError, KeyError))


def test_a_plan_of_a_table_knows_all_windows_that_one_norm_covers() -> None:
    """A unit counts in each of 7 windows, so the noise of that counter grows by the root of 7."""
    settings = {
        "kind": "frequencies",
        "item": "city",
        "privacy": {"rho": 0.1},
        "privacy_unit": {"privacy_id": "user", "norm": {"max_norm": 20}},
        "windows": {"start": "2024-03-01", "end": "2024-03-08"},
    }
    declared = read_declared({**settings, "time": {"field": "day", "every": "1d"}})
    planned = resolve(declared)[0].plan(None, target_error=0.01, typical=None, quantiles=[0.5])
    of_units = [each.calibrated.aside[0].parameter for each in (resolve(declared)[0], declared.resolved)]
    assert of_units[0] == 7 * of_units[1]
    assert f"privacy ids ±{1.96 * float(of_units[0]) ** 0.5:.2g}" in str(planned)
