"""What a page knows of one release: its statement, its numbers, its largest items, and the reading that answers."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Answered, Takes
from beam_dpsketch.answers.questions.kinds import KINDS
from beam_dpsketch.answers.released import Released
from beam_dpsketch.explore.entries import Chosen
from beam_dpsketch.plots.asking import counted
from beam_dpsketch.statement import statement_text
from beam_dpsketch.statement.showing import in_words, interval_words, plain, shown

MOST_LISTED = 1000
_ALL = {"records", "total_weight", "privacy_units"}


class Wanted(NamedTuple):
    """How releases are asked while a page is made."""

    confidence: float
    candidates: Sequence[Any] | None


def contents_of(chosen: Chosen, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield what is known of a release, or of each metric of it."""
    released = chosen.released
    for metric, part in released.parts.items():
        place = {**chosen.place, "metric": metric or None}
        name = ", ".join(each for each in place.values() if each) or f"release of {part.made_as}"
        yield {
            "place": place,
            "moment": chosen.moment,
            "is_whole": chosen.is_whole,
            "name": name,
            "kind": part.made_as,
            "counted": counted(part),
            "intervals": interval_words(wanted.confidence, is_bounded=part.privacy.is_bounded),
            "statement": statement_text.facts(released.privacy),
            "notes": [note.words for note in dict.fromkeys((*released.notes, *part.notes))],
            "holds": f"it holds {released._holds or part._size}",
            "numbers": [*_numbers(released, part, wanted.confidence)],
            "top": top_of(part, wanted),
            "reading": encoded(part.reading(wanted.confidence)),
        }


def _numbers(released: Released, part: Released, confidence: float) -> Iterator[dict[str, Any]]:
    """Yield the answers to questions that take nothing; what is counted aside is of all metrics together."""
    for kind, entry in KINDS.items():
        if entry.takes is Takes.NOTHING:
            answered = ask(Ask(kind, None, confidence), released if kind in _ALL else part)
            if answered is not None:
                axis = entry.drawing.axis if entry.drawing else None
                yield {"words": entry.words, "axis": axis or counted(part), **numbers_of(answered.rows[0])}


def top_of(released: Released, wanted: Wanted) -> dict[str, Any] | None:
    """Return the largest items; `None` of a release that has none, or needs a list to choose from and has none."""
    candidates = None if searches(released) else wanted.candidates
    answered = ask(Ask("top_k", MOST_LISTED, wanted.confidence, candidates), released)
    if answered is None:
        return None
    limit = getattr(answered.answer, "detection_limit", None)
    finds = [] if limit is None else [f"It finds items of {shown(limit)} or more with 95 %, and may miss others."]
    return {
        "caption": f"The largest, with {answered.intervals}",
        "rows": [{"item": in_words(row["item"]), **numbers_of(row)} for row in answered.rows],
        "notes": finds,
    }


def searches(released: Released) -> bool:
    """Return whether a release knows items by itself: those of a domain, or of a list."""
    spec = released.spec
    return spec.is_listed or getattr(spec, "domain", None) is not None


def ask(question: Ask, released: Released) -> Answered | None:
    """Return an answer; `None` where the release does not answer such a question."""
    if not question.is_answered_by(released):
        return None
    try:
        return question.answer(released)
    except (ValueError, TypeError):  # it does not count this, or needs candidates
        return None


def numbers_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the estimate of a row and its bounds; `None` for what is not known and what has no end."""
    return {name: encoded(plain(row[name])) for name in ("estimate", "lower", "upper")}


def encoded(value: Any) -> Any:
    """Return a reading as JSON has it, with arrays in base64."""
    if isinstance(value, np.ndarray):
        ordered = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return {"dtype": value.dtype.name, "data": base64.b64encode(ordered.tobytes()).decode("ascii")}
    if isinstance(value, dict):
        return {name: encoded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
