"""Answers over time: out of rows, one timeline for each run and key, or out of files that a window is named in."""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released import Released
from beam_dpsketch.cli.stored import Stored, name_without_window, window_of
from beam_dpsketch.cli.text import AnswerError, note
from beam_dpsketch.config import ConfigError
from beam_dpsketch.config import read_horizon as read_settings
from beam_dpsketch.config.scalars import read_time
from beam_dpsketch.errors import UsageError
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.statement.release_id import timeline
from beam_dpsketch.statement.showing import in_words

MAX_SERIES, MAX_MOMENTS = 7, 2000


class RunRows:
    """The rows of one run and key."""

    def __init__(self, stored: list[Stored]) -> None:
        self.stored = stored
        files = list(dict.fromkeys(each.path for each in stored))
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        self._file, self._key = os.path.basename(files[0]) + more, stored[0].key
        self.title = f"{files[0]}{more}" + ("" if self._key is None else f", key {in_words(self._key)}")

    def answer(self, horizon: Horizon, windows: tuple[int, int] | None) -> tuple[dict[str, Any], Released]:
        """Return the columns that say what is asked, and the release of a range of windows; `None` takes all."""
        timeline = self.timeline(horizon)
        first, last = windows or (0, timeline.available - 1)
        try:
            return {**self.place, "windows": f"{first} to {last}"}, timeline.between(first, last)
        except ValueError as error:
            raise AnswerError.of(error) from None

    def timeline(self, horizon: Horizon) -> SketchTimeline:
        try:
            timeline = SketchTimeline((each.released for each in self.stored), horizon)
        except ValueError as error:
            raise AnswerError.of(error) from None
        if not timeline.available:
            raise AnswerError(f"no window can be asked about yet: {timeline.gap or 'row 0 is missing'}")
        if timeline.missing:
            note(f"{self.title}: {timeline.gap}: give all files of the run")
        return timeline

    @property
    def place(self) -> dict[str, Any]:
        return {"file": self._file, "key": self._key}


def group_rows(stored: Iterable[Stored]) -> list[RunRows]:
    """Return the rows among what was found, those of each run and key together; copies of a row count once."""
    found: dict[Any, dict[bytes, Stored]] = {}
    for each in stored:
        if isinstance(each.released, TimelineRow):
            release_id = each.released.privacy.release_ids[0]
            found.setdefault((each.key, timeline(release_id)), {}).setdefault(release_id, each)
    return [RunRows([*rows.values()]) for rows in found.values()]


def read_horizon(arguments: argparse.Namespace) -> Horizon | None:
    """Return the horizon that the arguments declare; `None` without one."""
    if arguments.horizon is None:
        if arguments.windows is not None:
            raise UsageError("--windows needs --horizon START SIZE WINDOWS, as it was declared for the release")
        return None
    settings = dict(zip(("start", "window_size", "windows"), arguments.horizon, strict=True))
    try:
        return read_settings(settings, "--horizon")
    except ConfigError as error:
        raise UsageError.of(error) from None


def needs_horizon(title: str) -> UsageError:
    """Return the error about rows over time without their horizon."""
    return UsageError(f"{title}: holds rows over time; give --horizon START SIZE WINDOWS, as it was declared for them")


class Moment(NamedTuple):
    """A window's release, and when the window begins; of all windows so far, when they end."""

    time: datetime.datetime
    released: Released


Found = tuple[str, dict[str, Any], "list[Moment] | AnswerError"]


def moments(
    stored: Sequence[Stored], horizon: Horizon | None, windows: tuple[int, int] | None, *, so_far: bool
) -> Iterator[Found]:
    """Yield the windows of each key, with a title and the columns that say where they were found."""
    yield from _of_files([each for each in stored if isinstance(each.released, Released)])
    for rows in group_rows(stored):
        if horizon is None:
            raise needs_horizon(rows.title)
        try:
            yield rows.title, rows.place, _of_rows(rows, horizon, windows, so_far)
        except AnswerError as error:
            yield rows.title, rows.place, error


def _of_files(stored: list[Stored]) -> Iterator[Found]:
    found: dict[Any, list[tuple[Stored, Moment]]] = {}
    for each in stored:
        window = window_of(each.path)
        if window is None:
            raise UsageError(
                f"{each.title}: is not of a window: this is drawn over time, out of files with windows in their names, "
                "or of rows over time; `dpsketch query` answers about one release"
            )
        moment = Moment(read_time(window.split("/")[0], ""), each.released)
        found.setdefault((name_without_window(each.path), each.key), []).append((each, moment))
    for (name, key), windows in found.items():
        first = windows[0][0]
        place = {"file": os.path.basename(name), "key": key}
        _check_number(len(windows))
        yield first.title, place, sorted((moment for _, moment in windows), key=lambda moment: moment.time)


def _of_rows(rows: RunRows, horizon: Horizon, windows: tuple[int, int] | None, so_far: bool) -> list[Moment]:
    """Return the release of each window of a horizon, or of all windows up to it."""
    timeline = rows.timeline(horizon)
    first, last = windows or (0, timeline.available - 1)
    _check_number(last - first + 1)
    if first > last:
        raise AnswerError("--windows FIRST LAST must be ascending")
    try:
        return [Moment(*each) for each in timeline.each_window(first, last, so_far=so_far)]
    except ValueError as error:
        raise AnswerError.of(error) from None


def _check_number(windows: int) -> None:
    if windows > MAX_MOMENTS:
        raise UsageError(f"this would draw {windows} windows, more than {MAX_MOMENTS}: give fewer, as with --windows")
