"""Points in time and lengths of time, as whole microseconds."""

from __future__ import annotations

import datetime
import numbers
from typing import Any

from beam_dpsketch.domains.timestamps import micros_of

MAX_MICROS = 9_223_372_036_854_775_000
"""The last time that Beam knows; the first one is its negative."""

MILLISECOND = 1000
_PER_SECOND = 1_000_000
_MICROSECOND = datetime.timedelta(microseconds=1)


def to_micros(**time: Any) -> int:
    """Return the one argument, a `datetime`, a Beam `Timestamp` or seconds, as microseconds since 1970."""
    ((name, value),) = time.items()
    return _within(name, _seconds_to_micros(value) if _is_number(value) else micros_of(value), value)


def duration_to_micros(**duration: Any) -> int:
    """Return the one argument, a `timedelta`, a Beam `Duration` or seconds, in microseconds; refuse 0 and less."""
    ((name, value),) = duration.items()
    if isinstance(value, datetime.timedelta):
        micros: Any = value // _MICROSECOND
    else:
        micros = _seconds_to_micros(value) if _is_number(value) else getattr(value, "micros", None)
    micros = _within(name, micros, value)
    if micros <= 0:
        raise ValueError(f"{name} must be greater than 0")
    return micros


def check_milliseconds(**micros: int) -> None:
    """Refuse times with parts of a millisecond, which Beam does not keep between workers."""
    for name, value in micros.items():
        if value % MILLISECOND:
            raise ValueError(f"{name} must be whole milliseconds, which is all that Beam keeps of times")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _seconds_to_micros(seconds: Any) -> Any:
    return int(seconds) * _PER_SECOND if isinstance(seconds, numbers.Integral) else seconds * _PER_SECOND


def _within(name: str, micros: Any, value: Any) -> int:
    if micros is None:
        raise TypeError(f"{name} must be a time of Python or Beam, or seconds, got {type(value).__name__}")
    if not -MAX_MICROS <= micros <= MAX_MICROS:
        raise ValueError(f"{name} must be finite and within the times that Beam knows")
    return round(micros)
