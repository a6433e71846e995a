"""One kind of question to a release, and the rows that answer it.

Guarantee: post-processing of a release. It costs no privacy, for any number of questions.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.domains import Domain

Kind: TypeAlias = Literal[
    "quantiles", "ranks", "ranges", "histogram", "cdf", "items", "top_k", "total", "records", "units"
]
KINDS: tuple[Kind, ...] = typing.get_args(Kind)

Row: TypeAlias = "dict[str, Any]"


class Answered(NamedTuple):
    """The rows of an answer, and what the release returned."""

    rows: list[Row]
    answer: Any


@dataclasses.dataclass(frozen=True)
class Ask:
    """One kind of question, with all that is asked at once.

    Attributes:
      kind: "quantiles", "ranks", "ranges", "histogram", "cdf", "items", "top_k", "total", "records" or "units".
      what: shares of quantiles; values of ranks, of a cdf, or edges of a histogram; (low, high) pairs of ranges;
        items; the k of `top_k`. A number as `what` of a cdf stands for the ends of that many equal parts of the domain.
        The last three kinds have `None`.
      confidence: of each interval, in (0, 1).
      candidates: what `top_k` chooses from, for releases that cannot search; public.

    >>> from beam_dpsketch import FloatDomain
    >>> Ask("quantiles", (0.5, 0.9)).kind
    'quantiles'

    Raises:
      ValueError: the kind is unknown, or the confidence is not between 0 and 1.
    """

    kind: Kind
    what: Any = None
    confidence: float = 0.95
    candidates: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        _validate.one_of(KINDS, kind=self.kind)
        _validate.open_unit_interval(confidence=self.confidence)

    @property
    def method(self) -> str:
        """The method that a release must have to answer."""
        return _METHODS[self.kind][0]

    def is_answered_by(self, released: ReleasedSketch) -> bool:
        """Return whether a release has answers to this kind of question."""
        return hasattr(released, self.method)

    def answer(self, released: ReleasedSketch) -> Answered:
        """Return one row for each part of the question.

        Values are plain: IPv4 addresses are text. `docs/settings.md` lists the columns.

        Raises:
          ValueError, TypeError: the release does not answer such a question, or not about such values.
        """
        if not self.is_answered_by(released):
            raise ValueError(f"a release of kind {released.name} does not answer {self.kind}")
        return _METHODS[self.kind][1](self, released)


def _quantiles(ask: Ask, released: Any) -> Answered:
    answers = released.quantile_interval(ask.what, ask.confidence)
    return Answered(_labelled("quantile", ask.what, answers), answers)


def _ranks(ask: Ask, released: Any) -> Answered:
    answers = released.rank_interval(ask.what, ask.confidence)
    return Answered(_labelled("value", ask.what, answers), answers)


def _ranges(ask: Ask, released: Any) -> Answered:
    lows, highs = zip(*ask.what, strict=True)
    answers = released.range_interval(lows, highs, ask.confidence)
    return Answered(_between(lows, highs, answers), answers)


def _histogram(ask: Ask, released: Any) -> Answered:
    answers = released.histogram(ask.what, ask.confidence)
    return Answered(_between(ask.what[:-1], ask.what[1:], answers), answers)


def _cdf(ask: Ask, released: Any) -> Answered:
    values = even_values(released.spec.domain, ask.what) if isinstance(ask.what, int) else ask.what
    answers = released.cdf_interval(values, ask.confidence)
    return Answered(_labelled("value", values, answers), answers)


def _items(ask: Ask, released: Any) -> Answered:
    return _of_items(released.interval(ask.what, ask.confidence))


def _top_k(ask: Ask, released: Any) -> Answered:
    rows, answers = _of_items(released.top_k(ask.what, ask.candidates, ask.confidence))
    return Answered([{"place": place, **row} for place, row in enumerate(rows, 1)], answers)


def _whole(ask: Ask, released: Any) -> Answered:
    answer = getattr(released, ask.kind)(ask.confidence)
    return Answered([answer._asdict()], answer)


def even_values(domain: Domain, parts: int, first: int = 0, last: int | None = None) -> list[Any]:
    """Return the last value of each of some equal parts of a domain; all values of a smaller one.

    These places do not depend on the release, so the intervals at them hold.

    Args:
      domain: the values.
      parts: how many parts there are.
      first: the position of the first value of the first part.
      last: that of the last value; `None` takes the end of the domain.
    """
    size = (domain.size - 1 if last is None else last) - first + 1
    parts = min(parts, size)
    ends = [first + size * part // parts - 1 for part in range(1, parts + 1)]
    return domain.values(np.array(ends, dtype=np.uint64))


def _of_items(answers: Any) -> Answered:
    """Return rows about items, and mark those that are counted by their beginning."""
    cut = {"truncated": True}
    rows = ({**row, **(cut if row["item"] in answers.truncated else {})} for row in answers.to_rows())
    return Answered([*map(_plain_row, rows)], answers)


def _labelled(name: str, values: Iterable[Any], answers: Any) -> list[Row]:
    rows = zip(values, answers.to_rows(), strict=True)
    return [_plain_row({name: value, **row}) for value, row in rows]


def _between(lows: Iterable[Any], highs: Iterable[Any], answers: Any) -> list[Row]:
    rows = zip(lows, highs, answers.to_rows(), strict=True)
    return [_plain_row({"range_low": low, "range_high": high, **row}) for low, high, row in rows]


def _plain_row(row: Row) -> Row:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Return a value without types of libraries; times stay times, in UTC."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.timezone.utc)
    return str(value) if isinstance(value, ipaddress.IPv4Address) else value


_METHODS: Mapping[str, tuple[str, Callable[[Ask, Any], Answered]]] = {
    "quantiles": ("quantile_interval", _quantiles),
    "ranks": ("rank_interval", _ranks),
    "ranges": ("range_interval", _ranges),
    "histogram": ("histogram", _histogram),
    "cdf": ("cdf_interval", _cdf),
    "items": ("interval", _items),
    "top_k": ("top_k", _top_k),
    "total": ("total", _whole),
    "records": ("records", _whole),
    "units": ("units", _whole),
}
"""By kind: the method that a release must have, and what asks it."""
