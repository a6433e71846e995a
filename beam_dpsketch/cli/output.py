"""Command output: rows as a table, JSON or CSV, and files.

Guarantee: a file is replaced only with `--replace`, and its ending names its format. A new file gets its name when it
is complete. Until then, and after a failed write, the earlier file of that name remains. If the name is a link, the
link is replaced and its target remains.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, TypeAlias

from beam_dpsketch.cli.text import DONE, cell, defused, is_terminal, note, write
from beam_dpsketch.errors import UsageError
from beam_dpsketch.statement.clipping import COLUMNS
from beam_dpsketch.statement.showing import finite, in_words, plain, printable
from beam_dpsketch.statement.tabular import Note

Shape: TypeAlias = Literal["table", "json", "csv"]
SHAPES: tuple[Shape, ...] = ("table", "json", "csv")
Row: TypeAlias = Mapping[str, Any]
Said: TypeAlias = tuple[str, object, Iterable[Note]]  # title of a release, its clipping, an error or "", and notes
Say: TypeAlias = Callable[[list[Said]], object]
PICTURES = ("png", "svg", "pdf")
MAX_PANELS = 12
"""Most panels in a picture."""
_TOLD = {"notes", *COLUMNS}
"""Columns for programs. People read the same facts in lines on stderr."""


def add_format(parser: argparse.ArgumentParser, shapes: Sequence[str] = SHAPES) -> None:
    """Declare the output formats. The first shape is the default."""
    parser.add_argument("--format", choices=shapes, default=shapes[0], help=f"how to print ({shapes[0]})")
    if "csv" in shapes:
        add_escape_formulas(parser)


def add_escape_formulas(parser: argparse.ArgumentParser) -> None:
    """Declare the option that escapes spreadsheet formulas in CSV."""
    parser.add_argument(
        "--escape-formulas",
        action="store_true",
        help="in CSV, put an apostrophe before text that a spreadsheet would read as a formula",
    )


def csv_spelling(arguments: argparse.Namespace, kind: str) -> Callable[[Any], str]:
    """Choose the function that formats CSV values. Refuse escaped formulas in other formats."""
    if arguments.escape_formulas and kind != "csv":
        raise UsageError("--escape-formulas is supported for CSV only. Remove it")
    return defused if arguments.escape_formulas else in_words


def print_rows(rows: Sequence[Row], arguments: argparse.Namespace, headers: Mapping[str, str] | None = None) -> None:
    """Write rows to stdout in the requested format.

    Args:
      rows: a mapping per row. Tables omit notes and clipping, which people read in separate lines.
      arguments: the parsed arguments of the command.
      headers: column headers for tables, if they differ from the names in other formats.
    """
    shape, spell = arguments.format, csv_spelling(arguments, arguments.format)
    if shape == "csv":
        on_terminal = is_terminal(sys.stdout)
        write(sys.stdout, as_csv(rows, (lambda value: printable(spell(value))) if on_terminal else spell), exact=True)
    else:
        write(sys.stdout, as_json(rows) if shape == "json" else as_table(_for_people(rows, headers or {})))


def say_notes(found: Iterable[Said]) -> None:
    """Write each distinct line and note to stderr, with the title of its first release. Notes may differ in numbers."""
    said: dict[tuple[str, str], dict[str, str]] = {}
    for title, line, notes in found:
        for start, words in (*[("", str(line))] * bool(line), *(("note: ", each.message) for each in notes)):
            alike = re.sub(r"\d[\d,.]*", "#", words) if start else words
            said.setdefault((start, alike), {}).setdefault(title, words)
    for (start, _), titled in said.items():
        (first, words), *others = titled.items()
        whose = " These numbers are of the first." * (len({*titled.values()}) > 1)
        note(f"{start}{first}{f' and {len(others)} more' if others else ''}: {words}{whose}")


def _for_people(rows: Iterable[Row], headers: Mapping[str, str]) -> list[Row]:
    return [{headers.get(name, name): value for name, value in row.items() if name not in _TOLD} for row in rows]


def columns(rows: Iterable[Row]) -> list[str]:
    """List the column names in order of first occurrence."""
    return list(dict.fromkeys(name for row in rows for name in row))


def as_json(rows: Iterable[Row]) -> str:
    """Format rows as JSON lines in printable ASCII, with `null` for missing columns."""
    rows = list(rows)
    names = columns(rows)
    return "".join(f"{one_line({name: row.get(name) for name in names})}\n" for row in rows)


def one_line(value: Any) -> str:
    """Format a value as a JSON line."""
    return json.dumps(finite(plain(value)))


def print_text(made: Any, arguments: argparse.Namespace) -> int:
    """Write an object to stdout as text or JSON, and return the exit code."""
    write(sys.stdout, f"{one_line(made.as_dict()) if arguments.format == 'json' else made}\n")
    return DONE


def as_csv(rows: Iterable[Row], spell: Callable[[Any], str] = in_words) -> str:
    """Format rows as CSV with a header and empty cells for missing columns. `spell` formats names and values."""
    rows = list(rows)
    if not rows:
        return ""
    names = columns(rows)
    return "".join(map(_csv_line, [[*map(spell, names)], *([spell(row.get(name)) for name in names] for row in rows)]))


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)  # both, so that a cell with either is quoted
    return line.getvalue().removesuffix("\r\n") + "\n"


def as_table(rows: Iterable[Row]) -> str:
    """Format rows as aligned columns. Numbers are aligned to the right.

    Empty columns are omitted, and `file` is omitted if all rows share it. An empty `estimate` column stays, because it
    shows that the release has no estimate.
    """
    rows = list(rows)
    names = [name for name in columns(rows) if name == "estimate" or any(cell(row.get(name)) for row in rows)]
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


def add_output_options(parser: argparse.ArgumentParser, kinds: Sequence[str], *, required: bool = True) -> None:
    """Declare `--output` and `--replace`."""
    parser.add_argument("--output", required=required, metavar=f"X.{'|'.join(kinds)}", help="the file to write")
    parser.add_argument("--replace", action="store_true", help="replace a file of this name")


def output_kind(arguments: argparse.Namespace, kinds: Sequence[str]) -> str:
    """Get the file format from the ending of `--output`. Refuse other endings and unwritable files."""
    kind = os.path.splitext(arguments.output)[1].removeprefix(".")
    if kind not in kinds or "\0" in arguments.output:
        *others, last = (f".{each}" for each in kinds)
        endings = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"--output must end with {endings}, which sets the format")
    check_output(arguments.output, replace=arguments.replace)
    return kind


def check_output(path: str, *, replace: bool, which: str = "") -> None:
    """Refuse an unwritable or existing file before any input is read. `which` describes an existing file."""
    if os.path.lexists(path) and not replace:
        raise _is_there(path, which)
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise UsageError(f"--output must be a file, and {path} is a folder")
    if not os.path.isdir(folder):
        raise UsageError(f"--output must be in an existing folder, got {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        raise UsageError(f"--output must be in a writable folder, got {folder}") from None
    with contextlib.suppress(FileNotFoundError):
        os.lstat(path)  # raises if the folder does not support such a name, or it is too long


def unfinished_files(paths: Sequence[str]) -> list[str]:
    """Find unfinished files that interrupted commands left next to these paths."""
    folders, names = {os.path.dirname(path) for path in paths}, [_unfinished(os.path.basename(path)) for path in paths]
    return sorted(
        os.path.join(folder, name)
        for folder in folders
        for name in os.listdir(folder or ".")
        if name.startswith(tuple(names))
    )


def write_output(arguments: argparse.Namespace, data: bytes, read: Iterable[str]) -> None:
    """Write `--output`, which must differ from all input files."""
    refuse_input(arguments.output, read)
    try:
        with complete_file(arguments.output, replace=arguments.replace) as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"{arguments.output} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def complete_file(path: str, *, replace: bool, which: str = "") -> Iterator[BinaryIO]:
    """Open a file that appears under its name when complete. Without `replace`, `path` must not exist by then."""
    folder, name = os.path.split(path)
    handle, unfinished = tempfile.mkstemp(prefix=_unfinished(name), dir=folder or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(unfinished, 0o666 & ~_umask())
        if replace:
            os.replace(unfinished, path)
        else:
            _rename(unfinished, path, which)
    finally:
        with contextlib.suppress(OSError):  # the next run reports a leftover file
            os.unlink(unfinished)


def _unfinished(name: str) -> str:
    """Prefix of the temporary name, shortened to leave room for a suffix."""
    return os.fsdecode(os.fsencode(f".{name}")[:200]) + ".unfinished."


def _rename(unfinished: str, path: str, which: str) -> None:
    try:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise
        except OSError:  # the filesystem has no hard links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            try:
                os.replace(unfinished, path)
            except OSError:
                os.unlink(path)
                raise
    except FileExistsError:
        raise _is_there(path, which) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _is_there(path: str, which: str) -> UsageError:
    return UsageError(f"{path} already exists{which}. To replace it, use --replace")


def refuse_input(path: str, read: Iterable[str]) -> None:
    """Refuse an output path that is also an input file."""
    if os.path.realpath(path) in map(os.path.realpath, read):
        raise UsageError("--output must differ from all input files")
