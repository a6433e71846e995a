"""`max_windows` and `period`: in how many windows a privacy id may count, and which windows belong together.

A window belongs to the period in which it ends, so each window is in exactly one period, sliding windows too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.records.units import PrivacyId
from beam_dpsketch.transforms.windows.guard import is_global


def limit_periods(limit: PrivacyId, elements: beam.PCollection, declared_starts: range | None) -> window.WindowFn:
    """Return the periods in which an id is limited, as Beam windows; `WindowingError` if they do not fit the elements'.

    Periods count from the start of the declared range, without one from 1970 (and the offset of the windows).
    """
    argument = "max_windows" if limit.max_windows is not None else "period"
    if is_global(elements):
        raise WindowingError(
            argument,
            f"needs windows: put WindowInto(FixedWindows(...)) before, or leave {argument} out, because the "
            "global window is one",
            "E415",
        )
    windowfn = elements.windowing.windowfn
    size, offset = windowfn.size.micros, windowfn.offset.micros
    step = windowfn.period.micros if type(windowfn) is window.SlidingWindows else size
    if any(micros % MILLISECOND for micros in (size, offset, step)):
        raise WindowingError(
            "",
            "max_windows and a $NormBound need windows of whole milliseconds, which is all that Beam keeps of times",
            "E410",
        )
    start = offset if declared_starts is None else declared_starts[0]
    if limit.period_micros:
        count, rest = divmod(limit.period_micros, step)
        if rest:
            raise WindowingError(
                "period", f"must be a multiple of the time from one window to the next, {Duration(micros=step)}", "E416"
            )
        length = limit.period_micros
    elif declared_starts is not None:
        count, length = len(declared_starts), declared_starts[-1] + size - start
    elif elements.is_bounded:
        return window.GlobalWindows()
    else:
        raise WindowingError(
            "",
            "max_windows on unbounded input needs a period, or $windows_TimeRange, after which an id is forgotten",
            "E417",
        )
    if limit.max_windows is not None and limit.max_windows > count:
        of = "each period" if limit.period_micros else "the TimeRange"
        raise WindowingError(
            "max_windows", f"must be at most the {count} windows of {of}, got {limit.max_windows}", "E215"
        )
    return window.FixedWindows(Duration(micros=length), Timestamp(micros=start))


def last_time(interval: Any) -> Timestamp:
    """Return the last time in a window that Beam can keep: times between workers are whole milliseconds.

    The last microsecond of a window before 1970 would be rounded into the next window.
    """
    return Timestamp(micros=interval.max_timestamp().micros // MILLISECOND * MILLISECOND)


class RestoreWindows(beam.PTransform):
    """Re-window elements stamped with their window's end into exactly that window, even where windows overlap."""

    def __init__(self, windowing: Any) -> None:
        super().__init__()
        self._windowing = windowing

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        windowed = pcoll | "Windows" >> beam.WindowInto(self._windowing)
        if type(self._windowing.windowfn) is not window.SlidingWindows:
            return windowed
        return windowed | "Own" >> beam.FlatMap(_keep_own_window).with_output_types(pcoll.element_type)


def _keep_own_window(
    element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
) -> Iterator[Any]:
    """Drop an element from every window that does not end at its timestamp."""
    if timestamp == last_time(window):
        yield element
