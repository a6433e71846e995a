"""The kinds of questions: which arguments they take, which method of a release answers, and the rows that come out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from beam_dpsketch.cli.faults import AnswerError, UsageError, note
from beam_dpsketch.cli.values import ItemType, count_outside, read_values
from beam_dpsketch.domains import Domain
from beam_dpsketch.release.answers import Rows
from beam_dpsketch.release.released_sketch import ReleasedSketch

Answer = tuple[list[dict[str, Any]], Any]
"""The rows to print, and what the release returned."""


@dataclasses.dataclass(frozen=True)
class Question:
    """One kind of question, as it was asked.

    Attributes:
      option: its name on the command line, without dashes.
      asked: what was given with it.
      confidence: of the intervals, in (0, 1).
      item_type: see `read_values`.
      candidates: for `top`, the texts of the items to choose from; `None` without a list.
    """

    option: str
    asked: Any
    confidence: float = 0.95
    item_type: ItemType | None = None
    candidates: Sequence[str] | None = None

    def answer(self, released: ReleasedSketch, title: str) -> list[dict[str, Any]]:
        """Return the rows of the answer; say on stderr what else there is to know.

        Raises `AnswerError` where the release does not answer, and `UsageError` where a value is not one of its domain.
        """
        method, ask = QUESTIONS[self.option]
        if not hasattr(released, method):
            raise AnswerError(f"a release of kind {released.name} does not answer --{self.option}")
        try:
            rows, answer = ask(self, released)
        except UsageError:
            raise
        except (ValueError, TypeError) as error:
            raise AnswerError(error) from None
        if isinstance(answer, Rows) and answer.from_about:
            note(f"{title}: there are {answer.from_about} in it, so answers may be noise alone")
        if getattr(answer, "detection_limit", None) is not None:
            note(f"{title}: finds items of {answer.detection_limit:.6g} or more with 95 %, and may miss others")
        return rows

    def values(self, texts: Sequence[str], released: ReleasedSketch) -> list[Any]:
        """Return what texts stand for; say how many lie outside the domain."""
        values = read_values(texts, released, self.item_type)
        domain = getattr(released.spec, "domain", None)
        if isinstance(domain, Domain) and (outside := count_outside(values, domain)):
            note(f"{outside} value(s) lie outside the domain, which moves them to its nearest end")
        return values


def _quantiles(question: Question, released: Any) -> Answer:
    answers = released.quantile_interval(question.asked, question.confidence)
    return _labelled("quantile", question.asked, answers), answers


def _ranks(question: Question, released: Any) -> Answer:
    values = question.values(question.asked, released)
    answers = released.rank_interval(values, question.confidence)
    return _labelled("value", values, answers), answers


def _ranges(question: Question, released: Any) -> Answer:
    lows, highs = (question.values(ends, released) for ends in zip(*question.asked, strict=True))
    answers = released.range_interval(lows, highs, question.confidence)
    return _between(lows, highs, answers), answers


def _histogram(question: Question, released: Any) -> Answer:
    edges = question.values(question.asked, released)
    answers = released.histogram(edges, question.confidence)
    return _between(edges[:-1], edges[1:], answers), answers


def _cdf(question: Question, released: Any) -> Answer:
    """Ask at the ends of equal parts of the domain: places that do not depend on the release, so intervals hold."""
    values = even_values(released.spec.domain, question.asked)
    answers = released.cdf_interval(values, question.confidence)
    return _labelled("value", values, answers), answers


def _estimates(question: Question, released: Any) -> Answer:
    return _of_items(released.interval(question.values(question.asked, released), question.confidence))


def _top(question: Question, released: Any) -> Answer:
    texts = question.candidates
    candidates = None if texts is None else read_values(texts, released, question.item_type)
    rows, answers = _of_items(released.top_k(question.asked, candidates, question.confidence))
    return [{"place": place, **row} for place, row in enumerate(rows, 1)], answers


def _whole(question: Question, released: Any) -> Answer:
    answer = getattr(released, question.option)(question.confidence)
    return [answer._asdict()], answer


def even_values(domain: Any, parts: int) -> list[Any]:
    """Return the last value of each of some equal parts of a domain; all values of a smaller one."""
    parts = min(parts, domain.size)
    ends = [domain.size * part // parts - 1 for part in range(1, parts + 1)]
    return domain.values(np.array(ends, dtype=np.uint64))


def _of_items(answers: Any) -> Answer:
    """Return rows about items, and mark those that are counted by their beginning."""
    cut = {"truncated": True}
    return [{**row, **(cut if row["item"] in answers.truncated else {})} for row in answers.to_rows()], answers


def _labelled(name: str, values: Sequence[Any], answers: Any) -> list[dict[str, Any]]:
    return [{name: value, **row} for value, row in zip(values, answers.to_rows(), strict=True)]


def _between(lows: Sequence[Any], highs: Sequence[Any], answers: Any) -> list[dict[str, Any]]:
    rows = answers.to_rows()
    return [{"from": low, "to": high, **row} for low, high, row in zip(lows, highs, rows, strict=True)]


QUESTIONS: Mapping[str, tuple[str, Callable[[Question, Any], Answer]]] = {
    "quantile": ("quantile_interval", _quantiles),
    "rank": ("rank_interval", _ranks),
    "range": ("range_interval", _ranges),
    "histogram": ("histogram", _histogram),
    "cdf": ("cdf_interval", _cdf),
    "estimate": ("interval", _estimates),
    "top": ("top_k", _top),
    "total": ("total", _whole),
    "records": ("records", _whole),
    "units": ("units", _whole),
}
"""By option: the method that a release must have, and what asks it."""
