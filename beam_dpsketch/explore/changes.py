"""What changed between two releases of one kind: of each pair, the items of largest change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.domains.timestamps import from_micros
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.explore.content import Wanted, encoded, searches
from beam_dpsketch.explore.entries import Explored
from beam_dpsketch.statement.showing import in_words, within
from beam_dpsketch.statement.side_notes import Interval

_FEW, _MOST_PAIRS, _ROWS = 6, 100, 20
_LEAST_FAILING = 2.0**-53
"""What may fail of one interval at least, where a float can still say its confidence."""
_COLUMNS = ("before", "after", "change", "lower", "upper", "changed")


def changes_of(entries: Sequence[Explored], wanted: Wanted) -> tuple[list[dict[str, Any]], int]:
    """Return what changed in each pair, the newest first, and how many more pairs there are.

    Releases of one kind are compared between files or windows of one key, and between keys of one file; rows over time
    from window to window. All pairs of a few are taken, else each with the next.
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
    """Two releases, or two windows: whom to ask about which sides, and a release of their kind."""

    name: str
    entries: tuple[Explored, Explored]
    asked: Any
    sides: tuple[Any, ...]
    alike: Any

    def change(self, wanted: Wanted) -> dict[str, Any] | None:
        """Return the largest changes and the distance; `None` of what cannot be compared."""
        try:
            far = self.asked.distance(*self.sides, confidence=wanted.confidence)
        except IncompatibleSketchError:
            return None
        except ValueError:  # grouped counts know no distance
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
    """Return how many items a release can find, by itself."""
    return len(released.spec.items) if released.spec.is_listed else getattr(released.spec.domain, "size", math.inf)


def _words(far: Interval | None, has_rows: bool, confidence: float) -> Iterator[str]:
    if has_rows:
        yield (
            "Each interval is about an item that is chosen before looking; of the largest of many, fewer hold, as "
            "noise moved some to the top. More or less is said where it holds for all of them together, with "
            f"{100 * confidence:.10g} %. Before and after are read apart, so they may differ by another number."
        )
    else:
        yield "There is no list of items to compare: give candidates, a public list, when the page is made."
    if far is not None:
        estimate, lower, upper = (within(each, far.lower, far.upper) for each in far)
        yield (
            f"All changes together have a length of {estimate}, from {lower} to {upper}: the root of the sum of their "
            "squares."
        )
