"""The steps before the noise of grouped counts: read, bound, and add up the records of each pair of key and item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.records.groups import sum_by_pair, wrap_around
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.reading import Columns, RecordReader, read_counts
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.transforms.steps.bounding import ShardRecords, ShardWindowedRecords, choose_rule
from beam_dpsketch.transforms.steps.bounding_over_windows import bound_over_windows
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.windows.guard import is_global
from beam_dpsketch.transforms.windows.time_range import filter_to_time_range
from beam_dpsketch.transforms.windows.window_plan import WindowPlan


class CountPairs(beam.PTransform):
    """Turn elements into (pair, exact count) for each pair that counts, in each window.

    A privacy id is bounded as where its output keys are the pairs: no more than that is new here.
    """

    def __init__(self, declared: ReleaseSpec, plan: WindowPlan, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._declared, self._plan, self._idempotent_noise = declared, plan, idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        declared, elements = self._declared, pcoll
        if self._plan.starts is not None:
            in_range = beam.FlatMap(filter_to_time_range, self._plan.starts).with_output_types(pcoll.element_type)
            elements = elements | "InTimeRange" >> in_range
        reader = declared.reader
        sketch_input = declared.sketch_input
        if declared.privacy_id is not None:
            counts, _ = bound_over_windows(elements, reader, sketch_input, self._plan, self._idempotent_noise)
        else:
            count = CountRecords if is_global(elements) else CountWindowedRecords
            counts = elements | "Count" >> beam.ParDo(count(reader, sketch_input)).with_output_types(tuple[bytes, int])
        return counts | "Sum" >> beam.CombinePerKey(WrappingSum()).with_output_types(tuple[bytes, int])


class WrappingSum(beam.CombineFn):
    """Add up integers of 64 bits that wrap around, as all counters do: an error would reveal a record."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, mutable_accumulator: int, element: int) -> int:
        return wrap_around(mutable_accumulator + element)

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return wrap_around(sum(accumulators))

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class CountRecords(ShardRecords):
    """Count the records of a bundle by pair, where each record is protected on its own."""

    def __init__(self, reader: RecordReader, sketch_input: SketchInput) -> None:
        super().__init__(reader, choose_rule(sketch_input, None), sketch_input)

    def _table(self, columns: Columns) -> pa.Table:
        assert self._sketch_input is not None
        return read_counts(self._reader, columns, self._sketch_input)

    def _emit(self, records: pa.Table, window: Any) -> Iterator[WindowedValue]:
        for counted in sum_by_pair(records["key"], records["weight"].to_numpy()):
            yield WindowedValue(counted, window.max_timestamp(), (window,))


class CountWindowedRecords(CountRecords, ShardWindowedRecords):
    """Do the same for elements in windows."""

    process = ShardWindowedRecords.process
