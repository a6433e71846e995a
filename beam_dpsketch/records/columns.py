"""Columns of records: those of batches by name, privacy ids, and weights.

Columns of batches are Arrow arrays, or lists of Python objects that are read like rows. A missing column, or one of a
type that cannot be used, is an error. Its values are data: a value that cannot be used is dropped, as in rows.

Privacy ids are int64 if all are numbers, else canonical bytes. Guarantee: two ids are equal if and only if their
canonical bytes are, in either form. An int64 column is equivalent to the canonical bytes of its numbers and four times
cheaper to process.

Weights are 64-bit whole numbers. Others are masked, because an error would reveal one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch._columns import plain_column, plain_value
from beam_dpsketch.domains.base import has_text_form, is_bytes_type, is_real, is_whole_type, unwrap_type
from beam_dpsketch.domains.timestamps import is_time_type
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.hashing.encodings import encode_all
from beam_dpsketch.records.selectors import Selector

_EXACT = 2.0**53
"""Below it, a float represents one integer."""
_PLAIN_TYPES = {str, int, float, type(None)}
"""Objects that Arrow reads like rows; it makes integers of others (a UUID), or crashes (odd times)."""
_AS_IN_ROWS = (pa.string(), pa.large_string(), pa.int64(), pa.null())


_CASTS = (pa.timestamp("ms"), pa.string(), pa.float64(), pa.int64())
"""To what a column may be cast, in the order of what people mean."""
_ROUND_IT = (
    'round it, as with pc.round(column).cast("int64") in Arrow, column.round().astype("Int64") in pandas, or '
    "CAST(ROUND(x) AS BIGINT) in SQL"
)


class Readable(NamedTuple):
    """The types of columns that an argument reads.

    Attributes:
      description: what they hold, in words.
      reads: whether a type is one of them.
      read_floats: how floats of pandas are read where whole numbers are.
      instead: what else to do than to round fractions, in words.
    """

    description: str
    reads: Callable[[pa.DataType], bool]
    read_floats: Callable[[pa.Array], pa.Array] = plain_column
    instead: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether whole numbers are read, and numbers with a fraction are not."""
        return self.reads(pa.int64()) and not self.reads(pa.float64())

    @property
    def rounding(self) -> str:
        """What to do about numbers with a fraction."""
        return f"{_ROUND_IT}{self.instead}"

    def fix(self, kind: pa.DataType) -> str:
        """Return what to do about a column of another type."""
        kind = unwrap_type(kind)
        if self.is_whole and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            return self.rounding
        wanted = next(filter(self.reads, _CASTS), pa.binary())
        if pa.types.is_timestamp(wanted) and is_whole_type(kind):
            return 'make times of it, as with pandas.to_datetime(column, unit="s") of seconds, or unit="ms"'
        return f'cast it, as with pc.cast(column, "{wanted}")'


def is_hashable(kind: pa.DataType) -> bool:
    """Return whether values of this type have canonical bytes."""
    kind = unwrap_type(kind)
    return is_whole_type(kind) or has_text_form(kind) or is_bytes_type(kind)


def _is_weight(kind: pa.DataType) -> bool:
    return is_whole_type(unwrap_type(kind))


def _to_integers(values: pa.Array) -> pa.Array:
    numbers = values.fill_null(np.nan).to_numpy()
    whole = (np.abs(numbers) < _EXACT) & (np.floor(numbers) == numbers)
    return pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)


HASHED = Readable(
    "text, bytes or integers", is_hashable, _to_integers, ', or cast it to text: pc.cast(column, "string")'
)
WEIGHTS = Readable("whole numbers", _is_weight, instead="; count money in its small unit: (amount * 100).round()")
TIMES = Readable("times, dates, or text in ISO 8601", is_time_type)


def readable_of(argument: str, items: Mapping[str, Readable]) -> Readable:
    """Return what an argument reads, given what items are."""
    return {**items, "weight": WEIGHTS, "time": TIMES}.get(argument, HASHED)


