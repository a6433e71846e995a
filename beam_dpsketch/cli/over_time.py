"""Rows over time to answers about ranges of windows: one timeline for each run and key."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from typing import Any

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli.faults import AnswerError, UsageError
from beam_dpsketch.cli.stored import Stored
from beam_dpsketch.cli.text import shown
from beam_dpsketch.cli.values import read_time
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.statement.release_id import timeline

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


class Rows:
    """The rows of one run and key.

    Attributes:
      title: where they were found, for messages.
      stored: the rows.
    """

    def __init__(self, stored: list[Stored]) -> None:
        self.stored = stored
        files = list(dict.fromkeys(each.path for each in stored))
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        self._file, self._key = os.path.basename(files[0]) + more, stored[0].key
        self.title = f"{files[0]}{more}" + ("" if self._key is None else f", key {shown(self._key)}")

    def answer(self, horizon: Horizon, windows: tuple[int, int] | None) -> tuple[dict[str, Any], ReleasedSketch]:
        """Return the columns that say what is asked, and the release of a range of windows; `None` takes all."""
        timeline = self.timeline(horizon)
        first, last = windows or (0, timeline.available - 1)
        try:
            return {**self.place, "windows": f"{first} to {last}"}, timeline.between(first, last)
        except ValueError as error:
            raise AnswerError(error) from None

    def timeline(self, horizon: Horizon) -> SketchTimeline:
        """Return what answers about windows; raise `AnswerError` where none can be asked yet."""
        try:
            timeline = SketchTimeline((each.released for each in self.stored), horizon)  # type: ignore[misc]
        except ValueError as error:
            raise AnswerError(error) from None
        if not timeline.available:
            raise AnswerError("no window can be asked about yet: row 0 is not in these files")
        return timeline

    @property
    def place(self) -> dict[str, Any]:
        """The columns that say where the rows were found."""
        return {"file": self._file, "key": self._key}


def group_rows(stored: Iterable[Stored]) -> list[Rows]:
    """Return the rows among what was found, those of each run and key together; copies of a row count once."""
    found: dict[Any, dict[bytes, Stored]] = {}
    for each in stored:
        if isinstance(each.released, TimelineRow):
            release_id = each.released.privacy.release_ids[0]
            found.setdefault((each.key, timeline(release_id)), {}).setdefault(release_id, each)
    return [Rows([*rows.values()]) for rows in found.values()]


def read_horizon(arguments: argparse.Namespace) -> Horizon | None:
    """Return the horizon that the arguments declare; `None` without one."""
    if arguments.horizon is None:
        if arguments.windows is not None:
            raise UsageError("--windows needs --horizon START SIZE WINDOWS, as it was declared for the release")
        return None
    start, size, windows = arguments.horizon
    try:
        return Horizon(read_time(start), read_seconds(size), int(windows))
    except (ValueError, OverflowError, TypeError):
        raise UsageError(
            "--horizon must be START SIZE WINDOWS as they were declared: a time in ISO 8601 or in seconds since 1970, "
            "a length such as 1h, 30m, 7d or 60, and the number of windows, 2 to 131072"
        ) from None


def read_seconds(text: str) -> float:
    """Return a length of time in seconds; raise `ValueError` for other text.

    >>> read_seconds("7d"), read_seconds("90")
    (604800, 90)
    """
    found = re.fullmatch(r"(\d{1,12})(\.\d{1,9})?([smhd]?)", text, re.ASCII)
    if not found:
        raise ValueError("not a length of time")
    whole, part, unit = found.groups()
    return (float(whole + part) if part else int(whole)) * _SECONDS[unit]
