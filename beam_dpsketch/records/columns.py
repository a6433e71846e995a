"""Columns of batches, by name: Arrow arrays, or lists of Python objects that are read as rows are.

A column that is missing, or whose type cannot be used, is an error. Its values are data: one that cannot be used is
left out, as in rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.records.selectors import Selector

_EXACT = 2.0**53
"""Floats below this stand for one integer each."""
_PLAIN = {str, int, float, type(None)}
"""Objects that Arrow reads as rows are read; of others it may make integers (of a UUID), or crash (of odd times)."""
_AS_IN_ROWS = (pa.string(), pa.large_string(), pa.int64(), pa.null())


class Readable(NamedTuple):
    """The types of columns that an argument reads, in words and as a question."""

    words: str
    reads: Callable[[pa.DataType], bool]


def is_hashable(kind: pa.DataType) -> bool:
    """Whether values of this type have canonical bytes."""
    if pa.types.is_dictionary(kind):
        return is_hashable(kind.value_type)
    if pa.types.is_nested(kind):
        return False
    return pa.types.is_integer(kind) or any(word in str(kind) for word in ("string", "binary", "null"))


def _is_weight(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


HASHED = Readable("text, bytes or integers", is_hashable)
WEIGHTS = Readable("whole numbers", _is_weight)


def batch_column(batch: Any, argument: str, selector: Selector, readable: Readable) -> pa.Array | list[Any]:
    """One column of a batch.

    Args:
      batch: a pyarrow RecordBatch or Table, or a pandas DataFrame.
      argument: what the column is for, as users call it.
      selector: its name.
      readable: the types that can be used; others are an error.
    """
    if not isinstance(selector, str):
        raise TypeError(f"{argument} must be a column name where elements are batches")
    is_arrow = isinstance(batch, (pa.RecordBatch, pa.Table))
    times = list(batch.schema.names if is_arrow else batch.columns).count(selector)
    if times != 1:
        problem = f"is the name of {times} columns" if times else "is not a column"
        raise ValueError(f"{argument}={selector!r} {problem} of the batch")
    selected = batch[selector]
    values = selected if is_arrow else _of_pandas(selected, readable)
    if values is None:
        raise TypeError(f"{argument}={selector!r}: the column is of type {selected.dtype}, unknown to Arrow")
    if isinstance(values, list):
        return values
    values = _plain(values, decode=argument == "weight")
    if not is_arrow and _is_numpy_float(selected.dtype) and not readable.reads(values.type):
        values = _whole(_plain(values, decode=True))
    if not readable.reads(values.type):
        raise TypeError(f"the {argument} column must hold {readable.words}, got {values.type}")
    return values


def _of_pandas(series: Any, readable: Readable) -> pa.Array | pa.ChunkedArray | list[Any] | None:
    """A column of a DataFrame, as a list if objects in it are to be read one by one, `None` if Arrow has no such type.

    The type of a column of objects is that of its values, which are data.
    """
    distinct = getattr(series.dtype, "categories", series)
    if _holds_objects(distinct.dtype) and not set(map(type, distinct)) <= _PLAIN:
        return series.tolist()
    try:
        values = pa.Array.from_pandas(series)
    except Exception:  # also of other libraries; the message would carry a value into the logs
        return series.tolist() if _holds_objects(distinct.dtype) or not isinstance(series.dtype, np.dtype) else None
    as_in_rows = values.type in _AS_IN_ROWS and readable.reads(values.type)
    return series.tolist() if _holds_objects(series.dtype) and not as_in_rows else values


def _holds_objects(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.hasobject


def _plain(values: pa.Array | pa.ChunkedArray, *, decode: bool) -> pa.Array:
    """One array, without runs, and without a dictionary if it is to be decoded or has nulls, which would not count."""
    if pa.types.is_run_end_encoded(values.type):
        try:
            values = pc.run_end_decode(values)
        except pa.ArrowNotImplementedError:
            raise TypeError(f"Arrow cannot decode a column of type {values.type}; decode it first") from None
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()  # which copies
    if pa.types.is_dictionary(values.type) and (decode or values.dictionary.null_count):
        values = values.dictionary_decode()
    return values


def _is_numpy_float(dtype: Any) -> bool:
    """Whether values, or categories, are of the type that pandas gives integers where one is missing."""
    return bool(getattr(getattr(dtype, "categories", None), "dtype", dtype) == np.float64)


def _whole(values: pa.Array) -> pa.Array:
    """The integers that floats stand for, null for others."""
    numbers = values.fill_null(np.nan).to_numpy()
    whole = (np.abs(numbers) < _EXACT) & (np.floor(numbers) == numbers)
    return pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)


def all_valid(*columns: pa.Array) -> np.ndarray:
    """Where no column has a null, as bool."""
    return functools.reduce(np.logical_and, (np.asarray(pc.is_valid(values)) for values in columns))
