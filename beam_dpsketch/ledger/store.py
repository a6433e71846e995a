"""Entry store: a table in SQLite or PostgreSQL, with the same SQL for reading and adding rows.

Guarantee: `writing` admits a single process at a time. Added rows are durable when it ends, or are all discarded. Rows
are added, and never changed.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from beam_dpsketch.errors import LedgerError
from beam_dpsketch.ledger import entries
from beam_dpsketch.ledger.entries import LEDGER, SPEND, START, LedgerEntry
from beam_dpsketch.privacy.loss.composition import Loss

Execute: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""Function that runs a statement with named values and returns its rows."""

LEDGER_VERSION = 2
LOCK_SECONDS = 300
"""Largest wait for other processes, in seconds."""

TABLE = "dpsketch_ledger"
CREATE = (
    "CREATE TABLE IF NOT EXISTS dpsketch_ledger (number BIGINT PRIMARY KEY, occasion TEXT NOT NULL UNIQUE, "
    "account TEXT NOT NULL, period TEXT NOT NULL, payment TEXT NOT NULL, by_clock INTEGER NOT NULL, "
    "body TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS dpsketch_by_place ON dpsketch_ledger (account, period, number)",
    "CREATE INDEX IF NOT EXISTS dpsketch_by_payment ON dpsketch_ledger (payment, number)",
    "CREATE INDEX IF NOT EXISTS dpsketch_by_clock ON dpsketch_ledger (account, by_clock, number)",
)
_INSERT = (
    "INSERT INTO dpsketch_ledger (number, occasion, account, period, payment, by_clock, body, digest) "
    "VALUES (:number, :occasion, :account, :period, :payment, :by_clock, :body, :digest)"
)
_PLACE = ("account", "period", "payment", "by_clock")
"""Columns that repeat parts of an entry's text, for indexes."""
_SELECT = "SELECT number, body, digest FROM dpsketch_ledger"
_LAST = "ORDER BY number DESC LIMIT 1"
_FIRST = "SELECT occasion FROM dpsketch_ledger WHERE number = 0"


class Store(abc.ABC):
    """Storage for a ledger."""

    @abc.abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Execute]:
        """Open the store to read a consistent snapshot."""

    @abc.abstractmethod
    def writing(self, *, create: bool = False) -> contextlib.AbstractContextManager[Execute]:
        """Lock the store, and commit durably at the end. `create` makes a missing table."""


class Book:
    """Entries in an open store."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def create(self, who: str) -> None:
        """Add the first entry, if there is none."""
        if not self._execute(f"{_SELECT} {_LAST}"):
            first = LedgerEntry(
                number=0, kind=LEDGER, time=entries.now(), who=who, what={"version": LEDGER_VERSION}, previous=START
            )
            self._insert(first, f"version:{LEDGER_VERSION}")

    def check_version(self) -> None:
        """Refuse the format of another package version."""
        found = [str(occasion).removeprefix("version:") for (occasion,) in self._execute(_FIRST)]
        if not found:
            raise LedgerError("", "the ledger is damaged: it has no first entry", "E142")
        if found != [str(LEDGER_VERSION)]:
            raise LedgerError(
                "",
                f"the ledger has version {found[0][:9]}, and this package reads version {LEDGER_VERSION}. Use the "
                "beam-dpsketch version that created the ledger",
                "E141",
            )

    def add(self, entry: LedgerEntry, occasion: str) -> LedgerEntry:
        """Append an entry with the previous digest, under a unique occasion."""
        last = self._last("")
        if last is None:
            raise LedgerError("", "the ledger is damaged: it has no first entry", "E142")
        entry = LedgerEntry(**{**vars(entry), "number": last.number + 1, "previous": last.digest})
        self._insert(entry, occasion)
        return entry

    def _insert(self, entry: LedgerEntry, occasion: str) -> None:
        """Insert a row and read it back. On error the transaction leaves no row."""
        place = {name: getattr(entry, name) for name in _PLACE}
        written: dict[str, Any] = {"number": entry.number, "body": entry.to_text(), "digest": entry.digest}
        self._execute(_INSERT, occasion=occasion, **written, **place)
        try:
            LedgerEntry.of(**written)
            is_kept = self._execute(f"{_SELECT} WHERE number = :number", number=entry.number) == [(*written.values(),)]
        except LedgerError:
            is_kept = False
        if not is_kept:
            words = (
                "the new entry could not be read back. Nothing was spent. Possible causes: a clock outside 1970 to "
                f"8999 (it shows {entry.time.year}), an amount of over 1,000 digits, a database trigger"
            )
            raise LedgerError("", words, "E148")

    def total(self, account: str, period: str) -> Loss:
        """Compute the spent loss of an account in a period."""
        last = self._last("WHERE account = :account AND period = :period", account=account, period=period)
        return Loss() if last is None else last.total

    def last_by_clock(self, account: str) -> LedgerEntry | None:
        """Find an account's last payment in a period read from the clock."""
        return self._last("WHERE account = :account AND by_clock = 1", account=account)

    def of_payment(self, payment: str) -> list[LedgerEntry]:
        """List the entries of a payment, alternately spent and written off."""
        return self._read("WHERE payment = :payment ORDER BY number", payment=payment)

    def on(self, occasion: str) -> LedgerEntry | None:
        """Find the entry with an occasion."""
        return next(iter(self._read("WHERE occasion = :occasion", occasion=occasion)), None)

    def each(self) -> Iterator[tuple[LedgerEntry, str]]:
        """Yield the entries with their occasions, or raise if columns contradict the text."""
        columns = ", ".join(("number, body, digest, occasion", *_PLACE))
        for number, body, digest, occasion, *place in self._execute(
            f"SELECT {columns} FROM dpsketch_ledger ORDER BY number"
        ):
            entry = LedgerEntry.of(number, body, digest)
            if place != [getattr(entry, name) for name in _PLACE]:
                raise LedgerError("", f"ledger entry {number} is damaged: its columns differ from its text", "E142")
            yield entry, occasion

    def not_written_off(self, account: str, period: str, without: LedgerEntry) -> Loss:
        """Add up the spent loss of an account in a period, without an entry."""
        where = "WHERE account = :account AND period = :period ORDER BY number"
        spent: dict[str, LedgerEntry] = {}
        for each in self._read(where, account=account, period=period):
            if each.kind == SPEND:
                spent[each.payment] = each
            else:
                spent.pop(each.payment, None)
        return add_up(each.loss for each in spent.values() if each.number != without.number)

    def _last(self, where: str, **values: Any) -> LedgerEntry | None:
        found = self._read(f"{where} {_LAST}", **values)
        return found[0] if found else None

    def _read(self, rest: str, **values: Any) -> list[LedgerEntry]:
        return [LedgerEntry.of(*row) for row in self._execute(f"{_SELECT} {rest}", **values)]


def add_up(losses: Any) -> Loss:
    """Add up losses if a unit may be in all inputs."""
    total = Loss()
    for each in losses:
        total = total.plus(each)
    return total
