"""`dpsketch inspect`: what is in files of releases, and how well it is protected."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
from fractions import Fraction
from typing import Any

import pyarrow as pa

from beam_dpsketch._showing import round_up
from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.cli.output import add_format, add_output_options, output_kind, print_rows, say_notes, write_output
from beam_dpsketch.cli.stored import Nothing, Stored, add_files, read_all
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, note, write
from beam_dpsketch.errors import UsageError
from beam_dpsketch.statement.clipping import COLUMNS
from beam_dpsketch.statement.release_id import PART_BYTES, RUN_BYTES
from beam_dpsketch.statement.showing import finite, in_words, printable

RHO_DIGITS, EPSILON_DIGITS, DELTA_DIGITS = 6, 4, 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_format(parser)
    parser.add_argument("--privacy", action="store_true", help="print the whole privacy statement of each release")
    add_output_options(parser, ["parquet"], required=False)


def run(arguments: argparse.Namespace) -> int:
    """Print one line a release, or write one row a release to a Parquet file."""
    if arguments.output is not None:
        output_kind(arguments, ["parquet"])
        if arguments.privacy or arguments.format != "table":
            raise UsageError("--privacy and --format are for what is printed: leave them out with --output")
    elif arguments.replace:
        raise UsageError("--replace is for --output: leave it out, or name a file")
    stored, nothing, damaged = read_all(arguments.files)
    for error in damaged:
        note(error)
    rows = [*map(describe, stored), *map(_describe_nothing, nothing)]
    said = [(each.title, each.released.privacy, str(each.released.privacy)) for each in stored]
    said += [(each.path, each.spent.privacy, str(each.spent)) for each in nothing]
    if arguments.output is not None:
        releases = [*(each.released.to_bytes() for each in stored), *(None for _ in nothing)]
        write_output(
            arguments,
            _parquet(rows, said, releases),
            [*(each.path for each in stored), *(each.path for each in nothing)],
        )
        note(f"wrote {len(rows)} row(s) to {arguments.output}")
        return WRONG_USAGE if damaged else DONE
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


def _parquet(
    rows: list[dict[str, Any]], said: list[tuple[str, PrivacyStatement, str]], releases: list[bytes | None]
) -> bytes:
    """Return rows with their statements, all their release ids, and the bytes that `from_bytes` reads."""
    import pyarrow.parquet as pq  # only here: it takes time to import

    table = []
    for row, (_, privacy, words), release in zip(rows, said, releases, strict=True):
        key = None if row["key"] is None else in_words(row["key"]).encode("utf-8", "backslashreplace").decode()
        ids = [release_id.hex() for release_id in privacy.release_ids]
        every = {**row, "key": key, "release_ids": ids, "statement": words, "release": release}
        table.append({name: finite(every.get(name)) for name in _SCHEMA.names})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(table, _SCHEMA), sink)
    return sink.getvalue()


_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("file", "key", "window", "kind", "row", "over"), pa.string()),
        "bytes": pa.int64(),
        **dict.fromkeys(("rho", "epsilon", "delta", "keys_delta"), pa.float64()),
        **dict.fromkeys(("relation", "protected", "holds"), pa.string()),
        COLUMNS[0]: pa.string(),
        **dict.fromkeys(COLUMNS[1:], pa.float64()),
        **dict.fromkeys(("notes", "release_id"), pa.string()),
        "release_ids": pa.list_(pa.string()),
        "statement": pa.string(),
        "release": pa.binary(),
    }
)


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
