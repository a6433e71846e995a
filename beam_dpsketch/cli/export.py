"""`dpsketch export`: releases as a table with one row each, for warehouses and spreadsheets."""

from __future__ import annotations

import argparse
import base64
import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from beam_dpsketch.cli.inspecting import describe
from beam_dpsketch.cli.output import (
    add_escape_formulas,
    add_output_options,
    as_csv,
    as_json,
    csv_spelling,
    output_kind,
    write_output,
)
from beam_dpsketch.cli.stored import Stored, add_files, read_stored
from beam_dpsketch.cli.text import DONE, note
from beam_dpsketch.statement.clipping import COLUMNS
from beam_dpsketch.statement.showing import finite, in_words

FORMATS = ("parquet", "csv", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_files(parser)
    add_output_options(parser, FORMATS)
    add_escape_formulas(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write one row for each release, or refuse to replace a file."""
    kind = output_kind(arguments, FORMATS)
    spell = csv_spelling(arguments, kind)
    stored = read_stored(arguments.files)
    data = _parquet(stored) if kind == "parquet" else _text(stored, kind, spell)
    write_output(arguments, data, [each.path for each in stored])
    note(f"wrote {len(stored)} release(s) to {arguments.output}")
    return DONE


def to_row(stored: Stored) -> dict[str, Any]:
    """Make one row: the columns of `inspect`, the statement, all release ids, and the bytes for `from_bytes`."""
    released = stored.released
    ids = [release_id.hex() for release_id in released.privacy.release_ids]
    return {**describe(stored), "release_ids": ids, "statement": str(released.privacy), "release": released.to_bytes()}


def _text(stored: list[Stored], kind: str, spell: Callable[[Any], str]) -> bytes:
    rows = [{**(row := to_row(each)), "release": base64.b64encode(row["release"]).decode()} for each in stored]
    if kind == "csv":
        rows = [{**row, "release_ids": " ".join(row["release_ids"])} for row in rows]
    return (as_csv(rows, spell) if kind == "csv" else as_json(rows)).encode("utf-8", "backslashreplace")


def _parquet(stored: list[Stored]) -> bytes:
    """Return the rows as Parquet, with the types of `_SCHEMA`."""
    import pyarrow.parquet as pq  # only here: it takes time to import

    rows = [{**row, "key": None if row["key"] is None else _valid(in_words(row["key"]))} for row in map(to_row, stored)]
    columns = {name: [finite(row[name]) for row in rows] for name in _SCHEMA.names if name != "release"}
    table = pa.table({**columns, "release": [row["release"] for row in rows]}, schema=_SCHEMA)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _valid(text: str) -> str:
    """Return text with escapes for what is not valid Unicode."""
    return text.encode("utf-8", "backslashreplace").decode()


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
