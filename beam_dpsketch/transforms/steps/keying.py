"""The step that pairs values with their keys, for releases per key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.records.containers import check_values
from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.reading import MISSING_KEY, RecordReader, any_usable, read_keyed_table, split_by_key
from beam_dpsketch.records.unused import Unused


class KeyRecords(beam.DoFn):
    """Elements to (key, value), or per key of a batch (key, contributions); keys that do not count are left out."""

    def __init__(self, records: RecordReader, sketch_input: SketchInput) -> None:
        self._records = records
        self._sketch_input = sketch_input
        self._unused = Unused(records.selectors)

    def start_bundle(self) -> None:
        self._unused.start_bundle()

    def finish_bundle(self) -> None:
        self._unused.finish_bundle()

    def process(self, element: Any) -> Iterator[tuple[Any, Any]]:
        if self._records.is_batch_type(type(element)):
            yield from self._of_batch(element)
            return
        key, value = self._records.split_pair(element)
        known = self._records.normalize_key(key)
        if known is MISSING_KEY:
            check_values("key", [key])
            self._unused.note_dropped(1, key=False)
            return
        self._unused.anything_counts = True
        yield known, value

    def _of_batch(self, batch: Any) -> Iterator[tuple[Any, WeightedItems]]:
        columns = self._records.read_batch(batch, self._sketch_input)
        kept = read_keyed_table(self._records, columns, self._sketch_input)
        if len(kept):
            self._unused.anything_counts = True
        else:
            self._unused.note_dropped(len(columns.items), **any_usable(columns, self._records, self._sketch_input))
        yield from split_by_key(kept, self._sketch_input)
