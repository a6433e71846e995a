"""What bounding takes of each id, beside a count record by record; in any order, split and number of shards."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_dpsketch import NormBound, Record, RecordBounds, SketchSpec, SummaryCounts
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding import netting as lost_weight
from beam_dpsketch.exact.bounding import norm_rule, record_rule
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.reading.codec import LOST_COLUMN, concat_tables, from_bytes, to_bytes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import Columns, RecordReader, read_table
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.privacy.summary_counts import BINS, LostIn, lost_counter

SPEC = SketchSpec(kind="count_min", depth=1, width=1 << 12, seed=3)
Visit = tuple[int, str, int]
"""Person, item and weight."""
BOUNDS = {
    "records": RecordBounds(3),
    "records of weights": RecordBounds(2, max_weight=5),
    "norm": NormBound(Fraction(7, 2)),
    "norm of weights": NormBound(9, max_weight=5),
    "people of items": NormBound(2, max_per_item=1),
    "few items": NormBound(4, max_distinct_items=2),
    "few items of weights": NormBound(9, max_weight=4, max_distinct_items=2),
}
PRIORITIES: dict[str, Callable[[], Any]] = {
    "drawn": RandomPriorities,
    "keyed": lambda: KeyedPriorities(lambda: KeyedRandomness(b"a secret of more than thirty-two bytes", b"context")),
}
visits = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abcdef"), st.integers(1, 12)), max_size=60)


def sketch_input(bounds: Any, where: LostIn = LostIn.RELEASE) -> SketchInput:
    counter = lost_counter(SummaryCounts(), bounds, where, one_record=False, windows=1)
    return SketchInput(SPEC, bounds, lost=counter)


def table(records: list[Visit], bounds: Any) -> pa.Table:
    """Return records as they are read: clamped, with what that took of them."""
    people, items, weights = (list(column) for column in zip(*records, strict=True)) if records else ([], [], [])
    columns = Columns(
        pa.array(people, pa.int64()),
        None,
        pa.array(items, pa.string()),
        pa.array(weights, pa.int64()) if bounds.has_weights else None,
    )
    reader = RecordReader(Selectors(item="item", privacy_id="person"), per_key=False)
    return read_table(reader, columns, bounds, sketch_input(bounds))


def bounded(
    records: list[Visit],
    bounds: Any,
    where: LostIn = LostIn.RELEASE,
    *,
    cuts: Any = (),
    priorities: Any = RandomPriorities,
) -> Bounded:
    """Bound records that come in parts, each pruned and sent to another worker."""
    rule = rule_of(sketch_input(bounds, where), priorities())
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    parts = [table(records[start:end], bounds) for start, end in itertools.pairwise(edges)]
    parts = parts if len(parts) == 1 else [from_bytes(to_bytes(rule.prune(each))) for each in parts]
    return rule.bound(concat_tables(parts))


def by_person(records: list[Visit], bounds: Any) -> dict[int, list[tuple[str, int]]]:
    """Return the items and weights of each person, as they are before they are clamped."""
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for person, item, weight in records:
        found[person].append((item, weight if bounds.has_weights else 1))
    return dict(found)


def wanted(records: list[Visit], bounds: Any) -> list[int]:
    """Return what each person loses to a norm without `max_distinct_items`, in units of 2**-16."""
    found = []
    for own in by_person(records, bounds).values():
        total, clamped = sum(weight for _, weight in own), [min(weight, bounds.max_weight) for _, weight in own]
        by_item: dict[str, int] = defaultdict(int)
        for (item, _), weight in zip(own, clamped, strict=True):
            by_item[item] += weight
        capped = [min(each, bounds.max_per_item or each) for each in by_item.values()]
        norm = math.sqrt(sum(each**2 for each in capped))  # width 4,096: these six items share no cell
        factor = min(1.0, float(bounds.max_norm) / norm)
        left_out = total - sum(by_item.values())
        found.append(round((left_out + sum(each - each * factor for each in capped)) * 2**scaling.SCALE_BITS))
    return found


def histogram_of(lost: list[int], bounds: Any, bits: int) -> list[int]:
    """Count units by how many of the smallest losses of bins they reach, which are powers of 4."""
    first = sketch_input(bounds).lost.first  # type: ignore[union-attr]
    edges = [Fraction(4) ** place * 2**bits for place in range(first, first + BINS)]
    reached = [sum(each >= edge for edge in edges) for each in lost]
    return [reached.count(place + 1) for place in range(BINS)]


@pytest.mark.parametrize("bounds", [BOUNDS[name] for name in ("norm", "norm of weights", "people of items")])
@given(records=visits)
def test_a_norm_loses_what_it_scales_and_what_it_clamps(bounds: Any, records: list[Visit]) -> None:
    found, lost = bounded(records, bounds).lost, wanted(records, bounds)
    assert found is not None
    near = [each + change for each in lost for change in (-64, 64) if each]
    least, largest = (histogram_of([max(0, each + change) for each in lost], bounds, 16) for change in (-64, 64))
    if not any(math.frexp(a)[1] != math.frexp(b)[1] for a, b in zip(near[::2], near[1::2], strict=True)):
        assert found.tolist() == least == largest  # no loss is at the edge of a bin


@given(records=visits)
def test_dropped_records_are_lost(records: list[Visit]) -> None:
    bounds = BOUNDS["records"]
    lost = [max(0, len(own) - 3) for own in by_person(records, bounds).values()]
    for priorities in PRIORITIES.values():
        found = bounded(records, bounds, priorities=priorities).lost
        assert found is not None
        assert found.tolist() == histogram_of(lost, bounds, 0)


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("priorities", PRIORITIES.values(), ids=PRIORITIES)
@given(records=visits, data=st.data())
def test_weight_read_is_weight_kept_and_lost(name: str, priorities: Any, records: list[Visit], data: Any) -> None:
    """In any order and split, with parts pruned and sent on: each person is in the bin of all that is gone."""
    bounds, bits = BOUNDS[name], 16 if BOUNDS[name].has_norm else 0
    shuffled = data.draw(st.permutations(records))
    cuts = [2 * each for each in data.draw(st.lists(st.integers(0, 30), max_size=4))]
    found = bounded(shuffled, bounds, cuts=cuts, priorities=priorities)
    assert LOST_COLUMN not in found.kept.column_names
    kept: dict[Any, int] = defaultdict(int)
    copies = found.kept["copies"].to_pylist() if "copies" in found.kept.column_names else [1] * len(found.kept)
    for unit, weight, count in zip(
        found.kept["unit"].to_pylist(), found.kept["weight"].to_pylist(), copies, strict=True
    ):
        kept[unit] += weight * count
    if bounds.has_norm and bounds.max_per_item is not None:
        return  # what is above it is not lost
    read: dict[Any, int] = {
        person: sum(weight for _, weight in own) << bits for person, own in by_person(records, bounds).items()
    }
    assert found.lost is not None
    if not all(isinstance(unit, int) for unit in kept):
        read = {encode(person): total for person, total in read.items()}
    gone = [total - kept[person] for person, total in read.items()]
    assert found.lost.tolist() == histogram_of(gone, bounds, bits)


EVERYWHERE = [(9, f"place {number}", 1) for number in range(400)]
"""A person of so many items that much more of the weight would be kept than the counter of a run allows."""


@pytest.mark.parametrize("name", BOUNDS)
@given(records=visits | visits.map(lambda records: records + EVERYWHERE), person=st.integers(0, 5) | st.just(9))
@example(records=EVERYWHERE, person=9)
def test_an_id_is_in_one_bin_of_a_run_and_keeps_what_its_counter_allows(
    name: str, records: list[Visit], person: int
) -> None:
    """Without an id, one count is 1 less, or none; and the weight kept changes by K at most."""
    bounds = BOUNDS[name]
    without = [each for each in records if each[0] != person]
    keyed = PRIORITIES["keyed"]
    both = [bounded(each, bounds, LostIn.RUN, priorities=keyed).lost for each in (records, without)]
    assert both[0] is not None
    assert both[1] is not None
    change = both[0] - both[1]
    counter = sketch_input(bounds, LostIn.RUN).lost
    assert counter is not None
    assert counter.kept is not None
    assert sorted(np.abs(change[:-1]).tolist())[-2:] in ([0, 0], [0, 1])
    scale = 1 << (16 if bounds.has_norm else 0)
    assert 0 <= change[-1] <= math.sqrt(counter.kept.squared_limit) * scale


def test_clamped_weights_of_single_records_are_lost() -> None:
    unit = Record(max_weight=10)
    counter = lost_counter(SummaryCounts(), unit.bounds, LostIn.RELEASE, one_record=True, windows=1)
    single = SketchInput(SPEC, unit.bounds, lost=counter)
    side = single.contributions(["a"] * 5, [10, 11, 13, 1 << 40, -3]).side
    assert side is not None
    assert counter is not None
    assert side[-BINS:].tolist() == [2] + [0] * (BINS - 2) + [1]


# Faults that the laws above must find.


def nothing_is_carried(before: pa.Table, after: pa.Table, *codes: Any) -> pa.Table:
    return after


def carried_to_each(before: pa.Table, after: pa.Table, *codes: Any) -> pa.Table:
    found = lost_weight.carry(before, after, *codes)
    if LOST_COLUMN not in found.column_names:
        return found
    most = int(found[LOST_COLUMN].to_numpy().max())
    return found.set_column(found.column_names.index(LOST_COLUMN), LOST_COLUMN, pa.array(np.full(len(found), most)))


def two_bins(lost: np.ndarray, bins: int, *, bits: int = 0) -> np.ndarray:
    counts = record_rule_histogram(lost, bins, bits=bits)
    return counts + np.roll(counts, 1)


def in_the_bin_below(lost: np.ndarray, bins: int, *, bits: int = 0) -> np.ndarray:
    return record_rule_histogram(lost >> np.int64(1), bins, bits=bits)


def in_every_bin_up_to_its_own(lost: np.ndarray, bins: int, *, bits: int = 0) -> np.ndarray:
    return record_rule_histogram(lost, bins, bits=bits)[::-1].cumsum()[::-1]


def by_the_largest_loss(lost: np.ndarray, bins: int, *, bits: int = 0) -> np.ndarray:
    """Choose where bins start from exact losses."""
    return record_rule_histogram(lost, bins + (int(lost.max(initial=1)).bit_length() >= 4), bits=bits)


record_rule_histogram = record_rule.histogram
BIN_FAULTS = [two_bins, in_the_bin_below, in_every_bin_up_to_its_own, by_the_largest_loss]


def laws() -> Iterator[Callable[[], None]]:
    for name in ("records", "records of weights", "few items of weights"):
        for priorities in PRIORITIES.values():
            yield functools.partial(
                test_weight_read_is_weight_kept_and_lost.hypothesis.inner_test,  # type: ignore[attr-defined]
                name,
                priorities,
                [(person, "abcdef"[number % 6], 1 + number % 12) for number in range(20) for person in (1, 2)],
                Middle(),
            )
        yield functools.partial(
            test_an_id_is_in_one_bin_of_a_run_and_keeps_what_its_counter_allows.hypothesis.inner_test,  # type: ignore[attr-defined]
            name,
            [(person, "abcdef"[number % 6], 12) for number in range(20) for person in (1, 2)],
            1,
        )


class Middle:
    """Draws the records in their order, and cuts them in the middle."""

    def draw(self, strategy: Any) -> Any:
        return (
            [10]
            if "integers" in repr(strategy)
            else [(person, "abcdef"[number % 6], 1 + number % 12) for number in range(20) for person in (1, 2)]
        )


@pytest.mark.parametrize("fault", [nothing_is_carried, carried_to_each, *BIN_FAULTS])
def test_a_planted_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "histogram" if fault in BIN_FAULTS else "carry"
    for module in (record_rule, norm_rule):
        monkeypatch.setattr(module, name, fault)
    found = 0
    for law in laws():
        try:
            law()
        except AssertionError:
            found += 1
    assert found
    monkeypatch.undo()
    for law in laws():
        law()
