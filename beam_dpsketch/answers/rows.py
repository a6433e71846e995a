"""Answers as rows, in small immutable sequences that convert to tables.

Guarantee: every answer describes the clipped data. Its bounds include noise and collisions, but not clipping. The
requested confidence applies to each row alone.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.notes import UNKNOWN, Basis, lines
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.showing import html_table, short
from beam_dpsketch.statement.summary_notes import Interval
from beam_dpsketch.statement.tabular import CANNOT_TELL, Note, OneAnswer, Tabular
from beam_dpsketch.words import shown_plainly

One: TypeAlias = "str | bytes | float | np.generic | datetime.datetime | ipaddress.IPv4Address"
"""A single item or value. A tuple stands for many, like any iterable: put an item that is a tuple into a list."""

Many: TypeAlias = Iterable[Any]
"""Items or values in any iterable, numpy array or pyarrow column."""

Row = TypeVar("Row", bound=tuple[Any, ...])
Self = TypeVar("Self", bound="Rows[Any]")

_SHOWN, _SHOWN_IN_TABLE = 5, 100
_NOTHING: Mapping[str, Any] = {}


class _Frequency(NamedTuple):
    item: Any
    estimate: float
    lower: float
    upper: float


@shown_plainly
class Frequency(OneAnswer, _Frequency):
    """One item with its estimated total weight and bounds."""


class Rows(Tabular, Sequence[Row]):
    """An immutable sequence of rows. Its columns are attributes, named like the fields in a row."""

    _row_type: ClassVar[Any]
    asked: Mapping[str, Any] = _NOTHING
    truncated: frozenset[Any] | None = None
    basis: Basis

    def __post_init__(self) -> None:
        for name, column in self._columns().items():
            object.__setattr__(self, name, _frozen(column))
        if self.asked:
            object.__setattr__(self, "asked", {name: _frozen(column) for name, column in self.asked.items()})

    @property
    def intervals(self) -> str | None:
        """Description of the bounds, such as "95 % intervals", and their scope, or `None` for answers made by hand."""
        return self.basis.intervals

    @property
    def clipping(self) -> Clipping | None:
        """Clipping of the release, or `None` for answers made by hand."""
        return self.basis.clipping

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings about these answers, each with a `code` and `words`."""
        if not self.basis.asked:
            estimates = getattr(self, "estimate", None)
            is_unknown = isinstance(estimates, tuple) and None in estimates
            return (*self.basis.notes, *[CANNOT_TELL] * is_unknown)
        columns = (np.asarray(getattr(self, name), dtype=np.float64) for name in ("estimate", "lower", "upper"))
        return (*self.basis.notes, *self.basis.within_noise(*columns))

    def take(self: Self, places: Iterable[int]) -> Self:
        """Select the rows at these places, in this order."""
        places = list(places)
        columns, asked = (
            {
                name: column[places] if isinstance(column, np.ndarray) else [column[place] for place in places]
                for name, column in table.items()
            }
            for table in (self._columns(), self.asked)
        )
        return dataclasses.replace(self, **columns, **({"asked": asked} if asked else {}))  # type: ignore[type-var]

    def __len__(self) -> int:
        return len(getattr(self, self._row_type._fields[0]))

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self: Self, place: slice) -> Self: ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.take(range(len(self))[place])
        return next(iter(self.take([place])))

    def __iter__(self) -> Iterator[Row]:
        rows = map(self._row_type, *(as_list(column) for column in self._columns().values()))
        if self._table().keys() == self._columns().keys():
            return (row.of(self.clipping) for row in rows)
        return (row.of(self.clipping, whole) for row, whole in zip(rows, self.to_rows(), strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._row_type is other._row_type and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rows = [f"{': '.join(map(short, row[:-2]))} [{short(row[-2])}, {short(row[-1])}]" for row in self[:_SHOWN]]
        more = "; ..." if len(self) > _SHOWN else ""
        return f"<{self._title()}: {'; '.join(rows)}{more}>{lines(self.clipping, self.notes)}"

    def _repr_html_(self) -> str:
        more = f"; the first {_SHOWN_IN_TABLE}" if len(self) > _SHOWN_IN_TABLE else ""
        rows = (map(short, row) for row in self[:_SHOWN_IN_TABLE])
        return html_table(
            rows, header=self._row_type._fields, caption=self._title() + more + lines(self.clipping, self.notes)
        )

    def _title(self) -> str:
        return f"{type(self).__name__} of {len(self)}" + (f" with {self.intervals}" if self.intervals else "")

    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._row_type._fields}

    def _table(self) -> dict[str, Any]:
        """List the question's columns, the fields of rows, and `truncated` if items can be truncated."""
        columns, cut = {**self.asked, **self._columns()}, self.truncated
        return columns if cut is None else {**columns, "truncated": [item in cut for item in columns["item"]]}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Frequencies(Rows[Frequency]):
    """Items with their estimated weights and bounds.

    Attributes:
      item, estimate, lower, upper: the columns.
      detection_limit: the weight after clipping at which an item exceeds the noise with 95 % probability. Lighter items
        may be missing. `None` if the items were given.
      truncated: the items that are counted by their beginning, a column of tables. `None` if items are always complete,
        such as numbers.
      basis: properties that all answers share: the confidence, the clipping and the notes.
      asked: further first columns of tables: `place`, from 1, in a list by size.
    """

    _row_type = Frequency

    item: Sequence[Any]
    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    detection_limit: float | None = None
    truncated: frozenset[Any] | None = None
    basis: Basis = dataclasses.field(default=UNKNOWN, kw_only=True)
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.truncated is not None:
            object.__setattr__(self, "truncated", self.truncated.intersection(self.item))

    def largest(self, k: int) -> Frequencies:
        """Select the k largest estimates, largest first. Ties keep their order, and repeated items count once."""
        return self._first(k, -self.estimate)

    def largest_changes(self, k: int) -> Frequencies:
        """Select the k rows with the largest changes, up or down, as `largest` does."""
        return self._first(k, -np.abs(self.estimate))

    def _first(self, k: int, order: np.ndarray) -> Frequencies:
        firsts = dict(zip(reversed(self.item), range(len(self) - 1, -1, -1), strict=True))
        places = np.sort(np.fromiter(firsts.values(), dtype=np.int64))
        if 0 < k < len(places):
            places = places[order[places] <= np.partition(order[places], k - 1)[k - 1]]
        return self.take(places[np.argsort(order[places], kind="stable")][:k].tolist()).with_places()

    def with_places(self) -> Frequencies:
        """Add the column `place`, from 1, to tables."""
        return dataclasses.replace(self, asked={"place": range(1, len(self) + 1)})

    def _title(self) -> str:
        limit = "" if self.detection_limit is None else f", detection limit {short(self.detection_limit)}"
        return super()._title() + limit + (f", {len(self.truncated)} truncated" if self.truncated else "")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Intervals(Rows[Interval]):
    """Estimates with bounds, in the order of the questions.

    Attributes:
      estimate, lower, upper: the columns: arrays of numbers, or for quantiles domain values.
      basis: as in `Frequencies`.
      asked: the question, as the first columns of tables: `quantile`, `value`, or `range_low` and `range_high`.
    """

    _row_type = Interval

    estimate: Any
    lower: Any
    upper: Any
    basis: Basis = dataclasses.field(default=UNKNOWN, kw_only=True)
    asked: Mapping[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)


def as_many(values: Any) -> tuple[Any, bool]:
    """Convert items or values to an array, a column or a list, with a flag for a single value."""
    if isinstance(values, np.ndarray) and not values.ndim:
        values = values.item()
    if isinstance(values, (str, bytes)) or not isinstance(values, (Iterable, pa.Array)):
        return [values], True
    return _validate.many(items=values), False


def as_asked(answers: Any, single: bool) -> Any:
    """Select all answers, or the only answer to a single question."""
    if not single:
        return answers
    return float(answers[0]) if isinstance(answers, np.ndarray) else answers[0]


def _frozen(column: Any) -> np.ndarray | tuple[Any, ...]:
    if not isinstance(column, np.ndarray) or column.dtype != np.float64:
        return tuple(as_list(column))
    column = column.copy()
    column.flags.writeable = False
    return column


def as_list(column: Any) -> Any:
    """Convert an array or column to a list with plain Python values. Keep any other sequence."""
    if isinstance(column, np.ndarray):
        return column.tolist()
    return column.to_pylist() if isinstance(column, pa.Array) else column
