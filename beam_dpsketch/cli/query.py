"""`dpsketch query`: ask releases, as often as you like."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.cli.faults import DONE, NO_ANSWER, AnswerError, UsageError, note
from beam_dpsketch.cli.output import print_rows
from beam_dpsketch.cli.over_time import group_rows, read_horizon
from beam_dpsketch.cli.questions import QUESTIONS, Question
from beam_dpsketch.cli.stored import Stored, read_stored
from beam_dpsketch.cli.text import shown
from beam_dpsketch.cli.values import ITEM_TYPES, read_confidence, read_share, read_whole
from beam_dpsketch.release.over_time.horizon import Horizon
from beam_dpsketch.release.released_sketch import ReleasedSketch

MAX_POINTS = 100_000
_MAX_K = 1 << 31
_MAX_WINDOW = (1 << 17) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    kinds = parser.add_argument_group("one kind of question").add_mutually_exclusive_group(required=True)
    kinds.add_argument(
        "--quantile",
        nargs="+",
        type=read_share,
        action="extend",
        metavar="Q",
        help="the values at these shares, 0 to 1",
    )
    kinds.add_argument("--rank", nargs="+", action="extend", metavar="VALUE", help="the weight at or below values")
    kinds.add_argument(
        "--range",
        nargs=2,
        action="append",
        metavar=("LOW", "HIGH"),
        help="the weight from LOW to HIGH; repeat for more",
    )
    kinds.add_argument("--histogram", nargs="+", action="extend", metavar="EDGE", help="the weight of bins, by edges")
    kinds.add_argument(
        "--cdf",
        nargs="?",
        const=20,
        type=read_whole(1, MAX_POINTS),
        metavar="N",
        help="the share of the weight at or below the ends of N equal parts of the domain (20)",
    )
    kinds.add_argument("--estimate", nargs="+", action="extend", metavar="ITEM", help="the weight of items")
    kinds.add_argument("--top", type=read_whole(1, _MAX_K), metavar="K", help="the K items of largest estimate")
    for name, what in (("total", "weight"), ("records", "records"), ("units", "privacy units, such as people,")):
        kinds.add_argument(f"--{name}", action="store_true", default=None, help=f"how much {what} the release holds")
    parser.add_argument("--key", help="only the releases of this output key")
    parser.add_argument("--candidates", metavar="FILE", help="the items that --top chooses from, one a line; public")
    parser.add_argument("--type", choices=ITEM_TYPES, help="what the items of a sketch are (text)")
    parser.add_argument(
        "--confidence", type=read_confidence, default=0.95, metavar="C", help="of each interval, between 0 and 1 (0.95)"
    )
    parser.add_argument(
        "--horizon",
        nargs=3,
        metavar=("START", "SIZE", "WINDOWS"),
        help="of rows over time, as declared: 2024-01-01T00:00Z 1h 24",
    )
    parser.add_argument(
        "--windows",
        nargs=2,
        type=read_whole(0, _MAX_WINDOW),
        metavar=("FIRST", "LAST"),
        help="which windows of the horizon are asked about (all that are there)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the answers of all releases; return 1 if one of them does not answer."""
    question, horizon = _question(arguments), read_horizon(arguments)
    stored = read_stored(arguments.files)
    if arguments.key is not None:
        stored = [each for each in stored if each.key is not None and shown(each.key) == arguments.key]
        if not stored:
            raise AnswerError("no release in these files has this --key; `dpsketch inspect` lists their keys")
    if arguments.windows and all(isinstance(each.released, ReleasedSketch) for each in stored):
        raise UsageError("--windows is about rows over time, and these files hold none")
    rows, code = [], DONE
    for title, place, released in _asked(stored, horizon, arguments.windows):
        try:
            if isinstance(released, AnswerError):
                raise released
            rows += [{**place, **row} for row in question.answer(released, title)]
        except AnswerError as error:
            note(f"{title}: {error}")
            code = NO_ANSWER
    print_rows(rows, arguments.format)
    return code


def _asked(
    stored: list[Stored], horizon: Horizon | None, windows: list[int] | None
) -> Iterator[tuple[str, dict[str, Any], ReleasedSketch | AnswerError]]:
    """Yield what can be asked, with its title and its columns; in place of an answer that is not there, the error."""
    for each in stored:
        if isinstance(each.released, ReleasedSketch):
            yield each.title, each.place, each.released
    for rows in group_rows(stored):
        if horizon is None:
            raise UsageError(
                f"{rows.title}: holds rows over time; give --horizon START SIZE WINDOWS, as it was declared for them"
            )
        try:
            yield rows.title, *rows.answer(horizon, (windows[0], windows[1]) if windows else None)
        except AnswerError as error:
            yield rows.title, {}, error


def _question(arguments: argparse.Namespace) -> Question:
    """Return the question that the arguments ask."""
    ((option, asked),) = ((name, value) for name in QUESTIONS if (value := getattr(arguments, name)) is not None)
    candidates = None
    if arguments.candidates is not None:
        if option != "top":
            raise UsageError("--candidates is for --top alone")
        candidates = _lines(arguments.candidates)
    return Question(option, asked, arguments.confidence, arguments.type, candidates)


def _lines(path: str) -> list[str]:
    """Return the lines of a file, without empty ones."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line for line in file.read().split("\n") if line]
    except ValueError:  # of the encoding; its message would contain bytes of the file
        raise UsageError("--candidates must be a file of text in UTF-8, with one item a line") from None
    if not lines:
        raise UsageError("--candidates must list the items to choose from, one a line, and the file is empty")
    return lines
