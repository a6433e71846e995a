"""Read columns of CSV files, in batches, as the types that settings declare.

Guarantee: types never depend on the data, and what a field is read as depends on its own text alone, so that no record
changes what another counts. What is not of its type is null, which drops the record in silence, as in pipelines; whole
numbers beyond int64 move to its ends, as a domain moves them to its own.

A record is read by its own text alone, wherever it lies in the file. So Python's `csv` reads it, and not
Arrow, which reads blocks: it drops an LF at the start of a block that follows a CR, also within quotes, and overlooks
line ends and quotes near a zero byte. A quote that does not close changes what all records after it are, so such a file
is refused.
"""

from __future__ import annotations

import csv
import itertools
import operator
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.cli.text import UsageError, note
from beam_dpsketch.domains.timestamps import read_iso
from beam_dpsketch.errors import ConfigError
from beam_dpsketch.frames.plan import MOST_FRACTIONS, SOME_FRACTIONS, columns_of, nearest, path_of
from beam_dpsketch.hashing.encodings import is_unicode
from beam_dpsketch.records.columns import readable_of
from beam_dpsketch.records.release_spec import ReleaseSpec

INTEGER, FLOAT, TIME, TEXT = pa.int64(), pa.float64(), pa.timestamp("us", "UTC"), pa.large_string()
_SEPARATORS = {";": "semicolon", "\t": "tab", "|": "vertical bar"}
_LOWEST, _HIGHEST = Decimal(-(1 << 63)), Decimal((1 << 63) - 1)


def column_types(declared: ReleaseSpec) -> dict[str, pa.DataType]:
    """Return the type of each column that a release reads."""
    columns = columns_of(declared)
    items = {argument: _item_type(spec) for argument, spec in declared.spec.fields.items()}
    kinds = {**items, "weight": INTEGER, "privacy_id": TEXT, "key": _key_type(declared), "time": TIME}
    types: dict[str, pa.DataType] = {}
    for argument, field in columns.items():
        if types.setdefault(field, kinds[argument]) != kinds[argument]:
            raise ConfigError(
                argument,
                f"the column {field!r} is read as two types, as text and as numbers; CSV has one type for a "
                "column: copy the column, or take Parquet",
            )
    return types


def declared_schema(path: str, names: Sequence[str], declared: ReleaseSpec) -> pa.Schema:
    """Return the columns that a release reads of a file, with their types.

    A first line that lacks one, or has it twice, is refused. It may be a record, so it is not shown.
    """
    columns = columns_of(declared)
    for argument, field in columns.items():
        if field not in names:
            words = f"is not in the first line of {path!a}, which must name the columns"
            hint = _other_separator(names) or nearest(field, names, columns)
            raise ConfigError(path_of(argument), f"{field!r} {words}{hint}", "E810")
        if names.count(field) > 1:
            raise ConfigError(path_of(argument), f"{field!r} is in the first line of {path!a} twice", "E810")
    return pa.schema([*column_types(declared).items()])


def _other_separator(names: Sequence[str]) -> str:
    """Return a hint where one name holds what separates columns elsewhere."""
    found = [word for mark, word in _SEPARATORS.items() if len(names) == 1 and mark in names[0]]
    return f"; it has no comma and a {found[0]}: write the file with commas between columns" if found else ""


