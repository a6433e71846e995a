"""`dpsketch spent`: what all releases in some files cost together."""

from __future__ import annotations

import argparse
from typing import Any

from beam_dpsketch._showing import round_up
from beam_dpsketch.cli.asking.values import read_open_share
from beam_dpsketch.cli.inspecting import DELTA_DIGITS, RHO_DIGITS, rounded_delta, rounded_epsilon
from beam_dpsketch.cli.output import add_format, print_rows
from beam_dpsketch.cli.stored import add_files, read_all
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, note
from beam_dpsketch.errors import FormatError
from beam_dpsketch.statement.accounting import Spent, add_up


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_format(parser)
    parser.add_argument(
        "--delta",
        type=read_open_share,
        help="the delta at which epsilon is shown; else the smallest that a release shows its own at",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each unit and relation, and what it means."""
    stored, nothing, damaged = read_all(arguments.files)
    for error in damaged:
        note(FormatError(f"{error.message}; what it has spent is not in these sums"))
    spent = add_up((each.released.privacy for each in stored), [each.spent.privacy for each in nothing])
    print_rows([_row(each, arguments.delta) for each in spent], arguments)
    note(
        "each line says how well its releases together protect what is named, if all are about the same people; "
        "rounded up. Releases that are not in these files add to it."
    )
    if len(spent) > 1:
        note("lines with different units or relations are promises of different kinds, and do not add up to one number")
    return WRONG_USAGE if damaged else DONE


def _row(spent: Spent, delta: float | None) -> dict[str, Any]:
    epsilon, delta = spent.loss.shown(spent.shown_delta) if delta is None else (spent.epsilon(delta), delta)
    return {
        "releases": spent.release_count,
        "runs": spent.run_count,
        "rho": round_up(spent.rho, RHO_DIGITS),
        "epsilon": rounded_epsilon(epsilon),
        "delta": round_up(delta, DELTA_DIGITS),
        "attack_accuracy": round_up(spent.loss.attack_accuracy, 3),
        "keys_delta": rounded_delta(spent.lost),
        "relation": spent.relation.name,
        "protected": spent.unit.value,
        "period_seconds": spent.period_micros / 1_000_000 or None,
    }
