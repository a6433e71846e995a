"""`dpsketch plan`: what a release will be like, before any data is read."""

from __future__ import annotations

import argparse
import sys

from beam_dpsketch.cli.asking.values import read_open_share, read_real, read_whole
from beam_dpsketch.cli.output import add_format, one_line
from beam_dpsketch.cli.settings.options import add_settings_options, read_config
from beam_dpsketch.cli.text import DONE, write
from beam_dpsketch.errors import UsageError
from beam_dpsketch.frames.steps.plan import plan_release
from beam_dpsketch.records.count import USUAL_QUANTILES

_MAX_N = 1 << 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_settings_options(parser)
    parser.add_argument(
        "--n",
        type=read_whole(1, _MAX_N, "a whole number from 1 to 2**50, as 1000000 or 1e6"),
        metavar="N",
        help="about how many records count in one release, as 1e6; with weights, their total weight; of one key",
    )
    parser.add_argument(
        "--wanted-error",
        type=read_open_share,
        default=0.01,
        metavar="E",
        help="a share of all that counts; says how many people it needs (0.01)",
    )
    parser.add_argument(
        "--typical",
        nargs=2,
        type=read_real,
        metavar=("MEDIAN", "P99"),
        help="of quantiles, about the median and the 99 %% point of the values; tells errors of values, with --n",
    )
    parser.add_argument(
        "--quantile",
        nargs="+",
        type=read_open_share,
        default=USUAL_QUANTILES,
        metavar="Q",
        help="the quantiles whose errors are told (0.5 0.95 0.99)",
    )
    add_format(parser, ("text", "json"))


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of the release."""
    declared = read_config(arguments)
    try:
        planned = plan_release(
            declared,
            arguments.n,
            wanted_error=arguments.wanted_error,
            typical=arguments.typical,
            quantiles=arguments.quantile,
        )
    except (ValueError, ArithmeticError) as error:
        raise UsageError.of(error) from None
    if arguments.format == "json":
        write(sys.stdout, f"{one_line(planned.as_dict())}\n")
    else:
        write(sys.stdout, f"{planned}\n")
    return DONE
