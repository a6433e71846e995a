"""Calendar buckets as output keys: hours, days, weeks and months in a time zone.

Guarantee: a record's bucket depends on the record's own time and on the declaration alone. A calendar is therefore
a key like any other field: bounds per key, sensitivities and noise do not change. A local date
includes all its hours, in summer time too, and hours that the clock repeats are two buckets.
"""

from __future__ import annotations

import bisect
import dataclasses
import datetime
import functools
import itertools
import numbers
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains.timestamps import TimestampDomain, from_micros, micros_in_data

BUCKETS = ("hour", "day", "week", "month")
MAX_BUCKETS = 100_000
_FIRST, _LAST = datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)
_MICROSECOND, _SECOND = datetime.timedelta(microseconds=1), datetime.timedelta(seconds=1)
_EPOCH, _PAD, _STEP = datetime.datetime(1970, 1, 1), 48 * 3600, 6 * 3600


@named("Calendar")
@dataclasses.dataclass(frozen=True)
class Calendar:
    """Output key from a time: its hour, day, week or month in a time zone, for `keys`.

    Keys are text: hours as "2026-10-25T02:00+02:00", days as "2026-10-25", ISO weeks from Monday as "2026-W43", months
    as "2026-10". Records outside the range, and records without a readable time, are dropped.

    Args:
      time: the field of times: timestamps, dates, or text in ISO 8601, in UTC if it has no time zone. A date is
        midnight in UTC, which is on the day before in America. Use the zone UTC for dates without times.
      bucket: "hour", "day", "week" or "month".
      zone: the time zone with this IANA name, as "Europe/Oslo".
      start: the first day, a `date` or text as "2026-11-16". It must begin a bucket.
      end: the day after the last. It must begin a bucket too.

    >>> Calendar("at", "week", zone="Europe/Oslo", start="2026-11-16", end="2026-11-30").labels
    ('2026-W47', '2026-W48')
    """

    time: str
    bucket: str
    _: dataclasses.KW_ONLY
    zone: str = "UTC"
    start: datetime.date | str
    end: datetime.date | str

    def __post_init__(self) -> None:
        with AllAtOnce() as checks:
            checks.do(_validate.instance, str, time=self.time, zone=self.zone)
            checks.do(_validate.one_of, BUCKETS, bucket=self.bucket)
        try:
            ZoneInfo(self.zone)
        except (ValueError, OSError, LookupError):
            words = 'must be a time zone with its IANA name, as "Europe/Oslo" or "UTC"'
            raise ArgumentError("zone", words, "E434") from None
        with AllAtOnce() as checks:
            for name in ("start", "end"):
                object.__setattr__(self, name, checks.do(self._check_day, name, getattr(self, name)))
        if not self.start < self.end:  # type: ignore[operator]  # text in ISO 8601 sorts by time
            raise ArgumentError("end", "must be after start", "E425")
        days = (datetime.date.fromisoformat(self.end) - datetime.date.fromisoformat(self.start)).days  # type: ignore[arg-type]
        if days * (24 if self.bucket == "hour" else 1) > MAX_BUCKETS:
            raise ArgumentError("end", f"must be at most {MAX_BUCKETS:,} hours or days after start", "E414")

    def _check_day(self, name: str, given: Any) -> str:
        try:
            day = datetime.date.fromisoformat(given) if isinstance(given, str) else given
        except ValueError:
            day = None
        if not isinstance(day, datetime.date) or isinstance(day, datetime.datetime):
            words = f'must be a day, as "2026-11-16", got {type(given).__name__}'
            raise ArgumentTypeError(name, words, "E428")
        if not _FIRST <= day <= _LAST:
            raise ArgumentError(name, f"must be from {_FIRST} to {_LAST}", "E428")
        if self.bucket == "week" and day.weekday():
            raise ArgumentError(name, "must be a Monday, on which a week begins", "E413")
        if self.bucket == "month" and day.day > 1:
            raise ArgumentError(name, "must be the first day of a month", "E413")
        return day.isoformat()

    @property
    def labels(self) -> tuple[str, ...]:
        """All buckets, sorted by time."""
        return tuple(dict.fromkeys(label for label in _edges(self)[1] if label is not None))

    def label(self, time: Any) -> str | None:
        """Find a time's bucket, or `None`."""
        micros, (starts, labels) = micros_in_data(time), _edges(self)
        if not isinstance(micros, numbers.Integral) or micros < starts[0]:
            return None
        return labels[bisect.bisect_right(starts, micros) - 1]

    def read(self, times: Any) -> tuple[pa.Array, int]:
        """Find each time's bucket in a list or a column, null if it has none, and count the times outside."""
        starts, labels = _edges(self)
        domain = TimestampDomain(from_micros(starts[0]), from_micros(starts[-1]), _MICROSECOND)
        positions, usable = domain.index(times)  # times outside move to an end, where no bucket is
        places = np.searchsorted(starts, positions.astype(np.int64) + starts[0], side="right") - 1
        found = pa.array(labels, pa.large_string()).take(pa.array(places, mask=~usable))
        return found, int(np.count_nonzero(usable)) - (len(found) - found.null_count)

    def _label(self, local: datetime.datetime, offset: datetime.timedelta) -> str | None:
        day, (year, week, _) = local.date().isoformat(), local.isocalendar()
        if not str(self.start) <= day < str(self.end):
            return None
        hour = local.replace(minute=0, second=0, tzinfo=datetime.timezone(offset)).isoformat(timespec="minutes")
        return {"hour": hour, "day": day, "week": f"{year}-W{week:02}", "month": day[:7]}[self.bucket]


@functools.lru_cache(maxsize=16)
def _edges(calendar: Calendar) -> tuple[list[int], list[str | None]]:
    """Compute the microseconds since 1970 at which labels begin, and each label. `None` lies outside the range.

    The offset from UTC is constant between two transitions of the zone. Two more days at both ends include every local
    time between start and end, because offsets are shorter than a day.
    """
    ends = (datetime.datetime.fromisoformat(str(day)) for day in (calendar.start, calendar.end))
    low, high = ((end - _EPOCH) // _SECOND for end in ends)
    spans = [*_offsets(ZoneInfo(calendar.zone), low - _PAD, high + _PAD), (high + _PAD, datetime.timedelta())]
    starts: list[int] = []
    labels: list[str | None] = []
    for (since, offset), (until, _) in itertools.pairwise(spans):
        local, stop = (_EPOCH + each * _SECOND + offset for each in (since, until))
        while local < stop:
            starts.append((local - offset - _EPOCH) // _MICROSECOND)
            labels.append(calendar._label(local, offset))
            midnight = datetime.datetime.combine(local.date(), datetime.time())
            hours = local.hour + 1 if calendar.bucket == "hour" else 24
            local = midnight + datetime.timedelta(hours=hours)
    return starts, labels


def _offsets(zone: ZoneInfo, first: int, last: int) -> Iterator[tuple[int, datetime.timedelta]]:
    """Yield each offset between two seconds since 1970, after the second from which it applies."""

    def offset(second: int) -> datetime.timedelta:
        return datetime.datetime.fromtimestamp(second, zone).utcoffset() or datetime.timedelta()

    now = offset(first)
    yield first, now
    for second in range(first, last, _STEP):
        if (after := offset(second + _STEP)) != now:
            same, changed = second, second + _STEP
            while changed - same > 1:
                middle = (same + changed) // 2
                same, changed = (middle, changed) if offset(middle) == now else (same, middle)
            yield changed, after
            now = after
