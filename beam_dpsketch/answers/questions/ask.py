"""Questions to a release, and the columns of answers and privacy."""

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
    """A question to a release, with its arguments. Questions cost no privacy, in any number.

    Attributes:
      kind: "quantiles", "ranks", "ranges", "histogram", "cdf", "items", "top_k", "total_weight", "records",
        "privacy_units", and for numbers "count", "total", "mean", "variance" or "std".
      what: shares for quantiles, values for ranks or a cdf, edges for a histogram, (low, high) pairs for ranges, items,
        or the k for `top_k`. A number divides the domain into that many equal parts, whose ends are the values for a
        cdf, or into that many bins for a histogram. Kinds without an argument have `None`.
      confidence: confidence per interval, in (0, 1).
      candidates: public items for `top_k`, for releases that cannot search.
      metric: the name of a metric, for a release with several.

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
        """Items that answers may include, or `None` if the question does not determine them."""
        return {"items": self.what, "candidates": self.candidates}.get(self.entry.items_in)

    def is_answered_by(self, released: Released | type[Released]) -> bool:
        """Whether a release, or a kind of release, answers this kind of question."""
        return hasattr(released, self.entry.method)

    def refusal(self, released: Released | type[Released], spelled: Callable[[Kind], str] = str) -> str:
        """Explain that a release does not answer, and list its questions. `spelled` formats their names."""
        others = (spelled(kind) for kind, entry in QUESTIONS.items() if hasattr(released, entry.method))
        return f"A release of kind {released.kind} does not answer {spelled(self.kind)}. Use {', '.join(others)}"

    def answer(self, released: Released) -> Answered:
        """Answer with a row for each part of the question, and with notes from the release and its answer.

        Values are plain: IPv4 addresses are text. `docs/settings.md` lists the columns.

        Raises:
          ValueError, TypeError: the release does not answer such a question, or not about such values.
        """
        released = self.part(released)
        if not self.is_answered_by(released):
            raise ArgumentError("", self.refusal(released), "E718")
        found = self.entry.asked(released, self.what, self.confidence, self.candidates)
        notes = (*released.notes, *getattr(found.answer, "notes", ()))
        clipping = getattr(found.answer, "clipping", None) or released.clipping()
        intervals = interval_words(self.confidence, clipping)
        return found._replace(intervals=intervals, notes=tuple(dict.fromkeys(notes)), clipping=clipping)

    @property
    def is_of_the_whole(self) -> bool:
        """Whether the whole release answers instead of a metric, because its summary counts cover all metrics."""
        return not self.metric and self.entry.summary_count is not None

    def part(self, released: Released) -> Released:
        """Select the metric of the question, or the whole release."""
        if self.is_of_the_whole:
            return released
        if self.metric not in released.parts:
            names = ", ".join(filter(None, released.parts))
            words = f"must be a metric in the release: {names}" if names else "must be omitted: there are no metrics"
            raise ArgumentError("metric", words, "E718")
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
"""Columns with the privacy parameters of the release in each row. Losses are rounded up."""

_DIGITS = 9  # pandas writes ten digits in JSON, and must not cut a loss below the truth


def answer_columns(kind: Kind, item: AnswerType, *, truncates: bool) -> dict[str, AnswerType]:
    """List the answer columns for a kind of question."""
    entry = QUESTIONS[kind]
    return {**entry.columns(item), **({"truncated": bool} if truncates and entry.items_in else {})}


def privacy_fields(statement: PrivacyStatement) -> dict[str, Any]:
    """Compute a statement's privacy columns. `keys_delta` is 0 if keys and items are public."""
    return {
        "rho": _rounded(statement.rho),
        "epsilon": _rounded(statement.reported_epsilon),
        "delta": _rounded(statement.delta_of_epsilon),
        "keys_delta": _rounded(statement.delta),
        "relation": statement.relation.name,
        "protected": statement.privacy_unit.value,
        "release_id": ",".join(release_id.hex() for release_id in statement.release_ids),
    }


def _rounded(loss: Any) -> float:
    return float(loss) if loss in (0, float("inf")) else round_up(loss, _DIGITS)
