"""Page content: releases to choose from, facts about each, and changes between pairs.

* Each release or timeline has a file, key and window.
* Each release has a statement, numbers, a top list, and the reading for further answers.
* Each pair with the same kind has the items with the largest changes.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.over_time import SketchTimeline
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Answered, Takes
from beam_dpsketch.answers.questions.kinds import QUESTIONS
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, IncompatibleSketchError
from beam_dpsketch.exact.domains.timestamps import from_micros
from beam_dpsketch.plots.pictures import counted
from beam_dpsketch.privacy.summary_counts import RECORDS, WEIGHT
from beam_dpsketch.statement.showing import finite, in_words, interval_words, key_columns, plain, shown, within
from beam_dpsketch.statement.summary_notes import Interval

MOST_RANGES, MOST_CELLS = 300, 1 << 20
"""Most ranges and counters for which a page contains all ranges. 24 windows have 300 ranges."""


@dataclasses.dataclass(frozen=True)
class Explored:
    """Release or timeline, and the labels by which a reader chooses it.

    Attributes:
      asked: the release, or the timeline rows as a `SketchTimeline`.
      file: the file name, or another unique name.
      key: the output key.
      window: the window as an ISO 8601 interval.
      windows: the first and last window to show from a timeline. `None` means all.
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
                "must be a release, a SketchTimeline, a dict of them by key or window, or a list of these or "
                f"Explored entries, got {type(self.asked).__name__}",
                "E723",
            )

    @property
    def name(self) -> str:
        """Label in lists."""
        return ", ".join(filter(None, self.place.values()))

    @property
    def chosen(self) -> Iterator[Chosen]:
        """Releases to choose from: the release itself, or a timeline's ranges of windows."""
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
        """File, key and window as text."""
        statement = self.asked if isinstance(self.asked, SketchTimeline) else self.asked.privacy
        found = key_columns(self.key, statement.key_names)
        keys = {name: None if part is None else in_words(part) for name, part in found.items()}
        return {"file": self.file, **keys, "window": self.window}


class Chosen(NamedTuple):
    """Release with its labels.

    Attributes:
      released: the release.
      place: the labels by which a reader chooses it.
      moment: the start of its window, if it covers a single window.
      is_whole: whether it covers its whole entry.
      gap: missing rows in its timeline, in words. Empty if complete.
    """

    released: Released
    place: dict[str, str | None]
    moment: str | None
    is_whole: bool = True
    gap: str = ""


def ranges_of(begin: int, end: int, cells: int) -> list[tuple[int, int]]:
    """List the ranges of windows to choose from: all ranges, or a subset if there are many or large ranges.

    The subset contains each single window, and all windows up to each.

    Args:
      begin: the first window.
      end: the last window.
      cells: the number of counters per release.
    """
    windows = range(begin, end + 1)
    count = len(windows) * (len(windows) + 1) // 2
    is_small = count <= MOST_RANGES and count * cells <= MOST_CELLS
    return [
        (first, last) for first in windows for last in windows[first - begin :] if is_small or first in (begin, last)
    ]


def entries_of(releases: Any) -> list[Explored]:
    """Collect the given releases in their order."""
    found = [*_each(releases)]
    if not found:
        raise ArgumentError("releases", "must not be empty. Pass at least one release", "E723")
    return found


def distinct(entries: list[Explored]) -> list[Explored]:
    """Make the labels of each entry unique with numbers, and omit a file name that all entries share."""
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
    """Interpret a dict key as a window if it is a pair of times, or as an output key."""
    if isinstance(name, tuple) and [*map(type, name)] == [datetime.datetime] * 2:
        return {"window": "/".join(map(in_words, name))}
    return {"key": name}


MOST_LISTED = 1000
_CHOSEN = (
    "Top lists favor items whose noise was high, so intervals are right less often than those of items that are chosen "
    "before looking."
)
_ALL = {"records", "total_weight", "privacy_units"}


class Wanted(NamedTuple):
    """Confidence, public candidates and labels for all answers in a page."""

    confidence: float
    candidates: Sequence[Any] | None
    value: str | None = None
    weight: str | None = None


