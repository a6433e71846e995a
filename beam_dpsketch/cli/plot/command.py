"""`dpsketch plot`: what releases answer, as a picture with one panel for each release, or for each key over time."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.cli.arguments import add_files
from beam_dpsketch.cli.asking import add_answer_options, asked, read_asked, read_candidates
from beam_dpsketch.cli.faults import DONE, NO_ANSWER, AnswerError, UsageError, note
from beam_dpsketch.cli.output_file import add_output_options, output_kind, write_output
from beam_dpsketch.cli.over_time import read_horizon
from beam_dpsketch.cli.plot.panels import MAX_PANELS, Names, Panel, draw
from beam_dpsketch.cli.plot.series import MAX_SERIES, Moment, moments
from beam_dpsketch.cli.questions import Question
from beam_dpsketch.cli.stored import Stored
from beam_dpsketch.cli.values import read_share, read_whole
from beam_dpsketch.privacy.over_time.horizon import Horizon

KINDS = ("png", "svg", "pdf")
POINTS, MAX_K, MAX_BINS = 1000, 50, 200
_OVER_TIME = ("quantile", "estimate", "total", "records", "units")
_ALONE = ("cdf", "top", "histogram")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    alone = parser.add_argument_group("what to draw: of each release, or over the windows of a key")
    kinds = alone.add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--cdf", nargs="*", metavar="LOW HIGH", help="the share at or below values, all of them or from LOW to HIGH"
    )
    kinds.add_argument("--top", type=read_whole(1, MAX_K), metavar="K", help="the K items of largest estimate")
    kinds.add_argument("--histogram", nargs="+", action="extend", metavar="EDGE", help="the weight of bins, by edges")
    kinds.add_argument(
        "--quantile", nargs="+", type=read_share, action="extend", metavar="Q", help="over time: values at these shares"
    )
    kinds.add_argument("--estimate", nargs="+", action="extend", metavar="ITEM", help="over time: the weight of items")
    for name, what in (("total", "weight"), ("records", "records"), ("units", "privacy units, such as people")):
        kinds.add_argument(f"--{name}", action="store_true", default=None, help=f"over time: how much {what}")
    add_answer_options(parser)
    parser.add_argument("--so-far", action="store_true", help="over time: all windows up to each, of rows over time")
    parser.add_argument("--value-label", metavar="TEXT", help="what the values are, with their unit: 'delay, minutes'")
    parser.add_argument("--weight-label", metavar="TEXT", help="what is counted: 'flights'")
    add_output_options(parser, KINDS)


def run(arguments: argparse.Namespace) -> int:
    """Draw all panels; return 1 if a release does not answer."""
    kind, horizon = output_kind(arguments, KINDS), read_horizon(arguments)
    ((option, given),) = (
        (name, value) for name in (*_ALONE, *_OVER_TIME) if (value := getattr(arguments, name)) is not None
    )
    question = _question(arguments, option, given)
    if arguments.so_far and (option in _ALONE or horizon is None):
        raise UsageError("--so-far is about rows over time: give --horizon, and what to draw over time")
    stored = read_asked(arguments)
    panels, code = [], DONE
    found = (
        _alone(stored, horizon, arguments, question)
        if option in _ALONE
        else _over_time(stored, horizon, arguments, question)
    )
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
        names = Names(option, *labels, so_far=arguments.so_far, whole_domain=not arguments.cdf)
        write_output(arguments, draw(panels, names, kind), [each.path for each in stored])
        note(f"drew {len(panels)} panel(s) to {arguments.output}")
    return code


def _question(arguments: argparse.Namespace, option: str, given: Any) -> Question:
    """Return the question that the arguments ask."""
    if option == "cdf":
        if len(given) not in (0, 2):
            raise UsageError("--cdf takes no value, or two: LOW HIGH")
        given = (POINTS, *given) if given else POINTS
    if option == "histogram" and len(given) > MAX_BINS + 1:
        raise UsageError(f"--histogram draws at most {MAX_BINS} bins")
    if option in ("quantile", "estimate") and len(given) > MAX_SERIES:
        raise UsageError(f"--{option} draws at most {MAX_SERIES} lines")
    return Question(option, given, arguments.confidence, arguments.type, read_candidates(arguments, option))


Found = Iterator[tuple[str, "Panel | AnswerError"]]


def _alone(stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace, question: Question) -> Found:
    """Yield a panel for each release."""
    for title, place, released in asked(stored, horizon, arguments.windows):
        if isinstance(released, AnswerError):
            yield title, released
            continue
        try:
            rows = question.answer(released, title)
            yield title, Panel(place, [rows], released) if rows else AnswerError("found nothing to draw")
        except AnswerError as error:
            yield title, error


def _over_time(
    stored: list[Stored], horizon: Horizon | None, arguments: argparse.Namespace, question: Question
) -> Found:
    """Yield a panel for each key over time, with a series for each part of the question."""
    windows = (arguments.windows[0], arguments.windows[1]) if arguments.windows else None
    for title, place, found in moments(stored, horizon, windows, so_far=arguments.so_far):
        try:
            if isinstance(found, AnswerError):
                raise found
            yield title, _panel(title, place, found, question)
        except AnswerError as error:
            yield title, error


def _panel(title: str, place: dict[str, Any], found: list[Moment], question: Question) -> Panel:
    """Ask about each window; the first one says on stderr what there is to know."""
    answers: list[list[dict[str, Any]]] = []
    for number, moment in enumerate(found):
        rows = question.asked_quietly(number > 0).answer(moment.released, title)
        answers.append([{"time": moment.time, **row} for row in rows])
    series = [list(rows) for rows in zip(*answers, strict=True)]
    return Panel(place, series, found[0].released)
