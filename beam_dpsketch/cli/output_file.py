"""A file that a command writes: its ending says what it will be, and nothing is replaced unasked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence

from beam_dpsketch.cli.faults import UsageError


def add_output_options(parser: argparse.ArgumentParser, kinds: Sequence[str]) -> None:
    """Declare `--output` and `--replace`."""
    parser.add_argument("--output", required=True, metavar=f"X.{'|'.join(kinds)}", help="the file to write")
    parser.add_argument("--replace", action="store_true", help="replace a file of this name")


def output_kind(arguments: argparse.Namespace, kinds: Sequence[str]) -> str:
    """Return what to write, by the ending of `--output`; refuse other endings, and one of a file that exists."""
    kind = os.path.splitext(arguments.output)[1].removeprefix(".")
    if kind not in kinds:
        *others, last = (f".{each}" for each in kinds)
        raise UsageError(f"--output must end with {', '.join(others)} or {last}, which says what to write")
    if os.path.lexists(arguments.output) and not arguments.replace:
        raise is_there(arguments.output)
    return kind


def write_output(arguments: argparse.Namespace, data: bytes, read: Iterable[str]) -> None:
    """Write `--output`, which must not be one of the files that were read."""
    refuse_input(arguments.output, read)
    with open(arguments.output, "wb" if arguments.replace else "xb") as file:
        file.write(data)


def is_there(path: str, which: str = "") -> UsageError:
    """Return the error about a file that would be replaced."""
    return UsageError(f"{path} is there already{which}; --replace replaces it")


def refuse_input(path: str, read: Iterable[str]) -> None:
    """Refuse an output that is one of the files that are read."""
    if os.path.realpath(path) in map(os.path.realpath, read):
        raise UsageError("--output must not be one of the files that are read")
