"""Tell batches of records from single records, and refuse containers that are never a record.

Guarantee: only types are looked at, never values, and a message names only a type. So an error is about the pipeline
and not about a record.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

_ARRAYS = (np.ndarray, pa.Array, pa.ChunkedArray)
_LISTS = (list, set, frozenset, collections.deque, types.GeneratorType)
_FRAMES = frozenset({"DataFrame", "LazyFrame"})
_PROTOCOLS = ("__dataframe__", "__arrow_c_stream__")


@functools.lru_cache(maxsize=1024)
def is_batch_type(kind: type) -> bool:
    """Return whether elements of this type hold many records; raise `TypeError` for unreadable data frames."""
    if issubclass(kind, (pa.RecordBatch, pa.Table)) or is_pandas_frame(kind):
        return True
    if issubclass(kind, _ARRAYS) or _is_pandas_type(kind, "Series"):
        return False
    if kind.__name__ in _FRAMES or any(hasattr(kind, protocol) for protocol in _PROTOCOLS):
        raise TypeError(
            f"an element is a {_full_name(kind)}: this is a container, not a record; make it a pyarrow Table "
            "(pyarrow.table(frame)) or a pandas DataFrame first"
        )
    return False


@functools.lru_cache(maxsize=1024)
def is_batch_type_by_name(kind: type) -> bool:
    """Do the same where a record is an item or has named fields; raise `TypeError` for lists and arrays too."""
    if issubclass(kind, _LISTS):
        raise TypeError(
            f"an element is a {_full_name(kind)}: this is a container, not a record; unpack it with "
            "beam.FlatMap(lambda records: records), or make it a pandas DataFrame or a pyarrow Table"
        )
    if issubclass(kind, _ARRAYS):
        raise TypeError(
            f"an element is a {_full_name(kind)}: this is a container, not a record; make it a pandas DataFrame or a "
            "pyarrow Table with named columns"
        )
    return is_batch_type(kind)  # type: ignore[arg-type]


def check_values(argument: str, values: Iterable[object]) -> None:
    """Refuse arrays where one value of a record is expected; lists count as data."""
    for kind in set(map(type, values)):
        if issubclass(kind, _ARRAYS) or _is_pandas_type(kind, "Series", "Index"):
            raise TypeError(
                f"{argument} selects a {_full_name(kind)}: this is a container, not a value; make a dict of columns a "
                "pyarrow Table (pyarrow.table(columns)) or a pandas DataFrame"
            )


def is_pandas_frame(kind: type) -> bool:
    """Return whether a type is the data frame of pandas, or a subclass."""
    return _is_pandas_type(kind, "DataFrame")


def _is_pandas_type(kind: type, *names: str) -> bool:
    """Return whether a type is one of these pandas types or a subclass."""
    return any(base.__name__ in names and base.__module__.split(".")[0] == "pandas" for base in kind.__mro__)


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
