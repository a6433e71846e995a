"""Entry point of `dpsketch`: its commands, error reports and exit codes.

Guarantee: the exit code is 0 for success, 1 if an answer is unavailable, and 2 for wrong usage and unreadable files.
Errors go to stderr, each in a single line.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from beam_dpsketch.cli.text import DONE, NO_ANSWER, STDOUT, WRONG_USAGE, AnswerError, note, write
from beam_dpsketch.errors import FormatError, UsageError, ended
from beam_dpsketch.starting import stop
from beam_dpsketch.version import __version__

_COMMANDS = {
    "inspect": ("stored", "inspect", "show the contents of releases and their privacy"),
    "query": ("asking", "query", "answer questions from releases, at no privacy cost"),
    "plot": ("plotting", "plot", "draw answers of releases, with intervals, as PNG, SVG or PDF"),
    "explore": ("plotting", "write_page", "write an HTML page that answers questions from releases"),
    "spent": ("spending", "show_spent", "compose the privacy loss of the releases in some files"),
    "ledger": ("spending", "use_ledger", "manage privacy budgets"),
    "plan": ("planning", "plan", "estimate the accuracy of a release before a run"),
    "check": ("planning", "check", "validate the settings of a release"),
    "rehearse": ("planning", "show_answers", "simulate a release on a sample that is public or made up"),
    "run": ("releasing", "run", "make a release of Parquet or CSV files, which spends privacy budget"),
    "expansion-service": (
        "expansion_service",
        "serve",
        "serve the transforms to pipelines in Java and Go, until SIGTERM or SIGINT",
    ),
}
"""Module, function and help of each command. Modules need large libraries, and are imported when they are used."""

PROVIDERS = Path(__file__).parents[1] / "rows" / "providers.yaml"
"""List of row transforms for Beam YAML. A path, because importing `rows` imports Beam."""

_OF_FILES = ("FILE", "X.")
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""Completion functions of `shtab` for file arguments, and the prefixes of their metavars."""


_SEPARATORS = ("--sep", "--delimiter")
_SEPARATED = ". CSV files must have commas between columns. Write the file with commas"
_IN_FILE = {
    "max_windows": "privacy_unit.max_windows",
    "period": "privacy_unit.period",
    "share": "privacy.share",
    **{name: name for name in ("horizon", "layout", "optimize_for")},
}
"""Paths of settings without an option, by name."""


class _Parser(argparse.ArgumentParser):
    """Argument parser that raises `UsageError`."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{ended(message)} See {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, given = self._option_string_actions, [] if self._subparsers else args or []
        for each in itertools.takewhile("--".__ne__, given):
            name = each.partition("=")[0]
            if name.startswith("--") and name not in known and " " not in each:
                hint = _SEPARATED if name in _SEPARATORS else _nearest_option(name, known)
                self.error(f"unknown option {name}{hint}")
        try:
            found, others = super().parse_known_args(args, namespace)
        except UsageError as error:
            takes_files = any(each.metavar == "FILE" and not each.option_strings for each in self._actions)
            if takes_files and given[1:] and given[0].startswith("-"):
                raise UsageError(f"{error.message}. Files come first: {self.prog} FILE {given[0]} ...") from None
            raise
        for before, each in itertools.pairwise(given):
            if each in others and before in known and known[before].nargs == 0:
                self.error(f"{before} has no value. Remove the text after it")
        return found, others

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from beam_dpsketch.config.paths import hint_of  # needs large libraries

            words = f"expected one of {', '.join(action.choices)}{hint_of(value, action.choices)}"
            raise argparse.ArgumentError(action, words)


def _nearest_option(name: str, known: Iterable[str]) -> str:
    """Suggest the settings file, or the nearest option. Leading dashes are ignored, because all options share them."""
    from beam_dpsketch.checks import did_you_mean  # needs large libraries
    from beam_dpsketch.config.paths import nearest

    if (path := _IN_FILE.get(_as_setting(name))) and "--config" in known:
        return f". Set {path} in a settings file: --config FILE"
    near = nearest(_as_setting(name), map(_as_setting, known))
    return did_you_mean(near if not near or near.startswith("$") else f"--{near.replace('_', '-')}")


def _as_setting(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def start() -> int:
    """Run the command as its own process. Ctrl-C interrupts the command, but not the shutdown of Python."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        parser = make_parser(given)
        if signal.getsignal(signal.SIGINT) is stop:  # imports are done
            signal.signal(signal.SIGINT, signal.default_int_handler)
        parsed = parser.parse_args(given)
        code: int = parsed.run(parsed)
        return code
    except AnswerError as error:
        return _fail(error, NO_ANSWER)
    except OSError as error:
        if error.filename == STDOUT:  # or flushing the buffer at exit would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):  # the reader closed the pipe (e.g. `head`)
            return DONE
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else error, WRONG_USAGE)
    except (UsageError, FormatError) as error:
        return _fail(error, WRONG_USAGE)
    except MemoryError:
        return _fail("not enough memory for this answer", NO_ANSWER)
    except KeyboardInterrupt:
        return _fail("interrupted", NO_ANSWER)


def make_parser(given: Collection[str] = _COMMANDS) -> argparse.ArgumentParser:
    """Build the parser, with the arguments of given commands only. `shtab` generates shell completions from all."""
    parser = _Parser(
        prog="dpsketch",
        description="Make, inspect and query differentially private releases. Reading a release costs no privacy.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"dpsketch {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, (file, run, words) in _COMMANDS.items():
        description = f"{words[0].upper()}{words[1:]}."
        command = commands.add_parser(name, help=words, description=description, allow_abbrev=False)
        if name not in given:
            continue
        module = importlib.import_module(f"beam_dpsketch.cli.{file}")
        getattr(module, f"declare_{name.replace('-', '_')}")(command)
        for action in command._actions:
            if str(action.metavar).startswith(_OF_FILES):
                action.complete = _FILES  # type: ignore[attr-defined]
        command.set_defaults(run=getattr(module, run))
    words = "print the path of the transform listing for Beam YAML"
    listing = commands.add_parser("yaml-providers", help=words, description=words.capitalize() + ".")
    listing.set_defaults(run=_print_providers)
    return parser


def _print_providers(_: argparse.Namespace) -> int:
    write(sys.stdout, f"{PROVIDERS}\n")
    return DONE


def _fail(message: object, code: int) -> int:
    note(message)
    return code
