"""What is merged in state is all that came, no more is kept than the sketch or the bounds need, and nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_dpsketch import CountSketch, RecordBounds, SketchSpec
from beam_dpsketch.encodings import decode, encode_all
from beam_dpsketch.exact.bounding.bounded import MergeTables
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.codec import concat_tables, from_bytes, to_bytes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.transforms.steps import stream_state, sums
from beam_dpsketch.transforms.steps.stream_state import MergeInState
from beam_dpsketch.transforms.steps.sums import MergeSums, RawSketchFn, SumBundle
from benchmarks.streams import state as benchmark
from tests.helpers.state_cells import State

SPEC = SketchSpec(depth=3, width=64)
RECIPE = SketchInput(SPEC, RecordBounds(1, max_weight=9, signed=True))
WINDOWS = [IntervalWindow(60 * start, 60 * start + 60) for start in range(3)]
KEYS: list[Any] = ["", "a", b"a", 1, -1, ("a", (1,)), 1 << 63]
RECORD = st.tuples(st.sampled_from(KEYS), st.sampled_from(WINDOWS), st.integers(0, 40), st.integers(-3, 3))
BUNDLES = st.lists(st.lists(RECORD, max_size=30), max_size=8)
ROW = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5))
TABLES = st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=1, max_size=8)


def outputs(sum_bundle: SumBundle, bundle: Iterable[Any]) -> list[WindowedValue]:
    """What a bundle of (key, window, item, weight) gives to the state."""
    sum_bundle.start_bundle()
    early = [
        output for key, window, *record in bundle for output in sum_bundle.process((key, tuple(record)), window) or ()
    ]
    return [
        each.with_value(part) for each in [*early, *sum_bundle.finish_bundle()] for part in sums.to_state(each.value)
    ]


def item(record: tuple[int, int]) -> int:
    return record[0]


def weight(record: tuple[int, int]) -> int:
    return record[1]


@given(bundles=BUNDLES, min_waiting=st.sampled_from([0, 50, 1 << 12]), pending=st.sampled_from([1, 3000, 1 << 26]))
@settings(max_examples=60)
def test_sums_are_exact_for_each_key_and_window(bundles: list[list[Any]], min_waiting: int, pending: int) -> None:
    state = State(MergeInState(MergeSums(RECIPE)))
    sum_bundle = SumBundle(RawSketchFn(RECIPE, Selectors(item=item, weight=weight)), per_key=True)
    with mock.patch.object(stream_state, "MIN_WAITING", min_waiting), mock.patch.object(sums, "PENDING_BYTES", pending):
        for bundle in bundles:
            state.deliver(outputs(sum_bundle, bundle))
    assert all(place.end.time == window.max_timestamp() for (window, _), place in state.places.items())
    for window in WINDOWS:
        found = {decode(key): SketchAccumulator.from_bytes(RECIPE, merged) for key, merged in state.fire(window)}
        records = [record for bundle in bundles for record in bundle if record[1] == window]
        assert found.keys() == {record[0] for record in records}
        for key, accumulator in found.items():
            of_key = [record for record in records if record[0] == key]
            sketch = CountSketch(SPEC).accumulate([record[2] for record in of_key], [record[3] for record in of_key])
            np.testing.assert_array_equal(accumulator.to_sketch().counters, sketch.counters)
    assert state.size == 0


@given(sizes=st.lists(st.integers(0, 3000), max_size=60))
def test_no_more_waits_than_is_merged_or_the_least(sizes: list[int]) -> None:
    """The merged payload is at most 5,000 bytes here; half of it may wait to be merged, as the next payload comes."""
    state = State(MergeInState(_shortened))
    for size in sizes:
        state.deliver([WindowedValue((b"", b"x" * size), 0, (WINDOWS[0],))])
        assert state.size <= 2 * 5000 + 30
    assert b"".join(merged for _, merged in state.fire(WINDOWS[0])) == b"x" * min(5000, sum(sizes))


def _shortened(payloads: Iterable[bytes]) -> bytes:
    return b"".join(payloads)[:5000]


def test_a_window_of_a_bundle_without_keys_is_in_one_shard_of_all() -> None:
    sum_bundle = SumBundle(RawSketchFn(RECIPE, Selectors()), per_key=False)
    shards = Counter()
    for _ in range(600):  # misses one of the shards with probability 8 * (7/8)**600 < 1e-33
        sum_bundle.start_bundle()
        for element in range(3):
            assert not sum_bundle.process(element, WINDOWS[element % 2])
        for each in sum_bundle.finish_bundle():
            ((shard, _),) = sums.to_state(each.value)
            shards[shard] += 1
        assert not list(sum_bundle.finish_bundle())
    assert shards.total() == 1200
    assert len(shards) == sums.SUM_SHARDS


def table_of(rows: list[tuple[int, int, int]]) -> pa.Table:
    """Rows (unit, key, item) of weight 1, with random priorities."""
    units, keys, items = ([f"{value}".encode() for value in column] for column in zip(*rows, strict=True))
    binary = pa.large_binary()
    columns = {"unit": pa.array(units, binary), "key": pa.array(keys, binary), "item": pa.array(items, binary)}
    weights = pa.array(np.ones(len(rows), np.int64))
    return RandomPriorities().assign(pa.table({**columns, "weight": weights}))


def multiset(table: pa.Table, *columns: str) -> Counter[Any]:
    return Counter(zip(*(table[column].to_pylist() for column in columns), strict=True))


@given(tables=TABLES, records=st.integers(1, 4), partitions=st.integers(1, 3), salt=st.integers(0, 1 << 32))
def test_bounding_in_state_keeps_what_bounding_all_at_once_would(
    tables: list[Any], records: int, partitions: int, salt: int
) -> None:
    bounds = RecordBounds(max_records=records, max_keys=partitions)
    bound, parts = RecordRule(bounds, RandomPriorities(salt)), [table_of(rows) for rows in tables]
    merged = in_state(MergeTables(bound), parts)
    names = ("unit", "key", "item", "priority")
    assert multiset(bound.select(merged), *names) == multiset(bound.select(pa.concat_tables(parts)), *names)
    assert len(merged) <= 4 * records * partitions


class ItemsAsPriorities(RandomPriorities):
    """Draws a priority once for each record and replaces it by the item, so that the kept ones are known."""

    def __init__(self, salt: int) -> None:
        super().__init__(salt)
        self.drawn: list[int] = []

    def assign(self, records: pa.Table) -> pa.Table:
        assigned = super().assign(records)
        known = np.zeros(len(records), dtype=bool)
        if self.column in records.column_names:
            known = records[self.column].is_valid().to_numpy()
            assert assigned.filter(known)[self.column].equals(records.filter(known)[self.column])
        self.drawn += assigned["item"].filter(~known).to_pylist()
        place = assigned.column_names.index(self.column)
        return assigned.set_column(place, self.column, assigned["item"].cast(pa.uint32()))


@pytest.mark.slow
@settings(max_examples=150)
@given(
    tables=st.lists(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 2)), min_size=1, max_size=4), min_size=2),
    records=st.sampled_from([1, 1, 2, 3]),
    partitions=st.sampled_from([None, 1, 2, 3]),
    as_bytes=st.sets(st.integers(0, 5)),
    salt=st.integers(0, 1 << 32),
)
@example(tables=[[(1, 0), (1, 0)], [(2, 0)]], records=1, partitions=None, as_bytes=set(), salt=0)
def test_parts_of_every_form_are_bounded_in_state_as_all_at_once(
    tables: list[Any], records: int, partitions: int | None, as_bytes: set[int], salt: int
) -> None:
    """Parts are as bundles emit them: with priorities if a privacy id has too many records in the part itself."""
    bounds = RecordBounds(max_records=records, max_keys=partitions or 1)
    priorities, parts, item = ItemsAsPriorities(salt), [], 0
    bound = RecordRule(bounds, priorities)
    for number, rows in enumerate(tables):
        units, keys = (list(column) for column in zip(*rows, strict=True))
        read = {"unit": encode_all(units) if number in as_bytes else pa.array(units)}
        if partitions is not None:
            read["key"] = encode_all(keys)
        items = np.arange(item, item + len(rows), dtype=np.uint64)
        parts.append(pa.table({**read, "item": items, "weight": np.ones(len(rows), dtype=np.int64)}))
        item += len(rows)
    kept = bound.select(in_state(MergeTables(bound), [bound.prune(part) for part in parts]))
    assert len(priorities.drawn) == len(set(priorities.drawn))
    assert sorted(kept["item"].to_pylist()) == sorted(bound.select(concat_tables(parts))["item"].to_pylist())


@given(tables=TABLES, signs=st.lists(st.sampled_from([-1, 1]), min_size=96, max_size=96))
def test_signed_records_are_netted_in_state(tables: list[Any], signs: list[int]) -> None:
    bound, parts, place = RecordRule(RecordBounds(1, signed=True), RandomPriorities(1)), [], 0
    for rows in tables:
        weights = pa.array(np.array(signs[place : place + len(rows)], dtype=np.int64))
        parts.append(table_of(rows).drop_columns(["weight", "priority"]).append_column("weight", weights))
        place += len(rows)
    net: Counter[Any] = Counter()
    for part in parts:
        for row in part.to_pylist():
            net[row["unit"], row["key"], row["item"]] += row["weight"]
    merged = in_state(MergeTables(bound), parts)
    found = {(row["unit"], row["key"], row["item"]): row["weight"] for row in merged.to_pylist()}
    assert found == {place: value for place, value in net.items() if value}
    assert len(found) == len(merged)


def in_state(merge: Callable[[Iterable[bytes]], bytes], parts: list[pa.Table]) -> pa.Table:
    """Tables merged one after the other."""
    state = State(MergeInState(merge))
    with mock.patch.object(stream_state, "MIN_WAITING", 0):
        state.deliver(WindowedValue((b"\0", to_bytes(part)), 0, (WINDOWS[0],)) for part in parts)
        ((_, merged),) = state.fire(WINDOWS[0])
    return from_bytes(merged)


@pytest.mark.slow
@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", benchmark.TRANSFORMS)
def test_state_does_not_grow_with_the_elements(privacy_unit: str) -> None:
    few, many = benchmark.measured(privacy_unit, (10_000, 30_000), bundle=2_000)
    assert many.raw == 3 * few.raw
    assert many.peak <= (benchmark.BAR if privacy_unit == "record" else benchmark.GROWTH * few.peak)


@pytest.mark.slow
@pytest.mark.parametrize("privacy_unit", benchmark.TRANSFORMS)
def test_state_of_a_million_elements(privacy_unit: str) -> None:
    few, more, most = benchmark.measured(privacy_unit, benchmark.SIZES)
    assert most.raw == 10 * more.raw == 100 * few.raw
    assert most.peak <= (benchmark.BAR if privacy_unit == "record" else benchmark.GROWTH * few.peak)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", benchmark.TRANSFORMS)
def test_state_that_is_not_merged_would_be_found(privacy_unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_state, "MIN_WAITING", 1 << 62)
    few, many = benchmark.measured(privacy_unit, (10_000, 60_000), bundle=2_000)
    assert many.peak > (benchmark.BAR if privacy_unit == "record" else benchmark.GROWTH * few.peak)
