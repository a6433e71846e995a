"""A ledger in a table of PostgreSQL, by SQLAlchemy.

Guarantee: one writer at a time, by a lock that the server ends with the transaction or the connection; a commit is on
the disk of the server before it returns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.errors import ArgumentError, LedgerError
from beam_dpsketch.ledger.store import CREATE, LOCK_SECONDS, Execute, Store

_LOCK = 0x6470736B65746368  # "dpsketch"
_SETTINGS = (
    "SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', :seconds, true), "
    "set_config('idle_in_transaction_session_timeout', :seconds, true)"
)
_SAID = {
    'role "': "does not know this user; make the role, or name another user",
    "does not exist": "holds no ledger, or is not there; dpsketch ledger create makes one in a database",
    "lock timeout": f"was locked by another process for {LOCK_SECONDS} seconds; end the transaction that holds it",
    "read-only": "may not be written to: it is read-only",
    "permission denied": "may not be read or written by this user",
    "no space left": "cannot grow: the disk of the server is full",
    "no password": "asks for a password: put it into the password file of PostgreSQL, or into PGPASSWORD",
    "authentication failed": "does not know this user, or takes another password",
}
"""What is said where the server says this."""


class PostgresStore(Store):
    """A database.

    Args:
      url: as `postgresql://user@host/database`, without a password.
    """

    def __init__(self, url: str) -> None:
        self._url, self._sql = url, _sqlalchemy()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Execute]:
        with self._open() as execute:
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield execute

    @contextlib.contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Execute]:
        with self._open() as execute:
            execute(_SETTINGS, seconds=f"{LOCK_SECONDS}s")
            execute("SELECT pg_advisory_xact_lock(:lock)", lock=_LOCK)
            if create and not execute("SELECT 1 WHERE to_regclass('dpsketch_ledger') IS NOT NULL"):
                for statement in CREATE:
                    execute(statement)
            yield execute

    @contextlib.contextmanager
    def _open(self) -> Iterator[Execute]:
        sql = self._sql
        try:
            with _engine(self._url).begin() as connection:

                def execute(statement: str, **values: Any) -> list[tuple[Any, ...]]:
                    found = connection.execute(sql.text(statement), values)
                    return [tuple(row) for row in found] if found.returns_rows else []

                yield execute
        except sql.exc.SQLAlchemyError as error:
            said = str(getattr(error, "orig", error)).lower()
            words = next((words for part, words in _SAID.items() if part in said), "cannot be reached, or fails")
            raise LedgerError("", f"{self._url} {words}", "E140") from None


@functools.lru_cache(maxsize=16)
def _engine(url: str) -> Any:
    """Return what connects; it keeps no connection, which two processes could share after a fork."""
    sql = _sqlalchemy()
    made = sql.make_url(url).set(drivername="postgresql+psycopg")
    text = {"client_encoding": "utf8"}  # also of a database that names no encoding
    return sql.create_engine(made, poolclass=sql.pool.NullPool, isolation_level="READ COMMITTED", connect_args=text)


def _sqlalchemy() -> Any:
    try:
        import psycopg  # noqa: F401  # which it would ask for later
        import sqlalchemy
    except ImportError:
        raise ArgumentError(
            "address", 'needs the extra postgres: pip install "beam-dpsketch[postgres]"', "E139"
        ) from None
    return sqlalchemy
