"""Times on a declared grid, and conversions of times and durations to whole microseconds."""

from __future__ import annotations

import dataclasses
import datetime
import numbers
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from beam_dpsketch.checks import as_key
from beam_dpsketch.columns import is_uuid_type, plain_column, plain_value
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains.base import Domain, has_text_form, index_distinct, index_numbers, unwrap_type
from beam_dpsketch.words import BLANKS

Time: TypeAlias = Any
"""A `datetime` or text in ISO 8601 (without a time zone: UTC), a date, a Beam `Timestamp`, or seconds since 1970."""

Duration: TypeAlias = Any
"""A `timedelta`, text such as "30m", "1h" or "7d", a Beam `Duration`, or seconds."""

MAX_MICROS = 9_223_372_036_854_775_000
"""The last time in Beam. The first time is its negative."""

MILLISECOND = 1000
_PER_SECOND = 1_000_000
_UTC = datetime.UTC
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=_UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?:(:\d\d)(?:\.(\d{1,9}))?)?(?:[Zz]|([-+]\d\d)(?::?(\d\d))?)?)?", re.ASCII
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d|w)", re.ASCII)
_MICROS = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6, "w": 604800 * 10**6}
_MAX_DIGITS = 64
_COARSE_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms")


@named("TimestampDomain")
@dataclasses.dataclass(frozen=True)
class TimestampDomain(Domain):
    """Grid start, start + step, ... up to end. Each time is moved to the grid point at or before it.

    Reads `datetime` (without a time zone: UTC), Beam's `Timestamp`, numpy `datetime64`, Arrow timestamps, dates
    (midnight in UTC) and text in ISO 8601, as "2024-01-31T08:30:00Z". Answers with `datetime` in UTC.

    Args:
      start: the first time, as a `datetime`, a date or text in ISO 8601, in UTC if it has no time zone.
      end: the last time.
      step: the distance between two times, as a `timedelta`, text such as "1d", or seconds.

    >>> day = TimestampDomain("2024-01-01", "2024-01-02")
    >>> day.values(day.index([datetime.datetime(2024, 1, 1, 8, 30, 0, 5)])[0])
    [datetime.datetime(2024, 1, 1, 8, 30, tzinfo=datetime.timezone.utc)]
    """

    start: datetime.datetime
    end: datetime.datetime
    step: datetime.timedelta = datetime.timedelta(seconds=1)
    type_name = "timestamp"
    number = 3
    doubt = "check the range, the year and the unit (s or ms)"
    plain_type = datetime.datetime
    parsed = "times, in ISO 8601 or in seconds since 1970"
    column_type = pa.timestamp("us", "UTC")
    takes = "datetime, datetime64, Beam's Timestamp, dates and text in ISO 8601"

    if TYPE_CHECKING:

        def __init__(self, start: Time, end: Time, step: Duration = ...) -> None: ...

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            micros = to_micros(**{name: getattr(self, name)})
            try:
                object.__setattr__(self, name, from_micros(micros))
            except OverflowError:
                raise ArgumentError(name, "must be in the years 1 to 9999", "E428") from None
        object.__setattr__(self, "step", duration_to_micros(step=self.step) * _MICROSECOND)
        if not self.start < self.end:
            raise ArgumentError("end", "must be after start", "E425")

    @property
    def size(self) -> int:
        return (self.end - self.start) // self.step + 1

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        low, high = _micros(self.start), _micros(self.end)
        values = plain_column(values, as_times=True) if isinstance(values, pa.Array) else values
        if isinstance(values, pa.Array) and has_text_form(unwrap_type(values.type)):
            return index_distinct(values, self.index)
        if isinstance(values, pa.Array) and pa.types.is_timestamp(values.type):
            values = values.to_numpy(zero_copy_only=False)
        if isinstance(values, np.ndarray) and values.dtype.kind == "M":
            values = pa.array(_micros_of_times(values, low, high), mask=np.isnat(values))
        else:
            values = [*map(micros_in_data, values.to_pylist() if isinstance(values, pa.Array) else values)]
        micros, usable = index_numbers(values, low, high)
        return micros // np.uint64(self.step // _MICROSECOND), usable

    def reads_column(self, kind: pa.DataType) -> bool:
        return is_time_type(kind)

    def is_inside(self, value: Any) -> bool:
        return bool(_micros(self.start) <= micros_in_data(value) <= _micros(self.end))

    def parse(self, text: str) -> datetime.datetime:
        return parse_time(text)

    def describe(self) -> str:
        return f"times {to_iso(self.start)} to {to_iso(self.end)} in steps of {self.step}"

    def values(self, indices: np.ndarray) -> list[datetime.datetime]:
        return [self.start + position * self.step for position in indices.tolist()]

    def reading(self) -> dict[str, Any]:
        times = {"start": _micros(self.start), "end": _micros(self.end), "step": self.step // _MICROSECOND}
        return {**super().reading(), **{name: str(micros) for name, micros in times.items()}}


def is_time_type(kind: pa.DataType) -> bool:
    """Whether a column with this type contains times, dates or text."""
    kind = unwrap_type(kind)
    return pa.types.is_timestamp(kind) or (has_text_form(kind) and not is_uuid_type(kind))


def read_iso(text: str) -> datetime.datetime | None:
    """Parse a date or a time in ISO 8601, with dashes and colons, cut to microseconds. `None` for other text."""
    if (found := _ISO.fullmatch(text.strip(BLANKS))) is None:
        return None
    day, time, seconds, fraction, hours, minutes = found.groups("")
    micros = f"{fraction:0<6}"[:6]
    try:
        return datetime.datetime.fromisoformat(
            f"{day}T{time or '00:00'}{seconds or ':00'}.{micros}{hours or '+00'}:{minutes or '00'}"
        )
    except ValueError:  # nonexistent day
        return None


def parse_time(text: str) -> datetime.datetime:
    """Parse a time in ISO 8601, or in seconds since 1970. Raise `ValueError` for other text.

    >>> parse_time("2024-01-01T08:30Z") == parse_time("1704097800")
    True
    """
    try:
        seconds = float(text)
    except ValueError:
        return datetime.datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)
    return from_seconds(seconds)


