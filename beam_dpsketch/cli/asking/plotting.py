"""`dpsketch plot`: what releases answer, as a picture with one panel for each release, or for each key over time."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from beam_dpsketch.cli.asking.over_time import MAX_SERIES, Moment, moments, read_horizon
from beam_dpsketch.cli.asking.panels import MAX_PANELS, Names, Panel, draw
from beam_dpsketch.cli.asking.query import (
    add_answer_options,
    add_question,
    answer,
    read_asked,
    read_question,
    releases_of,
)
from beam_dpsketch.cli.asking.values import ItemType, read_whole
from beam_dpsketch.cli.output_file import add_output_options, output_kind, write_output
from beam_dpsketch.cli.stored import Stored, add_files
from beam_dpsketch.cli.text import DONE, NO_ANSWER, AnswerError, UsageError, note
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.questions.ask import Ask
from beam_dpsketch.questions.kinds import KINDS, QuestionKind, Takes

FORMATS = ("png", "svg", "pdf")
POINTS, MAX_K, MAX_BINS = 1000, 50, 200
_CHANGES: Mapping[Takes, dict[str, Any]] = {
    Takes.COUNT: {"type": read_whole(1, MAX_K)},
    Takes.PARTS: {
        "nargs": "*",
        "const": None,
        "type": str,
        "metavar": "LOW HIGH",
        "help": "the share at or below values, all of them or from LOW to HIGH",
    },
}
"""What an option draws that is not what it asks in `query`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    alone = parser.add_argument_group("what to draw: of each release, or over the windows of a key")
    kinds = alone.add_mutually_exclusive_group(required=True)
    drawn = [entry for entry in KINDS.values() if entry.drawing is not None]
    for entry in sorted(drawn, key=_is_over_time):
        words = {"help": f"over time: {entry.words}"} if _is_over_time(entry) else {}
        add_question(kinds, entry, **words, **_CHANGES.get(entry.takes, {}))
    add_answer_options(parser)
    parser.add_argument("--so-far", action="store_true", help="over time: all windows up to each, of rows over time")
    parser.add_argument("--value-label", metavar="TEXT", help="what the values are, with their unit: 'delay, minutes'")
    parser.add_argument("--weight-label", metavar="TEXT", help="what is counted: 'flights'")
    add_output_options(parser, FORMATS)


def run(arguments: argparse.Namespace) -> int:
    """Draw all panels; return 1 if a release does not answer."""
    kind, horizon = output_kind(arguments, FORMATS), read_horizon(arguments)
    ask = _with_points(read_question(arguments))
    drawing, over_time = ask.entry.drawing, _is_over_time(ask.entry)
    assert drawing is not None  # or it has no option
    if arguments.so_far and (not over_time or horizon is None):
        raise UsageError("--so-far is about rows over time: give --horizon, and what to draw over time")
    stored = read_asked(arguments)
    panels, code = [], DONE
    found = (_over_time if over_time else _alone)(stored, horizon, arguments, ask)
    for title, panel in found:
        if isinstance(panel, AnswerError):
            note(f"{title}: {panel}")
            code = NO_ANSWER
        else:
            panels.append(panel)
        if len(panels) > MAX_PANELS:
            raise UsageError(
                f"this would draw more than {MAX_PANELS} panels: pick a key with --key, or give fewer files"
            )
    if panels:
        labels = (arguments.value_label, arguments.weight_label, arguments.confidence)
        names = Names(drawing, *labels, so_far=arguments.so_far, whole_domain=isinstance(ask.what, int))
        write_output(arguments, draw(panels, names, kind), [each.path for each in stored])
        note(f"drew {len(panels)} panel(s) to {arguments.output}")
    return code


def _is_over_time(entry: QuestionKind) -> bool:
    return entry.drawing is not None and entry.drawing.form == "lines"


def _with_points(ask: Ask) -> Ask:
    """Return a question with the places that a curve is drawn at; refuse more than a picture shows."""
    option, takes, what = ask.entry.option, ask.entry.takes, ask.what
    if takes is Takes.PARTS:
        if len(what) not in (0, 2):
            raise UsageError(f"--{option} takes no value, or two: LOW HIGH")
        return dataclasses.replace(ask, what=(POINTS, *what) if what else POINTS)
    if takes is Takes.EDGES and len(what) > MAX_BINS + 1:
        raise UsageError(f"--{option} draws at most {MAX_BINS} bins")
    if _is_over_time(ask.entry) and takes is not Takes.NOTHING and len(what) > MAX_SERIES:
        raise UsageError(f"--{option} draws at most {MAX_SERIES} lines")
    return ask


Found = Iterator[tuple[str, "Panel | AnswerError"]]


def _alone(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace, ask: Ask) -> Found:
    """Yield a panel for each release."""
    for title, place, released in releases_of(stored, horizon, arguments.windows):
        if isinstance(released, AnswerError):
            yield title, released
            continue
        try:
            rows = answer(ask, released, title, arguments.type)
            yield title, Panel(place, [rows], released) if rows else AnswerError("found nothing to draw")
        except AnswerError as error:
            yield title, error


def _over_time(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace, ask: Ask) -> Found:
    """Yield a panel for each key over time, with a series for each part of the question."""
    windows = (arguments.windows[0], arguments.windows[1]) if arguments.windows else None
    for title, place, found in moments(stored, horizon, windows, so_far=arguments.so_far):
        try:
            if isinstance(found, AnswerError):
                raise found
            yield title, _panel(title, place, found, ask, arguments.type)
        except AnswerError as error:
            yield title, error


def _panel(title: str, place: dict[str, Any], found: list[Moment], ask: Ask, item_type: ItemType | None) -> Panel:
    """Ask about each window; the first one says on stderr what there is to know."""
    answers: list[list[dict[str, Any]]] = []
    for number, moment in enumerate(found):
        rows = answer(ask, moment.released, title, item_type, quiet=number > 0)
        answers.append([{"time": moment.time, **row} for row in rows])
    series = [list(rows) for rows in zip(*answers, strict=True)]
    return Panel(place, series, found[0].released)
