"""What changed between two releases of one kind: of each pair, the items of largest change."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from beam_dpsketch.answers.item_answers import Changes
from beam_dpsketch.answers.over_time.timeline import SketchTimeline
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.explore.content import Wanted, encoded, searches
from beam_dpsketch.explore.entries import Explored
from beam_dpsketch.statement.showing import in_words, within
from beam_dpsketch.statement.side_notes import Interval

_FEW, _MOST_PAIRS, _ROWS = 6, 100, 20
_NUMBERS = ("before", "after", "change", "lower", "upper")


def changes_of(entries: Sequence[Explored], wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield what changed in each pair: all pairs of a few releases of one key, else each with the next.

    Of a timeline, it is each window with the next.
    """
    by_key: dict[Any, list[Explored]] = {}
    pairs: list[_Pair] = []
    for entry in entries:
        if isinstance(entry.asked, ReleasedSketch):
            by_key.setdefault((entry.key, entry.asked.name), []).append(entry)
        elif isinstance(entry.asked, SketchTimeline):
            pairs += _windows(entry.name, entry.asked)
    for alike in by_key.values():
        pairs += [_Pair.of(*each) for each in _pairs(alike)]
    return filter(None, (each.change(wanted) for each in pairs[:_MOST_PAIRS]))


def _pairs(entries: list[Explored]) -> Iterator[tuple[Explored, Explored]]:
    return itertools.combinations(entries, 2) if len(entries) <= _FEW else itertools.pairwise(entries)


def _windows(name: str, timeline: SketchTimeline) -> Iterator[_Pair]:
    starts = [in_words(start) for start, _ in timeline.each_window()]
    if not isinstance(first := timeline.between(0, 0), ReleasedSketch):
        return
    for earlier, later in itertools.pairwise(range(len(starts))):
        between = f"{name + ', ' if name else ''}{starts[earlier]} to {starts[later]}"
        distance = functools.partial(timeline.distance, later, earlier)
        movers = functools.partial(timeline.movers, later, earlier)
        yield _Pair(between, distance, movers, searches(first))


class _Pair(NamedTuple):
    """Two releases, or two windows, and how to ask what changed."""

    name: str
    distance: Callable[..., Interval]
    movers: Callable[..., Changes]
    finds: bool

    @classmethod
    def of(cls, earlier: Explored, later: Explored) -> _Pair:
        before, after = cast(ReleasedSketch, earlier.asked), cast(ReleasedSketch, later.asked)
        names = (each.name or "a release" for each in (earlier, later))
        return cls(
            " to ".join(names),
            functools.partial(after.distance, before),
            functools.partial(after.movers, before),
            searches(after),
        )

    def change(self, wanted: Wanted) -> dict[str, Any] | None:
        """Return the largest changes and the distance; `None` of what cannot be compared."""
        try:
            far = self.distance(confidence=wanted.confidence)
        except IncompatibleSketchError:
            return None
        except ValueError:  # grouped counts know no distance
            far = None
        candidates = None if self.finds else wanted.candidates
        rows: list[dict[str, Any]] = []
        if self.finds or candidates:
            rows = self.movers(k=_ROWS, candidates=candidates, confidence=wanted.confidence).to_rows()
        return {
            "name": self.name,
            "words": " ".join(_words(far, bool(rows))),
            "caption": f"The largest changes, {self.name}",
            "rows": [{**encoded({key: row[key] for key in _NUMBERS}), "item": in_words(row["item"])} for row in rows],
        }


def _words(far: Interval | None, has_rows: bool) -> Iterator[str]:
    if far is not None:
        estimate, lower, upper = (within(each, far.lower, far.upper) for each in far)
        yield (
            f"Distance of all items together: {estimate}, from {lower} to {upper}. It is the root of the sum of "
            "squared changes."
        )
    if not has_rows:
        yield "There is no list of items to compare: give candidates, a public list, when the page is made."
