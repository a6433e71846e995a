"""Contribution bounding at scale: columns of records, sharded by privacy id, and bounded by sorting.

Guarantee: within each window, at most max_records records per privacy id and key and at most max_keys keys per privacy
id are selected, uniformly at random, never per bundle, and weights are clamped. With signed weights the records of an
id are first netted by key and item so that an insertion and its deletion cancel. The remainder is split into records of
at most max_weight so that the bounds are used in full. Records without a privacy id are dropped. Privacy ids are
compared exactly, not by a hash. On unbounded input the records of a window are pruned as they arrive so that the state
grows with ids and bounds (signed: with ids and their distinct items). They are bounded in full once, when the window
ends.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.exact.bounding.bounded import Bounded, MergeTables, Rule
from beam_dpsketch.exact.bounding.parts import Parts, Scale, shard_hash
from beam_dpsketch.exact.bounding.record_rule import count_beyond
from beam_dpsketch.exact.domains.timestamps import MILLISECOND
from beam_dpsketch.exact.reading.codec import concat_tables, parts_to_bytes, tables_from
from beam_dpsketch.exact.reading.groups import Row, group_rows
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.reading import Columns, RecordReader, read_table
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.transforms.steps.stream_state import MergedInState, keeps_state
from beam_dpsketch.transforms.steps.windows import check_timestamps, fires_again_late, is_global, last_time

SHARDS = 256
"""Default privacy id shard count, unless more rows are expected."""
BUFFERED_RECORDS = 1 << 18
"""Number of records buffered before they are written to the shards, unless there are many shards."""
_SHARDS_OF_A_BUFFER = 1 << 11  # more shards have longer buffers, because tiny parts cost more than their records
_READ_ELEMENTS = 1 << 12  # per window
_UNREAD_ELEMENTS = 1 << 16  # in all windows; elements may be many times as large as their records
_READ_BYTES = 1 << 18  # per shard and read
_GLOBAL_WINDOW = GlobalWindow()  # a constant, because each construction costs a microsecond


def group_by_shard(
    elements: beam.PCollection,
    reader: RecordReader,
    rule: Rule,
    sketch_input: SketchInput | None,
    scale: Scale | None = None,
) -> beam.PCollection:
    """Group (shard, records as bytes). A shard contains all records of a privacy id within a window."""
    shard_records = ShardRecords if is_global(elements) else ShardWindowedRecords
    in_state = keeps_state(elements)
    shard = beam.ParDo(shard_records(reader, rule, sketch_input, shards=shards_for(scale), in_state=in_state))
    sharded = elements | "Shard" >> shard.with_output_types(tuple[bytes, bytes])
    if in_state:
        sharded = sharded | "BoundInState" >> MergedInState(MergeTables(rule))
    return sharded | "GroupByShard" >> beam.GroupByKey()


def unpack(bounded: beam.PCollection, reader: RecordReader, sketch_input: SketchInput) -> beam.PCollection:
    """Convert bounded shards to the values of `Bounded.contributions`."""
    made: Any = tuple[bytes, Row] if reader.by_item else KeyedSums if reader.per_key else WeightedItems
    return bounded | "Unpack" >> beam.FlatMap(Bounded.contributions, reader, sketch_input).with_output_types(made)


def shards_for(scale: Scale | None) -> int:
    """Choose the privacy id shard count."""
    return SHARDS if scale is None else max(SHARDS, scale.shards)


def buffered_for(shards: int) -> int:
    """Choose the number of records to buffer before writing to shards."""
    return BUFFERED_RECORDS * max(1, shards // _SHARDS_OF_A_BUFFER)


class _WaitingUnit:
    """Buffer of a window's records. Emitting is rare, because it writes to many shards."""

    __slots__ = ("elements", "size", "tables")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.tables: list[pa.Table] = []
        self.size = 0


