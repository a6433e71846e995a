"""The columns of answers and of privacy: names, and types by the domain of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_dpsketch.questions.kinds import KINDS, AnswerType, Kind
from beam_dpsketch.statement.statement import PrivacyStatement
from beam_dpsketch.statement.statement_text import round_up

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
    """Return the columns of the rows that answer a kind of question.

    Args:
      kind: of question.
      item: the type of items and values.
      truncates: whether items are text or bytes that may be counted by their beginning; rows then say so.
    """
    entry = KINDS[kind]
    return {**entry.columns(item), **({"truncated": bool} if truncates and entry.items_in else {})}


def privacy_fields(statement: PrivacyStatement) -> dict[str, Any]:
    """Return the privacy columns of a statement; `keys_delta` is 0 where the data choose neither keys nor items."""
    return {
        "rho": _rounded(statement.rho),
        "epsilon": _rounded(statement.shown_epsilon),
        "delta": _rounded(statement.shown_delta),
        "keys_delta": _rounded(statement.delta),
        "relation": statement.relation.name,
        "protected": statement.unit.value,
        "release_id": ",".join(release_id.hex() for release_id in statement.release_ids),
    }


def _rounded(loss: Any) -> float:
    return float(loss) if loss in (0, float("inf")) else round_up(loss, _DIGITS)
