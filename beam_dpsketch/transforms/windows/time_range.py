"""A declared range of time: its windows are all released, whether they have data or not, and no others are.

Guarantee: which windows (and which public keys in them) get a release is decided by the declaration alone, so it says
nothing about the data. Elements in other windows are dropped before anything is counted or bounded.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.transforms.core import Windowing
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from beam_dpsketch.domains.timestamps import micros_of
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.transforms.windows.guard import windows_per_element
from beam_dpsketch.transforms.windows.times import check_window

MAX_RELEASES = 1_000_000
_MICROS_PER_SECOND = 1_000_000


@dataclasses.dataclass(frozen=True)
class TimeRange:
    """Start (inclusive) and end (exclusive), in microseconds since 1970."""

    start: int
    end: int

    @classmethod
    def declared(cls, time_range: Any) -> TimeRange:
        """What the caller wrote: a pair of Beam Timestamps, datetimes (without a time zone: UTC) or seconds."""
        if not isinstance(time_range, (tuple, list)) or len(time_range) != 2:
            raise TypeError("time_range must be a pair (start, end)")
        start, end = map(_micros, time_range)
        if not start < end:
            raise ValueError("time_range must end after it starts")
        return cls(start, end)

    def window_starts(self, windowfn: Any, keys: int) -> range:
        """The starts of all windows of the range, in microseconds; refuses ranges that are not made of whole windows.

        Args:
          windowfn: fixed or sliding windows.
          keys: how many releases each window gets.
        """
        if type(windowfn) is window.GlobalWindows:
            raise WindowingError(
                "time_range needs windows: put WindowInto(FixedWindows(...)) before, or leave time_range out, because "
                "the global window always gets its release"
            )
        size, offset = windowfn.size.micros, windowfn.offset.micros
        period = windowfn.period.micros if type(windowfn) is window.SlidingWindows else size
        first = self.start - (self.start - offset) % period
        last = max(first, self.end - size + (offset - self.end + size) % period)
        if (first, last + size) != (self.start, self.end):
            raise WindowingError(
                f"time_range must start where a window starts and end where one ends; instead of {self}, declare "
                f"{TimeRange(first, last + size)}, or give {type(windowfn).__name__} another offset"
            )
        starts = range(first, last + 1, period)
        if len(starts) * keys > MAX_RELEASES:
            raise WindowingError(
                f"time_range would make {len(starts) * keys} releases ({len(starts)} windows, {keys} in each), more "
                f"than {MAX_RELEASES}; shorten it, or use longer windows or fewer public_keys"
            )
        return starts

    def __str__(self) -> str:
        return f"({Timestamp(micros=self.start)}, {Timestamp(micros=self.end)})"


class FilterToTimeRange(beam.DoFn):
    """Drops elements in windows that do not start at one of the given times; raises for those without a time."""

    def __init__(self, starts: range) -> None:
        self._starts = starts

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        if window.start.micros in self._starts:
            yield element
        else:
            check_window(window)


class CreateInEveryWindow(beam.PTransform):
    """The same values in each declared window; bounded input, so its watermark ends at once and holds back no stream.

    Args:
      starts: of the windows.
      windowing: as that of the elements that the values will be flattened with.
      values: what to put into each window.
    """

    def __init__(self, starts: range, windowing: Windowing, values: list[Any]) -> None:
        super().__init__()
        # The start of a window is also in those before it that overlap: every so many starts, from the last one back.
        self._times = starts[:: -windows_per_element(windowing.windowfn)]
        self._starts = starts
        self._windowing = windowing
        self._values = values

    def expand(self, pbegin: Any) -> beam.PCollection:
        return (
            pbegin
            | "Start" >> beam.Impulse()
            | "Times" >> beam.FlatMap(_stamped, self._times)
            | "Window" >> beam.WindowInto(self._windowing)
            | "InTimeRange" >> beam.ParDo(FilterToTimeRange(self._starts))
            | "Values" >> beam.FlatMap(_instead, self._values).with_output_types(Any)
        )


def _stamped(start: Any, times: range) -> Iterator[window.TimestampedValue]:
    for micros in times:
        yield window.TimestampedValue(None, Timestamp(micros=micros))


def _instead(element: None, values: list[Any]) -> list[Any]:
    return values


def _micros(value: Any) -> int:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        micros: Any = (int(value) if isinstance(value, numbers.Integral) else value) * _MICROS_PER_SECOND
    else:
        micros = micros_of(value)
    if micros is None:
        raise TypeError(f"time_range must hold Timestamps, datetimes or seconds, got {type(value).__name__}")
    if not MIN_TIMESTAMP.micros <= micros <= MAX_TIMESTAMP.micros:
        raise ValueError("time_range must be finite and within the times that Beam knows")
    return int(micros)
