"""A declared range of time: its windows are all released, whether they have data or not, and no others are.

Guarantee: which windows (and which public keys in them) get a release is decided by the declaration alone, so it says
nothing about the data. Elements in other windows are dropped before anything is counted or bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.transforms.core import Windowing
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch.errors import WindowingError
from beam_dpsketch.records.time_range import TimeRange
from beam_dpsketch.transforms.windows.guard import windows_per_element
from beam_dpsketch.transforms.windows.times import check_window

MAX_RELEASES = 1_000_000


def window_starts(declared: TimeRange, windowfn: Any, keys: int) -> range:
    """Return the starts of all windows of a range, in microseconds; refuse ranges that are not made of whole windows.

    Args:
      declared: the range.
      windowfn: fixed or sliding windows.
      keys: how many releases each window gets.
    """
    if type(windowfn) is window.GlobalWindows:
        raise WindowingError(
            "windows=TimeRange(...) needs windows: put WindowInto(FixedWindows(...)) before, or leave windows out, "
            "because the global window always gets its release"
        )
    start, end = declared.start_micros, declared.end_micros
    size, offset = windowfn.size.micros, windowfn.offset.micros
    step = windowfn.period.micros if type(windowfn) is window.SlidingWindows else size
    first = start - (start - offset) % step
    last = max(first, end - size + (offset - end + size) % step)
    if (first, last + size) != (start, end):
        whole = ", ".join(str(Timestamp(micros=micros)) for micros in (first, last + size))
        raise WindowingError(
            f"windows must start where a window starts and end where one ends; declare TimeRange({whole}), or give "
            f"{type(windowfn).__name__} another offset"
        )
    starts = range(first, last + 1, step)
    if len(starts) * keys > MAX_RELEASES:
        raise WindowingError(
            f"windows would make {len(starts) * keys} releases ({len(starts)} windows, {keys} in each), more than "
            f"{MAX_RELEASES}; shorten the TimeRange, or use longer windows or fewer keys"
        )
    return starts


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
