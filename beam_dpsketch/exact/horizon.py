"""The declared windows for continual release, and the timeline rows that contain each window."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.domains.timestamps import (
    MAX_MICROS,
    MILLISECOND,
    Duration,
    Time,
    check_milliseconds,
    duration_to_micros,
    to_micros,
)
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import MAX_HORIZON, RowMechanism

Mechanism: TypeAlias = Literal["binned", "tree"]
MECHANISMS: tuple[Mechanism, ...] = ("binned", "tree")


@dataclasses.dataclass(frozen=True)
class Horizon:
    """Consecutive windows with equal length, declared before the data are seen.

    Args:
      start: start of the first window, in 1970 or later: text such as "2026-11-16", a `datetime` (both in UTC if they
        have no time zone), a date, a Beam `Timestamp`, or seconds since 1970.
      window_size: window length. Text such as "1h", a `timedelta`, a Beam `Duration`, or seconds.
      windows: number of windows, 2 to 2**17, or to 2**11 with "tree". Twice as many add a few per cent to errors, so
        declare enough.
      mechanism: "binned", or "tree", up to 2,048 windows with about twice the error. It maps windows to timeline rows.
        "tree" is the paper's binary tree.
    """

    start: Time
    window_size: Duration
    windows: int
    mechanism: Mechanism = "binned"
    start_micros: int = dataclasses.field(init=False, repr=False)
    size_micros: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "windows", low=2, high=MAX_HORIZON)
        _validate.one_of(MECHANISMS, mechanism=self.mechanism)
        _ = self.rows  # raises if the mechanism does not support this number of windows
        start, size = to_micros(start=self.start), duration_to_micros(window_size=self.window_size)
        if start < 0:
            raise ArgumentError(
                "start", "must be in 1970 or later, because Beam rounds earlier times into the next window", "E425"
            )
        check_milliseconds(start=start, window_size=size)
        if start + size * (self.windows + 1) > MAX_MICROS:
            raise ArgumentError("", "The horizon and one more window must end before Beam's last timestamp", "E425")
        for name, value in (("start_micros", start), ("size_micros", size)):
            object.__setattr__(self, name, value)

    @property
    def rows(self) -> RowMechanism:
        return BinnedRoot.over(self.windows) if self.mechanism == "binned" else BinaryTree(self.windows)

    @property
    def end_micros(self) -> int:
        """End of the last window, in microseconds since 1970."""
        return self.start_micros + self.size_micros * self.windows

    def index(self, micros: int) -> int:
        """Compute the number of this time's window."""
        return (micros - self.start_micros) // self.size_micros

    def edges(self, window: int) -> tuple[int, int]:
        """Compute the start and end of a window, in microseconds since 1970."""
        start = self.start_micros + window * self.size_micros
        return start, start + self.size_micros


@dataclasses.dataclass(frozen=True)
class WindowRows:
    """Consecutive windows with equal length, and their timeline rows.

    Args:
      mechanism: the timeline rows over the windows.
      first_end_millis: last millisecond of the first window, as in the column `window` of bounded records.
      size_millis: window length in milliseconds.
    """

    mechanism: RowMechanism
    first_end_millis: int
    size_millis: int

    @classmethod
    def of(cls, horizon: Horizon) -> WindowRows:
        end, size = horizon.start_micros + horizon.size_micros, horizon.size_micros
        return cls(horizon.rows, end // MILLISECOND - 1, size // MILLISECOND)

    def number(self, ends: np.ndarray) -> np.ndarray:
        """Compute each window's number from its last millisecond: int64, 0 to windows - 1.

        Times outside all windows count in the nearest window, which can only increase a norm.
        """
        numbers = (ends - np.int64(self.first_end_millis)) // np.int64(self.size_millis)
        return np.clip(numbers, 0, self.mechanism.windows - 1)
