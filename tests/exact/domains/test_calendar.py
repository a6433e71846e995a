"""Buckets of a calendar are those of pandas in the time zone, over all changes of clocks."""

from __future__ import annotations

import datetime
import pickle
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import example, given
from hypothesis import strategies as st

from beam_dpsketch import Calendar, Horizon, PublicKeys, TimeColumn
from beam_dpsketch.config import ConfigError, read_keys, read_time
from beam_dpsketch.errors import RefusalError
from beam_dpsketch.exact.domains.calendar import BUCKETS

ZONES = ("UTC", "Europe/Oslo", "America/St_Johns", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia")
ZONES += ("Asia/Kathmandu", "Africa/Casablanca", "America/New_York")
YEARS = st.integers(1973, 2036)


def of_pandas(times: pd.Series, zone: str, bucket: str) -> list[str]:
    """The bucket of each time, as pandas converts it to the clock of the zone."""
    clock = times.dt.tz_convert(ZoneInfo(zone))
    if bucket == "hour":
        offsets = clock.map(lambda time: datetime.datetime(2000, 1, 1, tzinfo=datetime.timezone(time.utcoffset())))
        return [f"{time:%Y-%m-%dT%H}:00{each.isoformat()[19:]}" for time, each in zip(clock, offsets, strict=True)]
    periods = clock.dt.tz_localize(None).dt.to_period({"day": "D", "week": "W-SUN", "month": "M"}[bucket])
    return [f"{each.start_time:%G-W%V}" if bucket == "week" else str(each) for each in periods]


def around(zone: str, year: int) -> list[int]:
    """Microseconds since 1970 next to each change of clocks in a year, and at many other times."""
    first, last = (pd.Timestamp(each, 1, 1).value // 1000 for each in (year, year + 1))
    steps = range(first, last, 1_800_000_000)
    offsets = [datetime.datetime.fromtimestamp(step // 10**6, ZoneInfo(zone)).utcoffset() for step in steps]
    changes = [step for step, old, new in zip(steps[1:], offsets, offsets[1:], strict=False) if old != new]
    minutes = [micros for minute in range(-70, 71) for micros in (minute * 60_000_000 - 1, minute * 60_000_000)]
    return [*(change + each for change in changes for each in minutes), *range(first, last, 7_777_777_777)]


@example(zone="America/St_Johns", year=2006, bucket="day")  # clocks went back at 0:01, so a date came twice
@example(zone="Pacific/Apia", year=2011, bucket="day")  # a day did not exist
@example(zone="Australia/Lord_Howe", year=2026, bucket="hour")  # clocks change by half an hour
@example(zone="America/Sao_Paulo", year=2017, bucket="day")  # a midnight did not exist
@given(zone=st.sampled_from(ZONES), year=YEARS, bucket=st.sampled_from(BUCKETS))
def test_buckets_are_those_of_pandas(zone: str, year: int, bucket: str) -> None:
    start, end = datetime.date(year, 1, 1), datetime.date(year + 1, 1, 1)
    if bucket == "week":
        start, end = (day - datetime.timedelta(days=day.weekday()) for day in (start, end))
    calendar = Calendar("at", bucket, zone=zone, start=start, end=str(end))
    times = pd.Series(np.array(around(zone, year)).astype("datetime64[us]")).dt.tz_localize("UTC")
    local = times.dt.tz_convert(ZoneInfo(zone)).dt.date
    expected = [
        label if start <= day < end else None for label, day in zip(of_pandas(times, zone, bucket), local, strict=True)
    ]
    found, outside = calendar.read(pa.array(times))
    assert found.to_pylist() == expected
    assert outside == expected.count(None)
    assert {*expected} - {None} <= {*calendar.labels}
    assert [calendar.label(time) for time in times[:99]] == expected[:99]


def test_listed_buckets_are_all_that_a_clock_shows() -> None:
    days = Calendar("at", "day", zone="Pacific/Apia", start="2011-12-29", end="2012-01-01")
    assert days.labels == ("2011-12-29", "2011-12-31")
    hours = Calendar("at", "hour", zone="Europe/Oslo", start="2026-10-25", end="2026-10-26").labels
    assert hours[2:4] == ("2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00")
    assert len(hours) == 25
    weeks = Calendar("at", "week", start="2026-12-28", end="2027-01-11").labels
    assert weeks == ("2026-W53", "2027-W01")


def test_equal_times_have_one_bucket_in_all_forms() -> None:
    days = Calendar("at", "day", zone="Asia/Kathmandu", start="2026-11-16", end="2026-11-18")
    time = datetime.datetime(2026, 11, 16, 18, 30, tzinfo=datetime.UTC)
    forms: list[Any] = [
        time,
        time.replace(tzinfo=None),
        Timestamp.from_utc_datetime(time),
        np.datetime64("2026-11-16T18:30"),
    ]
    forms += ["2026-11-16T18:30:00Z", "2026-11-17T00:15+05:45", pd.Timestamp(time)]
    assert {days.label(each) for each in forms} == {*days.read(forms)[0].to_pylist()} == {"2026-11-17"}
    assert days.label(datetime.date(2026, 11, 17)) == "2026-11-17"
    nothing: list[Any] = [None, "soon", 3, 2.5, float("nan"), pd.NaT, (), datetime.datetime.min, datetime.datetime.max]
    assert [days.label(each) for each in nothing] == days.read(nothing)[0].to_pylist() == [None] * len(nothing)
    assert pickle.loads(pickle.dumps(days)) == days


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bucket": "year"}, "bucket must be one of"),
        ({"zone": "Oslo"}, "zone must be a time zone"),
        ({"zone": "/etc/passwd"}, "zone must be a time zone"),
        ({"end": "2026-11-16"}, "end must be after start"),
        ({"start": "16.11.2026"}, "start must be a day"),
        ({"start": datetime.datetime(2026, 11, 16)}, "start must be a day"),
        ({"bucket": "week", "end": "2026-11-24"}, "end must be a Monday"),
        ({"bucket": "month"}, "start must be the first day of a month"),
        ({"bucket": "hour", "end": "2199-01-01"}, "end must be at most 100,000"),
    ],
)
def test_calendars_that_cannot_be_are_refused(changes: dict[str, Any], words: str) -> None:
    given_ = {"time": "at", "bucket": "day", "start": "2026-11-16", "end": "2026-11-23", **changes}
    with pytest.raises(RefusalError, match=words):
        Calendar(**given_)
    texts = {name: value if isinstance(value, str) else "soon" for name, value in given_.items()}
    with pytest.raises(ConfigError, match=f"keys.field.{words.split()[0]}: "):
        read_keys({"field": texts})


def test_listed_keys_have_a_value_for_each_column() -> None:
    table = pa.table({"country": ["NO", "SE"], "people": [5, 10]})
    days = Calendar("at", "day", start="2026-11-16", end="2026-11-18")
    assert PublicKeys(table, ["people", "country"]).keys == ((5, "NO"), (10, "SE"))
    assert PublicKeys(table.to_pandas()).field == ("country", "people")
    assert PublicKeys([("NO", "web")], ["country", days, "page"]).keys == (
        ("NO", "2026-11-16", "web"),
        ("NO", "2026-11-17", "web"),
    )
    assert PublicKeys(field=days).keys == ("2026-11-16", "2026-11-17")
    for given_, field in ((["NO"], ["a", "b"]), ([("NO",)], ["a", "b"]), (["NO"], days), (table, ["country", "city"])):
        with pytest.raises(RefusalError, match=r"keys must be.*E321"):
            PublicKeys(given_, field)
    with pytest.raises(RefusalError, match="E414"):
        PublicKeys(range(10**6), ["n", days])


def test_calendars_as_windows_are_refused_with_advice() -> None:
    days = Calendar("at", "day", start="2026-11-16", end="2026-11-18")
    for made in (lambda: TimeColumn("at", days), lambda: Horizon(0, days, 3)):
        with pytest.raises(RefusalError, match="as an output key"):
            made()
    for every, fix in (("1 week", "1w"), ("2 days", "2d")):
        with pytest.raises(ConfigError, match=rf"time.every: .* Write {fix} "):
            read_time({"field": "at", "every": every})
    for every in ("month", "week", "1 month"):
        with pytest.raises(ConfigError, match=r"time.every: .* output key, such as keys: \{field: \{time: at"):
            read_time({"field": "at", "every": every})
