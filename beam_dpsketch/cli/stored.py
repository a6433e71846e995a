"""Releases out of files, with what their names and records say: the file, the window and the key."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from beam_dpsketch.answers.privacy_statement import Unreleased
from beam_dpsketch.answers.release_file import SUFFIX, read_elements
from beam_dpsketch.cli.text import AnswerError, note
from beam_dpsketch.errors import FormatError, UsageError, together
from beam_dpsketch.statement.release_id import runs
from beam_dpsketch.statement.showing import in_words

_TIME = r"(\d{8}T\d{6}(?:\.\d{6})?)Z"
_WINDOW = re.compile(f"-{_TIME}-{_TIME}{re.escape(SUFFIX)}", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Stored:
    """A release, or a row over time, and where it was found."""

    path: str
    key: Any
    released: Any

    @property
    def place(self) -> dict[str, Any]:
        return {"file": os.path.basename(self.path), "key": self.key, "window": window_of(self.path)}

    @property
    def title(self) -> str:
        return self.path if self.key is None else f"{self.path}, key {in_words(self.key)}"


class Nothing(NamedTuple):
    """A run that released nothing, and the file that says so."""

    path: str
    spent: Unreleased


def add_files(parser: argparse.ArgumentParser) -> None:
    """Declare the files of releases that a command reads."""
    words = "files of releases, patterns with wildcards, or folders; give them before the options"
    parser.add_argument("files", nargs="+", metavar="FILE", help=words)


def read_stored(names: Sequence[str]) -> list[Stored]:
    """Return all releases that files hold, in the order of their names, and name runs that have none; see `read_all`.

    Raises `AnswerError` where files hold no release.
    """
    stored, nothing, damaged = read_all(names)
    if damaged:
        raise together(damaged)
    for each in nothing:
        note(f"{each.path}: no key was chosen, so it holds no release; `dpsketch spent` says what the run cost")
    if not stored:
        raise AnswerError("these files hold no release")
    return stored


def read_all(names: Sequence[str]) -> tuple[list[Stored], list[Nothing], list[FormatError]]:
    """Return all releases that files hold, in the order of their names, the runs that have none, and what is damaged.

    Args:
      names: paths, patterns with wildcards, and folders, which stand for all release files in them and below.

    Raises `UsageError` where a name stands for no file, and `OSError`. A damaged file, or another kind of file, is
    returned as its error.
    """
    paths = {os.path.realpath(path): path for name in names for path in _paths(name)}  # a file that is named twice
    found: list[tuple[str, Any]] = []
    damaged = []
    for path in paths.values():
        try:
            found += [(path, element) for element in read_elements(path)]
        except FormatError as error:
            damaged.append(error)
    stored = [_stored(path, element) for path, element in found if not isinstance(element, Unreleased)]
    known = runs([release_id for each in stored for release_id in each.released.privacy.release_ids])
    nothing = [Nothing(path, each) for path, each in found if isinstance(each, Unreleased)]
    return stored, [each for each in nothing if not runs(each.spent.privacy.release_ids) & known], damaged


def window_of(path: str) -> str | None:
    """Return the window in the name of a file, as an ISO 8601 interval; `None` without one.

    >>> window_of("out/hours-20130101T050000Z-20130101T060000Z.dpsketch")
    '2013-01-01T05:00:00Z/2013-01-01T06:00:00Z'
    """
    found = _WINDOW.search(path)
    if not found or found.end() < len(path):
        return None
    try:
        return "/".join(map(_spaced, found.groups()))
    except ValueError:
        return None


def name_without_window(path: str) -> str:
    """Return a path without the window in its name.

    >>> name_without_window("out/hours-20130101T050000Z-20130101T060000Z.dpsketch")
    'out/hours'
    """
    return _WINDOW.sub("", path)


def _spaced(time: str) -> str:
    moment = datetime.datetime.strptime(time, "%Y%m%dT%H%M%S.%f" if "." in time else "%Y%m%dT%H%M%S")
    return f"{moment.isoformat()}Z"


def _paths(name: str) -> list[str]:
    if "\0" in name:
        raise UsageError("no file has a name with a zero byte")
    if os.path.isdir(name):
        found = sorted(_inside(name))
        missing = f"no file in {name} ends with {SUFFIX}"
    else:
        found = [name] if os.path.exists(name) else sorted(glob.glob(name))
        missing = f"no file matches {name}" + ("; only local files are read: copy it here" if "://" in name else "")
    if not found:
        raise UsageError(missing)
    if folders := [path for path in found if os.path.isdir(path)]:
        found = [path for path in found if path not in folders]
        found += [inside for each in folders for inside in _paths(each)]
    return found


def _inside(folder: str) -> Iterator[str]:
    """Yield the release files of a folder, also behind links; a folder that cannot be read must not be passed over."""

    def refuse(error: OSError) -> None:
        raise error

    seen = {os.path.realpath(folder)}
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        real = {name: os.path.realpath(os.path.join(parent, name)) for name in folders}
        folders[:] = [name for name, path in real.items() if path not in seen]  # links may go round in circles
        seen.update(real.values())
        yield from (os.path.join(parent, name) for name in files if name.endswith(SUFFIX))


def _stored(path: str, element: Any) -> Stored:
    key, released = element if isinstance(element, tuple) else (None, element)
    return Stored(path, key, released)
