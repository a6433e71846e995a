"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from beam_dpsketch.cli.output import SHAPES, add_escape_formulas

_FILES = "files of releases, patterns with wildcards, or folders; give them before the options"


def add_files(parser: argparse.ArgumentParser) -> None:
    """Declare the files of releases that a command reads."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=_FILES)


def add_format(parser: argparse.ArgumentParser, shapes: Sequence[str] = SHAPES) -> None:
    """Declare how answers are printed; the first shape is the usual one."""
    parser.add_argument("--format", choices=shapes, default=shapes[0], help=f"how to print ({shapes[0]})")
    if "csv" in shapes:
        add_escape_formulas(parser)
