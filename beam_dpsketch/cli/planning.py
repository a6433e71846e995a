"""Commands before a release is made: `dpsketch check`, `plan` and `rehearse`.

`check` validates settings, and optionally compares them with a data file. `rehearse` compares exact, clipped and
private answers on public or made-up data.
"""

from __future__ import annotations

import argparse
import itertools
import sys

import pyarrow.compute as pc

from beam_dpsketch.answers.notes import ONE_RECORD_EACH
from beam_dpsketch.cli.options import add_settings_options, read_config, read_settings_file
from beam_dpsketch.cli.output import add_format, print_text
from beam_dpsketch.cli.reading import FILES, open_input
from beam_dpsketch.cli.text import (
    DONE,
    WRONG_USAGE,
    in_words_of,
    note,
    read_open_share,
    read_real,
    read_share,
    read_whole,
    said_warnings,
    write,
)
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import SETTINGS, RefusalError, UsageError
from beam_dpsketch.exact.declared.count import USUAL_QUANTILES
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.frames.rehearsal import USUAL_SHARES, rehearse
from beam_dpsketch.frames.steps.plan import check_columns, plan_of_table, resolve, tally_of
from beam_dpsketch.frames.steps.windows import windows_of
from beam_dpsketch.planning.plan import loss_in_words
from beam_dpsketch.statement.showing import printable

_MANY = 100  # rows, the fewest for the check of privacy ids


