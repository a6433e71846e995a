"""Read which windows are released: `windows` and `horizon`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, plain, read_block
from beam_dpsketch.config.paths import refusal
from beam_dpsketch.config.scalars import read_choice, read_duration, read_time, read_whole
from beam_dpsketch.privacy.over_time.horizon import MECHANISMS, Horizon
from beam_dpsketch.records.public import TimeRange

WINDOWS: Mapping[str, Reader] = {"start": read_time, "end": read_time}
HORIZON: Mapping[str, Reader] = {
    "start": read_time,
    "window_size": read_duration,
    "windows": read_whole,
    "mechanism": read_choice({name: name for name in MECHANISMS}),
}
_ENDS = {"start": 'when the first window opens, as "2024-01-01"', "end": 'when the last window closes, as "2024-02-01"'}
_HORIZON = {
    "start": _ENDS["start"],
    "window_size": "the length of a window, as 1d",
    "windows": "how many windows there are, as 30",
}


def read_windows(settings: Any, path: str = "windows") -> TimeRange:
    """Return a range of time: `{start: ..., end: ...}`, or a list of the two."""
    given = plain(settings, path)
    if isinstance(given, list):
        if len(given) != 2:
            raise refusal(path, f"expected two times, the start and the end, got {len(given)}")
        given = {name: time for name, time in zip(WINDOWS, given, strict=True) if time is not None}
    return make(path, TimeRange, read_block(given, path, WINDOWS, _ENDS))


def read_horizon(settings: Any, path: str = "horizon") -> Horizon:
    """Return the declared windows of continual release."""
    return make(path, Horizon, read_block(settings, path, HORIZON, _HORIZON))
