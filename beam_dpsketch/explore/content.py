"""What a page knows of one release: its statement, its numbers, its largest items, and the reading that answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.answers.questions.entries import Answered, Takes
from beam_dpsketch.answers.questions.kinds import KINDS
from beam_dpsketch.answers.released import Released
from beam_dpsketch.explore.entries import Chosen
from beam_dpsketch.plots.asking import counted
from beam_dpsketch.privacy.aside.side_counters import RECORDS, WEIGHT
from beam_dpsketch.statement.showing import finite, in_words, interval_words, plain, shown

MOST_LISTED = 1000
_CHOSEN = (
    "Each interval is about an item that is chosen before looking. Of the largest of many, fewer hold, as noise lifted "
    "some to the top."
)
_ALL = {"records", "total_weight", "privacy_units"}


class Wanted(NamedTuple):
    """How releases are asked while a page is made, and what their values and weights are called."""

    confidence: float
    candidates: Sequence[Any] | None
    value: str | None = None
    weight: str | None = None


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
            "counted": _counted(part, wanted),
            "value": wanted.value or "value",
            "intervals": interval_words(wanted.confidence, part.clipping()),
            "clipping": part.clipping().as_dict(),
            "statement": released.privacy.facts,
            "notes": [*_notes(chosen, part)],
            "holds": "" if released._holds is None else f"it holds {released._holds}",
            "numbers": [*_numbers(chosen, part, wanted)],
            "top": top_of(part, wanted),
            "reading": encoded(part.reading(wanted.confidence)),
        }


def _notes(chosen: Chosen, part: Released) -> Iterator[str]:
    yield from (note.words for note in dict.fromkeys((*chosen.released.notes, *part.notes)))
    if chosen.gap:
        yield f"{chosen.gap}, so later windows are not in this page"


def _counted(released: Released, wanted: Wanted) -> str:
    """Return what is counted, in words."""
    kept = " that the bounds kept" if released.privacy.is_bounded else ""
    return f"{wanted.weight or counted(released)}{kept}"


def _numbers(chosen: Chosen, part: Released, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield the answers to questions that take nothing; what is counted aside is of all metrics together.

    Left out is what says less than another: units that are records, weight that is counted as records, and both where
    numbers are counted closer.
    """
    unit, several = part.privacy.unit, chosen.moment is None and "from" in chosen.place
    known = {"privacy_units"} if unit.is_one_record else set()
    weight = chosen.released.privacy.note(WEIGHT)
    known |= {"total_weight"} if weight is not None and weight is chosen.released.privacy.note(RECORDS) else set()
    known |= {"records", "total_weight"} if KINDS["count"].method in dir(part) else set()
    for kind, entry in KINDS.items():
        if entry.takes is Takes.NOTHING and kind not in known:
            question = Ask(kind, None, wanted.confidence)
            answered = (ask(question, chosen.released) if kind in _ALL else None) or ask(question, part)
            if answered is not None:
                axis = entry.drawing.axis if entry.drawing else None
                again = ", each once in each window" if several and kind == "privacy_units" else ""
                words = {"kind": kind, "words": f"{entry.words}{again}", "axis": axis or _counted(part, wanted)}
                yield {**words, **numbers_of(answered.rows[0])}


def top_of(released: Released, wanted: Wanted) -> dict[str, Any] | None:
    """Return the largest items; `None` of a release that has none, or needs a list to choose from and has none."""
    candidates = None if searches(released) else wanted.candidates
    answered = ask(Ask("top_k", MOST_LISTED, wanted.confidence, candidates), released)
    if answered is None:
        return None
    limit = getattr(answered.answer, "detection_limit", None)
    finds = (
        [] if limit is None else [f"Items of {shown(limit)} or more that the bounds kept exceed the noise with 95 %."]
    )
    chosen, count = [_CHOSEN] if len(answered.rows) > 1 else [], len(answered.rows)
    return {
        "caption": f"The most frequent, with {answered.intervals}",
        "summary": f"All {count:,} of the list" if count < MOST_LISTED else f"The {count:,} most frequent",
        "rows": [{"item": _shown_item(row), **numbers_of(row)} for row in answered.rows],
        "notes": [*finds, *chosen, *(note.words for note in answered.notes if note not in released.notes)],
    }


def _shown_item(row: dict[str, Any]) -> str:
    """Return an item in words; three dots follow one that stands for all that begin so."""
    return in_words(row["item"]) + "\u2026" * row.get("truncated", False)


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
    return {name: finite(plain(row[name])) for name in ("estimate", "lower", "upper")}


def encoded(value: Any) -> Any:
    """Return a reading as JSON has it, with arrays in base64."""
    if isinstance(value, np.ndarray):
        ordered = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        return {"dtype": value.dtype.name, "data": base64.b64encode(ordered.tobytes()).decode("ascii")}
    if isinstance(value, dict):
        return {name: encoded(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(each) for each in value]
    return finite(plain(value))
