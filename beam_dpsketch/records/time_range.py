"""A declared range of time, whose windows are all released."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_dpsketch.domains.times import to_micros


@dataclasses.dataclass(frozen=True)
class TimeRange:
    """Release each window from start to end, with data or without; drop records of other windows.

    It must begin and end with a window. Without it the windows with data are released, and the privacy statement says
    that it is published which ones have data.

    Args:
      start: when the first window opens: a `datetime` (without a time zone: UTC), a Beam `Timestamp`, or seconds since
        1970.
      end: when the last window closes.
    """

    start: Any
    end: Any

    def __post_init__(self) -> None:
        if not self.start_micros < self.end_micros:
            raise ValueError("end must be after start")

    @property
    def start_micros(self) -> int:
        """The start in microseconds since 1970."""
        return to_micros(start=self.start)

    @property
    def end_micros(self) -> int:
        """The end in microseconds since 1970."""
        return to_micros(end=self.end)
