"""Columns of records: columns of batches by name, privacy ids, and weights.

Columns of batches are Arrow arrays, or lists of Python objects that are read like rows. A missing column, or a column
with an unusable type, is an error. Its values are data: an unusable value is dropped, as in rows.

Privacy ids are int64 if all are numbers, otherwise canonical bytes. Guarantee: two ids are equal if and only if their
canonical bytes are, in either form. An int64 column is equivalent to the canonical bytes of its numbers and four times
cheaper to process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.columns import decode, mask_undecodable
from beam_dpsketch.encodings import encode_all, is_unicode
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains.base import (
    EXACT,
    has_text_form,
    is_bytes_type,
    is_text_type,
    is_whole_type,
    unwrap_type,
)
from beam_dpsketch.exact.domains.doors import Door, sentence
from beam_dpsketch.exact.domains.spelling import FLOAT, INTEGER, TEXT, TIME, Spelling, trim
from beam_dpsketch.exact.domains.timestamps import is_time_type, micros_in_data
from beam_dpsketch.exact.domains.weights import parse_weights
from beam_dpsketch.exact.reading.selectors import Selector

_PLAIN_TYPES = {str, int, float, type(None)}
"""Types that Arrow reads like rows. It converts other objects (a UUID) to integers, or crashes (odd times)."""
_AS_IN_ROWS = (pa.string(), pa.large_string(), pa.int64(), pa.null())


class Readable(NamedTuple):
    """Requirements for an argument's values.

    Attributes:
      description: description of usable columns.
      reads: whether columns with a type are usable.
      find: marks usable values in a list or a column, as bool.
      parsed: type that text in a CSV file is parsed to. `None` if text is the value itself.
      is_hashed: whether values count by their canonical bytes, which require integers instead of pandas floats.
      is_partial: whether a column with a usable type may contain unusable values.
      is_id: whether the values are privacy ids.
      instead: advice as an alternative to rounding fractions.
      domain: domain of the values. `None` for all values with canonical bytes, and for weights and times.
    """

    description: str
    reads: Callable[[pa.DataType], bool]
    find: Callable[[Any], np.ndarray]
    parsed: pa.DataType | None = None
    is_hashed: bool = False
    is_partial: bool = False
    is_id: bool = False
    instead: str = ""
    domain: Any = None

    @property
    def is_number(self) -> bool:
        """Whether values are numbers. Text counts only in files that contain only text."""
        return self.parsed in (INTEGER, FLOAT) and not self.is_hashed

    @property
    def is_whole(self) -> bool:
        """Whether whole numbers are usable, and numbers with a fraction are not."""
        return self.reads(pa.int64()) and not self.reads(pa.float64())

    def read(self, plain: pa.Array, spelling: Spelling | None) -> pa.Array:
        """Parse a plain column. Unusable values become null."""
        is_text = unwrap_type(plain.type) == TEXT
        if is_text and self.is_number and spelling is None:
            return pa.nulls(len(plain), self.parsed)
        if is_text and (spelling is not None or self.parsed == TIME):
            if self.parsed is None:
                return trim(plain, is_id=self.is_id)
            return (spelling or Spelling()).read(plain, self.parsed)
        return _to_integers(plain) if self.is_hashed and pa.types.is_floating(plain.type) else plain

    def usable(self, values: Any) -> np.ndarray:
        """Mark usable values in a list, or in the result of `read`."""
        is_typed = isinstance(values, pa.Array) and not (
            self.is_partial or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)
        )
        return np.asarray(values.is_valid()) if is_typed else self.find(values)

    def fix(self, kind: pa.DataType, door: Door, name: Any) -> str:
        """Advise how to convert a column with another type."""
        held, kind = kind, unwrap_type(kind)
        if is_pointer_type(kind) and self.is_hashed:
            return (
                "its bytes may be addresses of objects, which Polars passes in this form. Convert the column to text "
                f"first, for example with {Door.POLARS.cast('objects', name)}, or set opaque_bytes"
            )
        if (pa.types.is_floating(kind) or pa.types.is_decimal(kind)) and self.is_whole:
            return door.to_ids(name, held) if self.is_id else f"{door.round(name)}{self.instead}"
        if self.is_number:
            if is_text_type(kind):
                return door.to_numbers(name, self.parsed)
            return "convert the column to numbers" + f", for example with {door.cast('whole', name)}" * (
                pa.types.is_boolean(kind)
            )
        if self.parsed == TIME and (is_whole_type(kind) or pa.types.is_floating(kind)):
            return door.to_times(name, are_whole=is_whole_type(kind))
        if is_bytes_type(kind) and self.reads(TEXT) and not self.reads(kind):
            return f"convert the column to text, for example with {door.cast('decoded', name)}"
        if self.reads(TEXT):
            return door.to_text(name, held)
        return f"convert the column to bytes, for example with {door.cast('bytes', name)}"


def is_hashable(kind: pa.DataType) -> bool:
    """Whether values with this type have canonical bytes."""
    kind = unwrap_type(kind)
    return is_whole_type(kind) or has_text_form(kind) or is_bytes_type(kind)


def is_pointer_type(kind: pa.DataType) -> bool:
    """Whether a type may print memory addresses, which differ even between equal objects."""
    kind = unwrap_type(kind)
    return pa.types.is_fixed_size_binary(kind) and kind.byte_width == 8


def _identifies(kind: pa.DataType) -> bool:
    return is_hashable(kind) and not is_pointer_type(kind)


def _is_text(kind: pa.DataType) -> bool:
    return is_text_type(unwrap_type(kind)) and not pa.types.is_null(kind)


def _is_weight(kind: pa.DataType) -> bool:
    return is_whole_type(unwrap_type(kind))


def _to_integers(values: pa.Array) -> pa.Array:
    numbers = values.fill_null(np.nan).to_numpy()
    whole = (np.abs(numbers) < EXACT) & (np.floor(numbers) == numbers)
    return pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)


def _find_hashable(values: Any) -> np.ndarray:
    return all_valid(encode_all(values))


def _find_keys(values: Any) -> np.ndarray:
    found = _find_hashable(values)
    return found & [*map(is_unicode, values)] if isinstance(values, list) else found


def _find_weights(values: Any) -> np.ndarray:
    return parse_weights(values)[1]


def _find_times(values: Any) -> np.ndarray:
    return np.array([micros_in_data(value) is not None for value in values], dtype=bool)


HASHED = Readable(
    "text, bytes or integers", is_hashable, _find_hashable, is_hashed=True, instead=", or convert it to text"
)
IDS = HASHED._replace(reads=_identifies, is_id=True)
KEYS = HASHED._replace(reads=_identifies, find=_find_keys)
MONEY = ". For money, use a smaller unit: (amount * 100).round()"
WEIGHTS = Readable("whole numbers", _is_weight, _find_weights, INTEGER, instead=MONEY)
TIMES = Readable("times, dates, or text in ISO 8601", is_time_type, _find_times, TIME)


def readable_of(argument: str, items: Mapping[str, Readable], opaque: Sequence[str] = ()) -> Readable:
    """Look up the requirements of an argument, given the items, and the columns that may contain eight opaque bytes."""
    others = {"weight": WEIGHTS, "time": TIMES, "privacy_id": IDS, "key": KEYS}
    readable = {**others, **items}.get(argument, HASHED)
    return readable._replace(reads=is_hashable) if argument in opaque else readable


def batch_column(
    batch: Any, argument: str, selector: Selector, readable: Readable, tally: Any = None
) -> pa.Array | list[Any]:
    """Read a batch column. A `Tally` records its contents."""
    if not isinstance(selector, str):
        raise ArgumentTypeError(argument, "must be a column name, because the elements are batches", "E604")
    is_arrow = isinstance(batch, (pa.RecordBatch, pa.Table))
    times = list(batch.schema.names if is_arrow else batch.columns).count(selector)
    if times != 1:
        problem = f"is the name of {times} columns" if times else "is not a column"
        raise ArgumentError(f"{argument}={selector!r}", f"{problem} of the batch", "E606")
    selected = batch[selector]
    values = selected if is_arrow else _convert_series(selected, readable)
    if values is None:
        fix = sentence(Door.PANDAS.to_text(selector))
        words = f"has the type {selected.dtype}, which Arrow does not support. {fix}"
        raise ArgumentTypeError(f"{argument}={selector!r}", words, "E608")
    given, read = values, values
    if not isinstance(values, list):
        spelling = None if tally is None else tally.spelling
        are_floats = not is_arrow and readable.is_whole and is_numpy_float(selected.dtype)
        are_texts = spelling is not None and readable.parsed is not None
        are_texts |= tally is not None and tally.of_table and readable.is_number and _is_text(values.type)
        if not are_floats and not are_texts and not readable.reads(values.type):
            door = tally.door if tally is not None else Door.ARROW if is_arrow else Door.PANDAS
            fix = sentence(readable.fix(values.type, door, selector))
            words = f"must contain {readable.description}, got {values.type}. {fix}"
            raise ArgumentTypeError(f"{argument}={selector!r}", words, "E608")
        given = decode(values, as_times=readable.parsed == TIME)
        read = readable.read(mask_undecodable(given), spelling)
    if tally is not None:
        tally.note(argument, given, read)
    return read


def _convert_series(series: Any, readable: Readable) -> pa.Array | pa.ChunkedArray | list[Any] | None:
    """Convert a DataFrame column: to a list to read objects individually, to `None` if Arrow lacks the type.

    The type of an object column is that of its values, which are data.
    """
    distinct = getattr(series.dtype, "categories", series)
    if _holds_objects(distinct.dtype) and not set(map(type, distinct)) <= _PLAIN_TYPES:
        return series.tolist()
    try:
        values = pa.Array.from_pandas(series)
    except Exception:  # other libraries raise too; the message could leak a value into logs
        return series.tolist() if _holds_objects(distinct.dtype) or not isinstance(series.dtype, np.dtype) else None
    as_in_rows = values.type in _AS_IN_ROWS and readable.reads(values.type)
    return series.tolist() if _holds_objects(series.dtype) and not as_in_rows else values


def _holds_objects(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.hasobject


def is_numpy_float(dtype: Any) -> bool:
    """Whether values or categories are floats. Pandas converts integers to floats if a value is missing."""
    return bool(getattr(getattr(dtype, "categories", None), "dtype", dtype) == np.float64)


def all_valid(*columns: pa.Array) -> np.ndarray:
    """Mark rows without a null in any column, as bool."""
    return functools.reduce(np.logical_and, (np.asarray(pc.is_valid(values)) for values in columns))


_MAX_INT = np.iinfo(np.int64).max


def id_column(ids: Sequence[Any] | pa.Array) -> pa.Array:
    """Convert ids to int64 if all are numbers that fit, otherwise to canonical bytes. Unusable ids become null."""
    if isinstance(ids, pa.Array):
        return _convert_column(ids)
    if set(map(type, ids)) == {int}:
        try:
            return pa.array(np.array(ids, dtype=np.int64))
        except OverflowError:
            pass
    return encode_all(ids)


def _convert_column(ids: pa.Array) -> pa.Array:
    kind = ids.type
    if pa.types.is_dictionary(kind):
        return id_column(ids.dictionary).take(ids.indices)
    if pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(ids).as_py() or 0) <= _MAX_INT):
        return ids.cast(pa.int64())
    return encode_all(ids)


def encode_ids(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert an id column to canonical bytes."""
    if ids.type != pa.int64():
        return ids
    return pa.chunked_array([encode_all(chunk) for chunk in ids.chunks], pa.large_binary())