def convert(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of text as another type, with nulls for what is not of it."""
    if kind == TEXT:
        return column
    if pc.all(pc.match_substring_regex(column, _PLAIN[kind])).as_py() is not False:  # nulls do not count
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid:  # there is no such day
            pass
    return pa.array([_read(text, _READERS[kind]) for text in column.to_pylist()], kind)


class Fractions:
    """Counts values with a point where whole numbers are read, and in ids of people; the first line gives no types."""

    def __init__(self, declared: ReleaseSpec) -> None:
        types = column_types(declared)
        self._read = {
            argument: (field, readable_of(argument, declared.sketch_input.readables))
            for argument, field in columns_of(declared).items()
            if argument == "privacy_id" or types[field] == INTEGER
        }
        self._present: Counter[str] = Counter()
        self._fractions: Counter[str] = Counter()

    def note(self, texts: pa.RecordBatch, columns: pa.RecordBatch) -> None:
        """Note columns, as text and as they are read."""
        for argument, (field, _) in self._read.items():
            text, is_id = texts[field], argument == "privacy_id"
            self._present[argument] += len(text) - text.null_count
            if is_id or columns[field].null_count > text.null_count:
                with_point = pc.match_substring_regex(text, _WITH_POINT)
                counted = with_point if is_id else pc.and_(with_point, columns[field].is_null())
                self._fractions[argument] += pc.sum(counted).as_py() or 0

    def check(self) -> None:
        """Refuse columns with many such values; say where whole numbers have some."""
        for argument, (field, readable) in self._read.items():
            if self._fractions[argument] > MOST_FRACTIONS * self._present[argument]:
                words = f"{field!r} must hold {readable.description}, and many of its values have a point; "
                raise ConfigError(path_of(argument), words + readable.rounding, "E608")
            if self._fractions[argument] and argument != "privacy_id":
                note(f"{argument}={field!r} {SOME_FRACTIONS}; {readable.rounding}")


def _item_type(spec: Any) -> pa.DataType:
    if spec.is_listed:
        return _listed_type(spec.items, "items")
    return spec.domain.column_type if spec.domain else TEXT


def _key_type(declared: ReleaseSpec) -> pa.DataType:
    listed = declared.public_keys
    return _listed_type(listed, "keys.public") if listed else TEXT


def _listed_type(values: Iterable[Any], path: str) -> pa.DataType:
    """Return the type of listed values; refuse those that a column of CSV would never hold."""
    kinds = {*map(type, values)}
    if kinds not in ({int}, {str}):
        raise ConfigError(
            path,
            "CSV holds text or whole numbers, so other listed values would never be found: give all as text "
            "or all as whole numbers, or take Parquet",
        )
    return INTEGER if kinds == {int} else TEXT


def _read(text: str | None, read: Callable[[str], Any]) -> Any:
    try:
        return None if text is None else read(text.strip(" \t"))
    except (ValueError, OverflowError):
        return None


def _whole(text: str) -> int | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = min(max(Decimal(text), _LOWEST), _HIGHEST)
    return int(number) if number == int(number) else None


def _real(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text) else None


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,4})?", re.ASCII | re.IGNORECASE)
_WITH_POINT = r"^[ \t]*[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[ \t]*$"
_INFINITE = re.compile(r"[-+]?inf(inity)?", re.ASCII | re.IGNORECASE)
_READERS: dict[pa.DataType, Callable[[str], Any]] = {INTEGER: _whole, FLOAT: _real, TIME: read_iso}
_PLAIN = {
    INTEGER: r"^-?[0-9]{1,18}$",
    FLOAT: r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    TIME: r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
}
"""Text that Arrow reads as `_READERS` does. It is faster, but reads more than they do: 0x1F, or 08:00+01."""


_ROWS = 128
"""Rows that are read as Python objects at once: few, so that they stay in the processor's cache."""
_BATCH = 1024
"""How many of these make a batch."""
_ZERO = "\udc00"
"""Stands for a zero byte, which `csv` of Python 3.10 refuses; no byte is decoded to it."""


class CsvFile:
    """A CSV file with a header."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_ragged, self._is_whole, self._is_decoded = False, False, True

    def header(self) -> list[str]:
        with self._open() as file:
            return next(self._rows(file))

    def batches(self, names: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield these columns as text, and how many bytes of the file are read so far.

        Empty fields are null, and so is text that is not UTF-8. Lines with more or fewer fields than the first are left
        out. A note says of either that it happened.
        """
        with self._open() as file:
            rows = self._rows(file)
            header = next(rows)
            places = [header.index(name) for name in names]
            few = iter(lambda: [*itertools.islice(rows, _ROWS)], [])
            parts = (self._columns(each, places, len(header)) for each in few)
            while some := [*itertools.islice(parts, _BATCH)]:
                columns = [pa.concat_arrays(column) for column in zip(*some, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=[*names]), file.buffer.tell()
        if self._is_ragged:
            which, end = (
                ("lines with", " were left out") if self._is_whole else ("all lines have", ", so none was read")
            )
            note(f"{self._path}: {which} more or fewer fields than the first line{end}")
        if not self._is_decoded:
            note(f"{self._path}: text that is not UTF-8 was left out")

    def _open(self) -> Any:
        return open(self._path, encoding="utf-8-sig", errors="surrogateescape", newline="")

    def _rows(self, file: Any) -> Iterator[list[str]]:
        try:
            rows = filter(None, _read_lines(file) if sys.version_info < (3, 11) else csv.reader(file, strict=True))
            if (header := next(rows, None)) is None:
                raise UsageError(f"{self._path}: has no first line, which must name the columns")
            yield header
            yield from rows
        except csv.Error:  # the message may hold text of the file
            raise UsageError(
                f"{self._path}: a field in quotes does not end with a quote, or a field is longer than "
                f"{csv.field_size_limit():,} characters; records after it would be lost: write quotes within a field "
                "twice"
            ) from None

    def _columns(self, rows: list[list[str]], places: list[int], size: int) -> list[pa.Array]:
        whole = [row for row in rows if len(row) == size]
        self._is_ragged |= len(whole) < len(rows)
        self._is_whole |= bool(whole)
        return [self._text([*map(operator.itemgetter(place), whole)]) for place in places]

    def _text(self, values: list[str]) -> pa.Array:
        present = [value or None for value in values]
        try:
            return pa.array(present, TEXT)
        except UnicodeEncodeError:  # bytes that are not UTF-8 are halves of surrogate pairs here
            self._is_decoded = False
            return pa.array([value if value and is_unicode(value) else None for value in values], TEXT)


def _read_lines(file: Iterable[str]) -> Iterator[list[str]]:
    """Yield the rows of a file that may have zero bytes, as later versions of Python do."""
    for row in csv.reader((line.replace("\0", _ZERO) for line in file), strict=True):
        yield [field.replace(_ZERO, "\0") for field in row]
