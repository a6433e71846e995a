"""What a ledger promises, and that each planted fault is found."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch.frames.releasing import TableRelease
from beam_dpsketch.ledger import entries, ledger, paying, sqlite, store
from beam_dpsketch.ledger.entries import Account
from beam_dpsketch.ledger.limits import LossLimit
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.transforms import private_release, select_keys
from beam_dpsketch.transforms.steps import release_once, thresholded_counts
from tests.helpers.ledger_checks import CHECKS

pytestmark = pytest.mark.pipeline


@pytest.mark.parametrize("name", CHECKS)
def test_the_promise_holds(name: str, tmp_path: Path) -> None:
    CHECKS[name](tmp_path)


def _float_sums(patch: pytest.MonkeyPatch) -> None:
    def plus(self: Loss, other: Loss) -> Loss:
        exact = [Fraction(float(a) + float(b)) for a, b in zip(self, other, strict=True) if not isinstance(a, bool)]
        return Loss(exact[0], exact[1], True, exact[2], exact[3])

    patch.setattr(Loss, "plus", plus)


def _lost_delta(patch: pytest.MonkeyPatch) -> None:
    plus = Loss.plus
    patch.setattr(Loss, "plus", lambda self, other: plus(self, other)._replace(delta=max(self.delta, other.delta)))


def _below_the_limit(patch: pytest.MonkeyPatch) -> None:
    holds = LossLimit.holds
    patch.setattr(LossLimit, "holds", lambda self, loss: holds(self, loss.plus(Loss(Fraction(1, 10**6)))))


def _forgotten_period(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Account, "period_of", lambda self, time: "")


def _clock_unread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(store.Book, "last_by_clock", lambda self, account: None)


def _twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(paying, "occasion_of", lambda payment, known: f"payment:{entries.now()}")
    patch.setattr(store.Book, "of_payment", lambda self, payment: [])


def _lost_write_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(store.Book, "not_written_off", lambda self, account, period, without: without.total)


def _read_then_write(patch: pytest.MonkeyPatch) -> None:
    """No lock between what is read and what is written."""

    @contextlib.contextmanager
    def writing(self: Any, *, create: bool = False) -> Iterator[Any]:
        with self._open("rwc" if create else "rw") as connection:
            yield sqlite._executing(connection)

    patch.setattr(sqlite.SqliteStore, "writing", writing)


def _not_committed(patch: pytest.MonkeyPatch) -> None:
    """Payments are rolled back when the process has been told that they are made."""
    writing = sqlite.SqliteStore.writing

    @contextlib.contextmanager
    def lost(self: Any, *, create: bool = False) -> Iterator[Any]:
        if create:
            with writing(self, create=True) as execute:
                yield execute
        else:
            with self._open("rw") as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield sqlite._executing(connection)

    patch.setattr(sqlite.SqliteStore, "writing", lost)


def _no_chain(patch: pytest.MonkeyPatch) -> None:
    """Entries do not name the one before, nor how many there are."""
    add = store.Book.add

    def alone(self: Any, entry: Any, occasion: str) -> Any:
        return add(self, dataclasses.replace(entry, previous=entries.START), occasion)

    patch.setattr(store.Book, "add", alone)
    patch.setattr("beam_dpsketch.ledger.sums._Recount._require", lambda *_: None)


def _head_unread(patch: pytest.MonkeyPatch) -> None:
    verify = ledger.sums.verify
    patch.setattr(ledger.sums, "verify", lambda found, head=None: verify(found))


def _after_noise_in_tables(patch: pytest.MonkeyPatch) -> None:
    release, pay = TableRelease.release, TableRelease._pay

    def late(self: TableRelease, contributed: Any) -> Any:
        released = release(self, contributed)
        pay(self)
        return released

    patch.setattr(TableRelease, "_pay", lambda self: None)
    patch.setattr(TableRelease, "release", late)


def _after_noise_in_pipelines(patch: pytest.MonkeyPatch) -> None:
    """The payment is a step that no noise waits for."""
    for module in (private_release, release_once, thresholded_counts, select_keys):
        patch.setattr(module, "name_of", lambda run: {})


def _while_it_is_built(patch: pytest.MonkeyPatch) -> None:
    made = release_once.pay_run

    def early(pipeline: Any, bill: Any, noise: Any) -> Any:
        bill.pay(bytes(16))
        return made(pipeline, bill, noise)

    patch.setattr(private_release, "pay_run", early)


def _one_name_for_all_runs(patch: pytest.MonkeyPatch) -> None:
    """The name is drawn when the template is made, so later runs pay nothing."""
    patch.setattr(release_once._NameRun, "process", lambda self, element: [bytes(16)])


def _another_name_each_time(patch: pytest.MonkeyPatch) -> None:
    pay = paying.AccountBill.pay
    patch.setattr(paying.AccountBill, "pay", lambda self, run: pay(self, os.urandom(16)))


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "float sums": (_float_sums, "sums_are_exact"),
    "delta not added": (_lost_delta, "deltas_add_up"),
    "limit not reached": (_below_the_limit, "limits_are_reached"),
    "a forgotten period": (_forgotten_period, "periods_begin_anew"),
    "a clock that goes back": (_clock_unread, "clocks_do_not_go_back"),
    "an entry twice": (_twice, "a_run_pays_once"),
    "a lost write-off": (_lost_write_off, "write_offs_stay"),
    "read, then write without a lock": (_read_then_write, "processes_share_a_limit"),
    "not durable": (_not_committed, "payments_are_durable"),
    "no chain": (_no_chain, "accidents_are_found"),
    "a head that is not compared": (_head_unread, "lost_ends_are_found"),
    "spend after noise, of tables": (_after_noise_in_tables, "tables_pay_before_noise"),
    "spend after noise, of pipelines": (_after_noise_in_pipelines, "noise_waits_for_payment"),
    "spend while it is built": (_while_it_is_built, "pipelines_pay_before_noise"),
    "one name for all runs of a template": (_one_name_for_all_runs, "pipelines_pay_before_noise"),
    "another name at each try": (_another_name_each_time, "workers_pay_once"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, check = PLANTED[fault]
    plant(monkeypatch)
    with pytest.raises((Exception, pytest.fail.Exception)):
        CHECKS[check](tmp_path)
