"""`Ledger`: accounts that pay for releases, outlive the jobs that make them, and refuse what is too much."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.ledger import entries, sums
from beam_dpsketch.ledger.entries import ACCOUNT, SPEND, Account, LedgerEntry, check_text
from beam_dpsketch.ledger.paying import AccountPayer, account_in, account_of, write_off
from beam_dpsketch.ledger.places import address_of, open_store
from beam_dpsketch.ledger.store import Book
from beam_dpsketch.ledger.sums import Balance, Verified
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.loss.composition import composed_event_of


class Ledger:
    """Accounts of losses, in a file of SQLite or in a database of PostgreSQL.

    Guarantee: at every time, all releases that an account has paid for in a period are together within its limit, by
    the theorem of `privacy.loss.composition`, over all processes that spend. See `LossLimit` for analysts who choose
    what they spend by what they have seen. An entry is durable before the noise of
    its release is drawn. So a crash costs budget, and never a release without an entry. It holds for those who spend
    through the ledger, and stops nobody who writes to the file or the database in another way.

    Args:
      address: a file of this machine, or `postgresql://user@host/database`, without a password. Nothing is opened yet.

    >>> import tempfile
    >>> from beam_dpsketch.ledger.limits import LossLimit
    >>> ledger = Ledger(f"{tempfile.mkdtemp()}/spent.db")
    >>> ledger.create(Account(name="visits", limit=LossLimit(epsilon=2, delta=1e-6), data_set="visits of our pages"))
    >>> privacy = ledger.spend("visits", PrivacySpec(epsilon=1, delta=1e-6))
    >>> ledger.balances()[0].payments  # building costs nothing
    0
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self._address = address_of(address)

    @property
    def address(self) -> str:
        """Where it is."""
        return self._address

    def __repr__(self) -> str:
        return f"<Ledger at {self._address}>"

    def create(self, account: Account, *, who: str | None = None) -> None:
        """Add an account, and make the ledger if there is none; `ArgumentError` if it has an account of this name.

        Args:
          account: see `Account`. It never changes.
          who: adds it, in free words; `None` is the user of this process.
        """
        _validate.instance(Account, account=account)
        who = _who(who)
        with open_store(self._address).writing(create=True) as execute:
            book = Book(execute)
            book.create(who)
            book.check_version()
            if book.on(f"account:{account.name}") is not None:
                raise ArgumentError("account", f"must be new: the ledger has one named {account.name!r}", "E132")
            entry = LedgerEntry(
                number=0, kind=ACCOUNT, time=entries.now(), who=who, account=account.name, what=account.as_dict()
            )
            book.add(entry, f"account:{account.name}")

    def spend(
        self, account: str, spec: PrivacySpec, *, who: str | None = None, period: str | None = None
    ) -> PrivacySpec:
        """Return a spec like this one, whose releases the account pays for each time that they are made.

        A pipeline pays as it runs, in a step before the noise; `release_frame` and `release` pay before they draw.
        Building, `explain`, `check` and `rehearse` cost nothing. Each run pays again, also of a template, and each
        transform of a pipeline pays for itself. Where the account has less left, the run fails before it draws noise,
        with `BudgetExceededError`.

        Args:
          account: its name.
          spec: what each release may spend, of no budget.
          who: pays, in free words; `None` is the user of this process.
          period: which pays, as "2026-11"; `None` takes that of the clock. Name it where the data are of an earlier
            one.
        """
        _validate.instance(PrivacySpec, spec=spec)
        return spec.paid_by(payer_of(self._address, account, who=who, period=period))

    def account(self, name: str) -> Account:
        """Return an account."""
        check_text(account=name)
        with self._book() as book:
            return account_of(book, name)

    def entries(self) -> list[LedgerEntry]:
        """Return all entries, oldest first."""
        with self._book() as book:
            return [entry for entry, _ in book.each()]

    def accounts(self) -> list[Account]:
        """Return all accounts, oldest first."""
        return [account_in(each) for each in self.entries() if each.kind == ACCOUNT]

    def balances(self) -> list[Balance]:
        """Return what is spent of each account, in the period in which it was made, and in each that was used."""
        return sums.balances_of(self.entries())

    def write_off(self, payment: str, reason: str, *, who: str | None = None) -> LedgerEntry:
        """Take back what was paid for a release that was not made; the payment stays visible, with the reason.

        It is your word that nothing of the release was seen by anybody.

        Args:
          payment: the name of its run, 32 hexadecimal digits, which `entries` shows.
          reason: in free words.
          who: in free words; `None` is the user of this process.
        """
        check_text(payment=payment, reason=reason)
        if not reason.strip():
            raise ArgumentError("reason", "must say why, because a write-off gives budget back", "E138")
        who = _who(who)
        with open_store(self._address).writing() as execute:
            book = Book(execute)
            book.check_version()
            return write_off(book, payment, reason, who)

    def verify(self, head: str | None = None) -> Verified:
        """Add up all entries again, and raise `LedgerError` if one of them was changed by accident.

        Who writes to the ledger on purpose can make all digests anew: keep the head elsewhere, and give it here.

        Args:
          head: the digest of an earlier `verify`, which the ledger must still hold.
        """
        with self._book() as book:
            return sums.verify(book.each(), head)

    def paid(self, account: str) -> list[LedgerEntry]:
        """Return the payments of an account that count, without those that were written off."""
        self.account(account)
        found: dict[str, LedgerEntry] = {}
        for each in self.entries():
            if each.account == account and each.payment:
                found.pop(each.payment, None)
                if each.kind == SPEND:
                    found[each.payment] = each
        return list(found.values())

    def to_dp_event(self, account: str, period: str | None = None, *, ignore_delta: bool = False) -> Any:
        """Return all payments of an account that count as one event; needs the package dp-accounting.

        Args:
          account: its name.
          period: one that `balances` names; `None` takes all of them together.
          ignore_delta: see `PrivacyStatement.to_dp_event`: add `balances()` deltas by hand.
        """
        periods = [each.period for each in self.balances() if each.account.name == account]
        if period is not None and period not in periods:
            raise ArgumentError("period", f"must be one in which account {account[:100]!r} was used", "E135")
        losses = [each.loss for each in self.paid(account) if period in (None, each.period)]
        return composed_event_of(losses, ignore_delta=ignore_delta)

    @contextlib.contextmanager
    def _book(self) -> Iterator[Book]:
        with open_store(self._address).reading() as execute:
            book = Book(execute)
            book.check_version()
            yield book


def _who(who: str | None) -> str:
    found = entries.user() if who is None else who
    check_text(who=found)
    return found


def payer_of(address: str, account: str, *, who: str | None = None, period: str | None = None) -> AccountPayer:
    """Return an account as what pays; nothing is opened."""
    check_text(account=account, **({} if period is None else {"period": period}))
    return AccountPayer(address_of(address), account, _who(who), period)
