"""`dpsketch --print-completion SHELL`: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from beam_dpsketch.cli.faults import UsageError
from beam_dpsketch.cli.text import write

SHELLS = ("bash", "zsh", "tcsh")
_OF_FILES = ("FILE", "X.")


class PrintCompletion(argparse.Action):
    """An option that prints a script for a shell and ends the command."""

    def __init__(self, option_strings: Sequence[str], dest: str, **others: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, choices=SHELLS, help="print a script for a shell, and exit")

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        write(sys.stdout, script(parser, given[1]), exact=True)
        parser.exit()


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell; raise `UsageError` without shtab."""
    try:
        import shtab
    except ImportError:
        raise UsageError("--print-completion needs shtab: pip install 'beam-dpsketch[completion]'") from None
    _complete_files(parser, shtab.FILE)
    return str(shtab.complete(parser, shell)).rstrip("\n") + "\n"


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Mark the arguments that are files, by their metavar, of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, files)
        elif isinstance(action.metavar, str) and action.metavar.startswith(_OF_FILES):
            action.complete = files  # type: ignore[attr-defined]
