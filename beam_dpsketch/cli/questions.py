"""Questions out of the texts of a command line: values by the type of a release, and what else to say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Rows
from beam_dpsketch.cli.faults import AnswerError, UsageError, note
from beam_dpsketch.cli.values import ItemType, count_outside, read_values
from beam_dpsketch.domains import Domain
from beam_dpsketch.questions.ask import Ask, Kind, even_values

OPTIONS: Mapping[str, Kind] = {
    "quantile": "quantiles",
    "rank": "ranks",
    "range": "ranges",
    "histogram": "histogram",
    "cdf": "cdf",
    "estimate": "items",
    "top": "top_k",
    "total": "total",
    "records": "records",
    "units": "units",
}
"""The kind of question of each option."""

_WITH_VALUES = ("rank", "histogram", "estimate")


@dataclasses.dataclass(frozen=True)
class Question:
    """One kind of question, as it was asked.

    Attributes:
      option: its name on the command line, without dashes.
      asked: what was given with it.
      confidence: of the intervals, in (0, 1).
      item_type: see `read_values`.
      candidates: for `top`, the texts of the items to choose from; `None` without a list.
      quiet: whether nothing is said on stderr.
    """

    option: str
    asked: Any
    confidence: float = 0.95
    item_type: ItemType | None = None
    candidates: Sequence[str] | None = None
    quiet: bool = False

    def answer(self, released: ReleasedSketch, title: str) -> list[dict[str, Any]]:
        """Return the rows of the answer; say on stderr what else there is to know.

        Raises `AnswerError` where the release does not answer, and `UsageError` where a value is not one of its domain.
        """
        if not Ask(OPTIONS[self.option]).is_answered_by(released):
            raise AnswerError(f"a release of kind {released.name} does not answer --{self.option}")
        ask = self._ask(released)
        try:
            rows, answer = ask.answer(released)
        except (ValueError, TypeError) as error:
            raise AnswerError(error) from None
        if self.quiet:
            return rows
        if isinstance(answer, Rows) and answer.from_about:
            note(f"{title}: there are {answer.from_about} in it, so answers may be noise alone")
        if getattr(answer, "detection_limit", None) is not None:
            note(f"{title}: finds items of {answer.detection_limit:.6g} or more with 95 %, and may miss others")
        return rows

    def asked_quietly(self, quiet: bool) -> Question:
        """Return the same question, which says nothing on stderr if it is quiet."""
        return dataclasses.replace(self, quiet=quiet)

    def _ask(self, released: ReleasedSketch) -> Ask:
        """Return the question with values in place of texts."""
        what, texts = self.asked, self.candidates
        if self.option in _WITH_VALUES:
            what = self._values(what, released)
        elif self.option == "cdf" and not isinstance(what, int):
            parts, low, high = what
            what = self._between(parts, low, high, released)
        elif self.option == "range":
            what = list(zip(*(self._values(ends, released) for ends in zip(*what, strict=True)), strict=True))
        candidates = None if texts is None else read_values(texts, released, self.item_type)
        return Ask(OPTIONS[self.option], what, self.confidence, candidates)

    def _between(self, parts: int, low: str, high: str, released: Any) -> list[Any]:
        """Return the ends of equal parts of a domain, from one value to another."""
        domain = released.spec.domain
        first, last = domain.index(self._values([low, high], released))[0].tolist()
        if first > last:
            raise UsageError("--cdf LOW HIGH must be ascending")
        return even_values(domain, parts, first, last)

    def _values(self, texts: Sequence[str], released: ReleasedSketch) -> list[Any]:
        """Return what texts stand for; say how many lie outside the domain."""
        values = read_values(texts, released, self.item_type)
        domain = getattr(released.spec, "domain", None)
        if not self.quiet and isinstance(domain, Domain) and (outside := count_outside(values, domain)):
            note(f"{outside} value(s) lie outside the domain, which moves them to its nearest end")
        return values
