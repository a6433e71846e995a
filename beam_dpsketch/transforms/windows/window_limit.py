"""`max_windows` and `period`: in how many windows a privacy id may count, and which windows belong together.

A window belongs to the period in which it ends, so each window is in exactly one period, sliding windows too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch import _validate
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.sensitivity import MAX_WINDOWS
from beam_dpsketch.transforms.windows.guard import is_global

_LONGEST_PERIOD = (1 << 62) - 1
_MILLISECOND = 1000


@dataclasses.dataclass(frozen=True)
class WindowLimit:
    """At most max_windows windows of a privacy id in each period; a period of 0 microseconds is all of the input."""

    max_windows: int
    period_micros: int

    @classmethod
    def declared(cls, max_windows: Any, period: Any, *, has_privacy_id: bool) -> WindowLimit | None:
        """The limit of such arguments, `None` without; refuses what cannot be meant."""
        if max_windows is None:
            if period is not None:
                raise ValueError("period needs max_windows: in how many windows of each period a privacy id may count")
            return None
        if not has_privacy_id:
            raise ValueError("max_windows needs privacy_id: a record pays for all windows that it is in")
        _validate.whole(low=1, high=MAX_WINDOWS, max_windows=max_windows)
        return cls(int(max_windows), 0 if period is None else _micros(period))

    @property
    def unit(self) -> PrivacyUnit:
        """Whose presence the limit hides."""
        return PrivacyUnit.PRIVACY_ID_IN_PERIOD if self.period_micros else PrivacyUnit.PRIVACY_ID

    def periods(self, elements: beam.PCollection, declared_starts: range | None) -> window.WindowFn:
        """The periods as Beam windows; `WindowingError` if the limit does not fit the windows of the elements.

        Periods count from the start of the declared range, without one from 1970 (and the offset of the windows).

        Args:
          elements: in the windows that are to be limited.
          declared_starts: the starts of the windows of `time_range`, if it is given.
        """
        if is_global(elements):
            raise WindowingError(
                "max_windows needs windows: put WindowInto(FixedWindows(...)) before, or leave max_windows out, "
                "because the global window is one"
            )
        windowfn = elements.windowing.windowfn
        size, offset = windowfn.size.micros, windowfn.offset.micros
        step = windowfn.period.micros if type(windowfn) is window.SlidingWindows else size
        if size % _MILLISECOND or offset % _MILLISECOND or step % _MILLISECOND:
            raise WindowingError(
                "max_windows needs windows of whole milliseconds, which is all that Beam keeps of times"
            )
        start = offset if declared_starts is None else declared_starts[0]
        if self.period_micros:
            windows, rest = divmod(self.period_micros, step)
            if rest:
                raise WindowingError(
                    f"period must be a multiple of the time from one window to the next, {Duration(micros=step)}"
                )
            length = self.period_micros
        elif declared_starts is not None:
            windows, length = len(declared_starts), declared_starts[-1] + size - start
        elif elements.is_bounded:
            return window.GlobalWindows()
        else:
            raise WindowingError(
                "max_windows on unbounded input needs a period, or a time_range, after which an id is forgotten"
            )
        if self.max_windows > windows:
            of = "each period" if self.period_micros else "time_range"
            raise WindowingError(f"max_windows must be at most the {windows} windows of {of}, got {self.max_windows}")
        return window.FixedWindows(Duration(micros=length), Timestamp(micros=start))


def last_time(of: Any) -> Timestamp:
    """The last time in a window that Beam can keep: times between workers are whole milliseconds.

    The last microsecond of a window before 1970 would be rounded into the next window.
    """
    return Timestamp(micros=of.max_timestamp().micros // _MILLISECOND * _MILLISECOND)


class RestoreWindows(beam.PTransform):
    """Elements at the last times of their windows into these windows alone, though sliding windows overlap."""

    def __init__(self, windowing: Any) -> None:
        super().__init__()
        self._windowing = windowing

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        windowed = pcoll | "Windows" >> beam.WindowInto(self._windowing)
        if type(self._windowing.windowfn) is not window.SlidingWindows:
            return windowed
        return windowed | "Own" >> beam.ParDo(_KeepOwnWindow()).with_output_types(pcoll.element_type)


class _KeepOwnWindow(beam.DoFn):
    """Drops elements in windows of which theirs is not the last time."""

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        if timestamp == last_time(window):
            yield element


def _micros(period: Any) -> int:
    if isinstance(period, Duration):
        micros = period.micros
    else:
        _validate.positive_finite(period=period)
        micros = Duration.of(period).micros
    if micros % _MILLISECOND or not 0 < micros <= _LONGEST_PERIOD:
        raise ValueError("period must be above 0, whole milliseconds, and within the times that Beam knows")
    return micros
