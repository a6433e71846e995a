"""`Ledger`: accounts that pay for releases, outlive the jobs, and refuse payments above their limits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.ledger import entries, sums
from beam_dpsketch.ledger.entries import ACCOUNT, Account, LedgerEntry
from beam_dpsketch.ledger.paying import AccountPayer, account_in, account_of, write_off
from beam_dpsketch.ledger.places import address_of, open_store
from beam_dpsketch.ledger.store import Book
from beam_dpsketch.ledger.sums import Balance, Verified
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.loss.composition import composed_event_of


class Ledger:
    """Accounts of privacy loss, in an SQLite file or a PostgreSQL database.

    Guarantee: at every time, all releases paid by an account in a period are together within its limit, by the theorem
    in `privacy.loss.composition`, over all processes that spend. `LossLimit` covers analysts who choose their spending
    from earlier results. An entry is durable before its release draws noise. A crash can therefore cost budget, but
    never leaves a release without an entry. The guarantee covers spending through the ledger. It cannot prevent other
    writes to the file or the database.

    Args:
      address: a file on this machine, or `postgresql://user@host/database`, without a password. The constructor does
        not open it.

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
        """File or URL of the ledger."""
        return self._address

    def __repr__(self) -> str:
        return f"<Ledger at {self._address}>"

    def create(self, account: Account, *, who: str | None = None) -> None:
        """Add an account, and create the ledger if necessary, or raise `ArgumentError` for a used name.

        Args:
          account: see `Account`. It never changes.
          who: its author, as free text. `None` is the user of this process.
        """
        _validate.instance(Account, account=account)
        who = _who(who)
        with open_store(self._address).writing(create=True) as execute:
            book = Book(execute)
            book.create(who)
            book.check_version()
            if book.on(f"account:{account.name}") is not None:
                raise ArgumentError("account", f"must be new: the ledger already has {account.name!r}", "E132")
            entry = LedgerEntry(
                number=0, kind=ACCOUNT, time=entries.now(), who=who, account=account.name, what=account.as_dict()
            )
            book.add(entry, f"account:{account.name}")

    def spend(
        self, account: str, spec: PrivacySpec, *, who: str | None = None, period: str | None = None
    ) -> PrivacySpec:
        """Build an equal spec for whose runs the account pays.

        A pipeline pays as it runs, in a step before the noise. `release_frame` and `release` pay before they draw
        noise. Building, `explain`, `check` and `rehearse` are free. Each run pays again, including runs of a template,
        and each transform in a pipeline pays separately. If the remaining budget is too small, the run fails with
        `BudgetExceededError` before it draws noise.

        Args:
          account: name of the account.
          spec: loss of each release, without a budget.
          who: the payer, as free text. `None` is the user of this process.
          period: the period in which the payment counts, such as "2026-11". `None` is the current period, by the clock.
            Name the period if the data belong to an earlier one.
        """
        _validate.instance(PrivacySpec, spec=spec)
        return spec.paid_by(payer_of(self._address, account, who=who, period=period))

    def account(self, name: str) -> Account:
        """Look up an account."""
        _validate.short_text(account=name)
        with self._book() as book:
            return account_of(book, name)

    def entries(self) -> list[LedgerEntry]:
        """List the entries, oldest first."""
        with self._book() as book:
            return [entry for entry, _ in book.each()]

    def accounts(self) -> list[Account]:
        """List the accounts, oldest first."""
        return [account_in(each) for each in self.entries() if each.kind == ACCOUNT]

    def balances(self) -> list[Balance]:
        """Compute the balances of each account, in the period of its creation and in each used period."""
        return sums.balances_of(self.entries())

    def write_off(self, payment: str, reason: str, *, who: str | None = None) -> LedgerEntry:
        """Refund a payment for a release that was not made. The payment stays visible, with the reason.

        You assert that no person saw any part of the release.

        Args:
          payment: name of the release's run, 32 hexadecimal digits, shown by `entries`.
          reason: free text.
          who: the author, as free text. `None` is the user of this process.
        """
        _validate.short_text(payment=payment, reason=reason)
        if not reason.strip():
            raise ArgumentError("reason", "must not be empty, because a write-off refunds budget", "E138")
        who = _who(who)
        with open_store(self._address).writing() as execute:
            book = Book(execute)
            book.check_version()
            return write_off(book, payment, reason, who)

    def verify(self, head: str | None = None) -> Verified:
        """Add up all entries again, or raise `LedgerError` if an entry was changed by accident.

        A deliberate writer can recompute all digests. Store the head elsewhere, and pass it here.

        Args:
          head: the digest from an earlier `verify`, which the ledger must still contain.
        """
        with self._book() as book:
            return sums.verify(book.each(), head)

    def paid(self, account: str) -> list[LedgerEntry]:
        """List an account's payments, without written-off payments."""
        self.account(account)
        return sums.valid_payments(each for each in self.entries() if each.account == account)

    def to_dp_event(self, account: str, period: str | None = None, *, ignore_delta: bool = False) -> Any:
        """Convert an account's payments to a single event, which requires the package dp-accounting.

        Args:
          account: its name.
          period: a period listed by `balances`. `None` combines all periods.
          ignore_delta: see `PrivacyStatement.to_dp_event`: add the deltas from `balances()` by hand.
        """
        periods = [each.period for each in self.balances() if each.account.name == account]
        if period is not None and period not in periods:
            raise ArgumentError("period", f"must be in the ledger for account {account[:100]!r}", "E135")
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
    _validate.short_text(who=found)
    return found


def payer_of(address: str, account: str, *, who: str | None = None, period: str | None = None) -> AccountPayer:
    """Build the payer for an account without opening the ledger."""
    _validate.short_text(account=account, **({} if period is None else {"period": period}))
    return AccountPayer(address_of(address), account, _who(who), period)
