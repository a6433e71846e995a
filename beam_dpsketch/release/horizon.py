"""The declared windows of continual release."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_dpsketch.domains.times import MAX_MICROS, check_milliseconds, duration_to_micros, to_micros
from beam_dpsketch.privacy.sensitivity import tree_height


@dataclasses.dataclass(frozen=True)
class Horizon:
    """Windows of one length, one after the other, declared before any data is seen.

    Args:
      start: when the first window opens: a `datetime` (without a time zone: UTC), a Beam `Timestamp`, or seconds since
        1970; in 1970 or later.
      window_size: the length of a window: a `timedelta`, a Beam `Duration`, or seconds.
      windows: how many windows there are, a power of two.
    """

    start: Any
    window_size: Any
    windows: int
    start_micros: int = dataclasses.field(init=False, repr=False)
    size_micros: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        tree_height(self.windows)
        start, size = to_micros(start=self.start), duration_to_micros(window_size=self.window_size)
        if start < 0:
            raise ValueError("start must be in 1970 or later, because Beam rounds earlier times into the next window")
        check_milliseconds(start=start, window_size=size)
        if start + size * self.windows > MAX_MICROS:
            raise ValueError("the horizon must end before the last timestamp of Beam")
        for name, value in (("windows", int(self.windows)), ("start_micros", start), ("size_micros", size)):
            object.__setattr__(self, name, value)

    @property
    def end_micros(self) -> int:
        """When the last window closes, in microseconds since 1970."""
        return self.start_micros + self.size_micros * self.windows

    def index(self, micros: int, level: int = 0) -> int:
        """Return which node of a level a time falls into."""
        return (micros - self.start_micros) // (self.size_micros << level)
