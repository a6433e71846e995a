"""Stored releases with the file, key and window of each, and the command `dpsketch inspect`."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import io
import math
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, Unreleased
from beam_dpsketch.answers.release_file import SUFFIX, read_elements
from beam_dpsketch.cli.output import (
    add_format,
    add_output_options,
    columns,
    output_kind,
    print_rows,
    say_notes,
    write_output,
)
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, AnswerError, note, write
from beam_dpsketch.config.forms import read_time
from beam_dpsketch.errors import FormatError, UsageError, together
from beam_dpsketch.statement.clipping import COLUMNS
from beam_dpsketch.statement.release_id import PART_BYTES, RUN_BYTES, runs
from beam_dpsketch.statement.showing import finite, in_words, is_key_column, key_columns, printable
from beam_dpsketch.words import round_up

_TIME = r"(\d{8}T\d{6}(?:\.\d{6})?)Z"
_WINDOW = re.compile(f"-{_TIME}-{_TIME}{re.escape(SUFFIX)}", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Stored:
    """Release or timeline row, with its file and key. `file` is the file in tables."""

    path: str
    key: Any
    released: Any
    file: str

    @property
    def key_columns(self) -> dict[str, Any]:
        return key_columns(self.key, self.released.privacy.key_names)

    @property
    def place(self) -> dict[str, Any]:
        return {"file": self.file, **self.key_columns, "window": window_of(self.path)}

    @property
    def title(self) -> str:
        return self.path if self.key is None else f"{self.path}, key {in_words(self.key)}"


class Nothing(NamedTuple):
    """Run without any release, and its file."""

    path: str
    spent: Unreleased


def add_files(parser: argparse.ArgumentParser) -> None:
    """Declare the release files that a command reads."""
    words = "files of releases, patterns with wildcards, or folders; give them before the options"
    parser.add_argument("files", nargs="+", metavar="FILE", help=words)


def add_key(parser: argparse.ArgumentParser) -> None:
    """Declare the option that selects an output key."""
    words = "only the releases of this output key, with a value for each column"
    parser.add_argument("--key", nargs="+", action="extend", metavar="VALUE", help=words)


def with_key(stored: list[Stored], key: list[str] | None) -> list[Stored]:
    """Select the releases of a key. `None` selects all releases."""
    if key is None:
        return stored
    found = [each for each in stored if each.key is not None and [*map(in_words, each.key_columns.values())] == key]
    if not found:
        raise AnswerError(
            "no release in these files has this --key. Give a value for each column of a key. `dpsketch inspect` "
            "lists the keys"
        )
    return found


def read_stored(names: Sequence[str]) -> list[Stored]:
    """Read releases from files in the order of their names, and write a note for each run without releases.

    Raises the errors of damaged files together, `AnswerError` if there is no release, and errors of `read_all`.
    """
    stored, nothing, damaged = read_all(names)
    if damaged:
        raise together(damaged)
    for each in nothing:
        words = (
            "no key passed the selection, so it contains no release. `dpsketch spent` shows the privacy loss of the run"
        )
        note(f"{each.path}: {words}")
    if not stored:
        raise AnswerError("these files contain no release")
    return stored


def read_all(names: Sequence[str]) -> tuple[list[Stored], list[Nothing], list[FormatError]]:
    """Read releases from files in the order of their names, runs without releases, and errors for damaged files.

    Args:
      names: paths, patterns with wildcards, and folders. A folder stands for all release files in its tree.

    Raises `UsageError` if a name matches no file, and `OSError`. A damaged file, or a file of another format, is
    returned as an error.
    """
    paths = {os.path.realpath(path): path for name in names for path in _paths(name)}  # each file once
    found: list[tuple[str, Any]] = []
    damaged = []
    for path in paths.values():
        try:
            found += [(path, element) for element in read_elements(path)]
        except FormatError as error:
            damaged.append(error)
    files = files_in_tables(paths.values())
    stored = [_stored(path, element, files[path]) for path, element in found if not isinstance(element, Unreleased)]
    known = runs([release_id for each in stored for release_id in each.released.privacy.release_ids])
    nothing = [Nothing(path, each) for path, each in found if isinstance(each, Unreleased)]
    return stored, [each for each in nothing if not runs(each.spent.privacy.release_ids) & known], damaged


def files_in_tables(paths: Collection[str]) -> dict[str, str]:
    """Shorten different paths to names of files, unless two files have the same name."""
    files = {path: os.path.basename(path) for path in paths}
    return files if len({*files.values()}) == len(files) else {path: path for path in paths}


def window_of(path: str) -> str | None:
    """Parse the window in a file name as an ISO 8601 interval; `None` without a window.

    >>> window_of("out/hours-20130101T050000Z-20130101T060000Z.dpsketch")
    '2013-01-01T05:00:00Z/2013-01-01T06:00:00Z'
    """
    found = _WINDOW.search(path)
    if not found or found.end() < len(path):
        return None
    try:
        return "/".join(map(_spaced, found.groups()))
    except ValueError:
        return None


def name_without_window(path: str) -> str:
    """Remove the window from a file name.

    >>> name_without_window("out/hours-20130101T050000Z-20130101T060000Z.dpsketch")
    'out/hours'
    """
    return _WINDOW.sub("", path)


def _spaced(time: str) -> str:
    return f"{read_time(time, '').replace(tzinfo=None).isoformat()}Z"


def _paths(name: str) -> list[str]:
    if "\0" in name:
        raise UsageError("file names must not contain a zero byte")
    if os.path.isdir(name):
        found = sorted(_inside(name))
        missing = f"no file in {name} ends with {SUFFIX}"
    else:
        found = [name] if os.path.exists(name) else sorted(glob.glob(name))
        missing = f"no file matches {name}" + (
            ". Only local files are supported. Copy the files to this machine" if "://" in name else ""
        )
    if not found:
        raise UsageError(missing)
    if folders := [path for path in found if os.path.isdir(path)]:
        found = [path for path in found if path not in folders]
        found += [inside for each in folders for inside in _paths(each)]
    return found


def _inside(folder: str) -> Iterator[str]:
    """Yield the release files in a folder, also behind links. An unreadable folder raises an error."""

    def refuse(error: OSError) -> None:
        raise error

    seen = {os.path.realpath(folder)}
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        real = {name: os.path.realpath(os.path.join(parent, name)) for name in folders}
        folders[:] = [name for name, path in real.items() if path not in seen]  # links may form a cycle
        seen.update(real.values())
        yield from (os.path.join(parent, name) for name in files if name.endswith(SUFFIX))


def _stored(path: str, element: Any, file: str) -> Stored:
    key, released = element if isinstance(element, tuple) else (None, element)
    return Stored(path, key, released, file)


TitledStatement: TypeAlias = tuple[str, PrivacyStatement, str]
"""Title of a release, its privacy statement and the statement's text."""
RHO_DIGITS, EPSILON_DIGITS, DELTA_DIGITS = 6, 4, 6


