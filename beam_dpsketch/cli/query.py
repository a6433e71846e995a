"""`dpsketch query`: ask releases, as often as you like."""

from __future__ import annotations

import argparse

from beam_dpsketch.cli.arguments import add_files, add_format
from beam_dpsketch.cli.asking import add_answer_options, asked, read_asked, read_candidates
from beam_dpsketch.cli.faults import DONE, NO_ANSWER, AnswerError, note
from beam_dpsketch.cli.output import print_rows
from beam_dpsketch.cli.over_time import read_horizon
from beam_dpsketch.cli.questions import OPTIONS, Question
from beam_dpsketch.cli.values import read_share, read_whole

MAX_POINTS = 100_000
_MAX_K = 1 << 31


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_format(parser)
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
    add_answer_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answers of all releases; return 1 if one of them does not answer."""
    question, horizon = _question(arguments), read_horizon(arguments)
    rows, code = [], DONE
    for title, place, released in asked(read_asked(arguments), horizon, arguments.windows):
        try:
            if isinstance(released, AnswerError):
                raise released
            rows += [{**place, **row} for row in question.answer(released, title)]
        except AnswerError as error:
            note(f"{title}: {error}")
            code = NO_ANSWER
    print_rows(rows, arguments)
    return code


def _question(arguments: argparse.Namespace) -> Question:
    """Return the question that the arguments ask."""
    ((option, given),) = ((name, value) for name in OPTIONS if (value := getattr(arguments, name)) is not None)
    candidates = read_candidates(arguments, option)
    return Question(option, given, arguments.confidence, arguments.type, candidates)
