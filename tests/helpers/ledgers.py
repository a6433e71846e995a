"""Ledgers in tests: accounts, payments, many processes, and what must hold of what they leave."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from beam_dpsketch import Account, Ledger, LossLimit
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.ledger.entries import SPEND
from beam_dpsketch.ledger.ledger import payer_of
from beam_dpsketch.ledger.paying import AccountBill
from beam_dpsketch.privacy.contributions import ADD_OR_REMOVE_ONE, PrivacyUnit
from beam_dpsketch.privacy.loss.composition import Loss

PERSON = {"privacy_unit": PrivacyUnit.PRIVACY_ID, "relation": ADD_OR_REMOVE_ONE}
FORK = multiprocessing.get_context("fork")


def with_account(address: Any, limit: LossLimit, name: str = "visits", **others: Any) -> Ledger:
    """A ledger with one account."""
    ledger = Ledger(address)
    ledger.create(Account(name=name, limit=limit, **others))
    return ledger


def bill(ledger: Ledger, loss: Loss, account: str = "visits", period: str | None = None) -> AccountBill:
    """The bill of a release about people."""
    return payer_of(ledger.address, account, period=period).bill(loss, PERSON, {"kind": "frequencies"})


def pay(ledger: Ledger, loss: Loss, account: str = "visits", period: str | None = None) -> bytes:
    """Pay for one run, and return its name."""
    run = os.urandom(16)
    bill(ledger, loss, account, period).pay(run)
    return run


def at_once(work: Callable[[int], Any], processes: int) -> list[Any]:
    """What each of many processes returns, or the error that it raises."""
    with FORK.Pool(processes) as pool:
        return pool.map(_Caught(work), range(processes), chunksize=1)


class _Caught:
    def __init__(self, work: Callable[[int], Any]) -> None:
        self._work = work

    def __call__(self, number: int) -> Any:
        try:
            return self._work(number)
        except Exception as error:
            return error


class Spender:
    """Spends again and again, and counts what becomes of it."""

    def __init__(self, ledger: Ledger, loss: Loss, times: int) -> None:
        self._ledger, self._loss, self._times = ledger, loss, times

    def __call__(self, number: int) -> Counter[str]:
        found: Counter[str] = Counter()
        for _ in range(self._times):
            try:
                pay(self._ledger, self._loss)
                found["granted"] += 1
            except BudgetExceededError:
                found["refused"] += 1
        return found


def check_at_once(address: Any, processes: int, times: int) -> None:
    """Many processes spend against a limit that two thirds of their requests reach."""
    one = Fraction(1, 7)
    asked = processes * times
    granted = asked * 2 // 3
    ledger = with_account(address, LossLimit(rho=one * granted + one / 2))
    found = at_once(Spender(ledger, Loss(one), times), processes)
    errors = [each for each in found if not isinstance(each, Counter)]
    assert errors == [], errors[:3]
    total = sum(found, Counter())
    assert total == {"granted": granted, "refused": asked - granted}
    (balance,) = ledger.balances()
    assert (balance.payments, balance.spent.rho) == (granted, granted * one)
    assert ledger.verify().entries == granted + 2


def payments(ledger: Ledger) -> list[str]:
    """The payments that a ledger holds."""
    return [each.payment for each in ledger.entries() if each.kind == SPEND]
