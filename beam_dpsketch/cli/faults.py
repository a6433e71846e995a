"""What a command stops with: the exit code of a process, and a line for stderr."""

from __future__ import annotations

import os
import sys

from beam_dpsketch.cli.text import printable, write

DONE, NO_ANSWER, WRONG_USAGE = 0, 1, 2


class UsageError(ValueError):
    """Arguments or files are not what a command takes."""


class AnswerError(ValueError):
    """A release does not answer the question."""


def note(message: object) -> None:
    """Write one line to stderr. That nobody reads it does not stop a command, nor change its exit code."""
    try:
        write(sys.stderr, f"dpsketch: {printable(str(message))}\n")
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # or the interpreter fails as it ends
