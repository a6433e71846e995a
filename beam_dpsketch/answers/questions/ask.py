"""`Ask`: one kind of question to a release, with all that is asked at once.

The columns of answers and of privacy: names, and types by the domain of a release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.questions.entries import Answered, AnswerType, QuestionKind
from beam_dpsketch.answers.questions.kinds import QUESTIONS, Kind
from beam_dpsketch.answers.released import Released
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.statement.showing import interval_words
from beam_dpsketch.words import round_up


@dataclasses.dataclass(frozen=True)
class Ask:
    """One kind of question, with all that is asked at once. Asking costs no privacy, however often.

    Attributes:
      kind: "quantiles", "ranks", "ranges", "histogram", "cdf", "items", "top_k", "total_weight", "records",
        "privacy_units"; of numbers "count", "total", "mean", "variance" or "std".
      what: shares of quantiles; values of ranks, of a cdf, or edges of a histogram; (low, high) pairs of ranges;
        items; the k of `top_k`. A number as `what` of a cdf stands for the ends of that many equal parts of the domain,
        and of a histogram for that many bins over it. Kinds that take nothing have `None`.
      confidence: of each interval, in (0, 1).
      candidates: what `top_k` chooses from, for releases that cannot search; public.
      metric: the name of the metric that is asked, of a release of several.

    >>> Ask("quantiles", (0.5, 0.9)).kind
    'quantiles'

    Raises:
      ValueError: the kind is unknown, or the confidence is not between 0 and 1.
    """

    kind: Kind
    what: Any = None
    confidence: float = 0.95
    candidates: Sequence[Any] | None = None
    metric: str = ""

    def __post_init__(self) -> None:
        _validate.one_of(tuple(QUESTIONS), kind=self.kind)
        _validate.open_unit_interval(confidence=self.confidence)

    @property
    def entry(self) -> QuestionKind:
        return QUESTIONS[self.kind]

    @property
    def items(self) -> Sequence[Any] | None:
        """The items that answers may be about; `None` if the question does not say."""
        return {"items": self.what, "candidates": self.candidates}.get(self.entry.items_in)

    def is_answered_by(self, released: Released | type[Released]) -> bool:
        """Return whether a release, or a kind of release, has answers to this kind of question."""
        return hasattr(released, self.entry.method)

    def refusal(self, released: Released | type[Released], spelled: Callable[[Kind], str] = str) -> str:
        """Return in words that a release does not answer, and what it does answer; `spelled` names questions."""
        others = (spelled(kind) for kind, entry in QUESTIONS.items() if hasattr(released, entry.method))
        return f"a release of {released.made_as} does not answer {spelled(self.kind)}: ask for {', '.join(others)}"

    def answer(self, released: Released) -> Answered:
        """Return one row for each part of the question, and the notes of the release and of its answer.

        Values are plain: IPv4 addresses are text. `docs/settings.md` lists the columns.

        Raises:
          ValueError, TypeError: the release does not answer such a question, or not about such values.
        """
        released = self._asked_of(released)
        if not self.is_answered_by(released):
            raise ArgumentError("", self.refusal(released), "E718")
        found = self.entry.asked(released, self.what, self.confidence, self.candidates)
        notes = (*released.notes, *getattr(found.answer, "notes", ()))
        clipping = released.clipping()
        intervals = interval_words(self.confidence, clipping)
        return found._replace(intervals=intervals, notes=tuple(dict.fromkeys(notes)), clipping=clipping)

    @property
    def is_of_the_whole(self) -> bool:
        """Whether the whole of several metrics answers: what is counted aside is of all of them."""
        return not self.metric and self.entry.side_counter is not None

    def _asked_of(self, released: Released) -> Released:
        """Return the metric that is asked, or the whole."""
        if self.is_of_the_whole:
            return released
        if self.metric not in released.parts:
            names = ", ".join(filter(None, released.parts)) or "none, and metric must be left out"
            raise ArgumentError("metric", f"must be the name of a metric of the release: {names}", "E718")
        return released.parts[self.metric]


PRIVACY_COLUMNS: Mapping[str, type] = {
    "rho": float,
    "epsilon": float,
    "delta": float,
    "keys_delta": float,
    "relation": str,
    "protected": str,
    "release_id": str,
}
"""The columns that say, in each row, how well the release is protected; losses are rounded up."""

_DIGITS = 9  # JSON of pandas has ten: it must not cut a loss below the truth


def answer_columns(kind: Kind, item: AnswerType, *, truncates: bool) -> dict[str, AnswerType]:
    """Return the columns of the rows that answer a kind of question."""
    entry = QUESTIONS[kind]
    return {**entry.columns(item), **({"truncated": bool} if truncates and entry.items_in else {})}


def privacy_fields(statement: PrivacyStatement) -> dict[str, Any]:
    """Return the privacy columns of a statement; `keys_delta` is 0 where the data choose neither keys nor items."""
    return {
        "rho": _rounded(statement.rho),
        "epsilon": _rounded(statement.shown_epsilon),
        "delta": _rounded(statement.delta_of_epsilon),
        "keys_delta": _rounded(statement.delta),
        "relation": statement.relation.name,
        "protected": statement.unit.value,
        "release_id": ",".join(release_id.hex() for release_id in statement.release_ids),
    }


def _rounded(loss: Any) -> float:
    return float(loss) if loss in (0, float("inf")) else round_up(loss, _DIGITS)
