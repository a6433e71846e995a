"""The declared windows of continual release: the steps that place elements and releases in them.

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
    """Return windows that are as long as the horizon; it is one of them."""
    return _fixed(horizon, horizon.size_micros * horizon.windows)


def _fixed(horizon: Horizon, size: int) -> window.FixedWindows:
    return window.FixedWindows(Duration(micros=size), Timestamp(micros=horizon.start_micros))


def filter_to_horizon(element: Any, horizon: Horizon, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
    """Drop elements outside the horizon; raise for those without a time."""
    if horizon.start_micros <= timestamp.micros < horizon.end_micros:
        yield element
    else:
        check_timestamp(timestamp)


def key_by_window(
    element: Any, horizon: Horizon, timestamp: Any = beam.DoFn.TimestampParam
) -> Iterator[tuple[int, Any]]:
    """Filter to the horizon, and pair each element with the number of its window."""
    if is_batch_type(type(element)):  # type: ignore[arg-type]
        raise TypeError("unit=PrivacyId(...) in continual release takes rows, not batches: a batch has one timestamp")
    for inside in filter_to_horizon(element, horizon, timestamp):
        yield horizon.index(timestamp.micros), inside


def stamp_with_window_start(element: tuple[int, Any], horizon: Horizon) -> window.TimestampedValue:
    """Convert (window, value) to the value, at the time when the window opens."""
    index, value = element
    return window.TimestampedValue(value, Timestamp(micros=horizon.start_micros + horizon.size_micros * index))


def wrap_in_node(release: Any, horizon: Horizon, level: int, node: Any = beam.DoFn.WindowParam) -> TimelineNode:
    """Wrap a release with its place in the tree over time."""
    return TimelineNode(level, horizon.index(node.start.micros, level), release)
