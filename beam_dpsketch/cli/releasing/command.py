"""`dpsketch run`: make a release of Parquet or CSV files, in this process and without Beam.

Guarantee: that of `release_frame`. Before the noise is drawn, the command says what the release will spend, and refuses
an output that it could not write. Messages hold no value of a record, and no count of them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

from beam_dpsketch.cli.faults import DONE, UsageError, note
from beam_dpsketch.cli.output_file import is_there, refuse_input
from beam_dpsketch.cli.releasing.files import open_files
from beam_dpsketch.cli.releasing.progress import Progress
from beam_dpsketch.cli.settings.checking import in_words
from beam_dpsketch.cli.settings.options import add_settings_options, read_config
from beam_dpsketch.cli.stored import SUFFIX
from beam_dpsketch.config import ConfigError
from beam_dpsketch.errors import ElementsWarning
from beam_dpsketch.frames.releasing import release_frame
from beam_dpsketch.release.format.release_file import RecordWriter, to_record

_HAS_COST = ", and has cost budget"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="Parquet or CSV files, or patterns with wildcards")
    parser.add_argument("--output", required=True, metavar=f"X{SUFFIX}", help="the file of the release")
    parser.add_argument("--replace", action="store_true", help="replace the release in this file, which stays spent")
    add_settings_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write one release, or one of each key."""
    config = read_config(arguments)
    _check_output(arguments.output, replace=arguments.replace)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ElementsWarning)
        try:
            found = open_files(arguments.files, config, Progress())
            refuse_input(arguments.output, found.paths)
            note(f"releasing {in_words(config)}")
            released = release_frame(found.reader, config)
        except (ConfigError, TypeError, ValueError) as error:
            raise UsageError(error) from None
    for warning in caught:
        note(warning.message)
    elements = [*released.items()] if isinstance(released, dict) else [released]
    _write(arguments.output, elements, replace=arguments.replace)
    note(f"wrote {len(elements)} release(s) to {arguments.output}; each run is another release, which spends again")
    return DONE


def _check_output(path: str, *, replace: bool) -> None:
    """Refuse an output before anything is read."""
    if not path.endswith(SUFFIX) or "\0" in path:
        raise UsageError(f"--output must end with {SUFFIX}")
    if os.path.lexists(path) and not replace:
        raise is_there(path, _HAS_COST)
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
        raise UsageError(f"{os.path.dirname(path) or path} must be a folder that is there, for --output")
    if not os.access(os.path.dirname(path) or ".", os.W_OK):
        raise UsageError(f"{os.path.dirname(path) or '.'} must be a folder that can be written to, for --output")


def _write(path: str, elements: Iterable[Any], *, replace: bool) -> None:
    """Write a file that appears when it is complete, and never in place of one that came in the meantime."""
    folder, name = os.path.split(path)
    handle, unfinished = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
    try:
        writer = RecordWriter(os.fdopen(handle, "wb"))
        for element in elements:
            writer.write(to_record(element))
        writer.close()
        os.chmod(unfinished, 0o666 & ~_umask())
        if replace:
            os.replace(unfinished, path)
        else:
            _rename(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)


def _rename(unfinished: str, path: str) -> None:
    """Give a file its name, unless there is one of this name."""
    try:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise
        except OSError:  # of a filesystem without links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.replace(unfinished, path)
    except FileExistsError:
        raise is_there(path, _HAS_COST) from None


def _umask() -> int:
    """Return the bits that new files of this process lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
