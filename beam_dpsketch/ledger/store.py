"""What keeps entries: one table, in SQLite or PostgreSQL, by the same SQL; and how its rows are read and added.

Guarantee: `writing` lets in one process at a time, and what was added is durable when it ends, or nothing of it
stays. Rows are added, and never changed.
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
"""Runs a statement with values by name, and returns its rows."""

VERSION = 2
LOCK_SECONDS = 300
"""How long a process waits for others."""

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
"""Columns that repeat what the text of an entry contains, for indexes."""
_SELECT = "SELECT number, body, digest FROM dpsketch_ledger"
_LAST = "ORDER BY number DESC LIMIT 1"
_FIRST = "SELECT occasion FROM dpsketch_ledger WHERE number = 0"


class Store(abc.ABC):
    """A place for a ledger."""

    @abc.abstractmethod
    def reading(self) -> contextlib.AbstractContextManager[Execute]:
        """Open it to read one state of it."""

    @abc.abstractmethod
    def writing(self, *, create: bool = False) -> contextlib.AbstractContextManager[Execute]:
        """Open it alone, and make what was written durable at the end; `create` makes the table if there is none."""


class Book:
    """The entries of an open store."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def create(self, who: str) -> None:
        """Make the first entry, if there is none."""
        if not self._execute(f"{_SELECT} {_LAST}"):
            first = LedgerEntry(
                number=0, kind=LEDGER, time=entries.now(), who=who, what={"version": VERSION}, previous=START
            )
            self._insert(first, f"version:{VERSION}")

    def check_version(self) -> None:
        """Refuse the format of another version of this package."""
        found = [str(occasion).removeprefix("version:") for (occasion,) in self._execute(_FIRST)]
        if not found:
            raise LedgerError("", "the table of the ledger has no first entry, so it is not a whole one", "E142")
        if found != [str(VERSION)]:
            raise LedgerError(
                "",
                f"the ledger has version {found[0][:9]}, and this package reads version {VERSION}. Use the version of "
                "beam-dpsketch that made the ledger",
                "E141",
            )

    def add(self, entry: LedgerEntry, occasion: str) -> LedgerEntry:
        """Add an entry after the last one, which it names, on an occasion that comes once."""
        last = self._last("")
        if last is None:
            raise LedgerError("", "the ledger has no first entry", "E142")
        entry = LedgerEntry(**{**vars(entry), "number": last.number + 1, "previous": last.digest})
        self._insert(entry, occasion)
        return entry

    def _insert(self, entry: LedgerEntry, occasion: str) -> None:
        """Add a row that can be read again, or raise: the transaction then leaves nothing."""
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
                "the new entry cannot be read as it was written, so nothing was spent. Possible causes: a clock "
                f"outside 1970 to 8999 (it shows {entry.time.year}), an amount of over 1,000 digits, a trigger"
            )
            raise LedgerError("", words, "E148")

    def total(self, account: str, period: str) -> Loss:
        """Return what is spent of an account in a period."""
        last = self._last("WHERE account = :account AND period = :period", account=account, period=period)
        return Loss() if last is None else last.total

    def last_by_clock(self, account: str) -> LedgerEntry | None:
        """Return the last payment of an account whose period is that of a clock."""
        return self._last("WHERE account = :account AND by_clock = 1", account=account)

    def of_payment(self, payment: str) -> list[LedgerEntry]:
        """Return the entries of a payment: spent, written off, and so on by turns."""
        return self._read("WHERE payment = :payment ORDER BY number", payment=payment)

    def on(self, occasion: str) -> LedgerEntry | None:
        """Return the entry of an occasion."""
        return next(iter(self._read("WHERE occasion = :occasion", occasion=occasion)), None)

    def each(self) -> Iterator[tuple[LedgerEntry, str]]:
        """Yield all entries with their occasions, and refuse columns that say another thing than the text."""
        columns = ", ".join(("number, body, digest, occasion", *_PLACE))
        for number, body, digest, occasion, *place in self._execute(
            f"SELECT {columns} FROM dpsketch_ledger ORDER BY number"
        ):
            entry = LedgerEntry.of(number, body, digest)
            if place != [getattr(entry, name) for name in _PLACE]:
                raise LedgerError("", f"entry {number} of the ledger is damaged: its columns differ", "E142")
            yield entry, occasion

    def not_written_off(self, account: str, period: str, without: LedgerEntry) -> Loss:
        """Return what is spent of an account in a period, added up again, without an entry."""
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
    """Return what losses are together, where one unit may be in all inputs."""
    total = Loss()
    for each in losses:
        total = total.plus(each)
    return total