def declare_inspect(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `inspect`."""
    add_files(parser)
    add_format(parser)
    add_key(parser)
    words = "print the whole privacy statement of each run, and what differs between its releases"
    parser.add_argument("--privacy", action="store_true", help=words)
    add_output_options(parser, ["parquet"], required=False)


def inspect(arguments: argparse.Namespace) -> int:
    """Run `dpsketch inspect`.

    Each release has a line, or a row in a Parquet file.
    """
    if arguments.output is not None:
        output_kind(arguments, ["parquet"])
        if arguments.privacy or arguments.format != "table":
            raise UsageError("--privacy and --format are not supported with --output. Remove them")
    elif arguments.replace:
        raise UsageError("--replace requires --output. Remove it, or set --output")
    stored, nothing, damaged = read_all(arguments.files)
    for error in damaged:
        note(error)
    if arguments.key is not None:
        stored, nothing = with_key(stored, arguments.key), []
    rows = [*map(describe, stored), *map(_describe_nothing, nothing)]
    said = [(each.title, each.released.privacy, each.released.privacy.text()) for each in stored]
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
    print_rows(rows, arguments, {"holds": "contents (±95 %)"})
    if arguments.privacy and arguments.format == "table":
        _print_statements(said)
    return WRONG_USAGE if damaged else DONE


def _print_statements(said: list[TitledStatement]) -> None:
    """Print the lines that all releases of a run share, then the other lines of each release."""
    by_run: dict[frozenset[bytes], list[tuple[str, list[str]]]] = {}
    for title, privacy, words in said:
        of_run = by_run.setdefault(frozenset(runs(privacy.release_ids)), [])
        of_run.append((printable(title), words.splitlines()))
    for (title, lines), *others in by_run.values():
        shared = [line for line in lines if others and all(line in each for _, each in others)]
        if others:
            write(sys.stdout, "\n".join((f"\n{title} and {len(others)} more:", *shared, "")))
        for name, each in ((title, lines), *others):
            if own := [line for line in each if line not in shared]:
                write(sys.stdout, "\n".join((f"\n{name}:", *own, "")))


def _in_unicode(part: Any) -> str | None:
    return None if part is None else in_words(part).encode("utf-8", "backslashreplace").decode()


def _parquet(rows: list[dict[str, Any]], said: list[TitledStatement], releases: list[bytes | None]) -> bytes:
    """Format rows as Parquet with statements, all release ids, and the bytes for `from_bytes`."""
    import pyarrow.parquet as pq  # lazy import: slow

    table, keys = [], [name for name in columns(rows) if is_key_column(name)]
    schema = pa.schema([pa.field("file", pa.string()), *(pa.field(name, pa.string()) for name in keys), *_SCHEMA])
    for row, (_, privacy, words), release in zip(rows, said, releases, strict=True):
        texts = {name: _in_unicode(row.get(name)) for name in keys}  # files may have different key columns
        ids = [release_id.hex() for release_id in privacy.release_ids]
        every = {**row, **texts, "release_ids": ids, "statement": words, "release": release}
        table.append({name: finite(every.get(name)) for name in schema.names})
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(table, schema), sink)
    return sink.getvalue()


_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("window", "kind", "row", "over"), pa.string()),
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
    """Describe a release in a row. Privacy losses are rounded up."""
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
        "protected": statement.privacy_unit.value,
        "holds": None if released is None else released._holds,
        **({} if released is None else released.clipping().columns()),
        "notes": "" if released is None else codes(released.notes),
        "release_id": short_id(statement),
    }


def shown_losses(statement: PrivacyStatement) -> dict[str, Any]:
    """List the privacy losses of a statement, rounded up. `keys_delta` is `None` if it is 0."""
    return {
        "rho": round_up(statement.rho, RHO_DIGITS),
        "epsilon": rounded_epsilon(statement.reported_epsilon),
        "delta": round_up(statement.delta_of_epsilon, DELTA_DIGITS),
        "keys_delta": rounded_delta(statement.delta),
    }


def rounded_epsilon(epsilon: float) -> float:
    """Round epsilon up to 4 significant digits."""
    return epsilon if math.isinf(epsilon) else round_up(epsilon, EPSILON_DIGITS)


def rounded_delta(delta: Fraction) -> float | None:
    """Round the delta of key or item selection up to 6 significant digits; `None` for 0."""
    return round_up(delta, DELTA_DIGITS) if delta else None


def short_id(statement: PrivacyStatement) -> str:
    """Abbreviate a release id. Releases from the same run are equal up to the first dash."""
    first = statement.release_ids[0]
    parts = (first[:4], first[RUN_BYTES:][:2], first[RUN_BYTES + PART_BYTES :][:2])
    more = f" and {len(statement.release_ids) - 1} more" if len(statement.release_ids) > 1 else ""
    return "-".join(part.hex() for part in parts) + more
