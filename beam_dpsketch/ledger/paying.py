"""Payment for a release: a durable entry before its noise, or an error.

Guarantee: the payments granted to an account in a period are within its limit at every time, over all processes. A
payment is added once per run, even if a worker retries. A crash leaves a complete entry, or none.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from beam_dpsketch.errors import ArgumentError, BudgetExceededError, LedgerError
from beam_dpsketch.ledger import entries
from beam_dpsketch.ledger.entries import NAMED, RECORDED, SPEND, WRITE_OFF, Account, LedgerEntry, read_account
from beam_dpsketch.ledger.places import open_store
from beam_dpsketch.ledger.store import Book
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.loss.payment import IDEMPOTENT, STREAM, Payer

SKEW = datetime.timedelta(minutes=5)
"""Tolerated difference between machine clocks."""


@dataclasses.dataclass(frozen=True)
class AccountPayer(Payer):
    """Account that pays once for each run, before its noise is drawn.

    Attributes:
      address: address of the ledger.
      account: name of the account.
      who: the payer, as free text.
      period: the period in which the payment counts. `None` is the current period, by the clock.
    """

    address: str
    account: str
    who: str
    period: str | None = None

    def bill(self, loss: Loss, terms: Mapping[str, Any], what: Mapping[str, Any]) -> AccountBill:
        return AccountBill(self, loss, dict(terms), dict(what))


@dataclasses.dataclass(frozen=True)
class AccountBill:
    """Cost of a release for an account."""

    payer: AccountPayer
    loss: Loss
    terms: Mapping[str, Any]
    what: Mapping[str, Any]

    def check(self) -> None:
        """Raise if the account cannot pay now, without spending."""
        self.check_with([])

    def check_with(self, others: Iterable[AccountBill]) -> None:
        """Raise if the account cannot pay several bills in sequence, without spending."""
        check_together([self, *others])

    def check_unpaid(self, run: bytes) -> None:
        """Raise if a run is already paid for."""
        with open_store(self.payer.address).reading() as execute:
            book = Book(execute)
            book.check_version()
            known = book.of_payment(run.hex())
            if known and known[-1].kind == SPEND:
                self._check_same(known[-1], book)

    def pay(self, run: bytes) -> None:
        """Pay durably, or raise. Another payment for a run with the same name is free."""
        with open_store(self.payer.address).writing() as execute:
            book, payment = Book(execute), run.hex()
            book.check_version()
            known = book.of_payment(payment)
            if known and known[-1].kind == SPEND:
                self._check_same(known[-1], book)
                return
            account, time, period = self._place(book)
            total = self._total(account, period, book.total(account.name, period))
            entry = LedgerEntry(
                number=0,
                kind=SPEND,
                time=time,
                who=self.payer.who,
                account=account.name,
                period=period,
                payment=payment,
                loss=self.loss,
                total=total,
                what={**self.what, **({} if self.payer.period is None else {NAMED: True})},
            )
            book.add(entry, occasion_of(payment, known))

    def _check_same(self, known: LedgerEntry, book: Book) -> None:
        """Refuse a release that is recorded again, and another release or a new period with the name of a paid run."""
        if self.what.get(RECORDED) and known.loss == self.loss:
            words = f"account {known.account!r} has already paid for this release, by entry {known.number}"
            raise LedgerError("", f"{words}: payment {known.payment}. Nothing was spent", "E149")
        if (known.account, known.loss) != (self.payer.account, self.loss):
            raise LedgerError(
                "", f"payment {known.payment} is for another release. This release is not paid for", "E144"
            )
        if self.what.get(IDEMPOTENT) and (period := self._place(book)[2]) != known.period:
            words = (
                f"account {known.account!r} paid for this release id in {known.period}, and not in {period}. Use a "
                f"separate release id for each period. To repeat the run of {known.period} on the same input, set "
                f"the period to {known.period!r}"
            )
            raise LedgerError("", words, "E144")

    def _place(self, book: Book) -> tuple[Account, datetime.datetime, str]:
        account = account_of(book, self.payer.account)
        account.check_terms(self.terms["privacy_unit"], self.terms["relation"])
        time = entries.now()
        if self.what.get(STREAM) and account.period != "none":
            words = (
                f"must be none in account {account.name!r}: a stream pays once, when it begins, and would also read "
                f"the records of each later {account.period}. Use an account without periods, or run a job for each "
                f"{account.period}"
            )
            raise ArgumentError("period", words, "E135")
        if (named := self.payer.period) is not None:
            if account.checked_period(named) > account.period_of(time):
                raise ArgumentError("period", f"must not be in the future, got {named!r}", "E135")
            return account, time, named
        last = book.last_by_clock(account.name)
        if account.period != "none" and last is not None and time < last.time:
            if last.time - time > SKEW:
                raise LedgerError(
                    "",
                    f"the clock shows {time:%Y-%m-%d %H:%M} UTC, but account {account.name!r} was used at "
                    f"{last.time:%Y-%m-%d %H:%M}. A clock that goes back could open an old period. Correct the "
                    "clock, or set the period. If a clock ran ahead, see docs/ledger.md",
                    "E136",
                )
            time = last.time
        return account, time, account.period_of(time)

    def _total(self, account: Account, period: str, spent: Loss) -> Loss:
        total, limit = spent.plus(self.loss), account.limit
        if not limit.holds(total):
            said = f" in {period}" if period else ""
            later = "" if account.period == "none" else f", or wait for the next {account.period}"
            raise BudgetExceededError(
                "",
                f"account {account.name!r} cannot pay for this release{said}. Limit: {limit.words()}. Spent: "
                f"{limit.words(spent)}. Requested: {limit.words(self.loss)}. Together: {limit.words(total)}. Nothing "
                f"was spent. {limit.advice(self.loss, later)}. See dpsketch ledger show",
                "E130",
            )
        return total


def check_together(bills: Iterable[AccountBill]) -> list[Loss]:
    """Compute the totals of all accounts after their bills, or raise if they cannot pay in sequence. Spend nothing."""
    spent: dict[tuple[str, str, str], Loss] = {}
    for bill in bills:
        with open_store(bill.payer.address).reading() as execute:
            book = Book(execute)
            book.check_version()
            account, _, period = bill._place(book)
            place = bill.payer.address, account.name, period
            spent[place] = bill._total(account, period, spent.get(place) or book.total(account.name, period))
    return [*spent.values()]


def account_of(book: Book, name: str) -> Account:
    """Look up an account in a ledger."""
    entry = book.on(f"account:{name}")
    if entry is None:
        raise ArgumentError(
            "account",
            f"must be in the ledger, got {name[:100]!r}. To list the accounts, use dpsketch ledger list",
            "E132",
        )
    return account_in(entry)


def account_in(entry: LedgerEntry) -> Account:
    """Parse the account that an entry adds."""
    try:
        return read_account(entry.what)
    except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError):
        raise LedgerError("", f"ledger entry {entry.number} is damaged: it is not a valid account", "E142") from None


def write_off(book: Book, payment: str, reason: str, who: str) -> LedgerEntry:
    """Add a write-off entry for a payment, and add up the total again without it."""
    known = book.of_payment(payment)
    if not known:
        raise ArgumentError("payment", f"must be in the ledger, got {payment[:100]!r}", "E137")
    spent = known[-1]
    if spent.kind == WRITE_OFF:
        raise ArgumentError("payment", f"is already written off by entry {spent.number}", "E147")
    entry = dataclasses.replace(
        spent,
        kind=WRITE_OFF,
        time=entries.now(),
        who=who,
        what={"reason": reason, "entry": spent.number},
        total=book.not_written_off(spent.account, spent.period, spent),
    )
    return book.add(entry, occasion_of(payment, known))


def occasion_of(payment: str, known: list[LedgerEntry]) -> str:
    """Build the unique key of a payment's next entry."""
    return f"payment:{payment}:{len(known)}"
