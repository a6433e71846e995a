"""`dpsketch run`: make a release of Parquet or CSV files, in this process and without Beam.

Guarantee: that of `release_frame`. Before the noise is drawn, the command says what the release will spend, and refuses
an output that it could not write. Messages hold no value of a record, and no count of them: the per cent that are read
say how far reading is in the files.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterable
from typing import Any

from beam_dpsketch.answers.release_file import RecordWriter, to_record
from beam_dpsketch.cli.files import open_files
from beam_dpsketch.cli.output import check_output, complete_file, refuse_input, unfinished_files
from beam_dpsketch.cli.settings.checking import in_words
from beam_dpsketch.cli.settings.options import add_settings_options, read_config
from beam_dpsketch.cli.stored import SUFFIX
from beam_dpsketch.cli.text import DONE, UsageError, note
from beam_dpsketch.config import ConfigError
from beam_dpsketch.errors import ElementsWarning
from beam_dpsketch.frames.releasing import KeyedReleases, release_frame

_QUIET_SECONDS, _STEP = 5.0, 10
_HAS_COST = ", and has cost budget"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="Parquet or CSV files, or patterns with wildcards")
    parser.add_argument("--output", required=True, metavar=f"X{SUFFIX}", help="the file of the release")
    parser.add_argument("--replace", action="store_true", help="replace the release in this file, which stays spent")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write one release, or one of each key."""
    declared = read_config(arguments)
    _check_output(arguments.output, replace=arguments.replace)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ElementsWarning)
        try:
            found = open_files(arguments.files, declared, Progress())
            refuse_input(arguments.output, found.paths)
            note(f"releasing {in_words(declared)}")
            released = release_frame(found.reader, declared)
        except (ConfigError, TypeError, ValueError) as error:
            raise UsageError.of(error) from None
    for warning in caught:
        note(warning.message)
    elements = [*released.items()] if isinstance(released, KeyedReleases) else [released]
    nothing = [released.unreleased] if isinstance(released, KeyedReleases) and released.unreleased else []
    _write(arguments.output, [*elements, *nothing], replace=arguments.replace)
    if nothing:
        note(
            f"no key was chosen, so {arguments.output} holds no release, but what this run has spent: `dpsketch spent`"
        )
    else:
        note(f"wrote {len(elements)} release(s) to {arguments.output}; each run is another release, which spends again")
    return DONE


def _check_output(path: str, *, replace: bool) -> None:
    if not path.endswith(SUFFIX) or "\0" in path:
        raise UsageError(f"--output must end with {SUFFIX}")
    check_output(path, replace=replace, which=_HAS_COST)
    for left in unfinished_files(path):
        note(f"{left} is left of a run that was stopped: it may hold a release, which has cost budget; delete it")


def _write(path: str, elements: Iterable[Any], *, replace: bool) -> None:
    try:
        with complete_file(path, replace=replace, which=_HAS_COST) as file:
            writer = RecordWriter(file)
            for element in elements:
                writer.write(to_record(element))
            writer.close()
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; nothing was published") from None


class Progress:
    """Says how much of the input is read, every ten per cent, from five seconds on."""

    def __init__(self) -> None:
        self._start, self._said = time.monotonic(), 0

    def __call__(self, share: float) -> None:
        step = int(share * 100) // _STEP * _STEP
        if step > self._said and time.monotonic() - self._start > _QUIET_SECONDS:
            self._said = step
            note(f"read {step} % of the input")
