"""Folders and files of Parquet or CSV as one table, with reading progress.

`pyarrow.dataset` lists folders, splits folder names such as `day=2024-01-01` into columns, and reads Parquet. The value
in a folder name is text, as in CSV, and the settings define its meaning.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from beam_dpsketch.columns import plain_column
from beam_dpsketch.errors import UsageError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.base import is_bytes_type, is_text_type, unwrap_type
from beam_dpsketch.exact.domains.doors import Door
from beam_dpsketch.exact.domains.spelling import FLOAT, INTEGER, TEXT, Spelling, trim
from beam_dpsketch.exact.reading.columns import is_pointer_type
from beam_dpsketch.frames.steps.csv_files import CODECS, CsvFile, Say, declared_schema, open_bytes
from beam_dpsketch.frames.steps.plan import columns_of
from beam_dpsketch.frames.steps.tables import TableParts, empty_table

_PARQUET, _TEXT = (".parquet",), tuple(f"{kind}{packed}" for kind in (".csv", ".tsv") for packed in ("", *CODECS))
_SKIPPED = ("_", ".")
_ROWS = 1 << 17
_LENGTH = 4
"""Bytes of a length in Parquet, such as that before each plain value."""
_FOOTER = 8
"""Bytes of the metadata's length and the magic number, at the end of a Parquet file."""
_FACTOR = 4
"""Minimum rows per byte of metadata, to gain more from dictionaries than a second read of the metadata costs."""


class Position(NamedTuple):
    """Reading progress in bytes and files. Within a Parquet file, bytes are estimated from the share of rows."""

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


class _File(NamedTuple):
    """File with the release's columns.

    Attributes:
      path: its path.
      names: all columns in the file.
      types: types of the release's columns in the file.
      folders: the release's columns in the path, one row each.
      batches: yields the columns in the file, with the number of bytes read so far.
    """

    path: str
    names: list[str]
    types: dict[str, pa.DataType]
    folders: dict[str, pa.Array]
    batches: Callable[[], Iterator[tuple[pa.RecordBatch, int]]]

    def add_folders(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        columns = {name: batch[name] for name in self.types}
        for name, value in self.folders.items():
            if name not in columns:
                columns[name] = value.take(pa.repeat(0, len(batch)))
            elif not _equals(columns[name], value):
                words = f"the column {name!r} differs from the folder name, which must be equal to it in every row"
                raise UsageError(f"{self.path}: {words}. Rename the folder, or remove the column from the file")
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names=[*names])


def open_files(names: Sequence[str], declared: ReleaseSpec, on_read: OnRead, say: Say) -> Input:
    """Open files as a table with the release's columns, if present.

    Args:
      names: paths of files or folders, and patterns with wildcards. All files are Parquet, or all are text. Empty files
        and names that begin with `_` or `.` are skipped in folders and patterns.
      declared: the release.
      on_read: called after each batch.
      say: called with each note about a file.

    Raises `UsageError` for files that cannot be read as one table, `ConfigError`, and `OSError`.
    """
    paths = [path for name in names for path in _paths(name)]
    _refuse_repeated(paths)
    are_parquet = paths[0].lower().endswith(_PARQUET)
    for path in paths:
        if not path.lower().endswith(_PARQUET if are_parquet else _TEXT):
            words = "all files must end with .parquet, or all with .csv or .tsv, which .gz or .zst may follow"
            raise UsageError(f"{path}: {words}")
    if are_parquet:
        readables = declared.reader.readables(declared.sketch_input)
        kinds = {name: readables[argument].parsed for argument, name in columns_of(declared).items()}
        opened = [_open_parquet(path, kinds) for path in paths]
    else:
        opened = [_open_text(path, declared, say) for path in paths]
    types = _common_types(opened)
    every = [*dict.fromkeys([*opened[0].names, *types])]
    table = TableParts(every, empty_table(pa.schema([*types.items()])), _read(opened, [*types], on_read))
    text = table._replace(door=Door.TEXT_FILE, spelling=declared.csv or Spelling())
    return Input(paths, table if are_parquet else text)


