"""What pictures draw: answers that are given, or those of a release that is asked at the confidence of a `Look`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, TypeVar

from beam_dpsketch import _validate
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Row, Takes
from beam_dpsketch.answers.questions.kinds import Kind
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.rows import Intervals, Many, as_many
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.plots.drawing import Look

Answers = TypeVar("Answers")


def to_draw(
    answers: Any, expected: type[Answers], kind: Kind, what: Any, look: Look, candidates: Many | None = None
) -> tuple[Answers, list[Row]]:
    """Return the answers, and those of a release as rows too; refuse what is neither."""
    if isinstance(answers, expected):
        return answers, []
    if not isinstance(answers, Released):
        raise ArgumentTypeError(
            "answers",
            f"must be a release, or its {expected.__name__}, got {type(answers).__name__}; of several keys draw one, "
            "and of a SketchTimeline a release of some windows, timeline.between(first, last)",
            "E701",
        )
    found = ask_of(kind, what, look, candidates).answer(answers)
    return found.answer, found.rows


def ask_of(kind: Any, what: Any, look: Look, candidates: Many | None = None) -> Ask:
    """Return a question; one value stands for a list of it where it takes several."""
    ask = Ask(kind, what, look.confidence, None if candidates is None else _validate.many(candidates=candidates))
    if ask.entry.takes not in (Takes.SHARES, Takes.VALUES):
        return ask
    if what is None:
        raise ArgumentError("what", f"must say which {kind} are asked for", "E719")
    return dataclasses.replace(ask, what=as_many(what)[0])


def is_logarithmic(answers: Any) -> bool:
    """Return whether the values of a release lie by their logarithms; of answers, which do not say, they do not."""
    domain = answers.spec.domain if isinstance(answers, Released) else None
    return domain is not None and domain.is_logarithmic


def intervals_of(rows: Iterable[Row]) -> Intervals:
    """Return what rows of answers say; an estimate that is not known is NaN, which is not drawn."""
    rows = list(rows)
    estimates = [math.nan if row["estimate"] is None else row["estimate"] for row in rows]
    return Intervals(estimates, [row["lower"] for row in rows], [row["upper"] for row in rows])


def counted(answers: Any) -> str:
    """Return what a release counts; of answers, which do not say, records."""
    if not isinstance(answers, Released):
        return "records"
    bounds = answers.privacy.bounds
    return "weight" if bounds.has_weights or bounds.has_norm else "records"
