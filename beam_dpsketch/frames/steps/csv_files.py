"""Read CSV columns, in batches of text. Declared settings define the meaning of text.

Guarantee: the value of a field depends on its own text alone. No record changes how another counts.

A record is read by its own text alone, wherever it is in the file. Therefore, Python's `csv` reads it, and not Arrow,
which reads blocks: it drops an LF at the start of a block that follows a CR, even within quotes, and overlooks line
ends and quotes near a zero byte. An unclosed quote changes all later records, so such a file is refused. Blanks around
a field are layout: they are not part of it, and may precede a quote.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from beam_dpsketch.errors import ConfigError, UsageError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.doors import MOST, share_of
from beam_dpsketch.exact.domains.spelling import TEXT
from beam_dpsketch.frames.steps.plan import columns_of, nearest, path_of, reported
from beam_dpsketch.words import BLANKS

Say: TypeAlias = Callable[[str], object]
"""Callback for notes about a file."""
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
CODECS = {".gz": "gzip", ".zst": "zstd"}
"""Names in Arrow of compressed formats, by ending."""
_OTHER_FILES = {
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
    b"\x1f\x8b": "compressed by gzip (end its name with .gz)",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard (end its name with .zst)",
    b"PK\x03\x04": "a zip archive, such as .xlsx",
    b"PAR1": "Parquet",
}
"""First bytes of files in other formats."""


def declared_schema(path: str, names: Sequence[str], declared: ReleaseSpec) -> pa.Schema:
    """Create the schema of the file's columns for a release, as text.

    Raises if the first line lacks a column, or contains it twice. The line is not shown, because it may be a record.
    """
    columns = columns_of(declared)
    for argument, field in reported(columns).items():
        if field not in names:
            words = f"is not in the first line of {path!a}. The first line of a CSV file must contain column names"
            hint = _other_separator(path, names) or nearest(field, names, columns)
            raise ConfigError(path_of(argument), f"{field!r} {words}{hint}", "E810")
        if names.count(field) > 1:
            raise ConfigError(
                path_of(argument), f"{field!r} is in the first line of {path!a} twice. Rename a column", "E810"
            )
    listed = {argument: spec.items for argument, spec in declared.spec.fields.items() if spec.is_listed}
    for argument, values in [*listed.items(), *(("keys.public", each) for each in declared.reader.listed_keys)]:
        if {*map(type, values)} not in ({int}, {str}):
            words = "CSV files contain text or whole numbers. List only text or only whole numbers, or use Parquet"
            raise ConfigError("keys.public" if argument == "keys.public" else "listed_items", words)
    return pa.schema([(field, TEXT) for field in dict.fromkeys(columns.values())])


def _other_separator(path: str, names: Sequence[str]) -> str:
    """Write a hint if a single name contains a separator of columns in other files."""
    found = [word for mark, word in _SEPARATORS.items() if len(names) == 1 and mark in names[0]]
    used = _SEPARATORS[separator_of(path)]
    return f". This line has no {used}, but a {found[0]}. Write the file with {used}s between columns" if found else ""


def separator_of(path: str) -> str:
    """Look up the separator of columns: a tab in `.tsv` files."""
    return "\t" if path.lower().endswith(tuple(f".tsv{packed}" for packed in ("", *CODECS))) else ","


@contextlib.contextmanager
def open_bytes(path: str) -> Iterator[tuple[Any, Any]]:
    """Open a file that may be compressed, as its text in bytes, and as the file itself."""
    codec = CODECS.get(os.path.splitext(path)[1].lower())
    with open(path, "rb") as file:
        yield file if codec is None else io.BufferedReader(pa.CompressedInputStream(file, codec)), file


_ROWS = 128
"""Rows read as Python objects at once: few enough to stay in the processor's cache."""
_BATCH = 1024
"""Number of these row groups per batch."""


class CsvFile:
    """CSV file with a header. `say` is called with each note about it."""

    def __init__(self, path: str, say: Say, *, drops: bool = False) -> None:
        self._path, self._separator, self._say, self._drops = path, separator_of(path), say, drops
        self._lines = self._ragged = 0

    def header(self) -> list[str]:
        with self._open() as (file, _):
            return [name.strip(BLANKS) for name in next(self._rows(file))]

    def batches(self, names: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield these columns as text, with the number of bytes read so far.

        Empty fields are null. Lines with more or fewer fields than the first are dropped. Too many such lines are
        refused, unless dropping is allowed, and fewer cause a note.
        """
        with self._open() as (file, place):
            rows = self._rows(file)
            header = [name.strip(BLANKS) for name in next(rows)]
            places = [header.index(name) for name in names]
            few = iter(lambda: [*itertools.islice(rows, _ROWS)], [])
            parts = (self._columns(each, places, len(header)) for each in few)
            while some := [*itertools.islice(parts, _BATCH)]:
                columns = [pa.concat_arrays(column) for column in zip(*some, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=[*names]), place.tell()
        if self._ragged:
            share, ends = share_of(self._ragged, self._lines), "more or fewer fields than the first line"
            if self._ragged > MOST * self._lines and not self._drops:
                quoted = f"Write fields with {_SEPARATORS[self._separator]}s in quotes"
                words = f"{quoted}, or drop these lines with --unreadable drop"
                raise UsageError(f"{self._path}: {share} of the lines have {ends}. {words}. Nothing was spent.")
            self._say(f"{self._path}: {share} of the lines have {ends}, and were dropped")

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[Any, Any]]:
        with open_bytes(self._path) as (data, file):
            for mark, kind in _OTHER_FILES.items():
                if data.peek(4).startswith(mark):
                    raise UsageError(f"{self._path}: the file must be CSV, got {kind}. Write it as CSV text in UTF-8")
            yield io.TextIOWrapper(data, "utf-8-sig", "surrogateescape", newline=""), file

    def _rows(self, file: Any) -> Iterator[list[str]]:
        try:
            lines = csv.reader(file, delimiter=self._separator, strict=True, skipinitialspace=True)
            rows = filter(None, lines)
            if (header := next(rows, None)) is None:
                raise UsageError(f"{self._path}: the first line is missing. It must contain column names")
            yield header
            yield from rows
        except csv.Error:  # the message may contain text of the file
            raise UsageError(
                f"{self._path}: a field in quotes does not end with a quote, or a field is longer than "
                f"{csv.field_size_limit():,} characters. Later records cannot be read. Write quotes within a field "
                "twice"
            ) from None

    def _columns(self, rows: list[list[str]], places: list[int], size: int) -> list[pa.Array]:
        whole = [row for row in rows if len(row) == size]
        self._lines += len(rows)
        self._ragged += len(rows) - len(whole)
        return [_to_texts([*map(operator.itemgetter(place), whole)]) for place in places]


def _to_texts(values: list[str]) -> pa.Array:
    try:
        return pa.array([value or None for value in values], TEXT)
    except UnicodeEncodeError:  # bytes that are not UTF-8 are surrogate halves here, and are read as such
        data = [value.encode("utf-8", "surrogateescape") or None for value in values]
        return pa.array(data, pa.large_binary()).view(TEXT)