def read_duration(text: str) -> Fraction | None:
    """Parse a duration such as 30m, 1h or 7d to microseconds. `None` for other text."""
    written = _DURATION.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    return Fraction(written[1]) * _MICROS[written[2]] if written else None


def from_seconds(seconds: float) -> datetime.datetime:
    """Convert seconds since 1970 to a time in UTC."""
    return _EPOCH + datetime.timedelta(seconds=seconds)


def _micros(time: datetime.datetime) -> int:
    # Not `astimezone`, which overflows for the first and last hours of the calendar.
    return ((time.replace(tzinfo=_UTC) if time.utcoffset() is None else time) - _EPOCH) // _MICROSECOND


def _micros_of_times(times: np.ndarray, low: int, high: int) -> np.ndarray:
    """Convert `datetime64` to microseconds since 1970, rounded down. Coarse units are clamped near [low, high]."""
    if np.datetime_data(times.dtype)[0] in _COARSE_UNITS:  # a year 300,000 would wrap around in microseconds
        first, last = (np.datetime64(bound, "us").astype(times.dtype) for bound in (low, high))
        times = np.clip(times, first - 1, last + 1)
    return times.astype("datetime64[us]").view(np.int64)


def micros_of(value: Any) -> Any:
    """Convert a `datetime` or an object with `micros` (Beam's `Timestamp`) to microseconds since 1970, or `None`."""
    try:
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if isinstance(value, datetime.datetime):
            return _micros(value) if value == value else None  # pandas.NaT is a datetime and differs from itself
        return getattr(value, "micros", None)
    except Exception:  # from a time zone or a property; the message could leak the value into logs
        return None


def from_micros(micros: int) -> datetime.datetime:
    """Convert microseconds since 1970 to a time in UTC."""
    return _EPOCH + datetime.timedelta(microseconds=micros)


def to_iso(time: datetime.datetime) -> str:
    """Format a time in UTC as ISO 8601 text, with fractional seconds only if not 0.

    >>> to_iso(from_micros(1_704_067_200_000_000))
    '2024-01-01T00:00:00Z'
    """
    return time.isoformat().replace("+00:00", "Z")


def micros_in_data(value: Any) -> Any:
    """Convert like `micros_of`, including dates and text."""
    value = plain_value(value)
    return micros_of(read_iso(value) if isinstance(value, str) else value)


def to_micros(**time: Any) -> int:
    """Convert the one argument, a `Time`, to microseconds since 1970."""
    ((name, value),) = time.items()
    words = 'must be a time, such as "2025-12-25" or "2025-12-25T08:00Z", a datetime or seconds since 1970'
    return _within(name, _seconds_to_micros(value) if _is_number(value) else micros_in_data(value), value, words)


def duration_to_micros(**duration: Any) -> int:
    """Convert the one argument, a `Duration`, to microseconds. Raise if it is not above 0."""
    ((name, value),) = duration.items()
    if isinstance(value, datetime.timedelta):
        micros: Any = value // _MICROSECOND
    elif isinstance(value, str):
        micros = read_duration(value)
    else:
        micros = _seconds_to_micros(value) if _is_number(value) else getattr(value, "micros", None)
    micros = _within(name, micros, value, 'must be a duration, such as "30m", "1h" or "7d", a timedelta or seconds')
    if micros <= 0:
        raise ArgumentError(name, "must be greater than 0", "E427")
    return micros


def check_milliseconds(**micros: int) -> None:
    """Raise if times have fractions of a millisecond, which Beam drops between workers."""
    for name, value in micros.items():
        if value % MILLISECOND:
            raise ArgumentError(name, "must be in whole milliseconds, because Beam drops smaller fractions", "E410")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _seconds_to_micros(seconds: Any) -> Any:
    return int(seconds) * _PER_SECOND if isinstance(seconds, numbers.Integral) else seconds * _PER_SECOND


def _within(name: str, micros: Any, value: Any, words: str) -> int:
    if micros is None:
        raise ArgumentTypeError(name, f"{words}, got {type(value).__name__}{as_key(value)}", "E428")
    if not -MAX_MICROS <= micros <= MAX_MICROS:
        raise ArgumentError(name, "must be finite and within the times that Beam supports", "E428")
    return round(micros)
