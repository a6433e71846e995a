"""A file that a command writes: its ending says what it will be, and nothing is replaced unasked.

Guarantee: the file has its name once it is complete. Until then, and where writing fails, what had this name stays as
it was. A link of this name is replaced itself; what it points to stays.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from beam_dpsketch.cli.text import UsageError


def add_output_options(parser: argparse.ArgumentParser, kinds: Sequence[str]) -> None:
    """Declare `--output` and `--replace`."""
    parser.add_argument("--output", required=True, metavar=f"X.{'|'.join(kinds)}", help="the file to write")
    parser.add_argument("--replace", action="store_true", help="replace a file of this name")


def output_kind(arguments: argparse.Namespace, kinds: Sequence[str]) -> str:
    """Return what to write, by the ending of `--output`; refuse other endings, and a file that cannot be written."""
    kind = os.path.splitext(arguments.output)[1].removeprefix(".")
    if kind not in kinds or "\0" in arguments.output:
        *others, last = (f".{each}" for each in kinds)
        raise UsageError(f"--output must end with {', '.join(others)} or {last}, which says what to write")
    check_output(arguments.output, replace=arguments.replace)
    return kind


def check_output(path: str, *, replace: bool, which: str = "") -> None:
    """Refuse a file that could not be written, before anything is read; `which` says more of one that exists."""
    if os.path.lexists(path) and not replace:
        raise _is_there(path, which)
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder: --output must be a file")
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} must be a folder that exists, for --output")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        raise UsageError(f"{folder} must be a folder that can be written to, for --output") from None
    with contextlib.suppress(FileNotFoundError):
        os.lstat(path)  # raises where the name is too long, or has a form that the folder cannot hold


def unfinished_files(path: str) -> list[str]:
    """Return what commands that were stopped have left of a file."""
    folder, name = os.path.split(path)
    return sorted(glob.glob(glob.escape(os.path.join(folder, _unfinished(name))) + "*"))


def write_output(arguments: argparse.Namespace, data: bytes, read: Iterable[str]) -> None:
    """Write `--output`, which must not be one of the files that were read."""
    refuse_input(arguments.output, read)
    with complete_file(arguments.output, replace=arguments.replace) as file:
        file.write(data)


@contextlib.contextmanager
def complete_file(path: str, *, replace: bool, which: str = "") -> Iterator[BinaryIO]:
    """Open a file that gets its name when it is complete, and never in place of one that came in the meantime."""
    folder, name = os.path.split(path)
    handle, unfinished = tempfile.mkstemp(prefix=_unfinished(name), dir=folder or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(unfinished, 0o666 & ~_umask())
        if replace:
            os.replace(unfinished, path)
        else:
            _rename(unfinished, path, which)
    finally:
        with contextlib.suppress(OSError):  # the next run speaks of what stays
            os.unlink(unfinished)


def _unfinished(name: str) -> str:
    """Return how the name of a file begins until it is complete; it leaves room for more."""
    return os.fsdecode(os.fsencode(f".{name}")[:200]) + ".unfinished."


def _rename(unfinished: str, path: str, which: str) -> None:
    """Give a file its name, unless there is one of this name."""
    try:
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise
        except OSError:  # of a filesystem without links
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            try:
                os.replace(unfinished, path)
            except OSError:
                os.unlink(path)
                raise
    except FileExistsError:
        raise _is_there(path, which) from None


def _umask() -> int:
    """Return the bits that new files of this process lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _is_there(path: str, which: str) -> UsageError:
    """Return the error about a file that would be replaced."""
    return UsageError(f"{path} is there already{which}; --replace replaces it")


def refuse_input(path: str, read: Iterable[str]) -> None:
    """Refuse an output that is one of the files that are read."""
    if os.path.realpath(path) in map(os.path.realpath, read):
        raise UsageError("--output must not be one of the files that are read")
