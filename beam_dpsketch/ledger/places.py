"""Where ledgers are: a file, or a database of PostgreSQL."""

from __future__ import annotations

import os
import urllib.parse

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.ledger.postgres import PostgresStore
from beam_dpsketch.ledger.sqlite import SqliteStore
from beam_dpsketch.ledger.store import Store

_SCHEME = "postgresql"
UNREACHABLE = "E140"
"""The code of a ledger that is not there, or cannot be opened, read or written now."""


def address_of(given: str | os.PathLike[str]) -> str:
    """Return an address that means the same in every folder of the machine; refuse one that is none.

    >>> address_of("postgresql://ledger@db.example.com/privacy")
    'postgresql://ledger@db.example.com/privacy'
    """
    if not isinstance(given, (str, os.PathLike)):
        raise ArgumentError("address", f"must be a file, or a URL of PostgreSQL, got {type(given).__name__}", "E139")
    address = os.fspath(given)
    scheme, separator, _ = address.partition("://")
    if not isinstance(address, str) or not address or "\0" in address:
        raise ArgumentError("address", "must be the name of a file, or a URL of PostgreSQL", "E139")
    if not separator:
        return os.path.abspath(address)
    if scheme != _SCHEME:
        raise ArgumentError(
            "address", "must be a file of this machine, or begin with postgresql://; no other place is known", "E139"
        )
    if _names_a_password(address):
        raise ArgumentError(
            "address",
            "must hold no password, which would be in the pipeline and in messages; put it into the password file of "
            "PostgreSQL, ~/.pgpass, or into PGPASSWORD",
            "E139",
        )
    return address


def _names_a_password(address: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(address)
        return parts.password is not None or "password" in parts.query.lower()
    except ValueError:
        raise ArgumentError("address", "must be a URL, as postgresql://user@host/database", "E139") from None


def open_store(address: str) -> Store:
    """Return the store at an address."""
    return PostgresStore(address) if "://" in address else SqliteStore(address)
