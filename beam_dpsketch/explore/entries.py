"""What a page is about: releases and timelines with where they were found, and which of them a reader may choose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released import Released
from beam_dpsketch.domains.timestamps import from_micros
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.statement.showing import in_words

MOST_RANGES = 300
"""Of a timeline, up to this many ranges of windows are all in a page: 24 windows have 300."""


@dataclasses.dataclass(frozen=True)
class Explored:
    """A release, or a timeline, and what a reader chooses it by.

    Attributes:
      asked: the release, or the rows over time as a `SketchTimeline`.
      file: the name of its file, or another name of its own.
      key: its output key.
      window: its window, as an ISO 8601 interval.
    """

    asked: Released | SketchTimeline
    file: str | None = None
    key: Any = None
    window: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.asked, (Released, SketchTimeline)):
            raise ArgumentTypeError(
                "releases",
                "must be a release, a SketchTimeline of rows over time, a dict of them by key, or Explored ones, got "
                f"{type(self.asked).__name__}",
                "E723",
            )

    @property
    def name(self) -> str:
        """What it is called among others."""
        return ", ".join(filter(None, self._place.values()))

    @property
    def chosen(self) -> Iterator[Chosen]:
        """All releases in it: itself, or those of ranges of windows."""
        if isinstance(self.asked, Released):
            yield Chosen(self.asked, self._place, None if self.window is None else self.window.split("/")[0])
            return
        edges = self.asked.horizon.edges
        for first, last in ranges_of(self.asked.available):
            start, end = (in_words(from_micros(edge)) for edge in (edges(first)[0], edges(last)[1]))
            place, is_whole = {**self._place, "from": start, "to": end}, last - first + 1 == self.asked.available
            yield Chosen(self.asked.between(first, last), place, start if first == last else None, is_whole)

    @property
    def _place(self) -> dict[str, str | None]:
        return {"file": self.file, "key": None if self.key is None else in_words(self.key), "window": self.window}


class Chosen(NamedTuple):
    """A release among others.

    Attributes:
      released: itself.
      place: what a reader chooses it by.
      moment: when its window begins, if it is of one window.
      is_whole: whether it is all that its entry has.
    """

    released: Released
    place: dict[str, str | None]
    moment: str | None
    is_whole: bool = True


def ranges_of(windows: int) -> list[tuple[int, int]]:
    """Return which ranges of this number of windows can be chosen: all, or of many each window, and all up to each."""
    every = [(first, last) for first in range(windows) for last in range(first, windows)]
    if len(every) <= MOST_RANGES:
        return every
    return [(first, last) for first, last in every if first in (0, last)]


def entries_of(releases: Any) -> list[Explored]:
    """Return all that is given, in its order."""
    found = [*_each(releases)]
    if not found:
        raise ArgumentError("releases", "must not be empty: give at least one release", "E723")
    return found


def distinct(entries: list[Explored]) -> list[Explored]:
    """Return the same without the name of a file that all are of, which tells none of them from another."""
    if len({entry.file for entry in entries}) > 1:
        return entries
    return [dataclasses.replace(entry, file=None) for entry in entries]


def _each(releases: Any) -> Iterator[Explored]:
    if isinstance(releases, Explored):
        yield releases
    elif isinstance(releases, Mapping) and not isinstance(releases, Released):
        yield from (Explored(each, key=key) for key, each in releases.items())
    elif isinstance(releases, Iterable) and not isinstance(releases, (Released, str, bytes)):
        for each in releases:
            yield from _each(each)
    else:
        yield Explored(releases)
