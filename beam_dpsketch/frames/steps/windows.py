"""Assign table rows to windows by a time column.

Guarantee: a row is in the same windows as a record with its time in a pipeline with these windows. Fractions of a
microsecond are rounded down, as everywhere. A row without a readable time, or outside all windows, is in no window, so
it is dropped before counting or bounding.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import WindowPlan, windowing_of_table
from beam_dpsketch.exact.domains.timestamps import MILLISECOND, TimestampDomain, from_micros
from beam_dpsketch.exact.reading.columns import TIMES, batch_column
from beam_dpsketch.exact.reading.unreadable import Tally
from beam_dpsketch.noise.run import WHOLE, Place

_MICROSECOND = datetime.timedelta(microseconds=1)


class Windows(Protocol):
    """Windows of table rows. A window is the place of its releases, without a key."""

    every: Sequence[Place]
    """All released windows, with or without data."""
    edges: tuple[int, ...]
    """Identity of the windows, as in `ReleaseSpec.identify`."""

    def rows(self, part: Any, tally: Tally) -> Iterator[tuple[Place, np.ndarray | None]]:
        """Yield a part's rows in each window, 1 pair or more. `None` selects all rows."""

    def period(self, window: Place) -> Any:
        """Identify the period of a window. One bound covers a period."""

    def last_millisecond(self, window: Place) -> int:
        """Compute the last millisecond of a window, as in bounded records."""


class OneWindow:
    """The global window with all rows."""

    every: Sequence[Place] = (WHOLE,)
    edges: tuple[int, ...] = ()

    def rows(self, part: Any, tally: Tally) -> Iterator[tuple[Place, np.ndarray | None]]:
        yield WHOLE, None

    def period(self, window: Place) -> Any:
        return window

    def last_millisecond(self, window: Place) -> int:
        return 0


class TimedWindows:
    """Windows in a declared range.

    Args:
      plan: the released windows.
      size: window length in microseconds.
      edges: identity of the windows.
      field: the time column.
    """

    def __init__(self, plan: WindowPlan, size: int, edges: tuple[int, ...], field: str) -> None:
        assert plan.starts is not None
        self.edges = edges
        self._starts, self._size, self._field, self._periods = plan.starts, size, field, plan.periods
        self.every: Sequence[Place] = [Place(start=start, end=start + size) for start in plan.starts]
        # One additional step at both ends, to which all times outside are moved.
        low, high = plan.starts[0] - 1, plan.starts[-1] + size
        self._domain = TimestampDomain(from_micros(low), from_micros(high), _MICROSECOND)

    def rows(self, part: Any, tally: Tally) -> Iterator[tuple[Place, np.ndarray | None]]:
        rows, windows, usable = self._assign(batch_column(part, "time", self._field, TIMES, tally))
        tally.leave_out("time", usable - len(np.unique(rows)))
        if not len(rows):
            yield self.every[0], rows
            return
        order = np.argsort(windows, kind="stable")
        numbers, firsts = np.unique(windows[order], return_index=True)
        for number, each in zip(numbers.tolist(), np.split(rows[order], firsts[1:]), strict=True):
            yield self.every[number], each

    def period(self, window: Place) -> Any:
        if self._periods is None:
            return window
        within = self.last_millisecond(window) * MILLISECOND - self._periods.start
        return within // self._periods.length

    def last_millisecond(self, window: Place) -> int:
        return (window.end - 1) // MILLISECOND

    def _assign(self, times: Any) -> tuple[np.ndarray, np.ndarray, int]:
        """Rows with the number of their window, one entry per window, and the number of rows with a time."""
        positions, usable = self._domain.index(times)
        since = positions.astype(np.int64) - 1
        last, step = since // self._starts.step, self._starts.step
        rows, numbers = [], []
        for back in range(-(-self._size // step)):
            number = last - back
            inside = usable & (number >= 0) & (number < len(self._starts)) & (since - number * step < self._size)
            rows.append(np.flatnonzero(inside))
            numbers.append(number[inside])
        return np.concatenate(rows), np.concatenate(numbers), int(np.count_nonzero(usable))


def windows_of(declared: ReleaseSpec, plan: WindowPlan) -> Windows:
    """Choose the windows for the rows of a table."""
    if declared.time is None:
        return OneWindow()
    if (horizon := declared.horizon) is not None:
        of_horizon = horizon.start_micros, horizon.size_micros, horizon.windows
        return TimedWindows(plan, horizon.size_micros, of_horizon, declared.time.field)
    windowing = windowing_of_table(declared)
    return TimedWindows(plan, windowing.size, windowing.edges, declared.time.field)
