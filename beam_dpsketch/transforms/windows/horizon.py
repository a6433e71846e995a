"""The declared windows of continual release: which window of which level a time falls into, and the steps that ask.

Guarantee: a time inside the horizon is in exactly one node of each level; elements outside it are dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from beam_dpsketch.privacy.sensitivity import tree_height
from beam_dpsketch.records.containers import is_batch_type
from beam_dpsketch.release.timeline import TimelineNode
from beam_dpsketch.transforms.windows.times import check_timestamp


@dataclasses.dataclass(frozen=True)
class Horizon:
    """The declared windows, in microseconds since the epoch: start, length of a window, number of windows."""

    start: int
    size: int
    windows: int

    @classmethod
    def declared(cls, start: Any, window_size: Any, windows: int) -> Horizon:
        """The horizon of such arguments; refuses what Beam's times cannot hold, and what is no power of two.

        Between workers Beam's times are whole milliseconds, rounded towards 1970: an end before 1970 would come out in
        the next window.
        """
        tree_height(windows)
        horizon = cls(Timestamp.of(start).micros, Duration.of(window_size).micros, int(windows))
        if horizon.size <= 0:
            raise ValueError("window_size must be greater than 0")
        if horizon.start < 0:
            raise ValueError("start must be in 1970 or later, because Beam rounds earlier times into the next window")
        if horizon.start % 1000 or horizon.size % 1000:
            raise ValueError("start and window_size must be whole milliseconds, which is all that Beam keeps of times")
        if horizon.end > MAX_TIMESTAMP.micros:
            raise ValueError("the horizon must end before the last timestamp of Beam")
        return horizon

    @property
    def end(self) -> int:
        """When the last window closes."""
        return self.start + self.size * self.windows

    def window_into(self, level: int) -> beam.WindowInto:
        """The windows of the nodes of a level."""
        size = Duration(micros=self.size << level)
        return beam.WindowInto(window.FixedWindows(size, offset=Timestamp(micros=self.start)))

    def as_window(self) -> window.FixedWindows:
        """Windows of which one is the horizon."""
        return window.FixedWindows(Duration(micros=self.size * self.windows), Timestamp(micros=self.start))

    def index(self, micros: int, level: int = 0) -> int:
        """Which node of a level a time falls into."""
        return (micros - self.start) // (self.size << level)

    def window_start(self, index: int) -> Timestamp:
        """When a window opens."""
        return Timestamp(micros=self.start + self.size * index)


class FilterToHorizon(beam.DoFn):
    """Drops elements outside the horizon; raises for those without a time."""

    def __init__(self, horizon: Horizon) -> None:
        self._horizon = horizon

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if self._horizon.start <= timestamp.micros < self._horizon.end:
            yield element
        else:
            check_timestamp(timestamp)


class KeyByWindow(FilterToHorizon):
    """The same, to (window, element)."""

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[tuple[int, Any]]:
        if is_batch_type(type(element)):  # type: ignore[arg-type]
            raise TypeError("privacy_id in continual release takes rows, not batches: a batch has one timestamp")
        for inside in super().process(element, timestamp):
            yield self._horizon.index(timestamp.micros), inside


class StampWithWindowStart(beam.DoFn):
    """(window, value) to the value, at the time when the window opens."""

    def __init__(self, horizon: Horizon) -> None:
        self._horizon = horizon

    def process(self, element: tuple[int, Any]) -> Iterator[window.TimestampedValue]:
        index, value = element
        yield window.TimestampedValue(value, self._horizon.window_start(index))


class WrapInNode(beam.DoFn):
    """Releases to the nodes that they are."""

    def __init__(self, horizon: Horizon, level: int) -> None:
        self._horizon = horizon
        self._level = level

    def process(self, element: Any, node: Any = beam.DoFn.WindowParam) -> Iterator[TimelineNode]:
        yield TimelineNode(self._level, self._horizon.index(node.start.micros, self._level), element)
