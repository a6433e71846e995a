"""Read columns of batches by name: as Arrow arrays, or as lists of Python objects that are read like rows.

A missing column, or one of a type that cannot be used, is an error. Its values are data: a value that cannot be used
is dropped, as in rows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch._columns import plain_column
from beam_dpsketch.domains.base import is_bytes_type, is_number_type, is_text_type, unwrap_type
from beam_dpsketch.records.selectors import Selector

_EXACT = 2.0**53
"""Below it, a float represents one integer."""
_PLAIN_TYPES = {str, int, float, type(None)}
"""Objects that Arrow reads like rows; it makes integers of others (a UUID), or crashes (odd times)."""
_AS_IN_ROWS = (pa.string(), pa.large_string(), pa.int64(), pa.null())


class Readable(NamedTuple):
    """The types of columns that an argument reads: a description and a test."""

    description: str
    reads: Callable[[pa.DataType], bool]


def is_hashable(kind: pa.DataType) -> bool:
    """Return whether values of this type have canonical bytes."""
    kind = unwrap_type(kind)
    return pa.types.is_integer(kind) or is_text_type(kind) or is_bytes_type(kind)


def _is_weight(kind: pa.DataType) -> bool:
    kind = unwrap_type(kind)
    return is_number_type(kind) or pa.types.is_null(kind)


HASHED = Readable("text, bytes or integers", is_hashable)
WEIGHTS = Readable("whole numbers", _is_weight)


def batch_column(batch: Any, argument: str, selector: Selector, readable: Readable) -> pa.Array | list[Any]:
    """Read one column of a batch.

    Args:
      batch: a pyarrow RecordBatch or Table, or a pandas DataFrame.
      argument: the argument of the transform that names the column, for messages.
      selector: the name of the column.
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
    values = selected if is_arrow else _convert_series(selected, readable)
    if values is None:
        raise TypeError(f"{argument}={selector!r}: the column is of type {selected.dtype}, unknown to Arrow")
    if isinstance(values, list):
        return values
    if not is_arrow and _is_numpy_float(selected.dtype) and not readable.reads(values.type):
        values = _to_integers(plain_column(values))
    if not readable.reads(values.type):
        raise TypeError(f"the {argument} column must hold {readable.description}, got {values.type}")
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


def _is_numpy_float(dtype: Any) -> bool:
    """Return whether values, or categories, are floats: pandas makes integers floats where one is missing."""
    return bool(getattr(getattr(dtype, "categories", None), "dtype", dtype) == np.float64)


def _to_integers(values: pa.Array) -> pa.Array:
    """Convert floats that are whole numbers to integers, others to null."""
    numbers = values.fill_null(np.nan).to_numpy()
    whole = (np.abs(numbers) < _EXACT) & (np.floor(numbers) == numbers)
    return pa.array(np.where(whole, numbers, 0).astype(np.int64), mask=~whole)


def all_valid(*columns: pa.Array) -> np.ndarray:
    """Return where no column has a null, as bool."""
    return functools.reduce(np.logical_and, (np.asarray(pc.is_valid(values)) for values in columns))
