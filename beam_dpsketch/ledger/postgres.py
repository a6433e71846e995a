"""Ledger in a PostgreSQL table, with SQLAlchemy.

Guarantee: a single writer at a time, by a lock that the server releases with the transaction or the connection. A
commit is on the server's disk before it returns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from beam_dpsketch.errors import ArgumentError, LedgerError
from beam_dpsketch.ledger.store import CREATE, LOCK_SECONDS, TABLE, Execute, Store

SCHEMA, USUAL_SCHEMA = "schema", "public"
"""Address setting with the table's schema, and its default."""
_FIND = (
    "SELECT nspname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace "
    f"WHERE relname = '{TABLE}' AND relkind IN ('r', 'p', 'v', 'f') AND relpersistence <> 't' ORDER BY nspname"
)
"""Query for the schemas with a ledger, including tables that this user may not read."""
_LOCK = 0x6470736B65746368  # "dpsketch"
_SETTINGS = (
    "SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', :seconds, true), "
    "set_config('idle_in_transaction_session_timeout', :seconds, true)"
)
_SAID = {
    'role "': "has no such user. Create the role, or use another user",
    'schema "': "has no such schema. Create it with CREATE SCHEMA, or use another schema",
    "does not exist": "does not exist. Create the database, and then the ledger with dpsketch ledger create",
    "denied for schema": f"denies this user access to the schema. For another schema, add {SCHEMA}=NAME to the address",
    "lock timeout": f"was locked by another process for {LOCK_SECONDS} seconds. End that transaction",
    "read-only": "cannot be written: it is read-only",
    "permission denied": "cannot be read or written by this user",
    "no space left": "cannot be written: the disk of the server is full",
    "no password": "requires a password. Put it into the PostgreSQL password file, or into PGPASSWORD",
    "authentication failed": "does not accept this user with this password",
}
"""Explanations of server messages."""


class PostgresStore(Store):
    """PostgreSQL database with a ledger.

    Args:
      url: such as `postgresql://user@host/database?schema=privacy`, without a password. The user's search path is
        ignored. An address therefore means the same ledger for all users.
    """

    def __init__(self, url: str) -> None:
        self._url, self._sql = url, _sqlalchemy()
        named = self._sql.make_url(url).query.get(SCHEMA)
        self._schema, self._is_named = named or USUAL_SCHEMA, named is not None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Execute]:
        with self._open() as execute:
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._find(execute)
            yield execute

    @contextlib.contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Execute]:
        with self._open() as execute:
            execute(_SETTINGS, seconds=f"{LOCK_SECONDS}s")
            execute("SELECT pg_advisory_xact_lock(:lock)", lock=_LOCK)
            for statement in () if self._find(execute, create=create) else CREATE:
                execute(statement)
            yield execute

    def _find(self, execute: Execute, *, create: bool = False) -> bool:
        """Look for the ledger, or raise if it is required but missing, or if another schema already has a ledger."""
        schemas = [name for (name,) in execute(_FIND)]
        is_found = self._schema in schemas
        if not is_found and not (create and (self._is_named or not schemas)):
            words = "Create it with dpsketch ledger create"
            if schemas:
                names = " or ".join(f"{SCHEMA}={name}" for name in schemas)
                words = f"To use the ledger of another schema, add {names} to the address"
                words += f", or add {SCHEMA}={self._schema} to create another ledger" * create
            raise LedgerError("", f"{self._url} has no ledger in schema {self._schema}. {words}", "E140")
        return is_found

    @contextlib.contextmanager
    def _open(self) -> Iterator[Execute]:
        sql = self._sql
        try:
            with _engine(self._url).begin() as connection:

                def execute(statement: str, **values: Any) -> list[tuple[Any, ...]]:
                    qualified = statement.replace(f" {TABLE}", f' "{self._schema}".{TABLE}')
                    found = connection.execute(sql.text(qualified), values)
                    return [tuple(row) for row in found] if found.returns_rows else []

                yield execute
        except sql.exc.SQLAlchemyError as error:
            said = str(getattr(error, "orig", error)).lower()
            words = next(
                (words for part, words in _SAID.items() if part in said), "cannot be reached, or reports an error"
            )
            raise LedgerError("", f"{self._url} {words}", "E140") from None


@functools.lru_cache(maxsize=16)
def _engine(url: str) -> Any:
    """Create an engine without a connection pool, because processes could share a pool after a fork."""
    sql = _sqlalchemy()
    made = sql.make_url(url).set(drivername="postgresql+psycopg").difference_update_query([SCHEMA])
    places = {*made.query} | {name for name in ("host", "port") if getattr(made, name)}
    options = dict.fromkeys({"host", "hostaddr", "port"} - places, "")  # ignore PGHOST and similar variables
    options["client_encoding"] = "utf8"  # including databases without a declared encoding
    return sql.create_engine(made, poolclass=sql.pool.NullPool, isolation_level="READ COMMITTED", connect_args=options)


def _sqlalchemy() -> Any:
    try:
        import psycopg  # noqa: F401  # SQLAlchemy imports it later
        import sqlalchemy
    except ImportError:
        raise ArgumentError(
            "address", 'requires the extra postgres: pip install "beam-dpsketch[postgres]"', "E139"
        ) from None
    return sqlalchemy
