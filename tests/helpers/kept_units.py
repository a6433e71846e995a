"""What counts of all units of a setting: the rules of bounding keep some of the records of each.

Units of equal bounds are worked out together: what is kept of one does not depend on others.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import ADD_OR_REMOVE_ONE, Record, SummaryCounts
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RecordRule
from beam_dpsketch.exact.bounding.side_sums import sums_of_kept
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.reading import reading
from beam_dpsketch.exact.reading.groups import join_pairs
from beam_dpsketch.exact.reading.items import NOISY, SECOND, VOTERS, VOTES
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.over_time.mechanism import matrix_rows
from beam_dpsketch.privacy.summary_counts import BINS, LOST, LostCounter, histogram
from beam_dpsketch.transforms.steps.windows import last_time, windows_of
from tests.helpers import norms
from tests.helpers.loss_settings import NORM, SPECS, Layout, Setting, Unit, elements_of, units_of

OF_RUN = "what all parts of a run tell"
CHOICE, KEPT = "choice of the norm", "kept in the run"
_SAME_EACH_RUN = KeyedRandomness(bytes(range(32)), b"which records are kept")
_ASIDE = {"unit", "key", "window", VOTERS, SECOND, NOISY}


class Visit(NamedTuple):
    """A record of a unit in a window, by its last millisecond."""

    number: int
    key: str
    end: int
    item: Any
    weight: int


_EVERY = SummaryCounts(units=0.55, records=0.01, weight=0.3)
"""No shares of `SIDES` are larger, so no summary count of theirs is left out because the release tells its number."""


class Kept(NamedTuple):
    """A record, or a number counted aside, that counts for a unit in a part."""

    unit: Any
    part: Any
    column: Any
    value: Any


@functools.lru_cache(maxsize=2)
def kept_of(setting: Setting, relation: NeighboringRelation = ADD_OR_REMOVE_ONE) -> list[Kept]:
    """Return all that counts of all units, aside and in sketches; how units vote may depend on the relation."""
    every = None if setting.kind == "groups" else _EVERY
    plan = setting.plan(setting.privacy(relation, every))
    found = list(counted_in_windows(setting, plan))
    found += _second_votes(setting, plan, found)
    if plan.rows is None:
        return found
    matrix = list(matrix_rows(plan.rows.mechanism))
    first, size = plan.rows.first_end_millis, plan.rows.size_millis
    rows = []
    for unit, (key, end), column, value in found:
        if table_of(column) in (VOTES, SECOND):
            rows.append(Kept(unit, (key, "votes"), column, value))
            continue
        number = (end - first) // size
        rows += [
            Kept(unit, (key, row), column, value * int(weights[number]))
            for row, weights in enumerate(matrix)
            if weights[number]
        ]
    return rows


def _second_votes(setting: Setting, plan: WindowPlan, found: list[Kept]) -> Iterator[Kept]:
    """Yield the votes of a second round for all keys of the first, where there are two: no others cost more."""
    rule = plan.terms.votes
    if rule is None or not rule.has_two_rounds:
        return
    cast = [each for each in found if table_of(each.column) == VOTES and each.value]
    each_window = plan.rows is None and not setting.privacy_unit.bounds.has_norm
    voters = Counter((each.unit, each.part[1] if each_window else 0) for each in cast)
    for each in cast:
        count = voters[each.unit, each.part[1] if each_window else 0]
        column = (SECOND, each.column[1]) if isinstance(each.column, tuple) else SECOND
        yield each._replace(column=column, value=math.floor(5 * rule.grid / math.sqrt(count)))


def counted_in_windows(setting: Setting, plan: WindowPlan, units: Iterable[Unit] | None = None) -> Iterator[Kept]:
    """Yield what counts of all units, or of these, in windows."""
    records = [
        Visit(number, key, end, item, weight)
        for number, unit in enumerate(units_of(setting) if units is None else units)
        for key, time, item, weight in unit
        for end in ends_of(setting.layout, time)
    ]
    if isinstance(setting.privacy_unit, Record):
        yield from _of_single(setting, plan, records)
    elif setting.privacy_unit.bounds.has_norm:
        yield from _under_norm(setting, plan, records)
    else:
        yield from _under_record_bounds(setting, plan, records)


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
    every, records = records, _in_first_windows(records, plan)
    alone = {_encode(each.number, each.end): each for each in records}
    table = _table_of(setting, records, [_encode(each.number, each.end) for each in records])
    kept = RecordRule(setting.privacy_unit.bounds, KeyedPriorities(lambda: _SAME_EACH_RUN)).select(
        table.drop_columns(["window"])
    )
    groups = {encoded: (_protected(each, plan), each.end) for encoded, each in alone.items()}
    aside = kept
    if plan.rows is not None:  # keys are chosen once for all windows
        units = [groups[unit] for unit in kept["unit"].to_pylist()]
        groups |= {_encode(*unit): (unit, 0) for unit, _ in groups.values()}
        aside = kept.set_column(0, "unit", pa.array([_encode(*unit) for unit, _ in units], pa.large_binary()))
        aside = aside.append_column("window", pa.array([end for _, end in units], pa.int64()))
    sums = sums_of_kept(plan.terms.counters, plan.terms.votes, aside, setting.privacy_unit.bounds, plan.rows)
    yield from _in_parts(setting, kept, setting.privacy_unit.bounds, sums, groups)
    yield from _lost(plan, every if plan.terms.lost and plan.terms.lost.of_run else records, kept, groups)


def _under_norm(setting: Setting, plan: WindowPlan, records: list[Visit]) -> Iterator[Kept]:
    """Yield what a norm keeps: one covers all windows of a period, on streams each window alone."""
    terms, bounds = plan.terms, setting.privacy_unit.bounds
    joint = plan.periods is not None and not setting.layout.streaming
    if not joint:
        records = _in_first_windows(records, plan)
    bounded = [(each.number, _period(each, plan) if joint else each.end) for each in records]
    table = _table_of(setting, records, [_encode(*unit) for unit in bounded])
    groups = {_encode(*unit): (_protected(each, plan), each.end) for unit, each in zip(bounded, records, strict=True)}
    if not joint:
        table = table.drop_columns(["window"])
    sketch_input = dataclasses.replace(
        setting.declared(setting.privacy(ADD_OR_REMOVE_ONE, None)).sketch_input, over_time=plan.rows
    )
    if (auto := terms.norm) is not None:
        yield from _lengths(table, NormRule(auto.bound(1), sketch_input), groups)
        terms, bounds = terms.under(NORM), auto.bound(NORM)
    else:
        bounds = sketch_input.bounds  # as grouped counts limit them
    rule = NormRule(bounds, sketch_input, terms.counters, plan.terms.votes)
    kept, sums = rule.select_and_count(table)
    yield from _in_parts(setting, kept, bounds, sums, groups)
    if terms.lost is not None:
        rule = NormRule(bounds, dataclasses.replace(sketch_input, lost=terms.lost))
        for encoded, (unit, end) in groups.items():
            own = table.filter(pa.compute.equal(table["unit"], pa.scalar(encoded, pa.large_binary())))
            part = OF_RUN if terms.lost.of_run else (own["key"][0].as_py(), end)
            yield from _told(unit, part, terms.lost, rule.bound(own).lost)


def _lost(plan: WindowPlan, records: list[Visit], kept: pa.Table, groups: Any) -> Iterator[Kept]:
    """Yield the bin of what each unit lost under `RecordBounds`, and then the weight that is kept."""
    terms = plan.terms
    if (counter := terms.lost) is None:
        return
    left: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for each in records:
        part = OF_RUN if counter.of_run else (_encode(each.key), each.end)
        left[_protected(each, plan), part][0] += each.weight
    for row, weight in zip(kept.to_pylist(), reading.total_weights(kept, terms.bounds).tolist(), strict=True):
        unit, end = groups[row["unit"]]
        left[unit, OF_RUN if counter.of_run else (row["key"], row.get("window", end))][1] += weight
    for (unit, part), (before, after) in left.items():
        counts = histogram(np.array([before - after]), counter.first)
        yield from _told(unit, part, counter, np.append(counts, after))


def _told(unit: Any, part: Any, counter: LostCounter, told: Any) -> Iterator[Kept]:
    """Yield the columns that a unit changes: the bin of what it lost, and of a run the weight that is kept of it."""
    yield from (Kept(unit, part, (LOST, place), 1) for place in np.flatnonzero(told[:BINS]).tolist())
    if counter.kept is not None:
        yield Kept(unit, part, KEPT, int(told[BINS]))


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
    for row in [] if sums is None else sums.to_pylist():
        unit, end = groups[row["unit"]]
        end = row.get("window", end)
        if setting.kind == "groups":
            if VOTES in row:
                yield Kept(unit, (None, end), (VOTES, row["key"]), row[VOTES])
        else:
            yield from (Kept(unit, (row["key"], end), name, row[name]) for name in row.keys() - _ASIDE)


def _of_single(setting: Setting, plan: WindowPlan, records: list[Visit]) -> Iterator[Kept]:
    """Yield what records count that are units of their own."""
    counted = setting.declared(setting.privacy(ADD_OR_REMOVE_ONE, None)).sketch_input
    aside: dict[str, Any] = {"counters": plan.terms.counters, "lost": plan.terms.lost}
    sketch_input = dataclasses.replace(counted, **aside, selection=plan.terms.votes)
    names, first = list[Any](sketch_input.side_names), len(sketch_input.counters)
    names[first:first] = [(LOST, place) for place in range(sketch_input.own_bins)]
    for number, key, end, item, weight in records:
        clamped = sketch_input.clamp(np.array([weight]))
        if setting.kind == "groups":
            yield Kept(number, (None, end), (0, key, item), int(clamped[0]))
            continue
        for table, cells in enumerate(norms.changed_cells(SPECS[setting.kind], item)):
            for cell, sign in cells.items():
                yield Kept(number, (key, end), (table, cell), sign * int(clamped[0]))
        (numbers,) = sketch_input.side_of_single(np.array([weight]), np.array([0]), 1).tolist()
        side = zip(names, numbers, strict=True)
        yield from (Kept(number, (key, end), name, value) for name, value in side if name != VOTERS)


def _lengths(table: pa.Table, rule: NormRule, groups: dict[bytes, Any]) -> Iterator[Kept]:
    """Yield the bin of each unit in the histogram that chooses the norm."""
    for encoded, (unit, _) in groups.items():
        own = table.filter(pa.compute.equal(table["unit"], pa.scalar(encoded, pa.large_binary())))
        for place in np.flatnonzero(rule.length_histogram(own)).tolist():
            yield Kept(unit, OF_RUN, (CHOICE, place), 1)


@functools.cache
def _encode(*values: Any) -> bytes:
    return encode(values)


@functools.cache
def ends_of(layout: Layout, time: float) -> list[int]:
    """Return the last milliseconds of the windows of a time, within the declared range."""
    if layout.horizon is not None:
        windowfn: Any = windows_of(layout.horizon)
    elif layout.size is None:
        return [0]
    else:
        windowfn = elements_of(layout).windowing.windowfn
    found = list(windowfn.assign(window.WindowFn.AssignContext(Timestamp(time))))
    inside = [each for each in found if not layout.declared or (each.start >= 0 and each.end <= Timestamp(layout.end))]
    return [last_time(each).micros // 1000 for each in inside]


def _period(record: Visit, plan: WindowPlan) -> int:
    """Return the period of a record's window, in which `max_windows` or a norm holds; 0 without any."""
    if plan.periods is None or not plan.periods.length:
        return 0
    return int((record.end * 1000 - plan.periods.start) // plan.periods.length)


def _protected(record: Visit, plan: WindowPlan) -> tuple[int, int]:
    """Return the unit that the statement is about: all of it, or what it adds in a period or a window."""
    if plan.terms.privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW:
        return record.number, record.end
    return record.number, _period(record, plan) if plan.terms.privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD else 0


def table_of(column: Any) -> Any:
    """Return whose noise a column has: that of a table of the sketch, or of a counter aside."""
    return column[0] if isinstance(column, tuple) else column