def declare_check(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `check`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of settings, YAML or JSON")
    parser.add_argument(
        "--against",
        metavar="FILE",
        help="check whether this file or folder has the columns, and whether its first rows are usable",
    )


def check(arguments: argparse.Namespace) -> int:
    """Run `dpsketch check`.

    Print a line per valid file, and an error per invalid file. With any error, the exit code is 2.
    """
    code = DONE
    for path in arguments.files:
        try:
            declared = read_release(read_settings_file(path))
            if arguments.against is not None:
                _check_against(declared, arguments.against, f"{path} against {arguments.against}")
            write(sys.stdout, f"{printable(path)}: OK: {in_words(declared)}\n")
            for words in declared.terms.warnings():
                note(f"{path}: warning: {words}")
        except (RefusalError, OSError) as error:
            note(_said(path, error))
            code = WRONG_USAGE
    return code


def _said(path: str, error: Exception) -> object:
    """Format an error with its file name. A `UsageError` already contains the file name."""
    if isinstance(error, RefusalError) and not isinstance(error, UsageError):
        return UsageError.of(error, lambda each: f"{path}: {each.through(SETTINGS).message}")
    return f"{path}: {error.strerror}" if isinstance(error, OSError) else error


def in_words(declared: ReleaseSpec) -> str:
    """Describe the release in printable lines: the count, the privacy unit, the bounds and the loss, without items."""
    terms, k = declared.terms, declared.count.wanted
    counted = f"the {k} most frequent values" if k else declared.count.name
    names = getattr(declared.count, "metrics", declared.selectors.items.values())
    counted += f" of {', '.join(dict.fromkeys(map(str, names)))}"
    weight = "" if declared.weight is None else f", weighted by {declared.weight}"
    whose = "" if declared.privacy_id is None else f" (column {declared.privacy_id.field})"
    lines = (
        f"{counted}{weight}{_keys(declared)}{_windows(declared)}",
        f"  protects      {terms.privacy_unit.value}{whose}",
        f"  contribution  {terms.asked.words(terms)}",
        f"  privacy       {loss_in_words(terms)}",
    )
    return "\n".join(map(printable, lines))


def _keys(declared: ReleaseSpec) -> str:
    return "" if declared.keys is None else f", for {declared.keys.words}"


def _windows(declared: ReleaseSpec) -> str:
    if declared.horizon is not None:
        return f", over time in {declared.horizon.windows} windows"
    if declared.time is None or (starts := plan_of_table(declared).starts) is None:
        return "" if declared.windows is None else ", in each window of a declared range"
    return f", in each of {len(starts):,} windows ({len(starts) * len(declared.public_keys or [None]):,} releases)"


def _check_against(declared: ReleaseSpec, against: str, title: str) -> None:
    """Report errors and warnings that `dpsketch run` would raise for the columns and first rows of a file."""
    try:
        table = open_input([against], declared).table
        check_columns(declared, table)
        tally = tally_of(declared, table)
        parts = iter(table.parts)
        for rows in itertools.islice(parts, 1):
            declared.reader.read_batch(rows, declared.sketch_input, tally)
            limit = declared.privacy_id
            if limit is not None and limit.bounds.size != 1 and _MANY <= len(rows) == len(pc.unique(rows[limit.field])):
                note(f"{title}: privacy_id {limit.field!r}: {ONE_RECORD_EACH.message}")
            if declared.time is not None:
                [*windows_of(declared, plan_of_table(declared)).rows(rows, tally)]
        tally.refuse(drops=declared.unreadable == "drop", is_whole=next(parts, None) is None)
    except (UsageError, ValueError, TypeError) as error:
        raise UsageError.of(error, lambda each: f"{title}: {each.message}") from None
    for words in tally.told(is_signed=declared.privacy_unit.bounds.signed):
        note(f"{title}: {words}")


_MAX_N, _MOST = 1 << 50, 1 << 20


def declare_plan(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `plan`."""
    add_settings_options(parser)
    parser.add_argument(
        "--records",
        type=read_whole(1, _MAX_N, "a whole number from 1 to 2**50, such as 1000000 or 1e6"),
        metavar="N",
        help="the approximate number of records of one release and key, such as 1e6; with weights, their total weight",
    )
    parser.add_argument(
        "--target-error",
        type=read_open_share,
        default=0.01,
        metavar="E",
        help="a margin of error, as a share of the total; prints how many people it needs (0.01)",
    )
    parser.add_argument(
        "--typical",
        nargs=2,
        type=read_real,
        metavar=("MEDIAN", "P99"),
        help="for quantiles, the approximate median and 99 %% point of values; adds errors of values, with --records",
    )
    parser.add_argument(
        "--quantile",
        nargs="+",
        type=read_open_share,
        default=USUAL_QUANTILES,
        metavar="Q",
        help="the quantiles whose errors are printed (0.5 0.95 0.99)",
    )
    parser.add_argument(
        "--split",
        type=read_whole(1, _MOST, "a whole number from 1 to 2**20, as 3"),
        metavar="N",
        help="plan one of N releases that share the budget equally",
    )
    add_format(parser, ("text", "json"))


def plan(arguments: argparse.Namespace) -> int:
    """Run `dpsketch plan`."""
    if arguments.split is not None:
        if arguments.share is not None:
            raise UsageError("--split and --share cannot be combined. Use --split to plan equal shares")
        arguments.share = f"1/{arguments.split}"
    declared = read_config(arguments)
    with in_words_of(UsageError, ValueError, ArithmeticError):
        # For a table with declared times, plan all windows covered by one bound.
        resolved = declared.resolved if declared.time is None else resolve(declared)[0]
        planned = resolved.plan(
            arguments.records,
            target_error=arguments.target_error,
            typical=arguments.typical,
            quantiles=arguments.quantile,
        )
    if arguments.split is not None:
        note(
            f"This plan is for one of {arguments.split} equal shares of the budget. Run each release with --share "
            f"{arguments.share}, or share: {arguments.share} in the privacy block of its settings"
        )
    return print_text(planned, arguments)


def declare_rehearse(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `rehearse`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"{FILES}, that are public or made up")
    parser.add_argument(
        "--show",
        type=read_whole(1, _MOST, "a whole number from 1 to 2**20, such as 20"),
        metavar="N",
        help="the number of most frequent items to show for each key (the k of a top-K list, or 10)",
    )
    parser.add_argument(
        "--quantile",
        nargs="+",
        type=read_share,
        default=USUAL_SHARES,
        metavar="Q",
        help="the quantiles to show (0.1 0.25 0.5 0.75 0.9 0.99)",
    )
    add_settings_options(parser)
    add_format(parser, ("text", "json"))


def show_answers(arguments: argparse.Namespace) -> int:
    """Run `dpsketch rehearse`.

    No file is written, and no privacy budget is spent.
    """
    declared = read_config(arguments)
    with said_warnings(), in_words_of(UsageError, ValueError, TypeError):
        found = open_input(arguments.files, declared)
        for words in declared.terms.warnings():
            note(f"warning: {words}")
        rehearsed = rehearse(found.table, declared, k=arguments.show, quantiles=arguments.quantile)
    return print_text(rehearsed, arguments)
