"""Release files: a header, records with their lengths, and a zero length, each followed by a 128-bit digest.

Guarantee: reading returns the written records. It raises `FormatError` for any other bytes, for a cut file and for a
changed byte, before it returns a damaged record. Memory is proportional to the bytes in the file, and nothing is
unpickled. A digest covers all bytes before it. It finds damage but does not authenticate.
"""

from __future__ import annotations

import datetime
import functools
import glob
import hashlib
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Literal, TypeAlias, TypeVar, overload

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, Unreleased
from beam_dpsketch.answers.released import Released
from beam_dpsketch.encodings import Item, decode, encode, join_parts
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, FormatError, said_by
from beam_dpsketch.statement.release_format import (
    DIGEST_BYTES,
    RECORD_KINDS,
    RELEASE_START,
    spent_record,
    unpack_statement,
)

LocalPath: TypeAlias = "str | os.PathLike[str]"
Stored: TypeAlias = "Released | TimelineRow | tuple[Item, Released | TimelineRow]"
Kind = TypeVar("Kind", bound="Released | TimelineRow")

SUFFIX = ".dpsketch"
HEADER = b"DPSKFILE\x01\x00"
_CHUNK = 1 << 20
_digest = functools.partial(hashlib.blake2b, digest_size=DIGEST_BYTES)


@overload
def read_releases(file_pattern: LocalPath) -> list[Stored]: ...
@overload
def read_releases(file_pattern: LocalPath, kind: type[Kind]) -> list[Kind]: ...
@overload
def read_releases(file_pattern: LocalPath, kind: type[Kind], *, keyed: Literal[True]) -> list[tuple[Item, Kind]]: ...
@_validate.explained
def read_releases(file_pattern: LocalPath, kind: type | None = None, *, keyed: bool = False) -> list[Any]:
    """Read local files from `WriteReleases`: releases, timeline rows, or (key, release) pairs.

    Files are sorted by name, which is chronological for windows. A run that selected no key has no release in its
    files, but `dpsketch spent` reports its privacy loss.

    Args:
      file_pattern: a path, a folder, for its files `*.dpsketch`, or a pattern with the wildcards of `glob`.
      kind: the class that every release must have, or `TimelineRow`. It determines the static type of the result.
      keyed: whether the files must contain (key, release) pairs. Requires `kind`.

    Raises:
      FileNotFoundError: no file matches.
      FormatError: a file contains no releases, or was cut or damaged.
      TypeError: the contents of a file do not match `kind` and `keyed`.
    """
    path = os.fspath(file_pattern)
    if os.path.isdir(path):
        path = os.path.join(glob.escape(path), f"*{SUFFIX}")
    return read_files([path] if os.path.exists(path) else glob.glob(path), path, kind, keyed)


@_validate.explained
def load(path: LocalPath) -> Released:
    """Read the release in a local file, as `Released.save` writes it.

    Raises:
      FileNotFoundError: there is no such file.
      FormatError: the file contains no release, or was cut or damaged.
      ValueError: the file contains several releases, keys or timeline rows.
    """
    found = read_releases(path)
    if len(found) != 1 or not isinstance(found[0], Released):
        words = f"must be a file with one release and no key, got {len(found)} record(s). Use read_releases(path)"
        raise ArgumentError("path", words, "E712")
    return found[0]


def read_files(
    paths: Iterable[str], pattern: str, kind: type | None, keyed: bool, opened: Callable[[str], BinaryIO] = io.FileIO
) -> list[Any]:
    """Read the files that match a pattern, sorted by name."""
    if not (paths := sorted(paths)):
        raise FileNotFoundError(f"no file matches {pattern}")
    elements = [element for path in paths for element in read_file(path, opened)]
    kind = kind or (Released if keyed else None)
    for element in elements:
        value = element[1] if isinstance(element, tuple) else element
        if kind and (not isinstance(value, kind) or keyed != isinstance(element, tuple)):
            found = type(value).__name__ if value is element else f"(key, {type(value).__name__}) pairs"
            words = f"kind and keyed must match the files, which contain {found}. Change them, or read other files"
            raise ArgumentTypeError("", words, "E712")
    return elements


def read_file(path: str, opened: Callable[[str], BinaryIO]) -> Iterator[Stored]:
    """Yield the releases in a file. Raise `FormatError` if it is damaged or ends too early."""
    return (each for each in read_elements(path, opened) if not isinstance(each, Unreleased))


