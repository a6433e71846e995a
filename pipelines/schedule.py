"""Departures in event time, by scheduled hour, as a bounded collection or as a stream.

The CSV file has the columns `dest`, `tailnum`, `dep_delay` (integer minutes, empty or NA for a canceled flight) and
`time_hour` (the scheduled hour in UTC, such as 2013-07-01T12:00:00Z).
"""

import datetime
import pickle
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import BytesCoder
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from pipelines.csv_batches import ReadCsvBatches, read_csv_table

COLUMNS = {"dest": pa.string(), "tailnum": pa.string(), "dep_delay": pa.int64(), "time_hour": pa.timestamp("s", "UTC")}
MADE_UP = {"dest": "BOS", "tailnum": "N12345", "dep_delay": 5, "second": 0}  # a made-up departure
HOUR, DAY = 3600, 86400
DAWN = 8 * HOUR  # 3 or 4 a.m. in New York: nothing departs, so daylight saving time does not matter


def dawn(date: str) -> int:
    """Compute the start of a day of departures, in seconds since the epoch.

    >>> dawn("1970-01-02") == DAY + DAWN
    True
    """
    midnight = datetime.datetime.combine(datetime.date.fromisoformat(date), datetime.time(), datetime.UTC)
    return int(midnight.timestamp()) + DAWN


def read_departures(path: str, start: int, end: int) -> pa.Table:
    """Read the departures scheduled in a time range, ordered by hour, with the hours in integer seconds."""
    return _with_seconds(read_csv_table(path, COLUMNS), start, end).sort_by("second")


class ReadDepartures(beam.PTransform):
    """Departures in a time range, with their scheduled hours as timestamps.

    With `--streaming`, and on Beam's in-process streaming runner, they are replayed as an unbounded source whose
    watermark follows the clock, with a batch for each hour. Otherwise the files are bounded input, with an element for
    each departure.
    """

    def __init__(self, path: str, start: int, end: int) -> None:
        super().__init__()
        self._path, self._range = path, (start, end)

    def expand(self, pbegin: Any) -> beam.PCollection:
        if is_replay(pbegin.pipeline):
            pickles = pbegin | "Replay" >> replay(read_departures(self._path, *self._range)).with_output_types(bytes)
            return pickles | "Unpickle" >> beam.Map(pickle.loads)
        return (
            pbegin
            | "Read" >> ReadCsvBatches(self._path, COLUMNS)
            | "AtTheirHours" >> beam.FlatMap(_stamped, *self._range).with_output_types(dict[str, Any])
        )


def is_replay(pipeline: beam.Pipeline) -> bool:
    """Whether the pipeline runs on a stream."""
    streaming = pipeline.options.view_as(StandardOptions).streaming
    return streaming or isinstance(pipeline.runner, BundleBasedDirectRunner)


def replay(departures: pa.Table) -> TestStream:
    """Replay departures, ordered by hour, as pickled batches, because Flink does not support Python-only coders."""
    stream = TestStream(BytesCoder())
    seconds = departures["second"].to_numpy()
    starts = np.flatnonzero(np.diff(seconds, prepend=-1)).tolist()
    for first, after in zip(starts, [*starts[1:], len(departures)], strict=True):
        second = int(seconds[first])
        (batch,) = departures.take(np.arange(first, after)).combine_chunks().to_batches()  # a slice would carry all
        stream = stream.advance_watermark_to(second).add_elements([TimestampedValue(pickle.dumps(batch), second)])
    return stream.advance_watermark_to_infinity()


def _with_seconds(departures: pa.Table, start: int, end: int) -> pa.Table:
    seconds = pc.cast(departures["time_hour"], pa.int64())
    departures = departures.drop_columns(["time_hour"]).append_column("second", seconds)
    return departures.filter(pc.and_(pc.greater_equal(seconds, start), pc.less(seconds, end)))


def _stamped(batch: pa.RecordBatch, start: int, end: int) -> Iterator[TimestampedValue]:
    for row in _with_seconds(pa.Table.from_batches([batch]), start, end).to_pylist():
        yield TimestampedValue(row, Timestamp(row["second"]))
