"""Parquet and CSV files as one reader of Arrow batches, with the share of them that is read so far."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from beam_dpsketch.cli.csv_files import CsvFile, Fractions, convert, declared_schema
from beam_dpsketch.cli.text import UsageError
from beam_dpsketch.frames.plan import columns_of
from beam_dpsketch.records.release_spec import ReleaseSpec

ENDINGS = (".parquet", ".csv")
_ROWS = 1 << 17


class Position(NamedTuple):
    """How far reading is, in bytes and in files; it depends on the sizes of files alone."""

    read: int
    total: int
    done: int
    files: int


OnRead: TypeAlias = Callable[[Position], None]


class Input(NamedTuple):
    """Records to be released, to be read once.

    Attributes:
      paths: the files.
      reader: their rows.
      check: refuses columns whose values, as far as they are read, are not of the type that is needed.
    """

    paths: list[str]
    reader: pa.RecordBatchReader
    check: Callable[[], None]


def open_files(names: Sequence[str], declared: ReleaseSpec, on_read: OnRead) -> Input:
    """Return the rows of files, with the columns that a release reads where they are there.

    Args:
      names: paths, and patterns with wildcards; all of one kind, by their ending.
      declared: the release.
      on_read: is called after each batch.

    Raises `UsageError` for files that cannot be read as one table, `ConfigError`, and `OSError`.
    """
    paths = [path for name in names for path in _paths(name)]
    _refuse_repeated(paths)
    endings = {os.path.splitext(path)[1].lower() for path in paths}
    if len(endings) != 1 or not endings <= set(ENDINGS):
        raise UsageError(f"the files to release must all end with {' or all with '.join(ENDINGS)}")
    source = (_Parquet if endings == {".parquet"} else _Csv)(paths, declared)
    return Input(paths, pa.RecordBatchReader.from_batches(source.schema, source.batches(on_read)), source.check)


class _Parquet:
    """Parquet files whose columns have the same types."""

    def __init__(self, paths: list[str], declared: ReleaseSpec) -> None:
        self._paths = paths
        self._files = [_open_parquet(path) for path in paths]
        schemas = [_wanted(file.schema_arrow, declared) for file in self._files]
        self.schema, self._names = schemas[0], {*schemas[0].names}
        for path, schema in zip(paths, schemas, strict=True):
            if not schema.equals(self.schema):
                raise UsageError(
                    f"{path} has other columns than {paths[0]}, or other types of them: a person with the id 7 there "
                    'and "7" here would count as two; write them alike'
                )

    def check(self) -> None:
        """Do nothing: the types of Parquet tell."""

    def batches(self, on_read: OnRead) -> Iterator[pa.RecordBatch]:
        sizes = [*map(os.path.getsize, self._paths)]
        for done, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            rows, read = file.metadata.num_rows, 0
            try:
                for batch in file.iter_batches(_ROWS, columns=self.schema.names):
                    # A name with a dot also stands for a field of a nested column, which comes along.
                    columns = [batch.column(n) for n, name in enumerate(batch.schema.names) if name in self._names]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
                    read += len(batch)
                    before = sum(sizes[:done]) + sizes[done] * read // rows
                    on_read(Position(before, sum(sizes), done + (read == rows), len(sizes)))
            except (pa.ArrowException, OSError):  # the message may hold bytes of the file
                raise UsageError(f"{path}: a part of it cannot be read, or it is damaged") from None


class _Csv:
    """CSV files with a header; an empty field is null."""

    def __init__(self, paths: list[str], declared: ReleaseSpec) -> None:
        self._files = {path: CsvFile(path) for path in paths}
        self._fractions = Fractions(declared)
        self.check = self._fractions.check
        for path, file in self._files.items():
            self.schema = declared_schema(path, file.header(), declared)

    def batches(self, on_read: OnRead) -> Iterator[pa.RecordBatch]:
        sizes = [*map(os.path.getsize, self._files)]
        for done, file in enumerate(self._files.values()):
            for batch, read in file.batches(self.schema.names):
                columns = [convert(text, each.type) for text, each in zip(batch.columns, self.schema, strict=True)]
                rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
                self._fractions.note(batch, rows)
                yield rows
                on_read(Position(sum(sizes[:done]) + read, sum(sizes), done + (read == sizes[done]), len(sizes)))
        self.check()


def _open_parquet(path: str) -> Any:
    import pyarrow.parquet as pq  # only here: it takes time to import

    try:
        return pq.ParquetFile(path, pre_buffer=True)
    except (pa.ArrowException, OSError, ValueError) as error:  # the message may hold bytes of a file
        if isinstance(error, OSError) and error.errno:  # of the system, not of Arrow
            raise
        words = "cannot be read as Parquet, or is damaged" if os.path.getsize(path) else "is empty"
        raise UsageError(f"{path}: {words}") from None


def _wanted(schema: pa.Schema, declared: ReleaseSpec) -> pa.Schema:
    names = set(columns_of(declared).values())
    fields = [pa.field(each.name, each.type) for each in schema if each.name in names]
    return pa.schema(fields if names <= {each.name for each in fields} else [pa.field(x.name, x.type) for x in schema])


def _refuse_repeated(paths: list[str]) -> None:
    """Refuse a file that is given twice: each of its records would count twice, and Record() protects one."""
    found: dict[tuple[int, int], str] = {}
    for path in paths:
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in found:
            raise UsageError(
                f"{path} and {found[identity]} are one file, whose records would count twice: give it once"
            )
        found[identity] = path


def _paths(name: str) -> list[str]:
    if "\0" in name:
        raise UsageError("no file has a name with a zero byte")
    found = [name] if os.path.exists(name) else sorted(glob.glob(name))
    if not found:
        remote = "; only local files are read: take a pipeline, or Beam YAML" if "://" in name else ""
        raise UsageError(f"no file matches {name}{remote}")
    return found
