"""Rows as a table, as JSON with one object a line, or as CSV."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from beam_dpsketch.cli.text import UsageError, cell, defused, finite, is_terminal, plain, printable, shown, write

Shape: TypeAlias = Literal["table", "json", "csv"]
SHAPES: tuple[Shape, ...] = ("table", "json", "csv")
Row: TypeAlias = Mapping[str, Any]


def add_format(parser: argparse.ArgumentParser, shapes: Sequence[str] = SHAPES) -> None:
    """Declare how answers are printed; the first shape is the usual one."""
    parser.add_argument("--format", choices=shapes, default=shapes[0], help=f"how to print ({shapes[0]})")
    if "csv" in shapes:
        add_escape_formulas(parser)


def add_escape_formulas(parser: argparse.ArgumentParser) -> None:
    """Declare the option that makes CSV harmless to spreadsheets."""
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="of CSV: put an apostrophe before text that a spreadsheet would take for a formula",
    )


def csv_spelling(arguments: argparse.Namespace, kind: str) -> Callable[[Any], str]:
    """Return how CSV spells values; refuse to escape formulas elsewhere."""
    if arguments.escape_formulas and kind != "csv":
        raise UsageError("--escape-formulas is for CSV alone: leave it out")
    return defused if arguments.escape_formulas else shown


def print_rows(rows: Sequence[Row], arguments: argparse.Namespace) -> None:
    """Write rows to stdout, in the shape that the arguments name."""
    shape, spell = arguments.format, csv_spelling(arguments, arguments.format)
    if shape == "csv":
        on_terminal = is_terminal(sys.stdout)
        write(sys.stdout, as_csv(rows, (lambda value: printable(spell(value))) if on_terminal else spell), exact=True)
    else:
        write(sys.stdout, as_json(rows) if shape == "json" else as_table(rows))


def columns(rows: Iterable[Row]) -> list[str]:
    """Return the names of all columns, in the order in which they first occur."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_json(rows: Iterable[Row]) -> str:
    """Return one object a line, in ASCII that can be printed, with `null` for what a row lacks."""
    rows = list(rows)
    names = columns(rows)
    return "".join(f"{one_line({name: row.get(name) for name in names})}\n" for row in rows)


def one_line(value: Any) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(finite(plain(value)))


def as_csv(rows: Iterable[Row], spell: Callable[[Any], str] = shown) -> str:
    """Return a header and one line a row, with nothing for what a row lacks; `spell` turns values into text."""
    rows = list(rows)
    if not rows:
        return ""
    names, lines = columns(rows), _Lines()
    writer = csv.writer(lines, lineterminator="\r\n")  # or a cell with one of these two would not be quoted
    writer.writerow(names)
    writer.writerows([spell(row.get(name)) for name in names] for row in rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines.written)


class _Lines:
    """Takes lines."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, line: str) -> None:
        self.written.append(line)


def as_table(rows: Iterable[Row]) -> str:
    """Return aligned columns: numbers to the right; columns that are empty, or name the only file, are left out."""
    rows = list(rows)
    names = [name for name in columns(rows) if any(cell(row.get(name)) for row in rows)]
    if len({row.get("file") for row in rows}) == 1 and names[1:]:
        names = [name for name in names if name != "file"]
    lines = [names, *([cell(row.get(name)) or "-" for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_number = [all(isinstance(plain(row.get(name)), (int, float, type(None))) for row in rows) for name in names]
    form = (widths, is_number)
    aligned = (
        [text.rjust(size) if right else text.ljust(size) for text, size, right in zip(line, *form, strict=True)]
        for line in lines
    )
    return "".join(f"{'  '.join(line).rstrip()}\n" for line in aligned) if rows else ""
