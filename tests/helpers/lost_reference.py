"""What bounding takes of each unit, worked out record by record from the definitions, in whole numbers.

What a norm leaves of weights comes from `norm_reference`: a least and a largest value, as factors are rounded down.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch import NormBound, Record, RecordBounds
from beam_dpsketch.statement.lost_notes import LostNote
from tests.helpers.norm_reference import UNIT, Counted, net, scaled

Span = tuple[int, int]
"""The least and the largest value, in units of 1 / UNIT."""
Losses = dict[tuple[Any, Any], tuple[Span, Span]]
"""What each unit loses in each place, and what is kept of it."""


def lost_by(spec: Any, unit: Record | RecordBounds | NormBound, records: Iterable[Counted]) -> Losses:
    """Return all losses; weights are not signed."""
    if isinstance(unit, Record):
        records = [each._replace(person=number) for number, each in enumerate(records)]
        return lost_by(spec, unit.bounds, records)
    by_unit: dict[Any, list[Counted]] = defaultdict(list)
    for each in records:
        if each.weight > 0:
            by_unit[each.person, each.place].append(each)
    kept = _kept_by_norm(spec, unit, records) if isinstance(unit, NormBound) else None
    found: Losses = {}
    for (person, place), own in by_unit.items():
        weights = sorted((min(each.weight, unit.max_weight) for each in own), reverse=True)
        whole = sum(each.weight for each in own)
        if kept is None:
            assert isinstance(unit, RecordBounds)
            most = unit.max_per_key
            assert len(weights) <= most or len(set(weights)) == 1, "which records are kept would be chance"
            left = (sum(weights[:most]) * UNIT,) * 2
        else:
            left = kept[person, place]
            counted = sum(sum(items.values()) for items in net(own, unit)[person].values())
            whole -= sum(weights) - counted  # what max_per_item leaves out
        found[person, place] = (whole * UNIT - left[1], whole * UNIT - left[0]), left
    return found


def _kept_by_norm(spec: Any, bounds: NormBound, records: Iterable[Counted]) -> dict[Any, Span]:
    found = {}
    for person, places in net(records, bounds).items():
        for place, items in scaled(spec, bounds, places).items():
            low, high = map(sum, zip(*items.values(), strict=True))
            found[person, place] = low, high
    return found


def assert_lost(told: Mapping[Any, LostNote], losses: Losses) -> None:
    """Raise unless the histogram of each release, or that of the run in each of them, is as the definitions say."""
    for place, note in told.items():
        of_unit: dict[Any, tuple[Span, Span]] = {}
        for (person, at), (lost, kept) in losses.items():
            if note.of_run or at == place:
                before = of_unit.get(person, ((0, 0), (0, 0)))
                of_unit[person] = _add(before[0], lost), _add(before[1], kept)
        ends = [tuple(_bin(end, note) for end in lost) for lost, _ in of_unit.values()]
        for number, count in enumerate(note.counts):
            least = sum(low == high == number for low, high in ends)
            assert least <= count <= sum(low <= number <= high for low, high in ends), "lost weight is not as said"
        if note.kept is not None:
            limit = math.isqrt(math.floor(note.kept.squared_limit * UNIT**2))
            least, most = (sum(min(kept[end], limit) for _, kept in of_unit.values()) for end in (0, 1))
            value = note.kept.value * (UNIT >> note.kept.scale_bits)
            assert least - len(of_unit) * (1 + (limit >> 20)) <= value <= most, "kept weight is not as said"


def _add(first: Span, second: Span) -> Span:
    return first[0] + second[0], first[1] + second[1]


def _bin(lost: int, note: LostNote) -> int:
    """Return the bin of a loss, by multiplying its smallest one by 4; -1 if it is smaller than that."""
    edge, place = Fraction(4) ** note.first * UNIT, -1
    while place + 1 < len(note.counts) and lost >= edge:
        edge, place = 4 * edge, place + 1
    return place