def _open_parquet(path: str, kinds: dict[str, Any]) -> _File:
    """Open a Parquet file, to be read in its own types. Times of INT96 are in microseconds.

    Args:
      path: the file.
      kinds: the release's columns, and how their text is read.
    """
    import pyarrow.dataset as ds  # lazy import: slow

    def fragment_of(dictionaries: Sequence[str]) -> Any:
        options = ds.ParquetReadOptions(dictionary_columns=dictionaries, coerce_int96_timestamp_unit="us")
        form = ds.ParquetFileFormat(options, pre_buffer=True)
        return form.make_fragment(path, pa.fs.LocalFileSystem())

    size = os.path.getsize(path)
    with _reading(path, "is not Parquet, or is damaged" if size else "is empty"):
        fragment = fragment_of([])
        schema, rows = fragment.physical_schema, fragment.metadata.num_rows
        types = {field.name: field.type for field in schema if field.name in kinds}
        if repetitive := _repetitive(path, fragment.metadata, types):
            fragment = fragment_of(repetitive)
    for name in types:
        if schema.names.count(name) > 1:
            raise UsageError(f"{path}: has the column {name!r} twice. Rename a column")
    folders = _folders(path, [*kinds])
    for name in folders.keys() - types.keys():
        if kinds[name] in (INTEGER, FLOAT):
            number = Spelling().read(folders[name], kinds[name])
            folders[name] = folders[name] if number.null_count else number
        folders[name] = folders[name].dictionary_encode()

    def batches() -> Iterator[tuple[pa.RecordBatch, int]]:
        read = 0
        for group in fragment.split_by_row_group():  # a scan of the whole file reads far ahead, into memory
            for batch in group.to_batches(columns=[*types], batch_size=_ROWS):
                read += len(batch)
                yield batch, size * read // rows if read < rows else size

    return _File(path, schema.names, types, folders, batches)


def _repetitive(path: str, metadata: Any, types: dict[str, pa.DataType]) -> list[str]:
    """Select columns of text or bytes with so few distinct values that they are faster to read as dictionaries.

    These are stored as dictionaries, in fewer bytes than the lengths of plain values would need. None are selected from
    a file with a signature, because Arrow ends the process if it looks up the statistics of an encrypted column.
    """
    if _FACTOR * metadata.serialized_size > metadata.num_rows or _is_signed(path, metadata):
        return []
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]

    def is_repetitive(name: str) -> bool:
        chunks = [group.column(places[name]) for group in groups]
        if not all(chunk.has_dictionary_page and chunk.is_stats_set for chunk in chunks):
            return False
        values = sum(chunk.statistics.num_values for chunk in chunks)  # without nulls
        return sum(chunk.total_uncompressed_size for chunk in chunks) < _LENGTH * values

    return [name for name, kind in types.items() if (is_text_type(kind) or is_bytes_type(kind)) and is_repetitive(name)]


def _is_signed(path: str, metadata: Any) -> bool:
    """Whether a signature is behind the metadata, as in files with encrypted columns."""
    with open(path, "rb") as file:
        file.seek(-_FOOTER, os.SEEK_END)
        return int.from_bytes(file.read(_LENGTH), "little") != metadata.serialized_size


def _open_text(path: str, declared: ReleaseSpec, say: Say) -> _File:
    """Open a CSV file with a header. Empty fields are null."""
    file = CsvFile(path, say, drops=declared.unreadable == "drop")
    with _reading(path):
        header = file.header()
    folders = _folders(path, [*columns_of(declared).values()])
    schema = declared_schema(path, [*header, *(folders.keys() - {*header})], declared)
    own = [name for name in schema.names if name in header]
    return _File(path, header, dict.fromkeys(own, TEXT), folders, functools.partial(file.batches, own or header[:1]))


def _folders(path: str, names: Sequence[str]) -> dict[str, pa.Array]:
    """Find columns in a path such as `day=2024-01-01/part-0.csv`. An empty value is null, as in CSV."""
    import pyarrow.dataset as ds  # lazy import: slow

    form = ds.HivePartitioning(pa.schema([(name, TEXT) for name in dict.fromkeys(names)]))
    found = ds.get_partition_keys(form.parse(os.fsencode(path)))
    named = [part.partition("=")[0] for part in os.path.dirname(path).split(os.sep) if "=" in part]
    for name in found:
        if named.count(name) > 1:
            raise UsageError(f"{path}: has the column {name!r} in several folder names. Rename a folder")
    return {name: pa.array([text or None], TEXT) for name, text in found.items()}


def _equals(column: pa.Array, folder: pa.Array) -> bool:
    """Whether a column of a file is the folder's value in every row."""
    plain = plain_column(column)
    kind = unwrap_type(plain.type)
    plain = trim(plain.cast(TEXT)) if kind == TEXT else plain.cast(kind)
    if folder.null_count:
        return plain.null_count == len(plain)
    try:
        same = pc.equal(plain, folder.cast(kind)[0])
    except pa.ArrowInvalid:  # text without a value of this type
        return not len(plain)
    return pc.all(same, skip_nulls=False, min_count=0).as_py() is True