def batch_column(batch: Any, argument: str, selector: Selector, readable: Readable) -> pa.Array | list[Any]:
    """Read one column of a batch."""
    if not isinstance(selector, str):
        raise ArgumentTypeError(argument, "must be a column name where elements are batches", "E604")
    is_arrow = isinstance(batch, (pa.RecordBatch, pa.Table))
    times = list(batch.schema.names if is_arrow else batch.columns).count(selector)
    if times != 1:
        problem = f"is the name of {times} columns" if times else "is not a column"
        raise ArgumentError(f"{argument}={selector!r}", f"{problem} of the batch", "E606")
    selected = batch[selector]
    values = selected if is_arrow else _convert_series(selected, readable)
    if values is None:
        raise ArgumentTypeError(f"{argument}={selector!r}", f"is of type {selected.dtype}, unknown to Arrow", "E608")
    if isinstance(values, list):
        return values
    if not is_arrow and readable.is_whole and is_numpy_float(selected.dtype):
        return readable.read_floats(plain_column(values))
    if not readable.reads(values.type):
        words = f"must hold {readable.description}, got {values.type}; {readable.fix(values.type)}"
        raise ArgumentTypeError(f"{argument}={selector!r}", words, "E608")
    return plain_column(values)


def _convert_series(series: Any, readable: Readable) -> pa.Array | pa.ChunkedArray | list[Any] | None:
    """Convert a DataFrame column; to a list if objects are to be read one by one, to `None` if Arrow lacks its type.

    The type of a column of objects is that of its values, which are data.
    """
    distinct = getattr(series.dtype, "categories", series)
    if _holds_objects(distinct.dtype) and not set(map(type, distinct)) <= _PLAIN_TYPES:
        return series.tolist()
    try:
        values = pa.Array.from_pandas(series)
    except Exception:  # other libraries raise too; the message could carry a value into the logs
        return series.tolist() if _holds_objects(distinct.dtype) or not isinstance(series.dtype, np.dtype) else None
    as_in_rows = values.type in _AS_IN_ROWS and readable.reads(values.type)
    return series.tolist() if _holds_objects(series.dtype) and not as_in_rows else values


def _holds_objects(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.hasobject


def is_numpy_float(dtype: Any) -> bool:
    """Return whether values, or categories, are floats: pandas makes integers floats where one is missing."""
    return bool(getattr(getattr(dtype, "categories", None), "dtype", dtype) == np.float64)


def all_valid(*columns: pa.Array) -> np.ndarray:
    """Return where no column has a null, as bool."""
    return functools.reduce(np.logical_and, (np.asarray(pc.is_valid(values)) for values in columns))


_MAX_INT = np.iinfo(np.int64).max


def id_column(ids: Sequence[Any] | pa.Array) -> pa.Array:
    """Return ids as int64 if all are numbers that fit, else as canonical bytes; null where one cannot be encoded."""
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
    """Convert a column of ids to canonical bytes."""
    if ids.type != pa.int64():
        return ids
    return pa.chunked_array([encode_all(chunk) for chunk in ids.chunks], pa.large_binary())


_MAX_WEIGHT = np.iinfo(np.int64).max


def parse_weights(weights: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return weights as int64, and where they were whole numbers; elsewhere the weight is 0.

    Weights that do not fit are clipped symmetrically, so that an insert and its delete still cancel.
    """
    if isinstance(weights, pa.Array) and not pa.types.is_decimal(weights.type):
        return _parse_column(weights)
    weights = weights.to_pylist() if isinstance(weights, pa.Array) else weights
    if set(map(type, weights)) == {int}:
        try:
            return np.array(weights, dtype=np.int64), np.ones(len(weights), dtype=bool)
        except OverflowError:
            pass
    numbers = [_clip_whole(weight) for weight in weights]
    mask = np.array([number is not None for number in numbers], dtype=bool)
    return np.array([number or 0 for number in numbers], dtype=np.int64), mask


def any_negative(weights: Sequence[Any] | pa.Array) -> bool:
    """Return whether a weight is below 0."""
    return bool((parse_weights(weights)[0] < 0).any())


def _clip_whole(weight: Any) -> int | None:
    weight = plain_value(weight)
    if not is_real(weight) or (not isinstance(weight, (int, np.integer)) and not float(weight).is_integer()):
        return None
    return max(-_MAX_WEIGHT, min(_MAX_WEIGHT, int(weight)))


def _parse_column(weights: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    mask = np.asarray(weights.is_valid())
    if pa.types.is_null(weights.type):
        return np.zeros(len(weights), dtype=np.int64), mask
    values = weights.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        mask = mask & np.isfinite(values) & (np.floor(values) == values)
        values = np.where(mask, values, 0).astype(np.float64)
        large = np.abs(values) >= 2.0**63
        whole = np.where(large, 0, values).astype(np.int64)
        return np.where(large, np.where(values < 0, -_MAX_WEIGHT, _MAX_WEIGHT), whole), mask
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(_MAX_WEIGHT))
    return np.maximum(values.astype(np.int64), -_MAX_WEIGHT), mask
