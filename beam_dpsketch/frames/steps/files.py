"""Parquet and CSV files as one table, with reading progress."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.base import is_bytes_type, is_text_type, unwrap_type
from beam_dpsketch.exact.domains.doors import Door
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.reading.columns import is_pointer_type
from beam_dpsketch.frames.steps.csv_files import CsvFile, Say, declared_schema
from beam_dpsketch.frames.steps.plan import columns_of
from beam_dpsketch.frames.steps.tables import TableParts, empty_table

ENDINGS = (".parquet", ".csv")
_ROWS = 1 << 17


class Position(NamedTuple):
    """Reading progress in bytes and files. It depends on file sizes alone."""

    read: int
    total: int
    done: int
    files: int


OnRead: TypeAlias = Callable[[Position], None]


class Input(NamedTuple):
    """Records to release, readable once.

    Attributes:
      paths: the files.
      table: their rows.
    """

    paths: list[str]
    table: TableParts


def open_files(names: Sequence[str], declared: ReleaseSpec, on_read: OnRead, say: Say) -> Input:
    """Open files as a table with the release's columns, if present.

    Args:
      names: paths, and patterns with wildcards. All files have the same ending.
      declared: the release.
      on_read: called after each batch.
      say: called with each note about a file.

    Raises `UsageError` for files that cannot be read as one table, `ConfigError`, and `OSError`.
    """
    paths = [path for name in names for path in _paths(name)]
    _refuse_repeated(paths)
    endings = [os.path.splitext(path)[1].lower() for path in paths]
    for path, ending in zip(paths, endings, strict=True):
        if ending not in ENDINGS or ending != endings[0]:
            raise UsageError(f"{path}: all files must end with {', or all with '.join(ENDINGS)}")
    if endings[0] == ENDINGS[0]:
        return Input(paths, _open_parquets(paths, declared, on_read))
    return Input(paths, _open_csvs(paths, declared, on_read, say))


def _open_parquets(paths: list[str], declared: ReleaseSpec, on_read: OnRead) -> TableParts:
    """Open Parquet files. Raise if their columns are incompatible. Each file is read with its own column types."""
    files, names = [_open_parquet(path) for path in paths], {*columns_of(declared).values()}
    schemas = [[field for field in file.schema_arrow if field.name in names] for file in files]
    known: dict[str, tuple[str, pa.DataType]] = {}
    for path, schema in zip(paths, schemas, strict=True):
        for field in schema:
            other, kind = known.get(field.name, (path, field.type))
            if len({_family(kind), _family(field.type)} - {""}) > 1:
                words = f"has type {field.type}, but type {kind} in {other}. Use the same type in all files"
                raise UsageError(f"{path}: the column {field.name!r} {words}")
            known[field.name] = (path, field.type) if pa.types.is_null(kind) else (other, kind)
    for path, schema in zip(paths, schemas, strict=True):
        if missing := known.keys() - {field.name for field in schema}:
            name = min(missing)
            raise UsageError(
                f"{path}: has no column {name!r}, unlike {known[name][0]}. Use the same columns in all files"
            )
    first = pa.schema([(field.name, known[field.name][1]) for field in schemas[0]])

    def batches() -> Iterator[pa.RecordBatch]:
        sizes = [*map(os.path.getsize, paths)]
        for done, (path, file) in enumerate(zip(paths, files, strict=True)):
            rows, read = file.metadata.num_rows, 0
            try:
                for batch in file.iter_batches(_ROWS, columns=[*known]):
                    # A name with a dot also selects a field of a nested column.
                    yield batch.select([n for n, name in enumerate(batch.schema.names) if name in known])
                    read += len(batch)
                    before = sum(sizes[:done]) + sizes[done] * read // rows
                    on_read(Position(before, sum(sizes), done + (read == rows), len(sizes)))
            except (pa.ArrowException, OSError):  # the message may contain bytes of the file
                raise UsageError(f"{path}: a part of the file cannot be read. The file may be damaged") from None

    return TableParts(files[0].schema_arrow.names, empty_table(first), batches())


def _family(kind: pa.DataType) -> str:
    """Classify column types so that equal values in a class are equal items. Empty for null columns."""
    kind = unwrap_type(kind)
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times in UTC"
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_date, is_text_type, is_bytes_type)
    return next((test.__name__ for test in tests if test(kind) and not is_pointer_type(kind)), str(kind))


def _open_csvs(paths: list[str], declared: ReleaseSpec, on_read: OnRead, say: Say) -> TableParts:
    """Open CSV files with a header. Empty fields are null."""
    files = {path: CsvFile(path, say, drops=declared.unreadable == "drop") for path in paths}
    schemas = [declared_schema(path, file.header(), declared) for path, file in files.items()]

    def batches() -> Iterator[pa.RecordBatch]:
        sizes = [*map(os.path.getsize, paths)]
        for done, file in enumerate(files.values()):
            for batch, read in file.batches(schemas[0].names):
                yield batch
                on_read(Position(sum(sizes[:done]) + read, sum(sizes), done + (read == sizes[done]), len(sizes)))

    return TableParts(schemas[0].names, empty_table(schemas[0]), batches(), Door.TEXT_FILE, declared.csv or Spelling())


def _open_parquet(path: str) -> Any:
    import pyarrow.parquet as pq  # lazy import: slow

    try:
        return pq.ParquetFile(path, pre_buffer=True, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError, ValueError) as error:  # the message may contain bytes of a file
        if isinstance(error, OSError) and error.errno:  # from the system, not from Arrow
            raise
        words = "is not Parquet, or is damaged" if os.path.getsize(path) else "is empty"
        raise UsageError(f"{path}: {words}") from None


def _refuse_repeated(paths: list[str]) -> None:
    """Raise if a file is repeated, because its records would count twice while Record() protects only one."""
    found: dict[tuple[int, int], str] = {}
    for path in paths:
        status = os.stat(path)
        identity = (status.st_dev, status.st_ino)
        if identity in found:
            raise UsageError(
                f"{path} and {found[identity]} are the same file, and its records would count twice. Pass it once"
            )
        found[identity] = path


def _paths(name: str) -> list[str]:
    if "\0" in name:
        raise UsageError("a file name must not contain a zero byte")
    found = [name] if os.path.exists(name) else sorted(glob.glob(name))
    if not found:
        remote = (
            ". Only local files are supported. Use a pipeline or Beam YAML for remote files" if "://" in name else ""
        )
        raise UsageError(f"no file matches {name}{remote}")
    return found