def read_elements(path: str, opened: Callable[[str], BinaryIO] = io.FileIO) -> Iterator[Stored | Unreleased]:
    """Yield the records in a file, including runs without a release.

    A file may also be the bytes of a single release, as `to_bytes` returns them.
    """
    try:
        with opened(path) as file:
            start = file.read(len(HEADER))
            if start != HEADER and start.startswith(RELEASE_START):
                yield Released.from_bytes(start + file.read())
            else:
                yield from map(from_record, read_records(file, start))
    except FormatError as error:
        raise FormatError(f"{path} is damaged or not a release file: {said_by(error)}") from None


def read_records(file: BinaryIO, start: bytes = b"") -> Iterator[bytes]:
    """Yield the bytes of each record in a file. Raise `FormatError` if it is damaged or ends too early.

    `start` is the part of its header that was already read.
    """
    digest = _digest(start)

    def take(size: int) -> bytes:
        parts = []
        while size:
            part = file.read(min(size, _CHUNK))  # a damaged length must not allocate more than the size of the file
            if not part:
                raise FormatError("the file ends too early")
            digest.update(part)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def take_record() -> bytes:
        record, expected = take(int.from_bytes(take(8), "little")), digest.digest()
        if take(DIGEST_BYTES) != expected:
            raise FormatError("a digest does not match")
        return record

    if start + take(len(HEADER) - len(start)) != HEADER:
        raise FormatError("the magic number or the format version is unknown")
    yield from iter(take_record, b"")
    if file.read(1):
        raise FormatError("bytes follow the end")


_SORTED_BY, _IN_MEMORY = 1 << 10, 1 << 26  # bytes


class RecordWriter:
    """Writer of records. Before `close` the file is incomplete, and reading it raises an error."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest = file, _digest()
        self._append(HEADER)

    def write(self, record: bytes) -> None:
        self._append(len(record).to_bytes(8, "little") + record)
        self._append(self._digest.digest())

    def close(self) -> None:
        self.write(b"")
        self._file.close()

    def _append(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


class SortedWriter:
    """Writer that sorts records by key, because the arrival order could reveal who is in the data."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = RecordWriter(file)
        self._waiting = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # until `close`
        self._places: list[tuple[bytes, int, int]] = []

    def write(self, record: bytes) -> None:
        self._places.append((record[:_SORTED_BY], self._waiting.tell(), len(record)))
        self._waiting.write(record)

    def close(self) -> None:
        with self._waiting as waiting:
            for _, start, size in sorted(self._places):
                waiting.seek(start)
                self._writer.write(waiting.read(size))
        self._writer.close()


def window_path(prefix: str, start: datetime.datetime, end: datetime.datetime) -> str:
    """Build the file name of a window from its start and end in UTC. Names sort by time.

    >>> window_path("out/days", datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2))
    'out/days-20240101T000000Z-20240102T000000Z.dpsketch'
    """
    return f"{prefix}-{_compact(start)}-{_compact(end)}{SUFFIX}"


def _compact(time: datetime.datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S}" + (f".{time.microsecond:06}Z" if time.microsecond else "Z")


def to_record(element: Stored | Unreleased) -> bytes:
    """Encode a release, a row, a (key, release or row) pair, or a privacy loss without a release."""
    if isinstance(element, Unreleased):
        return spent_record(element.privacy)
    key, released = element if isinstance(element, tuple) else (None, element)
    kinds = ("row", "row_pair") if released.is_row else ("release", "pair")
    kind = kinds[isinstance(element, tuple)]
    start = join_parts([encode(key)]) if isinstance(element, tuple) else b""
    return bytes([RECORD_KINDS.index(kind)]) + start + released.to_bytes()


def from_record(data: bytes) -> Stored | Unreleased:
    """Decode the bytes from `to_record`. Raise `FormatError` for other bytes."""
    if not data or data[0] >= len(RECORD_KINDS):
        raise FormatError("a record has an unknown kind")
    kind, rest = RECORD_KINDS[data[0]], data[1:]
    if kind == "spent":
        return Unreleased(PrivacyStatement.from_stated(unpack_statement(rest)))
    of_kind = TimelineRow if kind in ("row", "row_pair") else Released
    if kind in ("release", "row"):
        return of_kind.from_bytes(rest)
    end = 4 + int.from_bytes(rest[:4], "little")
    try:
        key = decode(rest[4:end])
    except ValueError:
        raise FormatError("a key is damaged") from None
    return key, of_kind.from_bytes(rest[end:])
