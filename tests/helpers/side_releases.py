"""Releases whose noise is left out: their summary counts are exact, out of whole pipelines; and what to expect of them.

The expectation is worked out record by record from the definitions, in whole numbers and fractions. What a norm leaves
of weights comes from `norm_reference`. It gives a least and a largest value, because factors are rounded down.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.transforms.window import IntervalWindow

from beam_dpsketch import NormBound, Record, RecordBounds
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.declared import release_spec
from beam_dpsketch.statement.lost_notes import LostNote
from tests.helpers import noise
from tests.helpers.norm_reference import UNIT, Counted, net, scaled
from tests.helpers.side_sums import NAMES, squared_limit

Span = tuple[int, int]
"""The least and the largest value, in units of 1 / UNIT where a norm scales, else in records."""
Sides = dict[Any, dict[str, Span]]
"""The summary counts of each place: a key, a window or both."""


class Exact(NamedTuple):
    """A release without noise: its counters as nested lists, its summary counts by name, and its lost weight."""

    counters: Any
    side: dict[str, int]
    lost: LostNote | None


@pytest.fixture
def any_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a norm be below the largest weight, which is the hardest for bounding, and which the data may choose."""
    monkeypatch.setattr(release_spec, "check_max_weight", lambda bounds: None)


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases hold exact numbers, to the last bit; a choice of a norm keeps its noise."""
    noise.without_noise(monkeypatch, to_the_last_bit=True)


def exact_of(released: Any) -> Exact:
    """Return what a release without noise holds."""
    return Exact(released.counters.tolist(), side_of(released), released.privacy.lost)


def side_of(released: Any) -> dict[str, int]:
    """Return the number of each summary count: whole, or under a norm in units of 1 / UNIT."""
    unit = UNIT if released.privacy.bounds.has_norm else 1
    return {name: note.value * unit >> note.scale_bits for note in released.privacy.side for name in note.names}


class Place(beam.DoFn):
    """Releases to (start of the window or `None`, key or `None`, release)."""

    def process(self, element: Any, where: Any = beam.DoFn.WindowParam) -> Iterator[tuple[float | None, Any, Any]]:
        key, released = (None, element) if isinstance(element, ReleasedSketch) else element
        yield float(where.start) if isinstance(where, IntervalWindow) else None, key, released


def assert_sides(found: Mapping[Any, Mapping[str, int]], wanted: Sides) -> None:
    """Raise unless the summary counts of each place are the expected ones; places without records have zeros."""
    assert found.keys() >= {place for place, spans in wanted.items() if any(map(any, spans.values()))}
    for place, values in found.items():
        for name, value in values.items():
            least, largest = wanted.get(place, {}).get(name, (0, 0))
            assert least <= value <= largest, f"{name} is not as said"


def under_records(bounds: RecordBounds, records: Iterable[Counted]) -> Sides:
    """Return the sums of kept records, where the bounds are so wide that all keys and windows of a person are kept."""
    found: Sides = defaultdict(lambda: dict.fromkeys(("units", "records", "weight"), (0, 0)))
    most = bounds.max_records
    amounts: dict[Any, list[int]] = defaultdict(list)
    if bounds.signed:
        for person, places in net(records, NormBound(1, max_weight=1 << 31, signed=True)).items():
            for place, items in places.items():
                for total in items.values():
                    whole, rest = divmod(abs(total), bounds.max_weight)
                    sign = 1 if total > 0 else -1
                    amounts[person, place] += [
                        sign * each for each in [bounds.max_weight] * whole + [rest] * (rest > 0)
                    ]
    else:
        for person, place, _, weight in records:
            if weight > 0:
                amounts[person, place].append(min(weight, bounds.max_weight))
    for (_, place), weights in amounts.items():
        assert len(weights) <= most or len(set(weights)) == 1, "which records are kept would be chance"
        _add(found[place], units=bool(weights), records=len(weights[:most]), weight=sum(weights[:most]))
    return found


def of_single(privacy_unit: Record, records: Iterable[Counted]) -> Sides:
    """Return the sums of records that are units of their own: those of weight 0 are none."""
    found: Sides = defaultdict(lambda: dict.fromkeys(("units", "records", "weight"), (0, 0)))
    for _, place, _, weight in records:
        clamped = min(max(weight, privacy_unit.bounds.min_weight), privacy_unit.bounds.max_weight)
        _add(found[place], units=bool(clamped), records=bool(clamped), weight=clamped)
    return found


def _add(place: dict[str, Span], **amounts: int) -> None:
    for name, amount in amounts.items():
        place[name] = (place[name][0] + amount, place[name][1] + amount)


def under_norm(spec: Any, bounds: NormBound, max_cells: int | None, records: Iterable[Counted]) -> Sides:
    """Return the sums over all persons, each limited over all places; a person is who has one norm of their own."""
    found: Sides = defaultdict(lambda: dict.fromkeys(NAMES, (0, 0)))
    by_person: dict[Any, list[Counted]] = defaultdict(list)
    for each in records:
        if min(max(each.weight, bounds.min_weight), bounds.max_weight):
            by_person[each.person].append(each)
    for own in by_person.values():
        for name, spans in _of_person(spec, bounds, own).items():
            for place, span in _limited(spans, squared_limit(name, bounds, max_cells)).items():
                low, high = found[place][name]
                found[place][name] = (low + span[0], high + span[1])
    return found


def _of_person(spec: Any, bounds: NormBound, own: list[Counted]) -> dict[str, dict[Any, Span]]:
    """Return v of one person for each counter and place."""
    spans: dict[str, dict[Any, Span]] = {name: defaultdict(lambda: (0, 0)) for name in NAMES}
    for each in own:
        spans["records"][each.place] = (spans["records"][each.place][0] + UNIT,) * 2
    for places in net(own, bounds).values():
        kept = scaled(spec, bounds, places)
        is_scaled = any(kept[at][item][1] < abs(n) * UNIT for at in places for item, n in places[at].items())
        for place, items in places.items():
            spans["units"][place] = (UNIT, UNIT)
            spans["scaled"][place] = (UNIT * is_scaled,) * 2
            for item, weight in items.items():
                least, largest = kept[place][item]
                signed = (least, largest) if weight > 0 else (-largest, -least)
                for name, (low, high) in {
                    "weight": signed,
                    "clipped": (abs(weight) * UNIT - largest, abs(weight) * UNIT - least),
                }.items():
                    spans[name][place] = (spans[name][place][0] + low, spans[name][place][1] + high)
    return spans


def _limited(spans: dict[Any, Span], limit: Fraction) -> dict[Any, Span]:
    """Return sign(v) floor(|v| min(1, K / |v|)), as far as v and the rounding of K / |v| leave it open."""
    squared = Fraction(sum(max(map(abs, span)) ** 2 for span in spans.values()), UNIT**2)
    if squared <= limit:
        return dict(spans)
    slack = 2 + 2 * sum(high - low for low, high in spans.values())
    found = {}
    for place, (low, high) in spans.items():
        size = math.isqrt(math.floor(max(low**2, high**2) * limit / squared))
        size = size if low + high > 0 else -size
        found[place] = (size - slack - abs(size >> 20), size + slack + abs(size >> 20))
    return found


# What bounding takes of each unit, record by record from the definitions, in whole numbers. What a norm leaves comes
# from `norm_reference`: a least and a largest value, as factors are rounded down.

Losses = dict[tuple[Any, Any], tuple[Span, Span]]
"""What each unit loses in each place, and what is kept of it."""


def lost_by(spec: Any, privacy_unit: Record | RecordBounds | NormBound, records: Iterable[Counted]) -> Losses:
    """Return all losses; weights are not signed."""
    if isinstance(privacy_unit, Record):
        records = [each._replace(person=number) for number, each in enumerate(records)]
        return lost_by(spec, privacy_unit.bounds, records)
    by_unit: dict[Any, list[Counted]] = defaultdict(list)
    for each in records:
        if each.weight > 0:
            by_unit[each.person, each.place].append(each)
    kept = _kept_by_norm(spec, privacy_unit, records) if isinstance(privacy_unit, NormBound) else None
    found: Losses = {}
    for (person, place), own in by_unit.items():
        weights = sorted((min(each.weight, privacy_unit.max_weight) for each in own), reverse=True)
        whole = sum(each.weight for each in own)
        if kept is None:
            assert isinstance(privacy_unit, RecordBounds)
            most = privacy_unit.max_records
            assert len(weights) <= most or len(set(weights)) == 1, "which records are kept would be chance"
            left = (sum(weights[:most]) * UNIT,) * 2
        else:
            left = kept[person, place]
            counted = sum(sum(items.values()) for items in net(own, privacy_unit)[person].values())
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
                of_unit[person] = _plus(before[0], lost), _plus(before[1], kept)
        ends = [tuple(_bin_of(end, note) for end in lost) for lost, _ in of_unit.values()]
        for number, count in enumerate(note.counts):
            least = sum(low == high == number for low, high in ends)
            assert least <= count <= sum(low <= number <= high for low, high in ends), "lost weight is not as said"
        if note.kept is not None:
            limit = math.isqrt(math.floor(note.kept.squared_limit * UNIT**2))
            least, most = (sum(min(kept[end], limit) for _, kept in of_unit.values()) for end in (0, 1))
            value = note.kept.value * (UNIT >> note.kept.scale_bits)
            assert least - len(of_unit) * (1 + (limit >> 20)) <= value <= most, "kept weight is not as said"


def _plus(first: Span, second: Span) -> Span:
    return first[0] + second[0], first[1] + second[1]


def _bin_of(lost: int, note: LostNote) -> int:
    """Return the bin of a loss, by multiplying its smallest one by 4; -1 if it is smaller than that."""
    edge, place = Fraction(4) ** note.first * UNIT, -1
    while place + 1 < len(note.counts) and lost >= edge:
        edge, place = 4 * edge, place + 1
    return place