class ShardRecords(beam.DoFn):
    """Convert elements to (shard, records as bytes). A privacy id is always in the same shard.

    With `window_column`, each record carries the last millisecond of its window, and is emitted at that time. If
    records wait in state, they are always pruned, because state must remain small.
    """

    def __init__(
        self,
        reader: RecordReader,
        rule: Rule,
        sketch_input: SketchInput | None,
        window_column: bool = False,
        *,
        shards: int | None = None,
        in_state: bool = False,
    ) -> None:
        self._shards, self._in_state = SHARDS if shards is None else shards, in_state
        self._reader, self._rule, self._sketch_input = reader, rule, sketch_input
        self._window_column = window_column

    def start_bundle(self) -> None:
        self._tally = self._reader.tally(self._sketch_input, is_sampled=True)
        self._waiting: dict[Any, _WaitingUnit] = defaultdict(_WaitingUnit)
        self._everything = self._waiting[_GLOBAL_WINDOW]
        self._unread = 0

    def process(self, element: Any) -> Iterable[WindowedValue] | None:
        return self._add(element, self._everything, _GLOBAL_WINDOW)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            self._read(waiting)
            if waiting.size:
                yield from self._emit(concat_tables(waiting.tables), window)
        self._waiting.clear()
        self._tally.log()

    def _add(self, element: Any, waiting: _WaitingUnit, window: Any) -> Iterable[WindowedValue] | None:
        if self._reader.is_batch_type(type(element)):
            self._gather(self._reader.read_batch(element, self._sketch_input, self._tally), waiting)
        else:
            waiting.elements.append(element)
            self._unread += 1
            if len(waiting.elements) >= _READ_ELEMENTS:
                self._read(waiting)
            elif self._unread >= _UNREAD_ELEMENTS:
                for each in self._waiting.values():
                    self._read(each)
            else:
                return None
        if waiting.size < buffered_for(self._shards):
            return None
        tables, waiting.tables, waiting.size = waiting.tables, [], 0
        return self._emit(concat_tables(tables), window)

    def _read(self, waiting: _WaitingUnit) -> None:
        if waiting.elements:
            columns = self._reader.read_rows(waiting.elements)
            selectors = self._reader.selectors
            if self._gather(columns, waiting) < len(columns.items) or len(selectors.items) > 1:
                self._tally.note_rows(columns.by_argument(selectors))
            self._unread -= len(waiting.elements)
            waiting.elements = []

    def _table(self, columns: Columns) -> pa.Table:
        return read_table(self._reader, columns, self._rule.bounds, self._sketch_input)

    def _gather(self, columns: Columns, waiting: _WaitingUnit) -> int:
        """Buffer records for their shards, and return the number that count."""
        records = self._table(columns)
        if len(records):
            waiting.tables.append(records)
            waiting.size += len(records)
        return len(records)

    def _emit(self, records: pa.Table, window: Any) -> Iterator[WindowedValue]:
        time = window.max_timestamp()
        if self._window_column:
            time = last_time(window)
            ends = pa.array(np.full(len(records), time.micros // MILLISECOND, dtype=np.int64))
            records = records.append_column("window", ends)
        units = shard_hash(records["unit"])
        if count_beyond(units, 1) if self._in_state else self._rule.pays_to_prune(records, units):
            records = self._rule.prune(records)
            units = shard_hash(records["unit"])
        shards = (units % np.uint64(self._shards)).astype(np.uint16)
        order, rows = group_rows(shards, self._shards)
        for shard, part in enumerate(parts_to_bytes(records, order, rows)):
            if rows[shard].stop > rows[shard].start:
                yield WindowedValue((shard.to_bytes(2, "big"), part), time, (window,))


class ShardWindowedRecords(ShardRecords):
    """Sharding step for windowed elements. Elements in the global window use `ShardRecords`, which is faster."""

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue] | None:
        waiting = self._waiting.get(window)
        if waiting is None:
            check_timestamps(window)
            waiting = self._waiting[window]
        return self._add(element, waiting, window)


class BoundShard(beam.DoFn):
    """Bound complete (shard, records), once per window."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def process(self, element: tuple[bytes, Iterable[bytes]], pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[Bounded]:
        if fires_again_late(pane):
            return
        shard, payloads = element
        yield from (self._rule.bound(part)._replace(shard=shard) for part in gather_records(self._rule, payloads))


def gather_records(rule: Rule, payloads: Iterable[bytes]) -> Parts:
    """Read the records of a shard into one or more parts."""
    return Parts(rule, itertools.chain.from_iterable(map(tables_from, _together(payloads))))


def _together(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lists of payloads with a minimum total size, because the smallest have few records."""
    together, size = [], 0
    for payload in payloads:
        together.append(payload)
        size += len(payload)
        if size >= _READ_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together
