"""Text input and output of commands: values, terminal-safe lines, errors that stop a command, argument readers.

Guarantee: every command prints only printable characters and line ends to a terminal. Files and other programs receive
exact CSV, and JSON with escapes that represent the exact text.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import errno
import math
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any, TextIO

from beam_dpsketch.errors import SHELL, ConfigError, InputWarning, OneCodeError, RefusalError, UsageError
from beam_dpsketch.statement.showing import in_words, plain, printable
from beam_dpsketch.words import BLANKS

DONE, NO_ANSWER, WRONG_USAGE = 0, 1, 2
"""Exit codes."""
STDOUT = "stdout"
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are full-width variants of the first four


class AnswerError(OneCodeError):
    """The release does not support the question."""

    usual_code = "E902"
    door = SHELL


@contextlib.contextmanager
def in_words_of(kind: type[OneCodeError], *errors: type[Exception], place: str = "") -> Iterator[None]:
    """Convert errors of these types to a kind that the command handles, and begin their messages with their place."""
    try:
        yield
    except errors as error:
        raise kind.of(error, lambda each: f"{place}{each.message}") from None


def note(message: object, *more: str) -> None:
    """Write a message to stderr, with a line for each refusal, and more lines below it.

    A closed stderr does not change the exit code.
    """
    lines = message.refusals if isinstance(message, RefusalError) else (message,)
    try:
        shown = [*(f"dpsketch: {printable(str(line))}\n" for line in lines), *(f"{printable(line)}\n" for line in more)]
        write(sys.stderr, "".join(shown))
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # the interpreter would fail at exit


@contextlib.contextmanager
def said_warnings() -> Iterator[None]:
    """Print input warnings as notes at the end, instead of Python's format. Hide other warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", InputWarning)
        yield
    for warning in caught:
        note(warning.message)


def defused(value: Any) -> str:
    """Format a value, with an apostrophe before text that a spreadsheet would parse as a formula."""
    text = in_words(value)
    return f"'{text}" if isinstance(plain(value), str) and text.startswith(_FORMULA) else text


def cell(value: Any) -> str:
    """Format a table cell, with numbers in six digits."""
    value = plain(value)
    return printable(f"{value:.6g}" if isinstance(value, float) and value == value else in_words(value))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal."""
    return stream is not None and stream.isatty()


def write(stream: TextIO | None, text: str, *, exact: bool = False) -> None:
    """Write lines to a stream, and escape control characters and characters that its encoding lacks.

    With `exact`, text for programs is escaped only on a terminal.
    """
    if stream is None:  # closed before Python started
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STDOUT)
    if not exact or is_terminal(stream):
        text = "\n".join(map(printable, text.split("\n")))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="", file=stream, flush=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, STDOUT) from None


def read_lines(path: str, option: str) -> list[str]:
    """Read the lines of an option's file, stripped and without empty lines."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [*filter(None, (line.strip(BLANKS) for line in file.read().split("\n")))]
    except OSError as error:  # the path is not shown, because it may be the items themselves
        words = f"must be a readable file with one item per line: {error.strerror}"
        raise UsageError(f"{option} {words}") from None
    except ValueError:  # the decoding error contains bytes of the file
        raise UsageError(f"{option} must be a text file in UTF-8 with one item per line") from None
    if not lines:
        raise UsageError(f"{option} must be a file with at least one item, one per line")
    return lines


def refuse_header(lines: list[str], columns: Collection[Any], option: str) -> list[str]:
    """Refuse a first line that equals a column name, because a header would count as a value."""
    if lines[0] in columns:
        words = "must be a file without a header, got a first line that equals the name of the column"
        raise UsageError(f"{option} {words}. Remove this line or, if it is a value, move it down")
    return lines


def read_rows(lines: list[str], names: list[str], option: str) -> list[list[str]]:
    """Select the columns with these names from the lines of a CSV file with a header."""
    try:
        read = [row for line in lines for row in csv.reader([line], strict=True, skipinitialspace=True)]
    except csv.Error:  # the message may contain text of the file
        words = "must be a CSV file with one key per line. A line has a quote without an end, or is too long"
        raise UsageError(f"{option} {words}") from None
    header, *rows = ([cell.strip(BLANKS) for cell in row] for row in read)
    if missing := [name for name in names if name not in header]:
        words = f"must be a CSV file whose first line names the columns {', '.join(names)}"
        raise UsageError(f"{option} {words}, got a first line without {', '.join(missing)}")
    if any(len(row) != len(header) for row in rows):
        raise UsageError(f"{option} must be a CSV file with {len(header)} values per line, as in its first line")
    return [[row[header.index(name)] for name in names] for row in rows]


def _number_from(low: float, high: float, expected: str, read: Callable[[str, str], Any]) -> Callable[[str], Any]:
    """Build a reader for numeric arguments in a range."""

    def read_argument(text: str) -> Any:
        try:
            if low <= (number := read(text, "")) <= high:
                return number
        except ConfigError:
            pass
        raise argparse.ArgumentTypeError(f"expected {expected}")

    return read_argument


def read_whole(low: int, high: int, expected: str | None = None) -> Callable[[str], int]:
    """Build a reader for integer arguments in a range."""
    from beam_dpsketch.config.forms import read_whole as read_whole_number  # needs large libraries

    return _number_from(low, high, expected or f"a whole number from {low} to {high}", read_whole_number)


def _read_float(text: str, path: str) -> float:
    from beam_dpsketch.config.forms import read_number  # needs large libraries

    return float(read_number(text, path))


_ABOVE_0, _BELOW_1 = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)
read_real = _number_from(-math.inf, math.inf, "a number", _read_float)
read_share = _number_from(0.0, 1.0, "a number from 0 to 1, such as 0.95 for 95 %", _read_float)
read_open_share = _number_from(_ABOVE_0, _BELOW_1, "a number above 0 and below 1", _read_float)
read_confidence = _number_from(1e-12, 1 - 1e-12, "a confidence such as 0.95, at most 0.999999999999", _read_float)
"""Argument readers. The upper limit keeps (1 + confidence) / 2 below 1 in floating point."""
