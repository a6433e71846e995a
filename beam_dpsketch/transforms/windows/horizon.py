"""The declared windows of continual release: which window of which level a time falls into, and the steps that ask.

Guarantee: a time inside the horizon is in exactly one node of each level; elements outside it are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch.records.containers import is_batch_type
from beam_dpsketch.release.horizon import Horizon
from beam_dpsketch.release.timeline import TimelineNode
from beam_dpsketch.transforms.windows.times import check_timestamp


def level_windows(horizon: Horizon, level: int) -> beam.WindowInto:
    """Return the windows of the nodes of a level."""
    return beam.WindowInto(_fixed(horizon, horizon.size_micros << level))


def horizon_window(horizon: Horizon) -> window.FixedWindows:
    """Return windows, one of them the whole horizon."""
    return _fixed(horizon, horizon.size_micros * horizon.windows)


def _fixed(horizon: Horizon, size: int) -> window.FixedWindows:
    return window.FixedWindows(Duration(micros=size), Timestamp(micros=horizon.start_micros))


class FilterToHorizon(beam.DoFn):
    """Drops elements outside the horizon; raises for those without a time."""

    def __init__(self, horizon: Horizon) -> None:
        self._horizon = horizon

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if self._horizon.start_micros <= timestamp.micros < self._horizon.end_micros:
            yield element
        else:
            check_timestamp(timestamp)


class KeyByWindow(FilterToHorizon):
    """The same, to (window, element)."""

    def process(self, element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[tuple[int, Any]]:
        if is_batch_type(type(element)):  # type: ignore[arg-type]
            raise TypeError("unit=PrivacyId(...) in continual release takes rows, not batches: a batch has one timestamp")
        for inside in super().process(element, timestamp):
            yield self._horizon.index(timestamp.micros), inside


class StampWithWindowStart(beam.DoFn):
    """(window, value) to the value, at the time when the window opens."""

    def __init__(self, horizon: Horizon) -> None:
        self._horizon = horizon

    def process(self, element: tuple[int, Any]) -> Iterator[window.TimestampedValue]:
        index, value = element
        yield window.TimestampedValue(
            value, Timestamp(micros=self._horizon.start_micros + self._horizon.size_micros * index)
        )


class WrapInNode(beam.DoFn):
    """Releases to the nodes that they are."""

    def __init__(self, horizon: Horizon, level: int) -> None:
        self._horizon = horizon
        self._level = level

    def process(self, element: Any, node: Any = beam.DoFn.WindowParam) -> Iterator[TimelineNode]:
        yield TimelineNode(self._level, self._horizon.index(node.start.micros, self._level), element)
