"""The rules by which a soak is judged; each can fail, and fails where there is too little to judge by.

**Flat**: within the span without kills, the median of the last quarter is at most so many times that of the second
quarter. The first quarter is left out: after a kill, memory and caches are still filling. **Exact**: what left is what
has to leave, for each window. **Once**: what is made again after a kill has the same bytes, or is withheld.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.streams.soak.expected import Published
from benchmarks.streams.soak.pipelines import Place

FEWEST = 2
"""Values in a quarter, or its median says nothing."""
Series = Sequence[tuple[float, float]]
"""(time, value)."""


class Flat(NamedTuple):
    """Medians of the second and of the last quarter of a span; not a number where there are too few values."""

    second: float
    last: float

    @property
    def growth(self) -> float:
        """The last over the second; not a number, which meets no bar, if one is not known."""
        return self.last / self.second


def flat(series: Series, span: tuple[float, float]) -> Flat:
    """Medians of what was measured in a span of time."""
    start, end = span
    quarter = (end - start) / 4

    def median(first: float) -> float:
        values = [value for time, value in series if first <= time < first + quarter]
        return statistics.median(values) if len(values) >= FEWEST else float("nan")

    return Flat(median(start + quarter), median(start + 3 * quarter))


class Judged(NamedTuple):
    """How many windows of a pipeline there have to be, and what is wrong with how many.

    Attributes:
      windows: those that have to leave.
      missing: never left.
      wrong: left with other counters, or were not asked for.
      again: were made again, and withheld.
      other: were made again with other bytes.
    """

    windows: int
    missing: int
    wrong: int
    again: int
    other: int


def judge(
    expected: Mapping[Place, bytes],
    published: Mapping[Place, Published],
    name: str,
    same: Callable[[bytes, bytes], Any] = bytes.__eq__,
) -> Judged:
    """Compare what left of one pipeline with what has to leave.

    Args:
      expected: of all pipelines.
      published: of all pipelines.
      name: of the pipeline.
      same: whether two releases have the same exact counters.
    """
    due = {place: value for place, value in expected.items() if place[0] == name}
    there = {place: value for place, value in published.items() if place[0] == name}
    right = [place for place in due.keys() & there.keys() if same(due[place], there[place].first)]
    return Judged(
        len(due),
        len(due.keys() - there.keys()),
        len(there) - len(right),
        sum(bool(each.again) for each in there.values()),
        sum(any(other != each.first for other in each.again) for each in there.values()),
    )
