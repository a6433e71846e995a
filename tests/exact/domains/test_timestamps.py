"""Times on a grid: each is the grid point at or before it, whatever its type and zone."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import Horizon, NormBound, PrivacyId, TimeColumn, TimeRange, TimestampDomain
from beam_dpsketch.exact.domains.timestamps import to_micros

UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)
DOMAIN = TimestampDomain(datetime.datetime(1960, 1, 1), datetime.datetime(2040, 1, 1))
MICROS = TimestampDomain(EPOCH - datetime.timedelta(1), EPOCH + datetime.timedelta(1), datetime.timedelta(0, 0, 1))
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
seconds = st.integers(-300_000_000, 2_200_000_000)


def positions_of(domain: TimestampDomain, values: Any) -> list[int]:
    positions, usable = domain.index(values)
    assert usable.all()
    return positions.tolist()


@given(times=st.lists(seconds, max_size=5), micros=st.integers(0, 999_999), zone=zones)
def test_every_type_of_time_is_the_same_position(times: list[int], micros: int, zone: datetime.timezone) -> None:
    expected = [second - int(DOMAIN.start.timestamp()) for second in times]
    naive = [EPOCH + datetime.timedelta(seconds=second, microseconds=micros) for second in times]
    beam_times = [Timestamp(seconds=second, micros=micros) for second in times]
    zoned = [each.replace(tzinfo=UTC).astimezone(zone) for each in naive]
    for values in (naive, zoned, beam_times, list(map(pd.Timestamp, naive)), [np.datetime64(each) for each in naive]):
        assert positions_of(DOMAIN, values) == expected
    for unit in ("us", "ns"):
        assert positions_of(DOMAIN, np.array(naive, f"M8[{unit}]")) == expected
    for unit in ("s", "ms", "us", "ns"):
        for named_zone in (None, "Asia/Kolkata"):
            column = pa.array(np.array(naive, "M8[us]").astype(f"M8[{unit}]"))  # Arrow's own cast rounds to zero
            assert positions_of(DOMAIN, column.cast(pa.timestamp(unit, tz=named_zone))) == expected
        assert positions_of(DOMAIN, pa.array(naive, pa.timestamp("us")).dictionary_encode()) == expected


def test_a_time_without_zone_is_in_utc() -> None:
    assert positions_of(MICROS, [EPOCH]) == positions_of(MICROS, [EPOCH.replace(tzinfo=UTC)])
    paris = datetime.timezone(datetime.timedelta(hours=1))
    assert positions_of(MICROS, [EPOCH.replace(tzinfo=paris)]) == [23 * 3_600_000_000]
    assert TimestampDomain(EPOCH, EPOCH.replace(year=1971)) == TimestampDomain(
        EPOCH.replace(tzinfo=UTC), datetime.datetime(1971, 1, 1, 1, tzinfo=paris)
    )


def test_times_and_durations_are_given_as_text_too() -> None:
    days = TimestampDomain(datetime.datetime(2026, 11, 16), datetime.datetime(2026, 11, 23), datetime.timedelta(1))
    assert TimestampDomain("2026-11-16", "2026-11-23", "1d") == days
    assert TimestampDomain("2026-11-16T01:00+01:00", datetime.date(2026, 11, 23), 86_400) == days
    assert TimestampDomain("2026-11-16", "2026-11-23", step="24 h") == days
    assert TimeRange("2026-11-16", "2026-11-23T00:00Z").end_micros == TimeRange(0, days.end).end_micros
    assert TimeColumn("at", "1h", "1.5h").size_micros == TimeColumn("at", 3600, 5400).size_micros
    horizon = Horizon("2026-11-16", "1h", 24)
    assert (horizon.start_micros, horizon.size_micros) == (to_micros(start=days.start), 3_600_000_000)
    assert PrivacyId("user", NormBound(8), period="7d").period_micros == 7 * 86_400_000_000


@pytest.mark.parametrize("nanoseconds", [-1, -999, -1000, -1001, 0, 1, 999, 1000])
def test_nanoseconds_are_rounded_down_on_both_sides_of_1970(nanoseconds: int) -> None:
    expected = [nanoseconds // 1000 + 86_400_000_000]
    assert positions_of(MICROS, np.array([nanoseconds], "M8[ns]")) == expected
    assert positions_of(MICROS, pa.array([nanoseconds], pa.timestamp("ns"))) == expected
    assert positions_of(MICROS, [pd.Timestamp(nanoseconds)]) == expected


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_far_outside_are_clamped_to_the_nearer_end(unit: str) -> None:
    """In seconds, the year 300,000 would wrap around in microseconds."""
    far = [-(1 << 62), 1 << 62]
    if unit == "ns":
        far = [-(1 << 57), 1 << 57]
    for column in (pa.array(far, pa.timestamp(unit)), np.array(far, f"M8[{unit}]")):
        assert positions_of(MICROS, column) == [0, MICROS.size - 1]
    assert positions_of(MICROS, np.array([-(10**6), 10**6], "M8[Y]")) == [0, MICROS.size - 1]
    assert positions_of(MICROS, [MIN_TIMESTAMP, MAX_TIMESTAMP]) == [0, MICROS.size - 1]


def test_the_ends_of_the_calendar_do_not_overflow_in_other_zones() -> None:
    east, west = (datetime.timezone(datetime.timedelta(hours=hours)) for hours in (14, -14))
    ends = [datetime.datetime.min.replace(tzinfo=east), datetime.datetime.max.replace(tzinfo=west)]
    assert positions_of(MICROS, ends) == [0, MICROS.size - 1]


def test_missing_times_are_not_usable() -> None:
    for values in (
        [pd.NaT, None, np.datetime64("NaT")],
        np.array(["NaT", "NaT", "NaT"], "M8[s]"),
        np.array(["NaT", "NaT", "NaT"], "M8"),
        pa.array([None, None, None], pa.timestamp("us")),
    ):
        positions, usable = MICROS.index(values)
        assert (positions.tolist(), usable.tolist()) == ([0, 0, 0], [False, False, False])


def test_values_are_datetimes_in_utc() -> None:
    days = TimestampDomain(EPOCH, EPOCH + datetime.timedelta(days=2, hours=5), datetime.timedelta(days=1))
    assert days.size == 3
    expected = [EPOCH.replace(day=day, tzinfo=UTC) for day in (1, 2, 3)]
    assert days.values(np.arange(3, dtype=np.uint64)) == expected
    assert positions_of(days, [EPOCH.replace(day=2) - datetime.timedelta(0, 0, 1), EPOCH.replace(day=2)]) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((EPOCH, EPOCH), "end must be after start"),
        ((EPOCH, "1971"), "end must be a time, such as .*, got str"),
        ((EPOCH, True), "end must be a time, such as .*, got bool"),
        ((EPOCH, 1e12), "end must be in the years 1 to 9999"),
        ((EPOCH, EPOCH.replace(year=1971), datetime.timedelta(0)), "step must be greater than 0"),
        ((EPOCH, EPOCH.replace(year=1971), -5), "step must be greater than 0"),
        ((EPOCH, EPOCH.replace(year=1971), "0.1ms.5"), "step must be a duration, such as .*, got str"),
    ],
)
def test_bad_grids_are_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TimestampDomain(*arguments)
