"""Ledger addresses: a file, or a PostgreSQL database."""

from __future__ import annotations

import os
import re
import urllib.parse

from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.ledger.postgres import SCHEMA, USUAL_SCHEMA, PostgresStore
from beam_dpsketch.ledger.sqlite import SqliteStore
from beam_dpsketch.ledger.store import Store

_SCHEME = "postgresql"
_DATABASE = re.compile(r"/[^/]+")
_SCHEMA_NAME = re.compile(r"[a-z_][\w$-]{0,62}", re.ASCII | re.IGNORECASE)
_WITHOUT_SLASHES = re.compile(r"postgres[\w+]*:", re.IGNORECASE)


def address_of(given: str | os.PathLike[str]) -> str:
    """Normalize a ledger address to the same meaning in every folder on the machine, or raise if it is invalid.

    >>> address_of("postgresql://ledger@db.example.com/privacy")
    'postgresql://ledger@db.example.com/privacy'
    """
    if not isinstance(given, (str, os.PathLike)):
        raise ArgumentError("address", f"must be a file or a PostgreSQL URL, got {type(given).__name__}", "E139")
    address = os.fspath(given)
    if not isinstance(address, str) or not address or "\0" in address or not _is_unicode(address):
        raise ArgumentError("address", "must be a file name in Unicode or a PostgreSQL URL", "E139")
    scheme, separator, _ = address.partition("://")
    if not separator and not _WITHOUT_SLASHES.match(address):
        return re.sub("^//", "/", os.path.abspath(address))  # POSIX keeps a leading double slash
    if scheme != _SCHEME:
        raise ArgumentError(
            "address", "must be a local file, or begin with postgresql://. Other places are not supported", "E139"
        )
    if _names_a_password(address):
        raise ArgumentError(
            "address",
            "must not contain a password, because it would be in the pipeline and in messages. Put the password into "
            "the PostgreSQL password file, ~/.pgpass, or into PGPASSWORD. In other parts of the address, write @ as "
            "%40",
            "E139",
        )
    parts = urllib.parse.urlsplit(address)
    settings = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
    schemas = settings.get(SCHEMA, [USUAL_SCHEMA])
    is_named = _DATABASE.fullmatch(parts.path) and not {"dbname", "service", "servicefile"} & {*settings}
    if not is_named or len(schemas) > 1 or not _SCHEMA_NAME.fullmatch(schemas[0]):
        words = (
            f"must contain the database, and its {SCHEMA} if it is not {USUAL_SCHEMA}, such as "
            f"postgresql://user@host/database?{SCHEMA}=privacy. A {SCHEMA} has up to 63 letters, digits, _, - and $"
        )
        raise ArgumentError("address", words, "E139")
    return address


def _names_a_password(address: str) -> bool:
    """Whether an address may contain a password, including after characters that end the URL's host."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:
        raise ArgumentError("address", "must be a URL, such as postgresql://user@host/database", "E139") from None
    settings = urllib.parse.unquote_plus(f"{parts.query}#{parts.fragment}").lower()
    behind = parts.path, parts.query, parts.fragment
    return parts.password is not None or "password" in settings or any("@" in each for each in behind)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_store(address: str) -> Store:
    """Create the store for an address."""
    return PostgresStore(address) if "://" in address else SqliteStore(address)
