"""`dpsketch check`: whether files of settings can be used, and what they mean; with a file of data, its columns too."""

from __future__ import annotations

import argparse
import itertools
import sys

import pyarrow.compute as pc

from beam_dpsketch.answers.notes import ONE_RECORD_EACH
from beam_dpsketch.cli.settings.options import read_settings_file
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, note, write
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import SETTINGS, RefusalError, UsageError
from beam_dpsketch.frames.steps.files import open_files
from beam_dpsketch.frames.steps.plan import check_columns, plan_of_table, tally_of
from beam_dpsketch.frames.steps.windows import windows_of
from beam_dpsketch.planning.plan import loss_in_words
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.statement.showing import printable

_MANY = 100  # rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of settings, YAML or JSON")
    parser.add_argument(
        "--against",
        metavar="FILE.parquet|csv",
        help="look whether this file has the columns, and whether its first rows can be used",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each file that can be used, and an error for each other; return 2 if there is one."""
    code = DONE
    for path in arguments.files:
        try:
            declared = read_release(read_settings_file(path))
            if arguments.against is not None:
                _check_against(declared, arguments.against, f"{path} against {arguments.against}")
            write(sys.stdout, printable(f"{path}: OK: {in_words(declared)}") + "\n")
            for words in declared.terms.foolish():
                note(f"{path}: warning: {words}")
        except (RefusalError, OSError) as error:
            note(_said(path, error))
            code = WRONG_USAGE
    return code


def _said(path: str, error: Exception) -> object:
    """Return what is said of a file: of settings and of what the system says, with the file before it."""
    if isinstance(error, RefusalError) and not isinstance(error, UsageError):
        return UsageError.of(error, lambda each: f"{path}: {each.through(SETTINGS).message}")
    return f"{path}: {error.strerror}" if isinstance(error, OSError) else error


def in_words(declared: ReleaseSpec) -> str:
    """Return what is released, for whom, and what it spends, without a key or an item."""
    terms, k = declared.terms, declared.count.wanted
    counted = f"the {k} most frequent values" if k else declared.count.name
    counted += f" of {', '.join(dict.fromkeys(map(str, declared.selectors.items.values())))}"
    weight = "" if declared.weight is None else f", weighted by {declared.weight}"
    whose = "" if declared.privacy_id is None else f" (in {declared.privacy_id.field})"
    return (
        f"{counted}{weight}{_keys(declared)}{_windows(declared)}; protected: {terms.unit.value}{whose}; "
        f"contribution: {terms.bounds.words(terms)}; {loss_in_words(terms)}"
    )


def _keys(declared: ReleaseSpec) -> str:
    return "" if declared.keys is None else f", for {declared.keys.words}"


def _windows(declared: ReleaseSpec) -> str:
    if declared.horizon is not None:
        return f", over time in {declared.horizon.windows} windows"
    if declared.time is None or (starts := plan_of_table(declared).starts) is None:
        return "" if declared.windows is None else ", in each window of a declared range"
    return f", in each of {len(starts):,} windows ({len(starts) * len(declared.public_keys or [None]):,} releases)"


def _check_against(declared: ReleaseSpec, against: str, title: str) -> None:
    """Refuse, or warn of, what `dpsketch run` would, of the columns of a file and of its first rows."""
    try:
        table = open_files([against], declared, lambda _: None, note).table
        check_columns(declared, table)
        tally = tally_of(declared, table)
        parts = iter(table.parts)
        for rows in itertools.islice(parts, 1):
            declared.reader.read_batch(rows, declared.sketch_input, tally)
            limit = declared.privacy_id
            if limit is not None and limit.bounds.size != 1 and _MANY <= len(rows) == len(pc.unique(rows[limit.field])):
                note(f"{title}: privacy_id {limit.field!r}: {ONE_RECORD_EACH.words}")
            if declared.time is not None:
                [*windows_of(declared, plan_of_table(declared)).rows(rows, tally)]
        tally.refuse(drops=declared.unreadable == "drop", is_whole=next(parts, None) is None)
    except (UsageError, ValueError, TypeError) as error:
        raise UsageError.of(error, lambda each: f"{title}: {each.message}") from None
    for words in tally.told(is_signed=declared.unit.bounds.signed):
        note(f"{title}: {words}")
