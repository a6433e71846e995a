"""Ledger in an SQLite file, with the standard library.

Guarantee: a commit is on the disk before it returns: file, journal and folder (`synchronous = EXTRA`). The operating
system provides the locks, which end with their process. The next process rolls back a killed process's transaction.
Network file systems do not keep such locks. The store refuses them if the system reports the file system type.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sqlite3
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

from beam_dpsketch.errors import ArgumentError, LedgerError
from beam_dpsketch.ledger.store import CREATE, LOCK_SECONDS, Execute, Store

_MOUNTS = pathlib.Path("/proc/self/mountinfo")
_OF_NETWORKS = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "fuse", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
    *("orangefs", "smb3", "smbfs", "virtiofs"),
)
_LOCAL = {
    f"fuse.{each}"
    for each in ("bindfs", "encfs", "ext2", "fuse-overlayfs", "fuse2fs", "gocryptfs", "mergerfs", "ntfs", "ntfs-3g")
}
_SAID = {
    "readonly": "cannot be written: the file, or its folder, is read-only for this user",
    "read-only": "cannot be written: the file, or its folder, is read-only for this user",
    "full": "cannot be written: the disk is full",
    "locked": f"was locked by another process for {LOCK_SECONDS} seconds. End that process",
    "busy": f"was locked by another process for {LOCK_SECONDS} seconds. End that process",
    "no such table": "contains no ledger. Create it with dpsketch ledger create",
    "unable to open": "cannot be opened: the file does not exist, or is not readable. To create a ledger in an "
    "existing folder, use dpsketch ledger create",
    "disk i/o": "could not be read or written, because of the disk or a limit of this process",
}
"""Explanations of SQLite messages."""
_NOTHING = ". Nothing was spent"
_PAUSE = 0.06


class SqliteStore(Store):
    """SQLite file with a ledger."""

    def __init__(self, path: str) -> None:
        self._path = path

    @contextlib.contextmanager
    def reading(self) -> Iterator[Execute]:
        mode = "rw" if os.access(self._path, os.W_OK) else "ro"  # rw rolls back a killed process's transaction
        with self._open(mode) as connection, self._said():
            connection.execute("BEGIN")
            yield _executing(connection)

    @contextlib.contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Execute]:
        refuse_network(self._path)
        with self._open("rwc" if create else "rw") as connection, self._said(_NOTHING):
            connection.execute("PRAGMA journal_mode = TRUNCATE")
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            _begin(connection)
            execute = _executing(connection)
            for statement in CREATE if create else ():
                execute(statement)
            yield execute
            with self._said(". To see whether the payment was recorded, use dpsketch ledger show"):
                connection.execute("COMMIT")

    @contextlib.contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        with self._said():
            uri = f"file:{urllib.parse.quote(self._path)}?mode={mode}"
            connection = sqlite3.connect(uri, timeout=LOCK_SECONDS, isolation_level=None, uri=True)
            connection.text_factory = _as_text
        with contextlib.closing(connection):  # rolls back uncommitted changes
            yield connection

    @contextlib.contextmanager
    def _said(self, more: str = "") -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter if the message contains damaged text
            said = str(error).lower()
            words = next((words for part, words in _SAID.items() if part in said), None)
            if words is None:
                words, code = "is damaged, or is not a ledger", "E142"
            else:
                code = "E140"
            raise LedgerError("", f"{self._path} {words}{more}", code) from None


def _begin(connection: sqlite3.Connection) -> None:
    """Wait for the lock with uniformly random pauses, because SQLite's own backoff favors the latest waiter."""
    ends = time.monotonic() + LOCK_SECONDS
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > ends:
                raise
        time.sleep(_PAUSE * os.urandom(1)[0] / 255)
    connection.execute(f"PRAGMA busy_timeout = {1000 * LOCK_SECONDS}")  # for readers


def _as_text(data: bytes) -> str:
    """Decode text from the file. Damaged text becomes text that fits no digest."""
    return data.decode("utf-8", "replace")


def _executing(connection: sqlite3.Connection) -> Execute:
    def execute(statement: str, **values: Any) -> list[tuple[Any, ...]]:
        return connection.execute(statement, values).fetchall()

    return execute


def refuse_network(path: str, mounts: Iterable[str] | None = None) -> None:
    """Refuse a file on another machine.

    Args:
      path: the file.
      mounts: lines of Linux's mount table. `None` reads them.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except OSError:  # not Linux
            return
    real, found = os.path.realpath(path), ("", "")
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        mounted = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields.split(" ")[4])
        if (real == mounted or real.startswith(mounted.rstrip("/") + "/")) and len(mounted) >= len(found[0]):
            found = mounted, rest.split(" ")[0]
    if found[1] in _OF_NETWORKS or (found[1].startswith("fuse.") and found[1] not in _LOCAL):
        raise ArgumentError(
            "address",
            f"must be on a local disk: {path} is on {found[1]}, a network file system, whose locks may let two jobs "
            "spend at once. Use PostgreSQL: postgresql://host/database",
            "E139",
        )
