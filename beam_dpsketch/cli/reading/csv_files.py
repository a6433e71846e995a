"""Read columns of CSV files as text, in batches.

Guarantee: a record is read by its own text alone, wherever it lies in the file. So Python's `csv` reads it, and not
Arrow, which reads blocks: it drops an LF at the start of a block that follows a CR, also within quotes, and overlooks
line ends and quotes near a zero byte. A quote that does not close changes what all records after it are, so such a file
is refused.
"""

from __future__ import annotations

import csv
import itertools
import operator
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from beam_dpsketch.cli.reading.csv_columns import TEXT
from beam_dpsketch.cli.text import UsageError, note
from beam_dpsketch.hashing.encodings import is_unicode

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
        """Return the names in the first line."""
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
        """Yield lines that are not empty; there is one at least."""
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
