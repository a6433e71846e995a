"""What a command says: values as text, lines that cannot steer a terminal, and the errors that stop it.

Guarantee: a terminal gets printable characters and ends of lines alone, from every command. A file or another program
gets CSV exactly, and JSON with escapes that stand for the exact text.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

from beam_dpsketch.errors import SHELL, ElementsWarning, OneCodeError, RefusalError
from beam_dpsketch.statement.showing import in_words, plain, printable

DONE, NO_ANSWER, WRONG_USAGE = 0, 1, 2
"""Exit codes."""
STDOUT = "stdout"
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last are wide forms of the first four


class AnswerError(OneCodeError):
    """A release does not answer the question."""

    usual_code = "E902"
    door = SHELL


def note(message: object) -> None:
    """Write a line to stderr, or one for each refusal. That nobody reads it changes nothing, nor the exit code."""
    lines = message.refusals if isinstance(message, RefusalError) else (message,)
    try:
        write(sys.stderr, "".join(f"dpsketch: {printable(str(line))}\n" for line in lines))
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # or the interpreter fails as it ends


@contextlib.contextmanager
def said_warnings() -> Iterator[None]:
    """Say warnings about elements as notes at the end, in place of Python's own; leave others out."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ElementsWarning)
        yield
    for warning in caught:
        note(warning.message)


def defused(value: Any) -> str:
    """Return a value in words, with an apostrophe before text that a spreadsheet would take for a formula."""
    text = in_words(value)
    return f"'{text}" if isinstance(plain(value), str) and text.startswith(_FORMULA) else text


def cell(value: Any) -> str:
    """Return a value as a table shows it: numbers in six digits."""
    value = plain(value)
    return printable(f"{value:.6g}" if isinstance(value, float) and value == value else in_words(value))


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether people read what is written to a stream."""
    return stream is not None and stream.isatty()


def write(stream: TextIO | None, text: str, *, exact: bool = False) -> None:
    """Write lines to a stream, with escapes in place of what a terminal would act on and of what its encoding lacks.

    With `exact`, text for programs is escaped on a terminal only.
    """
    if stream is None:  # its file was closed before Python began
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), STDOUT)
    if not exact or is_terminal(stream):
        text = "\n".join(map(printable, text.split("\n")))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="", file=stream, flush=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, STDOUT) from None
