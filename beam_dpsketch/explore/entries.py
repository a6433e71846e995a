"""What a page is about: releases and timelines with where they were found, and which of them a reader may choose."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from typing import Any, NamedTuple

from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released import Released
from beam_dpsketch.domains.timestamps import from_micros
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.statement.showing import in_words

MOST_RANGES, MOST_CELLS = 300, 1 << 20
"""All ranges of a timeline are in a page up to this number, with this number of counters: 24 windows have 300."""


@dataclasses.dataclass(frozen=True)
class Explored:
    """A release, or a timeline, and what a reader chooses it by.

    Attributes:
      asked: the release, or the rows over time as a `SketchTimeline`.
      file: the name of its file, or another name of its own.
      key: its output key.
      window: its window, as an ISO 8601 interval.
      windows: the first and the last window of a timeline that the page is about; `None` takes all.
    """

    asked: Released | SketchTimeline
    file: str | None = None
    key: Any = None
    window: str | None = None
    windows: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.asked, (Released, SketchTimeline)):
            raise ArgumentTypeError(
                "releases",
                "must be a release, a SketchTimeline of rows over time, a dict of them by key or window, or a list of "
                f"Explored ones, got {type(self.asked).__name__}",
                "E723",
            )

    @property
    def name(self) -> str:
        """What it is called among others."""
        return ", ".join(filter(None, self.place.values()))

    @property
    def chosen(self) -> Iterator[Chosen]:
        """All releases in it: itself, or those of ranges of windows."""
        if isinstance(self.asked, Released):
            yield Chosen(self.asked, self.place, None if self.window is None else self.window.split("/")[0])
            return
        edges, (begin, end) = self.asked.horizon.edges, self.windows or (0, self.asked.available - 1)
        for first, last in ranges_of(begin, end, self.asked.between(begin, end).spec.cells):
            opens, closes = (in_words(from_micros(edge)) for edge in (edges(first)[0], edges(last)[1]))
            place, is_whole = {**self.place, "from": opens, "to": closes}, (first, last) == (begin, end)
            moment = opens if first == last else None
            yield Chosen(self.asked.between(first, last), place, moment, is_whole, self.asked.gap)

    @property
    def place(self) -> dict[str, str | None]:
        """What a reader chooses it by, as text."""
        return {"file": self.file, "key": None if self.key is None else in_words(self.key), "window": self.window}


class Chosen(NamedTuple):
    """A release among others.

    Attributes:
      released: itself.
      place: what a reader chooses it by.
      moment: when its window begins, if it is of one window.
      is_whole: whether it is all that its entry has.
      gap: which rows of its timeline are missing, in words; empty if none is.
    """

    released: Released
    place: dict[str, str | None]
    moment: str | None
    is_whole: bool = True
    gap: str = ""


def ranges_of(begin: int, end: int, cells: int) -> list[tuple[int, int]]:
    """Return which ranges of these windows can be chosen: all; of many, or large ones, each window and all up to each.

    Args:
      begin: the first window.
      end: the last one.
      cells: how many counters the release of a range has.
    """
    windows = range(begin, end + 1)
    count = len(windows) * (len(windows) + 1) // 2
    is_small = count <= MOST_RANGES and count * cells <= MOST_CELLS
    return [
        (first, last) for first in windows for last in windows[first - begin :] if is_small or first in (begin, last)
    ]


def entries_of(releases: Any) -> list[Explored]:
    """Return all that is given, in its order."""
    found = [*_each(releases)]
    if not found:
        raise ArgumentError("releases", "must not be empty: give at least one release", "E723")
    return found


def distinct(entries: list[Explored]) -> list[Explored]:
    """Return the same, each by a place of its own: numbered where nothing else tells them from each other.

    The name of a file that all are of is left out.
    """
    if len({entry.file for entry in entries}) == 1 and len({entry.name for entry in entries}) == len(entries):
        return [dataclasses.replace(entry, file=None) for entry in entries]
    alike: dict[tuple[str | None, ...], list[int]] = {}
    for number, entry in enumerate(entries):
        alike.setdefault(tuple(entry.place.values()), []).append(number)
    found = [*entries]
    for numbers in alike.values():
        for place, number in enumerate(numbers, 1):
            if len(numbers) > 1:
                file = f"{entries[number].file or 'release'} ({place})"
                found[number] = dataclasses.replace(entries[number], file=file)
    return found


def _each(releases: Any, **found: Any) -> Iterator[Explored]:
    if isinstance(releases, Explored):
        yield releases
    elif isinstance(releases, Mapping) and not isinstance(releases, Released):
        for name, each in releases.items():
            yield from _each(each, **{**found, **_named(name)})
    elif isinstance(releases, (Sequence, Iterator, ValuesView)) and not isinstance(releases, (str, bytes)):
        for each in releases:
            yield from _each(each, **found)
    else:
        yield Explored(releases, **found)


def _named(name: Any) -> dict[str, Any]:
    """Return the name of a release in a dict as a window, which is a pair of times, or as a key."""
    if isinstance(name, tuple) and [*map(type, name)] == [datetime.datetime] * 2:
        return {"window": "/".join(map(in_words, name))}
    return {"key": name}
