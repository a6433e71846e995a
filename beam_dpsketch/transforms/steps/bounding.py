"""Contribution bounding at scale: columns of records, sharded by privacy id, bounded by sorting.

Guarantee: within each window, at most max_contributions_per_partition records per privacy id and partition and at most
max_partitions partitions per privacy id are kept, uniformly at random, never per bundle; weights are clamped. With
signed weights the records of an id are first netted by partition and item, so that an insert and its delete cancel, and
what is left is split into records of at most max_weight, so that as much is kept as there is room for. Records without
a privacy id are dropped. Privacy ids are compared exactly, not by a hash. On unbounded input the records of a window
are bounded in part as they come, so that the state grows with ids and bounds (signed: with ids and their different
items), and in full once, when the window ends.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch import _validate
from beam_dpsketch.hashing.encodings import decode
from beam_dpsketch.records.shard_hash import scattered
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.records.accumulator import Contributions, Recipe
from beam_dpsketch.records.bounding import Bound
from beam_dpsketch.transforms.steps.element_types import open_questions
from beam_dpsketch.records.selectors import Elements, Selector
from beam_dpsketch.records.priorities import RandomRanks, Ranks
from beam_dpsketch.records.codec import from_bytes, joined, parts_to_bytes
from beam_dpsketch.records.reading import Columns, Records, any_usable, by_key, table, total_weights
from beam_dpsketch.transforms.streaming_bounding import MergeTables
from beam_dpsketch.transforms.steps.stream_state import MergedInState, keeps_state
from beam_dpsketch.transforms.windows.times import check_window
from beam_dpsketch.records.unused import Unused
from beam_dpsketch.transforms.windows.guard import check_first_firing, check_windowing, is_global

SHARDS = 256
BUFFERED_RECORDS = 1 << 18
_READ_ELEMENTS = 1 << 12  # of one window at a time
_UNREAD_ELEMENTS = 1 << 16  # of all windows: elements may be many times as large as what is read of them
_GLOBAL_WINDOW = GlobalWindow()  # its constructor takes a microsecond, each time
_GATHERED_RECORDS = 1 << 20


class Contribution(NamedTuple):
    """One bounded record: its partition (`None` without keys), item and weight."""

    key: Any
    item: Any
    weight: int


class BoundContributions(beam.PTransform):
    """Keeps what each privacy id may contribute, as `Contribution` elements.

    The private transforms do this themselves; use it to see what bounds keep, or before other aggregations.

    Args:
      bounds: how much to keep of each privacy id, in each window.
      privacy_id: who is protected; see `beam_dpsketch.records.selectors` for this and the following.
      item: what is counted; `None` is the element.
      weight: how much it counts; `None` is 1.
      key: the partition; `None` for a single one.
    """

    def __init__(
        self,
        bounds: ContributionBounds,
        *,
        privacy_id: Selector,
        item: Selector = None,
        weight: Selector = None,
        key: Selector = None,
    ) -> None:
        super().__init__()
        _validate.instance(ContributionBounds, bounds=bounds)
        if privacy_id is None:
            raise ValueError("privacy_id must say whose contributions are bounded")
        self._bounds = bounds
        self._elements = Elements(item=item, weight=weight, privacy_id=privacy_id, key=key)
        self._elements.check_weight(bounds)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_windowing(pcoll)
        keyed = self._elements.key is not None
        open_questions(self._elements, pcoll.element_type, domain=None, keyed=keyed)
        records = Records(self._elements, keyed=keyed)
        tables = bounded_tables(pcoll, records, self._bounds, None, RandomRanks())
        return tables | "Unpack" >> beam.FlatMap(_contributions, self._bounds).with_output_types(Contribution)


def bounded_contributions(
    elements: beam.PCollection, records: Records, recipe: Recipe, ranks: Ranks
) -> beam.PCollection:
    """Elements to bounded `Contributions`, or (key, `Contributions`) if keyed."""
    return contributions_of(bounded_tables(elements, records, recipe.bounds, recipe, ranks), records, recipe)


def contributions_of(tables: beam.PCollection, records: Records, recipe: Recipe) -> beam.PCollection:
    """Tables of kept records to `Contributions`, or (key, `Contributions`) if keyed."""
    if records.keyed:
        return tables | "SplitByKey" >> beam.FlatMap(by_key, recipe).with_output_types(tuple[Any, Contributions])
    return tables | "Unpack" >> beam.Map(_unkeyed, recipe)


def bounded_tables(
    elements: beam.PCollection, records: Records, bounds: ContributionBounds, recipe: Recipe | None, ranks: Ranks
) -> beam.PCollection:
    """Elements to tables of the records that are kept, one for each shard."""
    bound = Bound(bounds, ranks)
    shard_records = _ShardRecords if is_global(elements) else _ShardWindowedRecords
    shard = beam.ParDo(shard_records(records, bounds, bound, recipe)).with_output_types(tuple[bytes, bytes])
    sharded = elements | "Shard" >> shard
    if keeps_state(elements):
        sharded = sharded | "InState" >> MergedInState(MergeTables(bound))
    return sharded | "GroupByShard" >> beam.GroupByKey() | "Bound" >> beam.ParDo(_BoundShard(bound))


class _Waiting:
    """Records of one window that wait to be emitted together, because it is to many shards each time."""

    __slots__ = ("elements", "size", "tables")

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.tables: list[pa.Table] = []
        self.size = 0


class _ShardRecords(beam.DoFn):
    """Elements to (shard, records as bytes); a privacy id is always in the same shard."""

    def __init__(self, records: Records, bounds: ContributionBounds, bound: Bound, recipe: Recipe | None) -> None:
        self._records = records
        self._bounds = bounds
        self._bound = bound
        self._recipe = recipe
        self._unused = Unused(records.elements)

    def start_bundle(self) -> None:
        self._unused.start_bundle()
        self._waiting: dict[Any, _Waiting] = defaultdict(_Waiting)
        self._everything = self._waiting[_GLOBAL_WINDOW]
        self._unread = 0

    def process(self, element: Any) -> Iterable[WindowedValue] | None:
        return self._add(element, self._everything, _GLOBAL_WINDOW)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            self._read(waiting)
            if waiting.size:
                yield from self._emit(joined(waiting.tables), window)
        self._waiting.clear()
        self._unused.finish_bundle()

    def _add(self, element: Any, waiting: _Waiting, window: Any) -> Iterable[WindowedValue] | None:
        if self._records.is_batch_type(type(element)):
            self._gather(self._records.batch(element, self._recipe), waiting)
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
        if waiting.size < BUFFERED_RECORDS:
            return None
        tables, waiting.tables, waiting.size = waiting.tables, [], 0
        return self._emit(joined(tables), window)

    def _read(self, waiting: _Waiting) -> None:
        if waiting.elements:
            self._gather(self._records.columns(waiting.elements), waiting)
            self._unread -= len(waiting.elements)
            waiting.elements = []

    def _gather(self, columns: Columns, waiting: _Waiting) -> None:
        records = table(self._records, columns, self._bounds, self._recipe)
        if len(records):
            waiting.tables.append(records)
            waiting.size += len(records)
            self._unused.anything_counts = True
        elif not self._unused.anything_counts:
            self._unused.dropped(len(columns.items), **any_usable(columns, self._records, self._recipe))

    def _emit(self, records: pa.Table, window: Any) -> Iterator[WindowedValue]:
        units = scattered(records["unit"])
        if not self._bound.keeps_all(units):
            records = self._bound.partly(records)
            units = scattered(records["unit"])
        shards = (units % np.uint64(SHARDS)).astype(np.uint8)
        sizes = np.bincount(shards, minlength=SHARDS)
        parts = parts_to_bytes(records, np.argsort(shards, kind="stable"), np.cumsum(sizes).tolist())
        for shard, (part, size) in enumerate(zip(parts, sizes.tolist(), strict=True)):
            if size:
                yield WindowedValue((bytes([shard]), part), window.max_timestamp(), (window,))


class _ShardWindowedRecords(_ShardRecords):
    """The same for elements in windows; the parameter costs more than all else, so global ones do without."""

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue] | None:
        waiting = self._waiting.get(window)
        if waiting is None:
            check_window(window)
            waiting = self._waiting[window]
        return self._add(element, waiting, window)


class _BoundShard(beam.DoFn):
    """(shard, records) to one table of the records that are kept; raises if a window fires a second time."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def process(
        self, element: tuple[bytes, Iterable[bytes]], pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[pa.Table]:
        check_first_firing(pane)
        gathered: list[pa.Table] = []
        size = 0
        for payload in element[1]:
            gathered.append(from_bytes(payload))
            size += len(gathered[-1])
            if size > _GATHERED_RECORDS:
                gathered = [self._bound.partly(joined(gathered))]
                size = len(gathered[0]) // 2  # so that what must be kept anyway is not sorted again and again
        yield self._bound.fully(joined(gathered))


def _unkeyed(bounded: pa.Table, recipe: Recipe) -> Contributions:
    return recipe.bounded(recipe.column_keys(bounded["item"]), total_weights(bounded, recipe.bounds))


def _contributions(bounded: pa.Table, bounds: ContributionBounds) -> Iterator[Contribution]:
    """The records of a table, one by one."""
    keys = bounded["key"].to_pylist() if "key" in bounded.column_names else itertools.repeat(None)
    copies = bounded["copies"].to_pylist() if "copies" in bounded.column_names else itertools.repeat(1)
    weights = np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight).tolist()
    for key, item, weight, times in zip(keys, bounded["item"].to_pylist(), weights, copies, strict=False):
        yield from itertools.repeat(Contribution(None if key is None else decode(key), decode(item), weight), times)
