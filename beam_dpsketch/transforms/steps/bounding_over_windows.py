"""Bounding over several windows: of each privacy id, max_windows of the windows in which it has data.

Guarantee: in each period a privacy id counts in at most max_windows windows, and in each of them within the bounds. On
bounded input they are chosen uniformly at random, in the shuffle that bounds the records as well. Of unbounded input
see `beam_dpsketch.transforms.steps.first_windows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import TimestampCombiner, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.records import selection
from beam_dpsketch.records.bounding import BoundingRule, max_multiplicity_at_most
from beam_dpsketch.records.groups import dictionary_codes, group_rows
from beam_dpsketch.records.ids import encode_ids
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.priorities import Priorities, RandomPriorities
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.shard_hash import shard_hash
from beam_dpsketch.transforms.steps.bounding import (
    _BoundShard,
    _ShardWindowedRecords,
    bounded_contributions,
    contributions_of,
)
from beam_dpsketch.transforms.steps.first_windows import FirstWindows, check_not_idempotent
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, priorities_of
from beam_dpsketch.transforms.windows.window_limit import RestoreWindows, last_time

_NOTHING = pa.scalar(b"", pa.large_binary())


class BoundedOverWindows(beam.PTransform):
    """Elements to bounded `Contributions` in their windows, or (key, `Contributions`) if keyed.

    Args:
      records: how to read the elements.
      sketch_input: the sketch, and the bounds within each window.
      max_windows: how many windows of each privacy id count in each period.
      periods: the windows, as Beam calls them, that are the periods.
      idempotent_noise: makes the choice a function of a secret; not on unbounded input.
    """

    def __init__(
        self,
        records: RecordReader,
        sketch_input: SketchInput,
        max_windows: int,
        periods: WindowFn,
        idempotent_noise: IdempotentNoise | None,
    ) -> None:
        super().__init__()
        self._records = records
        self._sketch_input = sketch_input
        self._max_windows = max_windows
        self._periods = periods
        self._idempotent_noise = idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        if not pcoll.is_bounded:
            check_not_idempotent(self._idempotent_noise)
            first = pcoll | "FirstWindows" >> FirstWindows(self._records, self._max_windows, self._periods)
            return bounded_contributions(first, self._records, self._sketch_input, RandomPriorities())
        priorities = priorities_of(self._idempotent_noise)
        bound = _RuleOverWindows(self._sketch_input.bounds, self._max_windows, priorities)
        shard = _ShardWithWindows(self._records, self._sketch_input.bounds, bound, self._sketch_input)
        # The output has the least time of its shard: what follows only moves forward, so nothing comes out late.
        into_periods = beam.WindowInto(self._periods, timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
        tables = (
            pcoll
            | "Shard" >> beam.ParDo(shard).with_output_types(tuple[bytes, bytes])
            | "Periods" >> into_periods
            | "GroupByShard" >> beam.GroupByKey()
            | "Bound" >> beam.ParDo(_BoundShard(bound))
            | "SplitByWindow" >> beam.FlatMap(_by_window)
            | "OwnWindows" >> RestoreWindows(pcoll.windowing)
        )
        return contributions_of(tables, self._records, self._sketch_input)


class _ShardWithWindows(_ShardWindowedRecords):
    """Elements to (shard, records), with the last millisecond of their window as a column and as their time."""

    def _emit(self, records: pa.Table, window: Any) -> Iterator[WindowedValue]:
        time = last_time(window)
        ends = pa.array(np.full(len(records), time.micros // 1000, dtype=np.int64))
        for emitted in super()._emit(records.append_column("window", ends), window):
            yield WindowedValue(emitted.value, time, (window,))


class _RuleOverWindows(BoundingRule):
    """The rule that says which records of a table with a column of windows are kept."""

    def __init__(self, bounds: RecordBounds, max_windows: int, priorities: Priorities) -> None:
        super().__init__(bounds, priorities)
        self._max_windows = max_windows

    def keeps_all(self, units: np.ndarray) -> bool:
        """Whether no record is one too many; a privacy id with few records is in few windows."""
        return super().keeps_all(units) and max_multiplicity_at_most(units, self._max_windows)

    def prune(self, records: pa.Table) -> pa.Table:
        """Some of the records that are too many; with signed weights, a window may yet turn out to be empty."""
        bounded = self._in_each_window(records, super().prune)
        return bounded if self._bounds.signed else self._keep_windows(bounded)

    def select(self, records: pa.Table) -> pa.Table:
        """The records that are kept."""
        return self._keep_windows(self._in_each_window(records, super().select))

    def _in_each_window(self, records: pa.Table, bounded: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Bounds with privacy id and window as the unit."""
        place = records.column_names.index("unit")
        records = records.set_column(place, "unit", encode_ids(records["unit"]))
        ends = records["window"].to_numpy().astype(">i8")
        ends = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(ends), [None, pa.py_buffer(ends)])
        units = pc.binary_join_element_wise(records["unit"], ends.cast(pa.large_binary()), _NOTHING)
        kept = bounded(records.append_column("id", records["unit"]).set_column(place, "unit", units))
        return kept.set_column(place, "unit", kept["id"]).drop_columns(["id"])

    def _keep_windows(self, records: pa.Table) -> pa.Table:
        units, distinct = dictionary_codes(records["unit"])
        windows = records["window"].to_numpy()
        hashes = cells.mix(shard_hash(distinct), seed=self._priorities.salt, row=2)[units]
        priorities = cells.mix(hashes ^ windows.view(np.uint64), seed=self._priorities.salt, row=3)
        positions = selection.select_parts(units, windows, priorities, self._max_windows)
        return records if len(positions) == len(records) else records.take(pa.array(positions))


def _by_window(bounded: pa.Table) -> Iterator[TimestampedValue]:
    """The records of each window, at its last millisecond."""
    ends, codes = np.unique(bounded["window"].to_numpy(), return_inverse=True)
    order, groups = group_rows(codes, len(ends))
    records = bounded.drop_columns(["window"]).take(pa.array(order))
    for end, group in zip(ends.tolist(), groups, strict=True):
        yield TimestampedValue(records[group], Timestamp(micros=end * 1000))
