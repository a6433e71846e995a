"""Bounding over several windows: keep max_windows windows of each privacy id, among those in which it has data.

Guarantee: in each period a privacy id counts in at most max_windows windows, and in each of them within the bounds. On
bounded input they are chosen uniformly at random, in the shuffle that bounds the records too. There, a norm covers all
windows of a period, and there is nothing to choose. For unbounded input see
`beam_dpsketch.transforms.steps.first_windows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import TimestampCombiner, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.records.bounding import selection
from beam_dpsketch.records.bounding.bounded import Bounded, Rule
from beam_dpsketch.records.bounding.priorities import Priorities
from beam_dpsketch.records.bounding.record_rule import RecordRule, max_multiplicity_at_most
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.columns import encode_ids
from beam_dpsketch.records.groups import dictionary_codes
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.windows import WindowPlan
from beam_dpsketch.transforms.steps.bounding import (
    BoundShard,
    ShardRecords,
    ShardWindowedRecords,
    choose_rule,
    group_by_shard,
    unpack,
)
from beam_dpsketch.transforms.steps.first_windows import FirstWindows
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, choose_priorities
from beam_dpsketch.transforms.steps.whole_runs import BoundByNorm, ChooseNorm, LostByRun
from beam_dpsketch.transforms.windows import RestoreWindows, periods_as_windows

_NOTHING = pa.scalar(b"", pa.large_binary())


class Contributions(NamedTuple):
    """What bounding made of elements.

    Attributes:
      values: `WeightedItems` in their windows, or (key, `WeightedItems`) per key.
      max_norm: the norm in sixteenths of a record, if the data chose it; else `None`.
      lost: what the whole run lost, exactly, if one histogram tells it; else `None`.
    """

    values: beam.PCollection
    max_norm: beam.PCollection | None = None
    lost: beam.PCollection | None = None


def bound_over_windows(
    elements: beam.PCollection,
    reader: RecordReader,
    sketch_input: SketchInput,
    plan: WindowPlan,
    idempotent_noise: IdempotentNoise | None,
) -> Contributions:
    """Bound the records of each privacy id, in all windows that its bounds cover."""
    periods = None if plan.periods is None else periods_as_windows(plan.periods)
    if periods is not None and not elements.is_bounded:
        if idempotent_noise is not None:
            raise WindowingError(
                "",
                "with_idempotent_noise with max_windows or a Horizon needs bounded input: on a stream the first "
                "windows of an id count, and a replay may see them in another order; take $RecordBounds and "
                "leave max_windows out",
                "E422",
            )
        elements = elements | "FirstWindows" >> FirstWindows(reader, plan.max_windows, periods)
        periods = None
    if periods is not None and isinstance(sketch_input.bounds, RecordBounds):
        priorities = choose_priorities(idempotent_noise)
        rule: Rule = _RuleOverWindows(sketch_input.bounds, sketch_input, priorities, plan.max_windows)
    else:
        rule = choose_rule(sketch_input, idempotent_noise)  # one norm over all windows of a period
    if periods is None:
        grouped = group_by_shard(elements, reader, rule, sketch_input)
    else:
        grouped = _group_by_period(elements, ShardWindowedRecords(reader, rule, sketch_input, True), periods)
    if (choosing := plan.terms.choosing) is not None:
        norm = grouped | "ChooseNorm" >> ChooseNorm(sketch_input, choosing, idempotent_noise)
        bound: beam.PTransform = beam.ParDo(BoundByNorm(sketch_input, choosing), beam.pvalue.AsSingleton(norm))
    else:
        norm, bound = None, beam.ParDo(BoundShard(rule))
    bounded, lost = grouped | "Bound" >> bound, None
    if (counter := sketch_input.lost) is not None and counter.of_run:
        lost = bounded | "LostByRun" >> LostByRun(counter.size)
    if periods is not None:
        own_windows = RestoreWindows(elements.windowing)
        bounded = bounded | "SplitByWindow" >> beam.FlatMap(_by_window) | "OwnWindows" >> own_windows
    return Contributions(unpack(bounded, reader, sketch_input), norm, lost)


def _group_by_period(elements: beam.PCollection, shard: ShardRecords, periods: WindowFn) -> beam.PCollection:
    """Return (shard, records as bytes), grouped; all records of a privacy id in a period are in one shard."""
    # Outputs carry the earliest timestamp of their shard; later steps only move time forward, so nothing is late.
    into_periods = beam.WindowInto(periods, timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    return (
        elements
        | "Shard" >> beam.ParDo(shard).with_output_types(tuple[bytes, bytes])
        | "Periods" >> into_periods
        | "GroupByShard" >> beam.GroupByKey()
    )


class _RuleOverWindows(RecordRule):
    """Selects the records of a table with a column of windows that are kept."""

    def __init__(
        self, bounds: RecordBounds, sketch_input: SketchInput, priorities: Priorities, max_windows: int
    ) -> None:
        counters, selection = sketch_input.counters, sketch_input.selection
        super().__init__(bounds, priorities, counters, selection, sketch_input.over_time, sketch_input.lost)
        self._max_windows = max_windows

    def keeps_all(self, units: np.ndarray) -> bool:
        """Return whether no id can exceed the bounds; an id with few records is in few windows."""
        return super().keeps_all(units) and max_multiplicity_at_most(units, self._max_windows)

    def _prune(self, records: pa.Table) -> pa.Table:
        """Shrink a part of the records; keep all windows of signed weights, because one may turn out to be empty."""
        bounded = self._in_each_window(records, super()._prune)
        return bounded if self.bounds.signed else self._keep_windows(bounded)

    def _select(self, records: pa.Table) -> tuple[pa.Table, np.ndarray | None]:
        kept = self._in_each_window(records, lambda each: super(_RuleOverWindows, self)._select(each)[0])
        return self._keep_windows(kept), None

    def _in_each_window(self, records: pa.Table, bound: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Bound with privacy id and window as the unit."""
        place = records.column_names.index("unit")
        records = records.set_column(place, "unit", encode_ids(records["unit"]))
        ends = records["window"].to_numpy().astype(">i8")
        ends = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(ends), [None, pa.py_buffer(ends)])
        units = pc.binary_join_element_wise(records["unit"], ends.cast(pa.large_binary()), _NOTHING)
        kept = bound(records.append_column("id", records["unit"]).set_column(place, "unit", units))
        return kept.set_column(place, "unit", kept["id"]).drop_columns(["id"])

    def _keep_windows(self, records: pa.Table) -> pa.Table:
        units, distinct = dictionary_codes(records["unit"])
        windows = records["window"].to_numpy()
        hashes = cells.mix(shard_hash(distinct), seed=self._priorities.salt, row=2)[units]
        priorities = cells.mix(hashes ^ windows.view(np.uint64), seed=self._priorities.salt, row=3)
        positions = selection.select_parts(units, windows, priorities, self._max_windows)
        return records if len(positions) == len(records) else records.take(pa.array(positions))


def _by_window(bounded: Bounded) -> Iterator[TimestampedValue]:
    """Yield what is kept in each window, at its last millisecond."""
    for end, kept in bounded.by_window():
        yield TimestampedValue(kept, Timestamp(micros=end * MILLISECOND))
