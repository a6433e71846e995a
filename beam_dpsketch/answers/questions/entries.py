"""Entries in the table of questions: arguments, answering releases and answer columns."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.tabular import Note

AnswerType: TypeAlias = "type[int | float | str | bytes | datetime.datetime]"
Columns: TypeAlias = Callable[[Any], Mapping[str, Any]]
Row: TypeAlias = "dict[str, Any]"


class Takes(enum.Enum):
    """Argument of a question. Each door parses all questions with the same argument alike."""

    SHARES = enum.auto()  # numbers from 0 to 1
    VALUES = enum.auto()  # values of the domain, or items
    RANGES = enum.auto()  # pairs of values, low and high
    EDGES = enum.auto()  # two values or more
    PARTS = enum.auto()  # values, or a number of equal parts of the domain, for their ends
    COUNT = enum.auto()  # a number
    NOTHING = enum.auto()


class Drawing(NamedTuple):
    """Plot for the command line.

    Attributes:
      form: for a single release "cdf", "bars" or "histogram", and over time "lines".
      line: the name of a line, from its row's columns.
      axis: the axis label of a line. `None` means the counts in the release, "value" values of the domain.
    """

    form: Literal["cdf", "bars", "histogram", "lines"]
    line: str = "private estimate"
    axis: str | None = None


class Answered(NamedTuple):
    """Answer as rows, the release's own answer, its interval name, notes and clipping."""

    rows: list[Row]
    answer: Any
    intervals: str = ""
    notes: tuple[Note, ...] = ()
    clipping: Clipping = Clipping()

    @property
    def listed(self) -> list[Row]:
        """Rows, or for an empty list a row of `None`, because its release would be missing among others."""
        return self.rows or [dict.fromkeys(self.answer.to_arrow().column_names)]


@dataclasses.dataclass(frozen=True)
class QuestionKind:
    """A kind of question.

    Attributes:
      takes: its argument.
      method: the method of releases that answer it. Other releases are rejected.
      asked: function that asks a release, given the release, the argument, the confidence, and candidates or `None`.
      columns: its row columns, by the type of items and values.
      option: its name on the command line, without dashes.
      words: its description on the command line.
      metavar: its argument on the command line.
      drawing: its plot on the command line, or `None`.
      limit: the largest number that it accepts.
      items_in: the setting that lists possible items, or empty for questions without items.
      needs_order: whether the release must have ordered values.
      summary_count: the summary count that answers if the release itself does not.
      setting: the setting that a release needs in order to answer.
    """

    takes: Takes
    method: str
    asked: Callable[[Any, Any, float, Any], Answered]
    columns: Columns
    option: str
    words: str
    metavar: str | tuple[str, ...] | None = None
    drawing: Drawing | None = None
    limit: int | None = None
    items_in: Literal["", "items", "candidates"] = ""
    needs_order: bool = False
    summary_count: str | None = None
    setting: str | None = None