def _common_types(files: Sequence[_File]) -> dict[str, pa.DataType]:
    """Look up the type of each column. Refuse files with other columns, or with columns of incompatible types."""
    known: dict[str, tuple[str, pa.DataType]] = {}
    found = [{name: value.type for name, value in file.folders.items()} | file.types for file in files]
    for file, types in zip(files, found, strict=True):
        for name, given in types.items():
            other, kind = known.get(name, (file.path, given))
            if len({_family(kind), _family(given)} - {""}) > 1:
                words = f"has type {given}, but type {kind} in {other}. Use the same type in all files"
                raise UsageError(f"{file.path}: the column {name!r} {words}")
            known[name] = (file.path, given) if pa.types.is_null(kind) else (other, kind)
    for file, types in zip(files, found, strict=True):
        if missing := known.keys() - types.keys():
            name = min(missing)
            words = f"has no column {name!r}, unlike {known[name][0]}. Use the same columns in all files"
            raise UsageError(f"{file.path}: {words}")
    return {name: kind for name, (_, kind) in known.items()}


def _family(kind: pa.DataType) -> str:
    """Classify column types so that equal values in a class are equal items. Empty for null columns."""
    kind = unwrap_type(kind)
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_timestamp(kind):
        return "times" if kind.tz is None else "times in UTC"
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_date, is_text_type, is_bytes_type)
    return next((test.__name__ for test in tests if test(kind) and not is_pointer_type(kind)), str(kind))


def _read(files: Sequence[_File], names: Sequence[str], on_read: OnRead) -> Iterator[pa.RecordBatch]:
    sizes = [os.path.getsize(file.path) for file in files]
    before, total = 0, sum(sizes)
    for done, (file, size) in enumerate(zip(files, sizes, strict=True)):
        with _reading(file.path):
            for batch, read in file.batches():
                yield file.add_folders(batch, names)
                on_read(Position(before + read, total, done + (read == size), len(files)))
        before += size


@contextlib.contextmanager
def _reading(path: str, problem: str = "a part of the file cannot be read. The file may be damaged") -> Iterator[None]:
    try:
        yield
    except UsageError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # the message may contain bytes of the file
        if isinstance(error, OSError) and error.errno:  # from the system, not from Arrow
            raise
        raise UsageError(f"{path}: {problem}") from None


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
    is_folder = os.path.isdir(name)
    if os.path.exists(name) and not is_folder:
        return [name]
    if not is_folder and "**" in name.split(os.sep):
        words = "a pattern must not contain **. Pass the folder, which is read with all folders in it"
        raise UsageError(f"{name}: {words}")
    found = [name] if is_folder else [path for path in sorted(glob.glob(name)) if _is_wanted(path, name)]
    listed = [path for each in found for path in (_files_in(each) if os.path.isdir(each) else [each])]
    paths = [path for path in listed if _has_content(path)]
    if not paths:
        remote = (
            ". Only local files are supported. Use a pipeline or Beam YAML for remote files" if "://" in name else ""
        )
        nothing = "with content is in" if listed else "is in the folder" if is_folder else "matches"
        raise UsageError(f"no file {nothing} {name}{remote}")
    return paths


def _is_wanted(path: str, pattern: str) -> bool:
    """Whether no part of a path begins with `_` or `.`, unless this part of the pattern does."""
    pairs = zip(*(os.path.normpath(each).split(os.sep) for each in (path, pattern)), strict=True)
    return all(part[:1] not in _SKIPPED or given[:1] == part[:1] for part, given in pairs)


def _files_in(folder: str) -> list[str]:
    """List the files in a folder and below, except names that begin with `_` or `.`. Refuse broken links."""
    import pyarrow.dataset as ds  # lazy import: slow

    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [each for each in folders if not each.startswith(_SKIPPED)]
        for path in (os.path.join(parent, each) for each in names if not each.startswith(_SKIPPED)):
            if not os.path.exists(path):  # the dataset would skip it
                raise UsageError(f"{path}: is a link to a missing file. Restore the file, or remove the link")
    nothing, local = pa.schema([]), pa.fs.LocalFileSystem()
    with _reading(folder, "the folder cannot be listed. File names must be UTF-8"):
        return ds.dataset(folder, nothing, "parquet", local, ignore_prefixes=[*_SKIPPED]).files


def _has_content(path: str) -> bool:
    with _reading(path), open_bytes(path) as (file, _):
        return bool(file.read(1))
