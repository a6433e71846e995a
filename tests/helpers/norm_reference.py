"""What a `NormBound` leaves of records, worked out one item at a time with whole numbers and fractions.

Nothing of the package's bounding is used: the cells of an item are those that change when a raw sketch gets it alone.
Of the factor of a person the documentation says that it is rounded down. So each weight has a largest value, for the
exact factor, and a least one, for a factor that is smaller by one part in 2**24 and by 2**-32. They rarely differ.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch import NormBound, TreeSpec
from beam_dpsketch.exact.sketches import raw_type

UNIT = 1 << 16
"""Counters count in units of 1 / UNIT of a record."""
Net = Mapping[Any, Mapping[Any, int]]
Cells = tuple[dict[int, int], ...]


class Counted(NamedTuple):
    """A record: whose it is, its place (key, window or both), what is counted and how much."""

    person: Any
    place: Any
    item: Any
    weight: int = 1


class Expected(NamedTuple):
    """All counters of a place as one vector, and how far rounding down may take each of them away."""

    counters: np.ndarray
    slack: np.ndarray


@functools.cache
def cells_of(spec: Any, item: Any) -> Cells:
    """The cells of the item in each table, and whether it counts there as 1 or -1."""
    changes = [table.ravel() for table in raw_type(spec)(spec).accumulate([item]).counter_tables()]
    return tuple({cell: int(change[cell]) for cell in np.flatnonzero(change).tolist()} for change in changes)


def tables(spec: Any) -> list[tuple[int, Fraction]]:
    """The cells of an item in each table, and the table's part of rho."""
    if isinstance(spec, TreeSpec):
        return [(level.depth, level.share) for level in spec.levels]
    return [(getattr(spec, "depth", 1), Fraction(1))]


def net(records: Iterable[Counted], bounds: NormBound) -> dict[Any, dict[Any, dict[Any, int]]]:
    """The net weight by person, place and item: each record clamped, and sums capped, but for those that are 0."""
    sums: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for person, place, item, weight in records:
        sums[person][place][item] += min(max(weight, bounds.min_weight), bounds.max_weight)
    found: dict[Any, dict[Any, dict[Any, int]]] = {}
    for person, places in sums.items():
        for place, items in places.items():
            left = {item: _capped(total, bounds.max_per_item) for item, total in items.items() if total}
            if left:
                found.setdefault(person, {})[place] = left
    return found


def _capped(weight: int, cap: int | None) -> int:
    return weight if cap is None or abs(weight) <= cap else cap if weight > 0 else -cap


def squared_norm(spec: Any, places: Net) -> Fraction:
    """N^2 of one person: sums without signs."""
    total = Fraction(0)
    for number, (cells, share) in enumerate(tables(spec)):
        for items in places.values():
            sums: Counter[int] = Counter()
            for item, weight in items.items():
                sums.update(dict.fromkeys(cells_of(spec, item)[number], abs(weight)))
            total += share / cells * sum(each**2 for each in sums.values())
    return total


def scaled(spec: Any, bounds: NormBound, places: Net) -> dict[Any, dict[Any, tuple[int, int]]]:
    """The least and the largest weight of each item of one person, without signs, in units of 1 / UNIT."""
    squared, limit = squared_norm(spec, places), Fraction(bounds.max_norm) ** 2
    if squared <= limit:
        return {
            place: {item: (abs(weight) * UNIT,) * 2 for item, weight in items.items()}
            for place, items in places.items()
        }
    factor = limit / squared  # squared
    least = Fraction(math.isqrt(int(factor * 4**64)), 2**64) * (1 - Fraction(1, 2**24)) - Fraction(1, 2**32)

    def weights(weight: int) -> tuple[int, int]:
        return max(0, math.floor(abs(weight) * least * UNIT)), math.isqrt(int((weight * UNIT) ** 2 * factor))

    return {place: {item: weights(weight) for item, weight in items.items()} for place, items in places.items()}


def expected(spec: Any, bounds: NormBound, records: Iterable[Counted]) -> dict[Any, Expected]:
    """The exact counters of each place before the noise."""
    found: dict[Any, Expected] = {}
    starts = np.cumsum([0, *sizes(spec)]).tolist()
    for places in net(records, bounds).values():
        for place, items in scaled(spec, bounds, places).items():
            counters, slack = found.setdefault(place, Expected(*np.zeros((2, spec.cells), dtype=np.int64)))
            for item, (least, largest) in items.items():
                sign = 1 if places[place][item] > 0 else -1
                for start, cells in zip(starts, cells_of(spec, item), strict=False):
                    for cell, change in cells.items():
                        counters[start + cell] += sign * change * largest
                        slack[start + cell] += largest - least
    return found


def sizes(spec: Any) -> list[int]:
    """The number of counters of each table."""
    return [table.size for table in raw_type(spec)(spec).counter_tables()]


def assert_same(found: Mapping[Any, Any], wanted: Mapping[Any, Expected]) -> None:
    """The counters of each place are the expected ones; places without data may be missing, or have counters 0."""
    assert wanted.keys() >= {place for place, counters in found.items() if np.any(counters)}
    for place, (counters, slack) in wanted.items():
        assert np.all(np.abs(np.array(found.get(place, 0)) - counters) <= slack), "counters differ"


def squared_length(spec: Any, change: Mapping[Any, Any]) -> Fraction:
    """The squared length of a change of counters in all places: the mean of the rows, weighted as rho is shared."""
    total = Fraction(0)
    for counters in change.values():
        changes = np.split(np.array(counters).astype(object), np.cumsum(sizes(spec))[:-1])
        for table, (cells, share) in zip(changes, tables(spec), strict=True):
            total += share / cells * sum(int(each) ** 2 for each in table)
    return total
