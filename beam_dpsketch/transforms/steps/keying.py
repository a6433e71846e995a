"""The step that pairs values with their keys, for releases per key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.reading import MISSING_KEY, RecordReader, note_use, read_keyed_table, split_single
from beam_dpsketch.records.selectors import check_values
from beam_dpsketch.records.unused import Unused


class KeyRecords(beam.DoFn):
    """Pair elements with their keys, and sums of batches with each of theirs; drop those whose key does not count."""

    def __init__(self, reader: RecordReader, sketch_input: SketchInput) -> None:
        self._reader, self._sketch_input = reader, sketch_input
        self._unused = Unused(reader.selectors)

    def start_bundle(self) -> None:
        self._unused.start_bundle()

    def finish_bundle(self) -> None:
        self._unused.finish_bundle()

    def process(self, element: Any) -> Iterator[tuple[Any, Any]]:
        if self._reader.is_batch_type(type(element)):
            yield from self._split_batch(element)
            return
        key, value = self._reader.split_pair(element)
        known = self._reader.normalize_key(key)
        if known is not MISSING_KEY:
            self._unused.anything_counts = True
            yield known, value
        else:
            check_values("key", [key])
            self._unused.note_dropped(1, key=False)

    def _split_batch(self, batch: Any) -> Iterator[tuple[Any, WeightedItems]]:
        columns = self._reader.read_batch(batch, self._sketch_input)
        kept = read_keyed_table(self._reader, columns, self._sketch_input)
        note_use(self._unused, len(kept), columns, self._reader, self._sketch_input)
        yield from split_single(kept, self._sketch_input)