def contents_of(chosen: Chosen, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield the content for a release, or for each of its metrics."""
    released = chosen.released
    for metric, part in released.parts.items():
        place = {**chosen.place, "metric": metric or None}
        name = ", ".join(each for each in place.values() if each) or f"release of {part.kind}"
        yield {
            "place": place,
            "moment": chosen.moment,
            "is_whole": chosen.is_whole,
            "name": name,
            "kind": part.kind,
            "counted": _counted(part, wanted),
            "value": wanted.value or "value",
            "intervals": interval_words(wanted.confidence, part.clipping()),
            "clipping": part.clipping().as_dict(),
            "statement": released.privacy.facts,
            "notes": [*_notes(chosen, part)],
            "holds": "" if released._holds is None else f"it contains {released._holds}",
            "numbers": [*_numbers(chosen, part, wanted)],
            "top": top_of(part, wanted),
            "reading": encoded(part.reading(wanted.confidence)),
        }


def _notes(chosen: Chosen, part: Released) -> Iterator[str]:
    yield from (note.message for note in dict.fromkeys((*chosen.released.notes, *part.notes)))
    if chosen.gap:
        yield f"{chosen.gap}, so later windows are not in this page"


def _counted(released: Released, wanted: Wanted) -> str:
    """Name the counted quantity."""
    kept = " that the bounds kept" if released.privacy.is_bounded else ""
    return f"{wanted.weight or counted(released)}{kept}"


def _numbers(chosen: Chosen, part: Released, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield the answers to questions without arguments. Summary counts cover all metrics together.

    Redundant answers are omitted: privacy units that are records, weight that equals the record count, and records and
    weight if the release has a more accurate count.
    """
    privacy_unit, several = part.privacy.privacy_unit, chosen.moment is None and "from" in chosen.place
    known = {"privacy_units"} if privacy_unit.is_one_record else set()
    weight = chosen.released.privacy.note(WEIGHT)
    known |= {"total_weight"} if weight is not None and weight is chosen.released.privacy.note(RECORDS) else set()
    known |= {"records", "total_weight"} if QUESTIONS["count"].method in dir(part) else set()
    for kind, entry in QUESTIONS.items():
        if entry.takes is Takes.NOTHING and kind not in known:
            question = Ask(kind, None, wanted.confidence)
            answered = (ask(question, chosen.released) if kind in _ALL else None) or ask(question, part)
            if answered is not None:
                axis = entry.drawing.axis if entry.drawing else None
                again = ", each once in each window" if several and kind == "privacy_units" else ""
                words = {"kind": kind, "words": f"{entry.words}{again}", "axis": axis or _counted(part, wanted)}
                yield {**words, **numbers_of(answered.rows[0])}


def top_of(released: Released, wanted: Wanted) -> dict[str, Any] | None:
    """List the largest items, or `None` if the release has no items, or requires candidates and has none."""
    candidates = None if searches(released) else wanted.candidates
    answered = ask(Ask("top_k", MOST_LISTED, wanted.confidence, candidates), released)
    if answered is None:
        return None
    limit = getattr(answered.answer, "detection_limit", None)
    finds = (
        []
        if limit is None
        else [f"Items with a count of {shown(limit)} or more after clipping exceed the noise with 95 % probability."]
    )
    chosen, count = [_CHOSEN] if len(answered.rows) > 1 else [], len(answered.rows)
    return {
        "caption": f"The most frequent, with {answered.intervals}",
        "summary": f"All {count:,} of the list" if count < MOST_LISTED else f"The {count:,} most frequent",
        "rows": [{"item": _shown_item(row), **numbers_of(row)} for row in answered.rows],
        "notes": [*finds, *chosen, *(note.message for note in answered.notes if note not in released.notes)],
    }


def _shown_item(row: dict[str, Any]) -> str:
    """Format an item. An ellipsis marks a prefix."""
    return in_words(row["item"]) + "\u2026" * row.get("truncated", False)


def searches(released: Released) -> bool:
    """Whether a release finds items without candidates, in its domain or its list."""
    spec = released.spec
    return spec.is_listed or getattr(spec, "domain", None) is not None


def ask(question: Ask, released: Released) -> Answered | None:
    """Answer a question, or return `None` if the release does not support it."""
    if not question.is_answered_by(released):
        return None
    try:
        return question.answer(released)
    except (ValueError, TypeError):  # no such count, or candidates are missing
        return None


def numbers_of(row: dict[str, Any]) -> dict[str, Any]:
    """Extract the estimate and bounds from a row, with `None` for unknown or infinite numbers."""
    return {name: finite(plain(row[name])) for name in ("estimate", "lower", "upper")}


def encoded(value: Any) -> Any:
    """Convert a reading to JSON values, with arrays in base64."""
    if isinstance(value, np.ndarray):
        ordered = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return {"dtype": value.dtype.name, "data": base64.b64encode(ordered.tobytes()).decode("ascii")}
    if isinstance(value, dict):
        return {name: encoded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(each) for each in value]
    return finite(plain(value))


_FEW, _MOST_PAIRS, _ROWS = 6, 100, 20
_LEAST_FAILING = 2.0**-53
"""Smallest error probability whose confidence differs from 1 as a float."""
_COLUMNS = ("before", "after", "change", "lower", "upper", "changed")


def changes_of(entries: Sequence[Explored], wanted: Wanted) -> tuple[list[dict[str, Any]], int]:
    """Compare pairs of releases, newest first, and count the omitted pairs.

    Releases with the same kind are compared between files or windows for each key, and between keys in each file.
    Timelines are compared between windows. Up to 6 releases give all pairs, and more give consecutive pairs.
    """
    alike: dict[Any, list[Explored]] = {}
    pairs: list[_Pair] = []
    for entry in entries:
        if isinstance(entry.asked, SketchTimeline):
            pairs += _windows(entry, entry.asked)
        elif isinstance(entry.asked, ReleasedSketch):
            key, has_window = repr(entry.key), entry.window is not None
            alike.setdefault(("key", key, has_window, entry.asked.name), []).append(entry)
            alike.setdefault(("keys", entry.file, entry.window, entry.asked.name), []).append(entry)
    for found in alike.values():
        for earlier, later in _pairs(found):
            name = f"{earlier.name or 'a release'} to {later.name or 'a release'}"
            pairs.append(_Pair(name, (earlier, later), later.asked, (earlier.asked,), later.asked))
    waiting = iter(pairs[::-1])
    changes = filter(None, (each.change(wanted) for each in waiting))
    return [*itertools.islice(changes, _MOST_PAIRS)], len([*waiting])


def _pairs(alike: list[Any]) -> Iterator[tuple[Any, Any]]:
    return itertools.combinations(alike, 2) if len(alike) <= _FEW else itertools.pairwise(alike)


def _windows(entry: Explored, timeline: SketchTimeline) -> Iterator[_Pair]:
    begin, end = entry.windows or (0, timeline.available - 1)
    if not isinstance(first := timeline.between(begin, begin), ReleasedSketch):
        return
    starts = {number: in_words(from_micros(timeline.horizon.edges(number)[0])) for number in range(begin, end + 1)}
    for earlier, later in _pairs(list(starts)):
        between = f"{starts[earlier]} to {starts[later]}"
        yield _Pair(between, (entry, entry), timeline, (later, earlier), first)


class _Pair(NamedTuple):
    """Pair of releases or windows, the object to ask for their distance, and a release of the same kind."""

    name: str
    entries: tuple[Explored, Explored]
    asked: Any
    sides: tuple[Any, ...]
    alike: Any

    def change(self, wanted: Wanted) -> dict[str, Any] | None:
        """Compute the largest changes and the distance, or `None` for incompatible releases."""
        try:
            far = self.asked.distance(*self.sides, confidence=wanted.confidence)
        except IncompatibleSketchError:
            return None
        except ValueError:  # thresholded counts have no distance
            far = None
        finds = searches(self.alike)
        candidates = None if finds else wanted.candidates
        rows: list[dict[str, Any]] = []
        clipping = None if far is None else far.clipping
        if finds or candidates:
            failing = (1 - wanted.confidence) / (len(candidates) if candidates else _listed(self.alike))
            sure = 1 - max(failing, _LEAST_FAILING)
            together, alone = (self.asked.movers(*self.sides, _ROWS, candidates, p) for p in (sure, wanted.confidence))
            clipping = together.clipping
            changed = (together.lower > 0) | (together.upper < 0)
            rows = [{**row, "changed": each} for row, each in zip(alone.to_rows(), changed, strict=True)]
        return {
            "name": self.name,
            "places": [each.place for each in self.entries],
            "words": [*([] if clipping is None else [str(clipping)]), *_words(far, bool(rows), wanted.confidence)],
            "caption": f"The largest changes, {self.name}",
            "rows": [{**encoded({key: row[key] for key in _COLUMNS}), "item": in_words(row["item"])} for row in rows],
        }


def _listed(released: ReleasedSketch) -> float:
    """Count the items that a release can find without candidates."""
    return len(released.spec.items) if released.spec.is_listed else getattr(released.spec.domain, "size", math.inf)


def _words(far: Interval | None, has_rows: bool, confidence: float) -> Iterator[str]:
    if has_rows:
        yield (
            "Top lists favor changes whose noise was high, so intervals are right less often than those of items that "
            "are chosen before looking. A direction is given if all of them together are right with at least "
            f"{100 * confidence:.10g} % confidence. A change is estimated by itself, so it may differ from after minus "
            "before."
        )
    else:
        yield "Without a list of items, no changes are shown. Pass a public list of candidates when you make the page."
    if far is not None:
        estimate, lower, upper = (within(each, far.lower, far.upper) for each in far)
        yield (f"The L2 distance, the root of the sum of all squared changes, is {estimate}, from {lower} to {upper}.")
