"""`dpsketch inspect`: what is in files of releases, and how well it is protected."""

from __future__ import annotations

import argparse
import math
import os
import sys
from fractions import Fraction
from typing import Any

from beam_dpsketch._showing import round_up
from beam_dpsketch.answers.notes import codes
from beam_dpsketch.cli.output import add_format, print_rows, say_notes
from beam_dpsketch.cli.stored import Nothing, Stored, add_files, read_all
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, note, write
from beam_dpsketch.statement.release_id import PART_BYTES, RUN_BYTES
from beam_dpsketch.statement.showing import printable
from beam_dpsketch.statement.statement import PrivacyStatement

RHO_DIGITS, EPSILON_DIGITS, DELTA_DIGITS = 6, 4, 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_format(parser)
    parser.add_argument("--privacy", action="store_true", help="print the whole privacy statement of each release")


def run(arguments: argparse.Namespace) -> int:
    """Print one line a release."""
    stored, nothing, damaged = read_all(arguments.files)
    for error in damaged:
        note(error)
    rows = [*map(describe, stored), *map(_describe_nothing, nothing)]
    said = [(each.title, each.released.privacy, str(each.released.privacy)) for each in stored]
    said += [(each.path, each.spent.privacy, str(each.spent)) for each in nothing]
    if arguments.privacy and arguments.format == "json":
        rows = [{**row, "statement": privacy.as_dict()} for row, (_, privacy, _) in zip(rows, said, strict=True)]
    elif arguments.privacy and arguments.format == "csv":
        rows = [{**row, "statement": words} for row, (_, _, words) in zip(rows, said, strict=True)]
    say_notes((each.title, each.released.clipping(), each.released.notes) for each in stored)
    print_rows(rows, arguments, {"holds": "holds (+-95 %)"})
    if arguments.privacy and arguments.format == "table":
        for title, _, words in said:
            write(sys.stdout, f"\n{printable(title)}:\n{words}\n")
    return WRONG_USAGE if damaged else DONE


def describe(stored: Stored) -> dict[str, Any]:
    """Make one row about a release. Losses are rounded up."""
    released = stored.released
    row = f"{released.number} of {released.mechanism.row_count}" if released.is_row else None
    size = {"over": released.spec.describe(), "bytes": len(released.to_bytes())}
    return _row({**stored.place, "kind": released.spec.kind, "row": row, **size}, released.privacy, released)


def _describe_nothing(nothing: Nothing) -> dict[str, Any]:
    place = {"file": os.path.basename(nothing.path), "key": None, "window": None}
    size = {"row": None, "over": None, "bytes": None}
    return _row({**place, "kind": "nothing: no key chosen", **size}, nothing.spent.privacy, None)


def _row(what: dict[str, Any], statement: PrivacyStatement, released: Any) -> dict[str, Any]:
    return {
        **what,
        **shown_losses(statement),
        "relation": statement.relation.name,
        "protected": statement.unit.value,
        "holds": None if released is None else released._holds,
        **({} if released is None else released.clipping().columns()),
        "notes": "" if released is None else codes(released.notes),
        "release_id": short_id(statement),
    }


def shown_losses(statement: PrivacyStatement) -> dict[str, Any]:
    """Return the losses of a statement, each rounded up in its last digit; `keys_delta` is `None` if it is 0."""
    return {
        "rho": round_up(statement.rho, RHO_DIGITS),
        "epsilon": rounded_epsilon(statement.shown_epsilon),
        "delta": round_up(statement.delta_of_epsilon, DELTA_DIGITS),
        "keys_delta": rounded_delta(statement.delta),
    }


def rounded_epsilon(epsilon: float) -> float:
    """Return an epsilon in a few digits, rounded up."""
    return epsilon if math.isinf(epsilon) else round_up(epsilon, EPSILON_DIGITS)


def rounded_delta(delta: Fraction) -> float | None:
    """Return the delta of chosen keys or items in a few digits, rounded up; `None` for 0."""
    return round_up(delta, DELTA_DIGITS) if delta else None


def short_id(statement: PrivacyStatement) -> str:
    """Return the beginnings of the parts of a release id: equal ones are of one run, before the first dash."""
    first = statement.release_ids[0]
    parts = (first[:4], first[RUN_BYTES:][:2], first[RUN_BYTES + PART_BYTES :][:2])
    more = f" and {len(statement.release_ids) - 1} more" if len(statement.release_ids) > 1 else ""
    return "-".join(part.hex() for part in parts) + more
