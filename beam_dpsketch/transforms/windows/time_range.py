"""A declared range of time: each of its windows is released, with data or without, and no others are.

Guarantee: the declaration alone decides which windows (and which public keys in them) get a release, so this says
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
from beam_dpsketch.records.public import TimeRange
from beam_dpsketch.transforms.windows.guard import check_timestamps, windows_per_element

MAX_RELEASES = 1_000_000


def window_starts(declared: TimeRange, windowfn: Any, keys: int) -> range:
    """Return the starts of all windows of a range, in microseconds; refuse ranges that are not whole windows."""
    if type(windowfn) is window.GlobalWindows:
        raise WindowingError(
            "",
            "$windows_TimeRange needs windows: put WindowInto(FixedWindows(...)) before, or leave windows "
            "out, because the global window always gets its release",
            "E412",
        )
    start, end = declared.start_micros, declared.end_micros
    size, offset = windowfn.size.micros, windowfn.offset.micros
    step = windowfn.period.micros if type(windowfn) is window.SlidingWindows else size
    first = start - (start - offset) % step
    last = max(first, end - size + (offset - end + size) % step)
    if (first, last + size) != (start, end):
        whole = ", ".join(str(Timestamp(micros=micros)) for micros in (first, last + size))
        raise WindowingError(
            "windows",
            f"must start where a window starts and end where one ends; declare TimeRange({whole}), or give "
            f"{type(windowfn).__name__} another offset",
            "E413",
        )
    starts = range(first, last + 1, step)
    if len(starts) * keys > MAX_RELEASES:
        raise WindowingError(
            "",
            f"windows would make {len(starts) * keys} releases ({len(starts)} windows, {keys} in each), more "
            f"than {MAX_RELEASES}; shorten the $TimeRange, or use longer windows or fewer keys",
            "E414",
        )
    return starts


def filter_to_time_range(element: Any, starts: range, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
    """Drop elements in windows that start at none of the given times; raise for those without a time."""
    if window.start.micros in starts:
        yield element
    else:
        check_timestamps(window)


def create_in_every_window(
    pipeline: beam.Pipeline, starts: range, windowing: Windowing, values: list[Any]
) -> beam.PCollection:
    """Create the same values in each declared window, as bounded input: its watermark holds back no stream."""
    # A start is also in the earlier windows that overlap, so a few starts reach all windows, counted from the last.
    times = starts[:: -windows_per_element(windowing.windowfn)]
    return (
        pipeline
        | "EveryWindow" >> beam.Impulse()
        | "Times" >> beam.FlatMap(_stamp, times)
        | "Window" >> beam.WindowInto(windowing)
        | "InEveryWindow" >> beam.FlatMap(filter_to_time_range, starts)
        | "Values" >> beam.FlatMap(lambda _: values).with_output_types(Any)
    )


def _stamp(impulse: Any, times: range) -> Iterator[window.TimestampedValue]:
    for micros in times:
        yield window.TimestampedValue(None, Timestamp(micros=micros))
