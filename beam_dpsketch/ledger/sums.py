"""Ledger totals: balances, and verification that finds accidental changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from beam_dpsketch.errors import LedgerError
from beam_dpsketch.ledger.entries import ACCOUNT, LEDGER, SPEND, START, WRITE_OFF, Account, LedgerEntry
from beam_dpsketch.ledger.paying import account_in, occasion_of
from beam_dpsketch.ledger.store import LEDGER_VERSION, add_up
from beam_dpsketch.privacy.loss.composition import Loss


class Balance(NamedTuple):
    """Spent and remaining loss in an account's period.

    Attributes:
      account: the account, with its limit.
      period: such as `2026-11`, or empty if unbounded.
      spent: total loss of all paid releases, exact.
      payments: number of valid payments.
      written_off: number of written-off payments.
      last: loss of the last valid payment, or `None` without payments.
    """

    account: Account
    period: str
    spent: Loss
    payments: int
    written_off: int
    last: Loss | None

    @property
    def share(self) -> float:
        """Spent fraction of the limit: 1 at the limit."""
        return self.account.limit.share(self.spent)

    @property
    def left(self) -> Loss:
        """Largest loss of another release, rounded down: pure under a pure limit."""
        return self.account.limit.left(self.spent)

    @property
    def left_like_last(self) -> int | None:
        """Number of further releases with the loss of the last one, at most 1,000; `None` without payments."""
        return None if self.last is None else self.account.limit.count(self.spent, self.last)


def balances_of(entries: Iterable[LedgerEntry]) -> list[Balance]:
    """Compute all balances, in the period of each account's creation and in each used period."""
    accounts: dict[str, Account] = {}
    places: dict[tuple[str, str], list[LedgerEntry]] = {}
    for each in entries:
        if each.kind == ACCOUNT:
            account = accounts[each.account] = account_in(each)
            places[account.name, account.period_of(each.time)] = []
        elif each.kind != LEDGER:
            places.setdefault((each.account, each.period), []).append(each)
    return [_balance(accounts, name, period, found) for (name, period), found in places.items()]


def _balance(accounts: dict[str, Account], name: str, period: str, found: list[LedgerEntry]) -> Balance:
    if name not in accounts:
        raise LedgerError("", f"ledger entry {found[0].number} is damaged: its account does not exist", "E142")
    paid = valid_payments(found)
    spent, last = found[-1].total if found else Loss(), paid[-1].loss if paid else None
    return Balance(accounts[name], period, spent, len(paid), (len(found) - len(paid)) // 2, last)


def valid_payments(entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """List payments without written-off payments, oldest first."""
    found: dict[str, LedgerEntry] = {}
    for each in entries:
        found.pop(each.payment, None)
        if each.kind == SPEND:
            found[each.payment] = each
    return [*found.values()]


def together(balances: Iterable[Balance]) -> Loss:
    """Add up the loss over periods, if the same people are in each."""
    return add_up(each.spent for each in balances)


def largest(balances: Iterable[Balance]) -> Loss:
    """Combine the loss over periods for units within a period, if every release reads its own period alone."""
    total = Loss()
    for each in balances:
        total = total.larger(each.spent)
    return total


class Verified(NamedTuple):
    """Result of a verification.

    Attributes:
      entries: number of entries.
      head: the digest of the last entry, which covers all previous entries.
      balances: all balances, recomputed.
    """

    entries: int
    head: str
    balances: list[Balance]


def verify(entries: Iterable[tuple[LedgerEntry, str]], head: str | None = None) -> Verified:
    """Recompute all entries, or raise `LedgerError` at the first invalid entry.

    Args:
      entries: all entries, with their occasions.
      head: a digest stored elsewhere, whose entry the ledger must contain.
    """
    recount = _Recount()
    found = [recount.add(entry, occasion) for entry, occasion in entries]
    if not found:
        raise LedgerError("", "the ledger has no entries", "E142")
    if head is not None and head not in recount.digests:
        raise LedgerError(
            "",
            "the ledger does not contain this head. Either entries were removed or rewritten, or the head is from "
            "another ledger",
            "E142",
        )
    return Verified(len(found), recount.previous, balances_of(found))


class _Recount:
    def __init__(self) -> None:
        self.previous, self.digests = START, set[str]()
        self._accounts: dict[str, Account] = {}
        self._payments: dict[str, list[LedgerEntry]] = {}
        self._spent: dict[tuple[str, str], dict[str, LedgerEntry]] = {}
        self._totals: dict[tuple[str, str], Loss] = {}

    def add(self, entry: LedgerEntry, occasion: str) -> LedgerEntry:
        expected: Any = {LEDGER: self._ledger, ACCOUNT: self._account, SPEND: self._spend, WRITE_OFF: self._write_off}
        number = len(self.digests)
        self._require(entry, entry.number == number, f"entry {number} is missing")
        self._require(entry, entry.previous == self.previous, "it does not follow the previous entry")
        self._require(entry, expected[entry.kind](entry) == occasion, "its unique key is wrong")
        self.previous = entry.digest
        self.digests.add(self.previous)
        return entry

    def _ledger(self, entry: LedgerEntry) -> str:
        self._require(entry, entry.number == 0, "only the first entry begins the ledger")
        return f"version:{LEDGER_VERSION}"

    def _account(self, entry: LedgerEntry) -> str:
        account = self._accounts[entry.account] = account_in(entry)
        self._require(entry, account.name == entry.account, "its account has another name")
        return f"account:{entry.account}"

    def _spend(self, entry: LedgerEntry) -> str:
        known, place = self._known(entry, WRITE_OFF), (entry.account, entry.period)
        spent = self._spent.setdefault(place, {})
        total = self._totals.get(place, Loss()).plus(entry.loss)
        self._require(entry, entry.loss.rho > 0 or entry.loss.delta > 0, "its loss is 0")
        self._require(entry, entry.total == total, "its total is not the sum")
        self._require(entry, self._accounts[entry.account].limit.holds(total), "its total is above the limit")
        spent[entry.payment], self._totals[place] = entry, total
        return occasion_of(entry.payment, known[:-1])

    def _write_off(self, entry: LedgerEntry) -> str:
        known, place = self._known(entry, SPEND), (entry.account, entry.period)
        spent = self._spent.setdefault(place, {})
        taken = spent.pop(entry.payment, None)
        self._require(
            entry, taken is not None and taken.loss == entry.loss, "it does not match the payment that it writes off"
        )
        total = self._totals[place] = add_up(each.loss for each in spent.values())
        self._require(entry, entry.total == total, "its total is not the sum")
        return occasion_of(entry.payment, known[:-1])

    def _known(self, entry: LedgerEntry, before: str) -> list[LedgerEntry]:
        """Record an entry for a payment, which must follow an entry of kind `before`, or be the first."""
        known = self._payments.setdefault(entry.payment, [])
        follows = known[-1].kind == before if known else before == WRITE_OFF
        self._require(entry, follows, "it is out of order for its payment")
        self._require(entry, entry.account in self._accounts, "its account does not exist")
        try:
            self._accounts[entry.account].checked_period(entry.period)
        except ValueError:
            self._require(entry, False, "its period is not a period of the account")
        known.append(entry)
        return known

    def _require(self, entry: LedgerEntry, holds: bool, words: str) -> None:
        if not holds:
            raise LedgerError("", f"ledger entry {entry.number} is damaged: {words}", "E142")
