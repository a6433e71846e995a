"""What an entry of the table of questions says: what a kind of question takes, who answers it, and in which columns."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from beam_dpsketch.answers.notes import Note
from beam_dpsketch.statement.clipping import Clipping

AnswerType: TypeAlias = "type[int | float | str | bytes | datetime.datetime]"
Columns: TypeAlias = Callable[[AnswerType], Mapping[str, AnswerType]]
Row: TypeAlias = "dict[str, Any]"


class Takes(enum.Enum):
    """What is given with a question. Each door reads all questions of one form alike."""

    SHARES = enum.auto()  # numbers from 0 to 1
    VALUES = enum.auto()  # values of the domain, or items
    RANGES = enum.auto()  # pairs of values, low and high
    EDGES = enum.auto()  # two values or more
    PARTS = enum.auto()  # values, or a number: the ends of that many equal parts of the domain
    COUNT = enum.auto()  # a number
    NOTHING = enum.auto()


class Drawing(NamedTuple):
    """How the command draws answers.

    Attributes:
      form: of one release, "cdf", "bars" or "histogram"; "lines" are drawn over time.
      line: the name of a line, by the columns of its rows.
      axis: what the axis of a line shows; `None` for what the release counts, "value" for values of the domain.
    """

    form: Literal["cdf", "bars", "histogram", "lines"]
    line: str = "private estimate"
    axis: str | None = None


class Answered(NamedTuple):
    """The rows of an answer, what the release returned, what its intervals are called, and what they do not include."""

    rows: list[Row]
    answer: Any
    intervals: str = ""
    notes: tuple[Note, ...] = ()
    clipping: Clipping = Clipping()


@dataclasses.dataclass(frozen=True)
class QuestionKind:
    """A kind of question.

    Attributes:
      takes: what is given with it.
      method: what a release must have to be asked; others are refused.
      asked: asks a release; called with the release, what is given, the confidence, and candidates or `None`.
      columns: the columns of its rows, by the type of items and values.
      option: its name in the command, without dashes.
      words: what it answers, for the command.
      metavar: what is given with it, for the command.
      drawing: how the command draws it; `None` if it does not.
      limit: the largest number that it takes.
      items_in: the setting that lists the items that answers may be about; empty if they are not about items.
      needs_order: whether the release must be over ordered values.
      side_counter: the side counter that answers, where the release itself may not.
      setting: the setting of a release without which it does not answer.
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
    side_counter: str | None = None
    setting: str | None = None
