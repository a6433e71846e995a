"""`dpsketch rehearse`: exact, bounded and private answers side by side, of a sample that anyone may see."""

from __future__ import annotations

import argparse
import sys

from beam_dpsketch.cli.asking.values import read_share, read_whole
from beam_dpsketch.cli.output import add_format, one_line
from beam_dpsketch.cli.settings.options import add_settings_options, read_config
from beam_dpsketch.cli.text import DONE, note, said_warnings, write
from beam_dpsketch.config import ConfigError
from beam_dpsketch.errors import UsageError
from beam_dpsketch.frames.rehearsal import USUAL_SHARES, rehearse
from beam_dpsketch.frames.steps.files import Position, open_files

_MOST = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="Parquet or CSV files that are public or made up, or patterns"
    )
    parser.add_argument(
        "--show",
        type=read_whole(1, _MOST, "a whole number from 1 to 2**20, as 20"),
        metavar="N",
        help="how many of the most frequent items of each key are shown (the k of a top-K list, else 10)",
    )
    parser.add_argument(
        "--quantile",
        nargs="+",
        type=read_share,
        default=USUAL_SHARES,
        metavar="Q",
        help="which quantiles are shown (0.1 0.25 0.5 0.75 0.9 0.99)",
    )
    add_settings_options(parser)
    add_format(parser, ("text", "json"))


def run(arguments: argparse.Namespace) -> int:
    """Print what the settings make of the sample; nothing is written, and nothing spent."""
    declared = read_config(arguments)
    with said_warnings():
        try:
            found = open_files(arguments.files, declared, _say_nothing, note)
            for words in declared.terms.foolish():
                note(f"warning: {words}")
            rehearsed = rehearse(found.table, declared, k=arguments.show, quantiles=arguments.quantile)
        except (ConfigError, TypeError, ValueError) as error:
            raise UsageError.of(error) from None
    if arguments.format == "json":
        write(sys.stdout, f"{one_line(rehearsed.as_dict())}\n")
    else:
        write(sys.stdout, f"{rehearsed}\n")
    return DONE


def _say_nothing(_: Position) -> None:
    """Say nothing of how far the sample is read."""
