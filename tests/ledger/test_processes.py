"""Processes at once, and processes that die: limits hold, no grant is lost, no lock stays."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import Ledger, LossLimit
from beam_dpsketch.errors import LedgerError
from beam_dpsketch.ledger import sqlite
from beam_dpsketch.privacy.loss.composition import Loss
from tests.helpers.ledgers import bill, check_at_once, pay, payments, with_account
from tests.ledger.kills import check_kills

ONE = Loss(Fraction(1))


@pytest.mark.slow
def test_a_hundred_processes_share_a_limit(tmp_path: Path) -> None:
    check_at_once(tmp_path / "ledger", 100, 50)


def test_processes_that_are_killed_leave_whole_entries(tmp_path: Path) -> None:
    found = check_kills(tmp_path / "ledger", 50, seed=2)
    assert found["refused"] > 0


def in_child(work: Callable[[], Any]) -> int:
    """The exit code of a process that does this, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class DiesAt:
    """Kills the process before the statement of this number, or after the last one."""

    def __init__(self, step: int) -> None:
        self._left = step

    def __call__(self, connection: Any) -> Any:
        return DyingConnection(connection, self)

    def count(self) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class DyingConnection:
    def __init__(self, connection: Any, dies: DiesAt) -> None:
        self._connection, self._dies = connection, dies

    def execute(self, *statement: Any) -> Any:
        self._dies.count()
        return self._connection.execute(*statement)

    def close(self) -> None:
        self._dies.count()
        self._connection.close()


def test_a_kill_before_each_step_leaves_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is there once the commit was done, and not before; a second try pays once."""
    ledger, connect = with_account(tmp_path / "ledger", LossLimit(rho=1000)), sqlite3.connect
    left: list[bool] = []
    while True:
        run, dies = os.urandom(16), DiesAt(len(left))

        def work(run: bytes = run, dies: DiesAt = dies) -> None:
            monkeypatch.setattr(sqlite.sqlite3, "connect", lambda *given, **named: dies(connect(*given, **named)))
            bill(ledger, ONE).pay(run)

        code = in_child(work)
        left.append(run.hex() in payments(ledger))
        bill(ledger, ONE).pay(run)
        assert payments(ledger).count(run.hex()) == 1
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert len(left) > 10
    assert left == sorted(left)
    assert left.count(True) == 2  # after the commit, and without a kill
    ledger.verify()


def test_a_lock_of_a_dead_process_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    ledger = with_account(file, LossLimit(rho=10))

    def work() -> None:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM dpsketch_ledger")
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    pay(ledger, ONE)
    assert ledger.verify().entries == 3


def test_a_lock_of_a_live_process_is_waited_for_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    monkeypatch.setattr(sqlite, "LOCK_SECONDS", 0.2)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"was locked by another process for .* Nothing was spent"):
        pay(ledger, ONE)
    holder.execute("ROLLBACK")
    holder.close()
    pay(ledger, ONE)
    assert len(payments(ledger)) == 1


def test_accounts_are_made_once_by_processes_at_once(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    codes = [in_child(lambda: with_account(file, LossLimit(rho=1))) for _ in range(3)]
    assert codes == [0, 1, 1]
    assert [each.name for each in Ledger(file).accounts()] == ["visits"]
