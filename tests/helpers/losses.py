"""What one unit loses to all releases of a run, by brute force: no noise, and the package's own bounds and noise.

A unit is a list of records. What the rules of bounding keep of it becomes exact counters of each release, a part. Each
counter is divided by the root of 2 sigma^2 of its noise, so that the loss of a pair of inputs is the squared distance
of two units. Units of equal bounds are worked out together: what is kept of one does not depend on others.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    AssumePublicKeys,
    AutoNorm,
    BytesDomain,
    Groups,
    Horizon,
    IntegerDomain,
    KeySelection,
    Level,
    ListedItems,
    NeighboringRelation,
    PrivacySpec,
    PrivacyStatement,
    PrivacyUnit,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    SideCounters,
    SketchSpec,
    TimeRange,
    TreeSpec,
    WindowingError,
)
from beam_dpsketch.domains.base import short_keys
from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.noising import Part, release_parts
from beam_dpsketch.engine.norms import calibrate_choice
from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.kinds.grouped_counts import GroupedCounts
from beam_dpsketch.kinds.sketched import AnySketch
from beam_dpsketch.privacy.key_selection import SelectionRule
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.over_time.mechanism import matrix_rows
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.records import reading
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.priorities import RandomPriorities
from beam_dpsketch.records.bounding.record_rule import RecordRule
from beam_dpsketch.records.bounding.side_sums import sums_of_kept
from beam_dpsketch.records.items import VOTERS, VOTES
from beam_dpsketch.records.pairs import join_pairs
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.sketches import raw_type
from beam_dpsketch.sketches.grouped_items import GroupedItems
from beam_dpsketch.statement.key_note import KeyNote
from beam_dpsketch.statement.release_id import DRAW_BYTES, PART_BYTES, RUN_BYTES
from beam_dpsketch.transforms.steps.over_time.horizon_plan import horizon_plan, windows_of
from beam_dpsketch.transforms.windows.window_limit import last_time
from beam_dpsketch.transforms.windows.window_plan import WindowPlan
from tests.helpers import norms
from tests.helpers.combinations import Parts
from tests.helpers.pipelines import FN_API

RHO = Fraction(1, 10)
NORM = Fraction(33, 16)
"""What an `AutoNorm` chooses here."""
KEYS = ["a", "b", "c", "d"]
CHOICE = "choice of the norm"
DELTA = Fraction(1, 10**8)
_COPIES = 13
_MILLION = 1_000_000

SPECS: dict[str, Any] = {
    "count_min": SketchSpec(kind="count_min", depth=2, width=2, seed=1),
    "count_sketch": SketchSpec(kind="count_sketch", depth=2, width=1, seed=1),
    "listed": ListedItems(range(24)),
    "tree": TreeSpec(
        domain=IntegerDomain(0, 15),
        levels=(Level(2, "exact", 1, 4, Fraction(3, 4)), Level(2, "count_sketch", 1, 1, Fraction(1, 4))),
    ),
    "groups": GroupedItems(BytesDomain(2)),
}
SIDES: dict[str, SideCounters | None] = {
    "usual": SideCounters(),
    "none": None,
    "lopsided": SideCounters(units=0.5, records=0.01, weight=0.3, clipped=None),
}


class Layout(NamedTuple):
    """The length of windows in seconds, and the keys."""

    size: int | None = None
    step: int | None = None
    declared: bool = False
    streaming: bool = False
    keys: str = "none"
    horizon: Horizon | None = None


class Visit(NamedTuple):
    """A record of a unit in a window, by its last millisecond."""

    number: int
    key: str
    end: int
    item: Any
    weight: int


class Kept(NamedTuple):
    """A record, or a number counted aside, that counts for a unit in a part."""

    unit: Any
    part: Any
    column: Any
    value: int


class Setting(NamedTuple):
    """What is released, for whom, in which windows and keys."""

    kind: str
    unit: Any
    layout: Layout

    def declared(self, privacy: PrivacySpec) -> ReleaseSpec:
        """Return the declaration; raise as the transforms do if it cannot be."""
        keys: Any = {
            "none": None,
            "one": PublicKeys(KEYS[:1], "key"),
            "listed": PublicKeys(KEYS, "key"),
            "open": AssumePublicKeys("key"),
            "chosen": KeySelection(DELTA, field="key"),
        }[self.layout.keys]
        weight = "n" if self.unit.bounds.says_max_weight else None
        windows = TimeRange(0, 240) if self.layout.declared else self.layout.horizon
        spec = SPECS[self.kind]
        count = GroupedCounts(spec.domain, 1, Groups(DELTA)) if self.kind == "groups" else AnySketch(spec)
        return ReleaseSpec(count, privacy, self.unit, "item", weight, keys, windows)

    def plan(self, privacy: PrivacySpec) -> WindowPlan:
        """Return the windows and terms of the transforms."""
        declared, elements = self.declared(privacy), _elements(self.layout)
        if self.layout.horizon is None:
            return WindowPlan.of(elements, declared)
        return horizon_plan(elements, declared, self.layout.horizon)

    def is_possible(self) -> bool:
        """Return whether the transforms accept it."""
        privacy = PrivacySpec(RHO, relation=ADD_OR_REMOVE_ONE)
        try:
            self.declared(privacy).count.calibrate(self.plan(privacy).terms)
        except (ValueError, WindowingError, TypeError):
            return False
        return True


@functools.cache
def _elements(layout: Layout) -> beam.PCollection:
    if layout.size is None:
        windowfn: Any = window.GlobalWindows()
    elif layout.step is None:
        windowfn = window.FixedWindows(layout.size)
    else:
        windowfn = window.SlidingWindows(layout.size, layout.step)
    return beam.PCollection(_pipeline(), windowing=beam.Windowing(windowfn), is_bounded=not layout.streaming)


@functools.cache
def _pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=FN_API)


class Run:
    """One run of a setting: its statement, and what each of many units adds to each part.

    Attributes:
      statement: of one release of the run.
      grams: for each part, the inner products of what units add, over 2 sigma^2, (units, units). All rows over time of
        a key are one part.
      choice: the same of what chooses the norm, which is no part.
    """

    def __init__(self, setting: Setting, relation: NeighboringRelation, sides: SideCounters | None) -> None:
        privacy = PrivacySpec(RHO, relation=relation, side_counters=sides)
        plan = setting.plan(privacy)
        noise: dict[Any, Fraction] = {}
        terms = plan.terms
        if isinstance(terms.bounds, AutoNorm):
            noise[CHOICE] = calibrate_choice(SPECS[setting.kind], terms).sigma_squared
            terms = terms.with_norm(NORM)
        self.relation, self.setting, self.statement = relation, setting, _statement(setting, terms)
        unit = terms.squared_unit
        for number, sigma_squared in enumerate(self.statement.sigma_squared_per_level):
            noise[number] = sigma_squared * unit
        noise |= {note.names[0]: note.sigma_squared * unit for note in self.statement.side}
        if terms.selection is not None and setting.kind != "groups":
            assert isinstance(self.statement.keys, KeyNote)
            noise[VOTES] = self.statement.keys.sigma_squared
        self.grams: dict[Any, Any] = defaultdict(float)
        for part, (columns, added) in _added(setting).items():
            scales = [float(2 * noise[column]) ** -0.5 if column in noise else 0.0 for column in columns]
            scaled = added * np.array(scales)
            self.grams[part if setting.layout.horizon is None else part[0]] += scaled @ scaled.T
        self.choice = self.grams.pop(CHOICE, np.zeros((1, 1)))

    def loss(self, first: dict[Any, int], second: dict[Any, int]) -> float:
        """Return the largest loss where a unit in some parts is replaced by one in others; in none, it is removed.

        The numbers say how often a part is drawn.
        """
        lengths = [self._lengths(first), self._lengths(second)]
        if not first or not second:
            return float(sum(lengths).max())
        total = lengths[0][:, None] + lengths[1][None, :] - 2 * self.choice
        for part in first.keys() & second.keys():
            total = total - 2 * min(first[part], second[part]) * self.grams[part]
        return float(total.max())

    def _lengths(self, parts: dict[Any, int]) -> Any:
        """Return the loss of removing each unit from these parts."""
        zero = np.zeros(len(next(iter(self.grams.values()))))
        return sum((times * np.diag(self.grams[part]) for part, times in parts.items()), zero) + bool(parts) * np.diag(
            self.choice
        )

    def loss_of_parts(self, first: Parts, second: Parts) -> float:
        """Return the same of `two_parts`, by their places."""
        return self.loss(*({self.two_parts[place]: times for place, times in each} for each in (first, second)))

    @property
    def removal(self) -> float:
        """The loss of a removal, or an addition, over all parts."""
        return self.loss(dict.fromkeys(self.grams, 1), {})

    @property
    def worst(self) -> float:
        """The largest loss of neighbouring inputs, over all parts."""
        whole = dict.fromkeys(self.grams, 1)
        return self.removal if self.relation is ADD_OR_REMOVE_ONE else max(self.removal, self.loss(whole, whole))

    @functools.cached_property
    def two_parts(self) -> list[Any]:
        """The part that a unit changes most, and another."""
        return sorted(self.grams, key=lambda part: (-float(np.diag(self.grams[part]).max()), repr(part)))[:2]


def _statement(setting: Setting, terms: ReleaseTerms) -> PrivacyStatement:
    """Return what a release under these terms says."""
    spec = SPECS[setting.kind]
    if setting.kind == "groups":
        rows = Counting.of(spec, terms).gather([], bytes(RUN_BYTES + PART_BYTES), bytes(DRAW_BYTES), Randomness.SYSTEM)
        return rows.privacy
    raw = raw_type(spec)(spec).in_units_of(terms.scale_bits)
    part = Part(raw, np.zeros(len(terms.counters), dtype=np.int64))
    (released,) = release_parts([part], Calibration.of(spec, terms), row=0 if isinstance(terms, RowTerms) else None)
    return released.privacy


@functools.lru_cache(maxsize=8)
def _added(setting: Setting) -> dict[Any, tuple[list[Any], np.ndarray]]:
    """Return for each part whose noise each column has, and what each unit adds to it, (units, columns)."""
    kept = _kept(setting)
    units = {unit: place for place, unit in enumerate(dict.fromkeys(each.unit for each in kept))}
    columns: dict[Any, dict[Any, int]] = defaultdict(dict)
    for each in kept:
        columns[each.part].setdefault(each.column, len(columns[each.part]))
    added = {part: np.zeros((len(units), len(of_part))) for part, of_part in columns.items()}
    for unit, part, column, value in kept:
        added[part][units[unit], columns[part][column]] += value
    return {part: ([*map(_table, columns[part])], each) for part, each in added.items()}


def _table(column: Any) -> Any:
    """Return whose noise a column has: that of a table of the sketch, or of a counter aside."""
    return column[0] if isinstance(column, tuple) else column


# Units


def _places(layout: Layout) -> list[list[tuple[str, float]]]:
    """Return keys and times that the records of one unit are in."""
    early, late, both, far = [5.0], [65.0], [5.0, 65.0], [125.0, 185.0]
    if layout.keys == "none":
        wanted = [(KEYS[:1], times) for times in (early, late, both, far)]
    else:
        wanted = [(KEYS[:1], times) for times in (early, late, both, far[:1])]
        if layout.keys != "one":
            wanted += [(KEYS[1:2], early), (KEYS[:2], early), (KEYS[:2], both), (KEYS[2:], early), (KEYS[2:], far)]
    if layout.size is None and layout.horizon is None:
        wanted = [(keys, times) for keys, times in wanted if times == early]
    return [list(itertools.product(keys, times)) for keys, times in wanted]


@functools.cache
def _items(kind: str) -> tuple[Any, ...]:
    """Return an item, then one that is furthest from it in the sketch, then others."""
    if kind == "groups":
        return tuple(short_keys([b"%c" % (97 + number) for number in range(4)]))
    keys = norms.keys_of(SPECS[kind])
    first = [norms.changed_cells(SPECS[kind], key) for key in keys]

    def distance(key: Any) -> int:
        tables = zip(first[0], norms.changed_cells(SPECS[kind], key), strict=True)
        return sum((a.get(c, 0) - b.get(c, 0)) ** 2 for a, b in tables for c in {*a, *b})

    others = sorted(keys[1:], key=distance, reverse=True)
    return (keys[0], *others)


Unit = list[tuple[str, float, Any, int]]


def _units(setting: Setting) -> Iterator[Unit]:
    """Yield units: with one heavy item, one far from it, many items, of both signs; and small ones at random."""
    bounds, items, places = setting.unit.bounds, _items(setting.kind), _places(setting.layout)
    signs = (1, -1) if bounds.signed else (1,)
    if isinstance(setting.unit, Record):
        for [(key, time), *others], item, sign in itertools.product(places, items[:2], signs):
            if not others:
                yield [(key, time, item, sign * bounds.max_weight)]
        return
    copies = bounds.max_contributions_per_partition if isinstance(bounds, RecordBounds) else _COPIES
    for place, (some, times), sign in itertools.product(
        places, [(items[:1], copies), (items[1:2], copies), (items, 1), (items[:2], copies)], signs
    ):
        yield [
            (key, time, item, sign * bounds.max_weight) for key, time in place for item in some for _ in range(times)
        ]
    rng = random.Random(repr(setting))
    for _ in range(4):
        drawn = [rng.choice(rng.choice(places)) for _ in range(rng.randint(1, 4))]
        yield [(*each, rng.choice(items), rng.choice(signs) * rng.randint(1, bounds.max_weight)) for each in drawn]


def _kept(setting: Setting) -> list[Kept]:
    """Return all that counts of all units, aside and in sketches."""
    every = SideCounters() if setting.kind != "groups" else None
    plan = setting.plan(PrivacySpec(RHO, relation=ADD_OR_REMOVE_ONE, side_counters=every))
    found = list(_counted(setting, plan))
    if plan.rows is None:
        return found
    matrix = list(matrix_rows(plan.rows.mechanism))
    first, size = plan.rows.first_end_millis, plan.rows.size_millis
    rows = []
    for unit, (key, end), column, value in found:
        if _table(column) == VOTES:
            rows.append(Kept(unit, (key, "votes"), column, value))
            continue
        number = (end - first) // size
        rows += [
            Kept(unit, (key, row), column, value * int(weights[number]))
            for row, weights in enumerate(matrix)
            if weights[number]
        ]
    return rows


def _counted(setting: Setting, plan: WindowPlan) -> Iterator[Kept]:
    """Yield what counts of all units in windows."""
    records = [
        Visit(number, key, end, item, weight)
        for number, unit in enumerate(_units(setting))
        for key, time, item, weight in unit
        for end in _ends(setting.layout, time)
    ]
    if isinstance(setting.unit, Record):
        yield from _of_single(setting, plan, records)
    elif setting.unit.bounds.has_norm:
        yield from _under_norm(setting, plan, records)
    else:
        yield from _under_record_bounds(setting, plan, _in_first_windows(records, plan))


def _in_first_windows(records: list[Visit], plan: WindowPlan) -> list[Visit]:
    """Return the records in the first `max_windows` windows of their unit and period."""
    if plan.periods is None:
        return records
    windows: dict[Any, set[int]] = defaultdict(set)
    for each in records:
        windows[each.number, _period(each, plan)].add(each.end)
    first = {place: sorted(ends)[: plan.max_windows] for place, ends in windows.items()}
    return [each for each in records if each.end in first[each.number, _period(each, plan)]]


def _under_record_bounds(setting: Setting, plan: WindowPlan, records: list[Visit]) -> Iterator[Kept]:
    """Yield what `RecordBounds` keep: each window is bounded alone."""
    alone = {_encode(each.number, each.end): each for each in records}
    table = _table_of(setting, records, [_encode(each.number, each.end) for each in records])
    kept = RecordRule(setting.unit.bounds, RandomPriorities(5)).select(table.drop_columns(["window"]))
    groups = {encoded: (_protected(each, plan), each.end) for encoded, each in alone.items()}
    aside = kept
    if plan.rows is not None:  # keys are chosen once for all windows
        units = [groups[unit] for unit in kept["unit"].to_pylist()]
        groups |= {_encode(*unit): (unit, 0) for unit, _ in groups.values()}
        aside = kept.set_column(0, "unit", pa.array([_encode(*unit) for unit, _ in units], pa.large_binary()))
        aside = aside.append_column("window", pa.array([end for _, end in units], pa.int64()))
    sums = sums_of_kept(plan.terms.counters, _selection(setting, plan), aside, setting.unit.bounds, plan.rows)
    yield from _in_parts(setting, kept, setting.unit.bounds, sums, groups)


def _under_norm(setting: Setting, plan: WindowPlan, records: list[Visit]) -> Iterator[Kept]:
    """Yield what a norm keeps: one covers all windows of a period, on streams each window alone."""
    terms, bounds = plan.terms, setting.unit.bounds
    joint = plan.periods is not None and not setting.layout.streaming
    if not joint:
        records = _in_first_windows(records, plan)
    bounded = [(each.number, _period(each, plan) if joint else each.end) for each in records]
    table = _table_of(setting, records, [_encode(*unit) for unit in bounded])
    groups = {_encode(*unit): (_protected(each, plan), each.end) for unit, each in zip(bounded, records, strict=True)}
    if not joint:
        table = table.drop_columns(["window"])
    sketch_input = dataclasses.replace(setting.declared(PrivacySpec(RHO)).sketch_input, over_time=plan.rows)
    if isinstance(bounds, AutoNorm):
        yield from _lengths(table, NormRule(bounds.bound(1), sketch_input), groups)
        terms, bounds = terms.with_norm(NORM), bounds.bound(NORM)
    else:
        bounds = sketch_input.bounds  # as grouped counts limit them
    rule = NormRule(bounds, sketch_input, terms.counters, _selection(setting, plan))
    kept, sums = rule.select_and_count(table)
    yield from _in_parts(setting, kept, bounds, sums, groups)


def _table_of(setting: Setting, records: list[Visit], units: list[bytes]) -> pa.Table:
    """Return records as the rules of bounding take them."""
    item_type = pa.large_binary() if setting.kind == "groups" else pa.uint64()
    table = pa.table(
        {
            "unit": pa.array(units, pa.large_binary()),
            "key": pa.array([_encode(each.key) for each in records], pa.large_binary()),
            "window": pa.array([each.end for each in records], pa.int64()),
            "item": pa.array([each.item for each in records], item_type),
            "weight": pa.array([each.weight for each in records], pa.int64()),
        }
    )
    return join_pairs(table) if setting.kind == "groups" else table


def _in_parts(setting: Setting, kept: pa.Table, bounds: Any, sums: pa.Table | None, groups: Any) -> Iterator[Kept]:
    """Yield kept records by the cells that they change, and what is counted aside, by part."""
    weights = reading.total_weights(kept, bounds).tolist()
    for row, weight in zip(kept.to_pylist(), weights, strict=True):
        unit, end = groups[row["unit"]]
        end = row.get("window", end)
        if setting.kind == "groups":
            yield Kept(unit, (None, end), (0, row["key"]), weight)
            continue
        for number, cells in enumerate(norms.changed_cells(SPECS[setting.kind], row["item"])):
            yield from (Kept(unit, (row["key"], end), (number, cell), sign * weight) for cell, sign in cells.items())
    for row in [] if sums is None or setting.kind == "groups" else sums.to_pylist():
        unit, end = groups[row["unit"]]
        part = (row["key"], row.get("window", end))
        yield from (Kept(unit, part, name, row[name]) for name in row.keys() - {"unit", "key", "window", VOTERS})


def _selection(setting: Setting, plan: WindowPlan) -> SelectionRule | None:
    found = plan.terms.selection
    return found if isinstance(found, SelectionRule) else None


def _of_single(setting: Setting, plan: WindowPlan, records: list[Visit]) -> Iterator[Kept]:
    """Yield what records count that are units of their own."""
    counted = setting.declared(PrivacySpec(RHO)).sketch_input
    sketch_input = dataclasses.replace(counted, counters=plan.terms.counters, selection=_selection(setting, plan))
    for number, key, end, item, weight in records:
        clamped = sketch_input.clamp(np.array([weight]))
        if setting.kind == "groups":
            yield Kept(number, (None, end), (0, key, item), int(clamped[0]))
            continue
        for table, cells in enumerate(norms.changed_cells(SPECS[setting.kind], item)):
            for cell, sign in cells.items():
                yield Kept(number, (key, end), (table, cell), sign * int(clamped[0]))
        side = zip(sketch_input.side_names, sketch_input.side_of_single(clamped).tolist(), strict=True)
        yield from (Kept(number, (key, end), name, value) for name, value in side if name != VOTERS)


def _lengths(table: pa.Table, rule: NormRule, groups: dict[bytes, Any]) -> Iterator[Kept]:
    """Yield the bin of each unit in the histogram that chooses the norm."""
    for encoded, (unit, _) in groups.items():
        own = table.filter(pa.compute.equal(table["unit"], pa.scalar(encoded, pa.large_binary())))
        for place in np.flatnonzero(rule.length_histogram(own)).tolist():
            yield Kept(unit, CHOICE, (CHOICE, place), 1)


@functools.cache
def _encode(*values: Any) -> bytes:
    return encode(values)


@functools.cache
def _ends(layout: Layout, time: float) -> list[int]:
    """Return the last milliseconds of the windows of a time, within the declared range."""
    if layout.horizon is not None:
        windowfn: Any = windows_of(layout.horizon)
    elif layout.size is None:
        return [0]
    else:
        windowfn = _elements(layout).windowing.windowfn
    found = list(windowfn.assign(window.WindowFn.AssignContext(Timestamp(time))))
    inside = [each for each in found if not layout.declared or (each.start >= 0 and each.end <= Timestamp(240))]
    return [last_time(each).micros // 1000 for each in inside]


def _period(record: Visit, plan: WindowPlan) -> int:
    """Return the period of a record's window, in which `max_windows` or a norm holds; 0 without any."""
    if plan.periods is None or isinstance(plan.periods, window.GlobalWindows):
        return 0
    offset, size = plan.periods.offset.micros, plan.periods.size.micros
    return int((record.end * 1000 - offset) // size)


def _protected(record: Visit, plan: WindowPlan) -> tuple[int, int]:
    """Return the unit that the statement is about: all of it, or what it adds in a period or a window."""
    if plan.terms.unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW:
        return record.number, record.end
    return record.number, _period(record, plan) if plan.terms.unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD else 0
