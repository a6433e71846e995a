"""Read tables part by part: pandas, Polars, Arrow, and other Arrow sources."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow.interchange import from_dataframe

from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains.doors import Door
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.reading.selectors import is_pandas_frame

ROWS = 1 << 18
"""Maximum rows per part."""
_NOT_IN_ARROW = ("Object", "Int128", "UInt128")
"""Polars types without an Arrow type. Objects would become their addresses."""
_FORMS = "a pandas or Polars DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader"


class TableParts(NamedTuple):
    """Table, readable once.

    Attributes:
      names: column names, which may repeat.
      empty: the table without rows.
      parts: rows, as batches for `RecordReader`.
      door: table source.
      spelling: number and time spelling, if all columns are text.
    """

    names: list[Any]
    empty: Any
    parts: Iterable[Any]
    door: Door = Door.ARROW
    spelling: Spelling | None = None


def open_table(table: Any, wanted: Collection[str]) -> TableParts:
    """Open a table in parts, with at least the wanted columns. Raise `TypeError` for other objects.

    Pandas data frames are not converted, because pipelines read their object columns value by value.
    """
    if isinstance(table, TableParts):
        return table
    if is_pandas_frame(type(table)):
        frames = (table.iloc[start : start + ROWS] for start in range(0, len(table), ROWS))
        return TableParts(list(table.columns), table.iloc[:0], frames, Door.PANDAS)
    names, door = None, Door.ARROW
    if type(table).__module__.partition(".")[0] == "polars" and type(table).__name__ == "DataFrame":
        names, door, table = list(table.columns), Door.POLARS, _select(table, wanted)
    reader = _to_reader(table)
    places = [place for place, name in enumerate(reader.schema.names) if name in wanted]
    types = pa.schema([(reader.schema.names[place], reader.schema.types[place]) for place in places])
    parts = _read_parts(reader, places, types)
    return TableParts(names or list(reader.schema.names), empty_table(types), parts, door)


def _select(table: Any, wanted: Collection[str]) -> Any:
    """Select the wanted columns from Polars. Raise if Arrow cannot represent the values of their types."""
    found = [name for name in table.columns if name in wanted]
    with AllAtOnce() as checks:
        for name in found:
            if (kind := str(table.schema[name])) in _NOT_IN_ARROW:
                code = Door.POLARS.cast("objects" if kind == "Object" else "text", name)
                words = f"has type {kind}, which Polars does not export by value. Convert it to text"
                checks.refuse(ArgumentTypeError(repr(name), f"{words}, for example with {code}", "E608"))
    return table.select(found)


def empty_table(types: pa.Schema) -> pa.Table:
    """Create an empty table with any types. Arrow's own function does not support all types."""
    return pa.Table.from_arrays([pa.nulls(0, kind) for kind in types.types], schema=types)


def _to_reader(table: Any) -> pa.RecordBatchReader:
    kind = type(table)
    if isinstance(table, pa.RecordBatchReader):
        return table
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return table.to_reader()
    if kind.__name__ == "LazyFrame":
        raise ArgumentTypeError("table", "must be collected, got a LazyFrame. Call lazy.collect() first", "E613")
    words = f"must be {_FORMS}, got {kind.__name__}"
    try:
        if hasattr(table, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(table)
        if hasattr(table, "to_arrow"):
            return table.to_arrow().to_reader()
        if hasattr(table, "__dataframe__"):
            return from_dataframe(table).to_reader()
    except Exception as error:  # from a library; the message could contain a value
        raise ArgumentTypeError(
            "table", f"{words}, which cannot be read as columns ({type(error).__name__})", "E613"
        ) from None
    is_path = isinstance(table, (str, bytes, os.PathLike))
    fix = "Read it with pandas.read_csv, or use dpsketch run" if is_path else "Convert it with pyarrow.table(columns)"
    raise ArgumentTypeError("table", f"{words}. {fix}", "E613")


def _read_parts(reader: pa.RecordBatchReader, places: list[int], types: pa.Schema) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowException as error:
            raise ArgumentError(
                "",
                f"table: a part cannot be read ({type(error).__name__}). The message of Arrow is not shown, because it "
                "may contain data. Read the table alone to see it",
                "E613",
            ) from None
        wanted = pa.RecordBatch.from_arrays([batch.column(place) for place in places], schema=types)
        for start in range(0, len(wanted), ROWS):
            yield wanted.slice(start, ROWS)
