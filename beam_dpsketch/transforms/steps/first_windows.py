"""Streams: keep elements in the first max_windows windows of each period in which their privacy id has data.

Guarantee: in each period the kept elements of a privacy id are in at most max_windows windows. Which ones depends on
that id's elements and their order alone. The state of an id is the windows that it has taken in a period; Beam drops it
when the period ends, so in the next period the id counts again. A late element still uses up one of these windows,
although it is dropped. Elements without a usable privacy id are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import WindowFn
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch._columns import plain_column
from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.hashing.encodings import encode, encode_all
from beam_dpsketch.records.groups import group_rows
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import check_values
from beam_dpsketch.transforms.steps.stream_state import keep_keys_together
from beam_dpsketch.transforms.steps.windows import RestoreWindows, last_time


class FirstWindows(beam.PTransform):
    """Keep elements in the first `max_windows` windows of each id and period, stamped with the end of their window."""

    def __init__(self, reader: RecordReader, max_windows: int, periods: WindowFn) -> None:
        super().__init__()
        self._reader, self._max_windows, self._periods = reader, max_windows, periods

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        keep_keys_together(pcoll.pipeline)
        by_id = beam.typehints.Tuple[bytes, pcoll.element_type]
        return (
            pcoll
            | "ById" >> beam.ParDo(_ById(self._reader)).with_output_types(by_id)
            | "Periods" >> beam.WindowInto(self._periods)
            | "Take" >> beam.ParDo(_TakeFirst(self._max_windows)).with_output_types(pcoll.element_type)
            | "OwnWindows" >> RestoreWindows(pcoll.windowing)
        )


class _ById(beam.DoFn):
    """Pair elements with their privacy id, at the last time of their window; split batches by privacy id."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader

    def start_bundle(self) -> None:
        self._tally = self._reader.tally(None, is_sampled=True)

    def finish_bundle(self) -> None:
        self._tally.log()

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        time = last_time(window)
        split = self._split_batch if self._reader.is_batch_type(type(element)) else self._pair_record
        for pair in split(element):
            yield WindowedValue(pair, time, (window,))

    def _pair_record(self, element: Any) -> Iterator[tuple[bytes, Any]]:
        privacy_id = self._reader.read_privacy_id(element)
        try:
            encoded = encode(privacy_id)
        except (TypeError, ValueError):
            self._tally.note("privacy_id", [privacy_id], [privacy_id])
            check_values("privacy_id", [privacy_id])
            return
        self._tally.use("privacy_id")
        yield encoded, element

    def _split_batch(self, batch: Any) -> Iterator[tuple[bytes, Any]]:
        ids = encode_all(self._reader.read_batch_privacy_ids(batch, self._tally)).dictionary_encode()
        codes = ids.indices.fill_null(len(ids.dictionary)).to_numpy()
        order, groups = group_rows(codes, len(ids.dictionary))
        take = self._plain(batch).take if isinstance(batch, (pa.Table, pa.RecordBatch)) else batch.iloc.__getitem__
        for privacy_id, group in zip(ids.dictionary.to_pylist(), groups, strict=True):
            yield privacy_id, take(order[group])

    def _plain(self, batch: Any) -> Any:
        """Return the columns of a batch that are read, in the form in which Arrow can take rows of them."""
        names = batch.schema.names
        read = [place for place, name in enumerate(names) if name in self._reader.selectors.given.values()]
        columns = [plain_column(batch.column(place)) for place in read]
        return type(batch).from_arrays(columns, names=[names[place] for place in read])


_WINDOWS_TAKEN = beam.DoFn.StateParam(BagStateSpec("windows taken", VarIntCoder()))


class _TakeFirst(beam.DoFn):
    """Keep an element, of (privacy id, element), if its window is or becomes one of those that the id takes."""

    def __init__(self, max_windows: int) -> None:
        self._max_windows = max_windows

    def process(
        self, element: tuple[bytes, Any], timestamp: Any = beam.DoFn.TimestampParam, taken: Any = _WINDOWS_TAKEN
    ) -> Iterator[Any]:
        end = timestamp.micros // MILLISECOND
        windows = list(taken.read())
        if end not in windows:
            if len(windows) >= self._max_windows:
                return
            taken.add(end)
        yield element[1]
