"""Elements with times, in windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue


def at_times(pipeline: beam.Pipeline, timed: Iterable[tuple[Any, float]], windows: Any) -> beam.PCollection:
    """Return (element, seconds) pairs as elements with these timestamps, in windows."""
    stamped = pipeline | "Timed" >> beam.Create(list(timed)) | "Stamp" >> beam.MapTuple(TimestampedValue)
    return stamped | "Windows" >> beam.WindowInto(windows)
