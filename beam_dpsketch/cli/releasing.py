"""Command `dpsketch run`: make a release from Parquet or CSV files, in this process and without Beam.

Guarantee: as for `release_frame`. Before drawing noise, the command reports the privacy loss and refuses an unwritable
output. Messages contain no value from a record and no record count.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from beam_dpsketch.answers.over_time import SketchTimeline
from beam_dpsketch.answers.release_file import SUFFIX, RecordWriter, to_record, window_path
from beam_dpsketch.cli.options import add_settings_options, read_config
from beam_dpsketch.cli.output import check_output, complete_file, refuse_input, unfinished_files
from beam_dpsketch.cli.planning import in_words
from beam_dpsketch.cli.reading import FILES, open_input
from beam_dpsketch.cli.text import DONE, AnswerError, in_words_of, note, said_warnings
from beam_dpsketch.errors import AllAtOnce, UsageError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.timestamps import from_micros
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.frames.releasing import Window, release_frame, windows_of_table
from beam_dpsketch.statement.clipping import in_one_line

_HAS_COST = ", and the budget of its release is spent"
_ACCOUNT = "nothing was published. If dpsketch ledger show lists its payment, the payment can be written off"


def declare_run(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help=FILES)
    parser.add_argument("--output", metavar=f"X{SUFFIX}", help="the file of the release")
    parser.add_argument(
        "--replace", action="store_true", help="replace this file; the budget of its release stays spent"
    )
    parser.add_argument(
        "--progress", action="store_true", help="report the progress of reading, also without a terminal"
    )
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run `dpsketch run`.

    Each window has its own file. With keys, a file contains a release per key.
    """
    checks = AllAtOnce()
    checks.do(_check_output, arguments.output, replace=arguments.replace)
    declared = checks.result(checks.do(read_config, arguments))
    try:
        released = _released(arguments, declared)
    except KeyboardInterrupt:
        rest = "nothing was spent" if declared.privacy.payer is None else _ACCOUNT
        raise AnswerError(f"interrupted: {arguments.output} was not written, so {rest}") from None
    files = _contents(arguments.output, declared, released)
    nothing = [released.unreleased] if declared.is_keyed and released.unreleased else []
    rest = "nothing was published"
    for path, elements in files.items() if not nothing else [(arguments.output, nothing)]:
        try:
            _write(path, elements, replace=arguments.replace, rest=rest)
        except KeyboardInterrupt:
            words = (
                f"interrupted while writing {path}. If it is new, it is complete, and its budget is spent. Otherwise "
                f"{rest}"
            )
            raise AnswerError(words) from None
        rest = "the earlier files are complete, and their budget is spent"
    if nothing:
        note(
            f"no key passed the selection, so {arguments.output} contains no release. The privacy budget is spent. "
            "See `dpsketch spent`"
        )
    else:
        first, *others = files
        where = first if not others else f"{first} and {len(others)} more"
        count = sum(map(len, files.values()))
        releases = f"{count} release{'s' * (count != 1)}"
        note(f"wrote {where} ({releases}). Running this command again spends the privacy budget again")
        found = [each if declared.is_keyed else (None, each) for elements in files.values() for each in elements]
        asked = dict(enumerate(each for _, each in found))
        asked = SketchTimeline.by_key(found, declared.horizon) if declared.horizon else asked
        note(in_one_line(each.clipping() for each in asked.values()))
    return DONE


def _released(arguments: argparse.Namespace, declared: ReleaseSpec) -> Any:
    with said_warnings(), in_words_of(UsageError, ValueError, TypeError):
        paths = _window_files(arguments.output, declared)
        for path in [*paths[:1], *filter(os.path.lexists, paths)]:
            check_output(path, replace=arguments.replace, which=_HAS_COST)
        _note_unfinished(paths)
        found = open_input(arguments.files, declared, asked=arguments.progress)
        refuse_input(arguments.output, found.paths)
        for words in declared.terms.warnings():
            note(f"warning: {words}")
        what, *its_terms = in_words(declared).splitlines()
        note(f"releasing {what}", *its_terms)
        released = release_frame(found.table, declared)
    return released


def _check_output(path: str | None, *, replace: bool) -> None:
    if path is None:
        raise UsageError(f"--output is missing. Set the file of the release, X{SUFFIX}")
    if not path.endswith(SUFFIX) or "\0" in path:
        raise UsageError(f"--output must end with {SUFFIX}")
    check_output(path, replace=replace, which=_HAS_COST)
    _note_unfinished([path])


def _note_unfinished(paths: Sequence[str]) -> None:
    for left in unfinished_files(paths):
        note(f"{left} remains from an interrupted run. It may contain a release whose budget is spent. Delete it")


def _write(path: str, elements: Iterable[Any], *, replace: bool, rest: str) -> None:
    try:
        with complete_file(path, replace=replace, which=_HAS_COST) as file:
            writer = RecordWriter(file)
            for element in elements:
                writer.write(to_record(element))
            writer.close()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; {rest}") from None


def _window_files(output: str, declared: ReleaseSpec) -> list[str]:
    return [] if declared.time is None else [_named(output, window) for window in windows_of_table(declared)]


def _contents(output: str, declared: ReleaseSpec, released: Any) -> dict[str, list[Any]]:
    """Map files to releases or rows, with their keys if any. A window without selected keys or rows has no file."""
    if declared.horizon is not None:
        return _rows(output, declared.horizon, released if declared.is_keyed else {None: released}, declared.is_keyed)
    if declared.time is None:
        return {output: _elements(released, declared.is_keyed)}
    files = {_named(output, window): _elements(each, declared.is_keyed) for window, each in released.items()}
    return {path: elements for path, elements in files.items() if elements}


def _elements(released: Any, is_keyed: bool) -> list[Any]:
    return [*released.items()] if is_keyed else [released]


def _rows(output: str, horizon: Horizon, by_key: dict[Any, Any], is_keyed: bool) -> dict[str, list[Any]]:
    files: dict[int, list[Any]] = defaultdict(list)
    for key, rows in by_key.items():
        for row in rows:
            files[row.window].append((key, row) if is_keyed else row)
    return {_named(output, Window(*map(from_micros, horizon.edges(each)))): files[each] for each in sorted(files)}


def _named(output: str, window: Window) -> str:
    return window_path(output.removesuffix(SUFFIX), *window)
