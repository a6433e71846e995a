"""Every entry that a ledger adds can be read again: wrong clocks, long amounts, and databases that drop rows."""

from __future__ import annotations

import datetime
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import Account, Ledger, LedgerError, LossLimit, release_frame
from beam_dpsketch.ledger import entries
from beam_dpsketch.privacy.loss.composition import Loss
from tests.helpers.ledger_checks import SETTINGS, TABLE
from tests.helpers.ledgers import bill, pay, with_account

ONE = Loss(Fraction(1))
YEARS = {1: False, 999: False, 1969: False, 1970: True, 2026: True, 8999: True, 9000: False, 9999: False}


def set_clock(patch: pytest.MonkeyPatch, year: int) -> None:
    moment = datetime.datetime(year, 5, 1, tzinfo=datetime.UTC)
    patch.setattr(entries, "now", lambda: moment)


def write_off_first(ledger: Ledger) -> Any:
    payment = next(each.payment for each in ledger.entries() if each.payment)
    return ledger.write_off(payment, "the job ended")


def add_account(ledger: Ledger) -> Any:
    return ledger.create(Account(name="another", limit=LossLimit(rho=1)))


USES: dict[str, Callable[[Ledger], Any]] = {
    "pay": lambda ledger: pay(ledger, ONE),
    "write off": write_off_first,
    "add an account": add_account,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("year", YEARS)
def test_whatever_the_clock_shows_the_ledger_stays_readable(
    year: int, use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=10))
    pay(ledger, ONE)
    before = ledger.verify()
    set_clock(monkeypatch, year)
    if YEARS[year]:
        USES[use](ledger)
    else:
        with pytest.raises(LedgerError, match=rf"Nothing was spent.*1970 to 8999 .it shows {year}\)") as caught:
            USES[use](ledger)
        assert caught.value.code == "E148"
    monkeypatch.undo()
    assert ledger.verify().entries == before.entries + YEARS[year]
    pay(ledger, ONE)


def test_the_first_entry_of_a_ledger_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, 1969)
    with pytest.raises(LedgerError, match="it shows 1969"):
        with_account(tmp_path / "ledger", LossLimit(rho=1))
    monkeypatch.undo()
    assert with_account(tmp_path / "ledger", LossLimit(rho=1)).verify().entries == 2


@pytest.mark.parametrize(("digits", "is_taken"), [(400, True), (900, True), (1200, False)])
def test_amounts_of_many_digits(digits: int, is_taken: bool, tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1))
    amount = Loss(Fraction(1, 10**digits))
    if is_taken:
        pay(ledger, amount)
    else:
        with pytest.raises(LedgerError, match="an amount of over 1,000 digits"):
            pay(ledger, amount)
    assert ledger.verify().entries == 2 + is_taken


TRIGGERS = {
    "ignored": "BEFORE INSERT ON dpsketch_ledger BEGIN SELECT RAISE(IGNORE); END",
    **{
        name: f"AFTER INSERT ON dpsketch_ledger BEGIN {change} WHERE number = NEW.number; END"
        for name, change in {
            "deleted": "DELETE FROM dpsketch_ledger",
            "changed": "UPDATE dpsketch_ledger SET body = ''",
            "renumbered": "UPDATE dpsketch_ledger SET number = 9",
        }.items()
    },
}


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_row_that_the_database_does_not_keep_is_no_payment(trigger: str, tmp_path: Path) -> None:
    """Neither a payment nor a release is made."""
    file = tmp_path / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    before = ledger.verify()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE TRIGGER drops {TRIGGERS[trigger]}")
    privacy = {"rho": 1, "ledger": str(file), "account": "visits"}
    for use in (lambda: pay(ledger, ONE), lambda: release_frame(TABLE, {**SETTINGS, "privacy": privacy})):
        with pytest.raises(
            LedgerError, match=r"could not be read back. Nothing was spent.* a database trigger"
        ) as caught:
            use()
        assert caught.value.code == "E148"
    assert ledger.verify() == before


class _Steps:
    """Counts the instructions that SQLite runs, in all connections."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count, connect = 0, sqlite3.connect

        def counted(*args: Any, **named: Any) -> sqlite3.Connection:
            connection = connect(*args, **named)
            connection.set_progress_handler(self._step, 1)
            return connection

        patch.setattr(sqlite3, "connect", counted)

    def _step(self) -> None:
        self.count += 1


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> _Steps:
    return _Steps(monkeypatch)


@pytest.mark.parametrize("period", [None, "2020-02"])
def test_the_work_of_a_payment_does_not_grow(
    period: str | None, steps: _Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 300 payments of named periods SQLite runs as many instructions for one more as after 3."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1000), period="month")
    bill(ledger, ONE).pay(os.urandom(16))
    found = []
    for payments in (3, 300):
        while len(ledger.entries()) < payments + 3:
            pay(ledger, Loss(Fraction(1, 1000)), period="2020-01")
        steps.count = 0
        pay(ledger, Loss(Fraction(1, 1000)), period=period)
        found.append(steps.count)
    assert found[0] > 100
    assert found[1] < 1.2 * found[0], found
