"""Answers as tables, and single answers: named tuples with the clipping of their release, without arithmetic.

Guarantee: post-processing of answers. A table has the columns that `dpsketch query` and the rows of pipelines have.
"""

from __future__ import annotations

import datetime
import importlib
import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.showing import short

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Answer = TypeVar("Answer", bound="OneAnswer")


class Tabular:
    """Answer that converts to tables. Values are plain: IPv4 addresses are text, and times have a time zone."""

    def _table(self) -> dict[str, Any]:
        """List the columns, as arrays of float64 or sequences."""
        raise NotImplementedError

    def _plain_columns(self) -> dict[str, Any]:
        columns = self._table().items()
        return {name: each if isinstance(each, np.ndarray) else [*map(_plain, each)] for name, each in columns}

    def to_rows(self) -> list[dict[str, Any]]:
        """Convert to one plain dict per row, with Python numbers."""
        columns = self._plain_columns()
        lists = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def to_arrow(self) -> pa.Table:
        """Convert to a pyarrow table. Raises `TypeError` for items without a common Arrow type."""
        try:
            table = pa.table(self._plain_columns())
        except (pa.ArrowException, OverflowError):
            raise ArgumentTypeError("", "These items have no common Arrow type. Use to_rows()", "E715") from None
        place = table.schema.get_field_index("estimate")
        if place >= 0 and pa.types.is_null(table["estimate"].type):  # all are unknown
            table = table.set_column(place, "estimate", table["estimate"].cast(table["lower"].type))
        return table

    def to_pandas(self) -> pd.DataFrame:
        """Convert to a pandas data frame, as `to_arrow`. Raises `ImportError` if pandas is not installed."""
        _require("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Convert to a Polars data frame, as `to_arrow`. Raises `ImportError` if Polars is not installed."""
        frame: pl.DataFrame = _require("polars").from_arrow(self.to_arrow())
        return frame


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return str(value) if isinstance(value, ipaddress.IPv4Address) else value


def _require(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        words = f"to_{library}() requires {library}, which is not installed: pip install 'beam-dpsketch[{library}]'"
        raise ImportError(f"{words}. Without it, use to_arrow() or to_rows()") from None


class Note(NamedTuple):
    """Warning about an answer.

    Attributes:
      code: the code for programs, equal in all versions. `docs/beam_yaml.md` lists the codes.
      message: a sentence for people. Its numbers are noisy or public.
    """

    code: str
    message: str


CANNOT_TELL = Note(
    "too_few_records",
    "Too few records (or more than the counters can represent) for an estimate: any value in the interval is possible.",
)


def _among_answers(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda self, other: compare(self, other) if isinstance(other, OneAnswer) else self._refuse()


class OneAnswer(Tabular):
    """Single answer, a named tuple whose last fields are the estimate, the lower and the upper bound.

    Attributes:
      clipping: the clipping of its release, or `None` if made by hand.
    """

    clipping: Clipping | None = None
    _row: Mapping[str, Any] | None = None

    def of(self: Answer, clipping: Clipping | None, row: Mapping[str, Any] | None = None) -> Answer:
        """Attach clipping to a new answer, and its whole row if this has more columns. Return the answer."""
        self.clipping, self._row = clipping, row
        return self

    @property
    def notes(self: Any) -> tuple[Note, ...]:
        """A note if the estimate is unknown."""
        return (CANNOT_TELL,) if self[-3] is None else ()

    def _table(self: Any) -> dict[str, Any]:
        return {name: [value] for name, value in (self._row or self._asdict()).items()}

    def __float__(self: Any) -> float:
        estimate = self[-3]
        if not isinstance(estimate, float | int | np.number):
            words = f"The estimate of this answer is not a number, got {type(estimate).__name__}. Use lower and upper"
            raise ArgumentTypeError("", words, "E725")
        return float(estimate)

    def __str__(self: Any) -> str:
        if self[-3] is not None:
            return repr(self)
        return f"{short(None)}, from {short(self.lower)} to {short(self.upper)}"

    def __format__(self, form: str) -> str:
        return self._refuse() if form else str(self)

    def _refuse(self, *_: object) -> NoReturn:
        words = (
            "An answer is an interval, not a number. Use float(answer), answer.lower or answer.upper, or ask the "
            "release for a sum, such as range_interval(low, high)"
        )
        raise ArgumentTypeError("", words, "E725")

    # A tuple would be joined, repeated, searched or converted to an array.
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __neg__ = __abs__ = __round__ = __int__ = __array__ = __contains__ = _refuse
    __lt__, __le__, __gt__, __ge__ = map(_among_answers, (tuple.__lt__, tuple.__le__, tuple.__gt__, tuple.__ge__))
