"""Rows as a table, as JSON with one object a line, or as CSV."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from beam_dpsketch.cli.text import cell, finite, plain, shown, write

Shape: TypeAlias = Literal["table", "json", "csv"]
SHAPES: tuple[Shape, ...] = ("table", "json", "csv")
Row: TypeAlias = Mapping[str, Any]


def print_rows(rows: Sequence[Row], shape: Shape) -> None:
    """Write rows to stdout."""
    write(sys.stdout, {"table": as_table, "json": as_json, "csv": as_csv}[shape](rows))


def columns(rows: Iterable[Row]) -> list[str]:
    """Return the names of all columns, in the order in which they first occur."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_json(rows: Iterable[Row]) -> str:
    """Return one object a line, with `null` for what a row lacks."""
    rows = list(rows)
    names = columns(rows)
    return "".join(f"{json.dumps({name: finite(plain(row.get(name))) for name in names})}\n" for row in rows)


def as_csv(rows: Iterable[Row]) -> str:
    """Return a header and one line a row, with nothing for what a row lacks."""
    rows = list(rows)
    if not rows:
        return ""
    names, text = columns(rows), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([shown(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


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
