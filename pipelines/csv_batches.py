"""CSV files as Arrow batches: single files or patterns, plain or in zip archives, on any Beam filesystem."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import IO, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv
from apache_beam.io import fileio
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

Columns = Mapping[str, pa.DataType | None]  # by name, `None` infers the type from the first rows


class ReadCsvBatches(beam.PTransform):
    """Read CSV files with a header into `pyarrow.RecordBatch`es with these columns. "NA" and empty fields are null."""

    def __init__(self, file_pattern: str, columns: Columns) -> None:
        super().__init__()
        self._pattern = file_pattern
        self._columns = columns

    def expand(self, pbegin: Any) -> beam.PCollection:
        return (
            pbegin
            | "Match" >> fileio.MatchFiles(self._pattern)
            | "Read" >> beam.FlatMap(_batches_of, self._columns).with_output_types(pa.RecordBatch)
        )


def read_csv_table(path: str, columns: Columns) -> pa.Table:
    """Read a file without a pipeline, for exact figures."""
    return pa.Table.from_batches(_read_batches(path, columns))


def _batches_of(file: FileMetadata, columns: Columns) -> Iterator[pa.RecordBatch]:
    return _read_batches(file.path, columns)


def _read_batches(path: str, columns: Columns) -> Iterator[pa.RecordBatch]:
    with FileSystems.open(path) as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            yield from _parsed(file, columns)
            return
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(file))
            for name in archive.namelist():
                yield from _parsed(stack.enter_context(archive.open(name)), columns)


def _parsed(file: IO[bytes], columns: Columns) -> Iterator[pa.RecordBatch]:
    options = pa.csv.ConvertOptions(
        include_columns=list(columns),
        column_types={name: kind for name, kind in columns.items() if kind is not None},
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    yield from pa.csv.open_csv(file, convert_options=options)
