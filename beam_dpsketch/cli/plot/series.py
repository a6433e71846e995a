"""Releases over time: one for each window, out of rows over time or out of files that a window is named in."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli.asking import needs_horizon
from beam_dpsketch.cli.faults import AnswerError, UsageError
from beam_dpsketch.cli.over_time import Rows, group_rows
from beam_dpsketch.cli.stored import Stored, name_without_window, window_of
from beam_dpsketch.cli.values import read_time
from beam_dpsketch.privacy.over_time.horizon import Horizon

MAX_SERIES, MAX_MOMENTS = 7, 2000


class Moment(NamedTuple):
    """A window's release, and when the window begins; of all windows so far, when they end."""

    time: datetime.datetime
    released: ReleasedSketch


Found = tuple[str, dict[str, Any], "list[Moment] | AnswerError"]


def moments(
    stored: Sequence[Stored], horizon: Horizon | None, windows: tuple[int, int] | None, *, so_far: bool
) -> Iterator[Found]:
    """Yield the windows of each key, with a title and the columns that say where they were found."""
    yield from _of_files([each for each in stored if isinstance(each.released, ReleasedSketch)])
    for rows in group_rows(stored):
        if horizon is None:
            raise needs_horizon(rows.title)
        try:
            yield rows.title, rows.place, _of_rows(rows, horizon, windows, so_far)
        except AnswerError as error:
            yield rows.title, rows.place, error


def _of_files(stored: list[Stored]) -> Iterator[Found]:
    """Yield the windows of files, those of one name and key together."""
    found: dict[Any, list[tuple[Stored, Moment]]] = {}
    for each in stored:
        window = window_of(each.path)
        if window is None:
            raise UsageError(
                f"{each.title}: is not of a window: this is drawn over time, out of files with windows in their names, "
                "or of rows over time; `dpsketch query` answers about one release"
            )
        moment = Moment(read_time(window.split("/")[0]), each.released)  # type: ignore[arg-type]
        found.setdefault((name_without_window(each.path), each.key), []).append((each, moment))
    for (name, key), windows in found.items():
        first = windows[0][0]
        place = {"file": os.path.basename(name), "key": key}
        _check_number(len(windows))
        yield first.title, place, sorted((moment for _, moment in windows), key=lambda moment: moment.time)


def _of_rows(rows: Rows, horizon: Horizon, windows: tuple[int, int] | None, so_far: bool) -> list[Moment]:
    """Return the release of each window of a horizon, or of all windows up to it."""
    timeline = rows.timeline(horizon)
    first, last = windows or (0, timeline.available - 1)
    _check_number(last - first + 1)
    found = []
    for window in range(first, last + 1):
        try:
            released = timeline.prefix(window) if so_far else timeline.between(window, window)
        except ValueError as error:
            raise AnswerError(error) from None
        found.append(Moment(_time(horizon.edges(window)[so_far]), released))
    if not found:
        raise AnswerError("--windows FIRST LAST must be ascending")
    return found


def _time(micros: int) -> datetime.datetime:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return epoch + datetime.timedelta(microseconds=micros)


def _check_number(windows: int) -> None:
    if windows > MAX_MOMENTS:
        raise UsageError(f"this would draw {windows} windows, more than {MAX_MOMENTS}: give fewer, as with --windows")
