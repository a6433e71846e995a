"""Elements that nobody gave a time: Beam puts them all at MIN_TIMESTAMP, in a window that no file can name."""

from __future__ import annotations

from typing import Any

from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from beam_dpsketch.errors import WindowingError


def check_window(window: Any) -> None:
    """Refuse the window of elements without timestamps."""
    if not isinstance(window, GlobalWindow) and window.start <= MIN_TIMESTAMP < window.end:
        check_timestamp(MIN_TIMESTAMP)


def check_timestamp(timestamp: Timestamp) -> None:
    """Refuse the time of elements without timestamps."""
    if timestamp <= MIN_TIMESTAMP:
        raise WindowingError(
            "elements have no timestamps (MIN_TIMESTAMP), so they are in no window of yours; put "
            "beam.Map(lambda element: beam.window.TimestampedValue(element, seconds)) before WindowInto"
        )
