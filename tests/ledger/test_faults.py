"""What a ledger says where a disk, a file, a clock or a place cannot be used; and that nothing is lost then."""

from __future__ import annotations

import contextlib
import datetime
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import Account, ArgumentError, Ledger, LedgerError, LossLimit, PrivacySpec
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.ledger import entries
from beam_dpsketch.ledger.sqlite import refuse_network
from beam_dpsketch.privacy.loss.composition import Loss
from tests.helpers.ledgers import FORK, bill, pay, payments, with_account

ONE = Loss(Fraction(1))
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def _said(work: Callable[[], Any], prepare: Callable[[], Any], pipe: Any) -> None:
    try:
        prepare()
        work()
        pipe.send("nothing")
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def in_process(work: Callable[[], Any], prepare: Callable[[], Any]) -> str:
    """What a process says that has prepared itself in this way."""
    reads, writes = FORK.Pipe()
    child = FORK.Process(target=_said, args=(work, prepare, writes))
    child.start()
    found: str = reads.recv()
    child.join()
    return found


def test_a_full_disk_spends_nothing(folder: Path) -> None:
    file = folder / "ledger"
    ledger = with_account(file, LossLimit(rho=10_000))
    size = file.stat().st_size

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def spend() -> None:
        for _ in range(200):
            pay(ledger, ONE)

    said = in_process(spend, no_room)
    assert said.startswith("LedgerError: ")
    assert str(file) in said
    assert "the disk" in said
    assert (
        said.count("Nothing was spent")
        + said.count("To see whether the payment was recorded, use dpsketch ledger show")
        == 1
    )
    before = len(payments(ledger))
    ledger.verify()
    pay(ledger, ONE)
    assert len(payments(ledger)) == before + 1


def as_nobody() -> None:
    """Give up the rights of an administrator, who may write everywhere."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def test_a_file_that_is_read_only_can_be_read_and_spends_nothing(folder: Path) -> None:
    file = folder / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    pay(ledger, ONE)
    file.chmod(0o444)
    folder.chmod(0o555)
    said = in_process(lambda: pay(ledger, ONE), as_nobody)
    assert "cannot be written: the file, or its folder, is read-only" in said
    assert "Nothing was spent" in said
    assert in_process(lambda: ledger.verify(), as_nobody) == "nothing"
    folder.chmod(0o755)
    file.chmod(0o000)
    assert "cannot be opened" in in_process(lambda: ledger.verify(), as_nobody)


def test_a_ledger_that_is_not_there_is_not_made_by_a_payment(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "typo")
    for use in (lambda: pay(ledger, ONE), ledger.verify, ledger.balances, lambda: ledger.write_off("a", "b")):
        with pytest.raises(
            LedgerError, match="To create a ledger in an existing folder, use dpsketch ledger create"
        ) as caught:
            use()
        assert caught.value.code == "E140"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_and_another_database_are_no_ledgers(tmp_path: Path) -> None:
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.touch()
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE visits (person TEXT)")
    connection.close()
    for file in (empty, other):
        with pytest.raises(LedgerError, match="contains no ledger"):
            pay(Ledger(file), ONE)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    connection = sqlite3.connect(file)
    connection.execute("UPDATE dpsketch_ledger SET occasion = 'version:3' WHERE number = 0")
    connection.commit()
    connection.close()
    account = Account(name="b", limit=LossLimit(rho=1))
    for use in (lambda: pay(ledger, ONE), ledger.verify, lambda: ledger.create(account)):
        with pytest.raises(LedgerError, match="has version 3, and this package reads version 2") as caught:
            use()
        assert caught.value.code == "E141"


MOUNTS = [
    "21 1 254:0 / / rw - ext4 /dev/vda rw",
    "30 21 0:44 / /mnt/team\\040share rw,noatime shared:1 - nfs4 server:/export rw",
    "31 30 0:45 / /mnt/team\\040share/local rw - ext4 /dev/vdb rw",
    "32 21 0:46 / /mnt/cloud rw - fuse.gcsfuse bucket rw",
]


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("/mnt/team share/ledger.db", "nfs4"),
        ("/mnt/team share/a/ledger.db", "nfs4"),
        ("/mnt/cloud/ledger.db", "fuse.gcsfuse"),
        ("/mnt/team share/local/ledger.db", None),
        ("/mnt/team shared/ledger.db", None),
        ("/srv/ledger.db", None),
    ],
)
def test_a_network_file_system_is_refused(path: str, system: str | None) -> None:
    if system is None:
        refuse_network(path, MOUNTS)
        return
    with pytest.raises(ArgumentError, match=f"is on {system}, a network file system") as caught:
        refuse_network(path, MOUNTS)
    assert caught.value.code == "E139"


def test_this_disk_is_none_of_a_network(tmp_path: Path) -> None:
    refuse_network(str(tmp_path / "ledger"))


def at(*moment: int) -> datetime.datetime:
    return datetime.datetime(*moment, tzinfo=datetime.UTC)  # type: ignore[arg-type, misc]


def test_clocks_that_differ_a_little_stay_in_the_later_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=2), period="month")
    for moment in (at(2030, 2, 1, 0, 1), at(2030, 1, 31, 23, 58)):
        monkeypatch.setattr(entries, "now", lambda moment=moment: moment)
        pay(ledger, ONE)
    assert [(each.period, each.payments) for each in ledger.balances() if each.payments] == [("2030-02", 2)]


def test_a_period_may_be_named_also_after_the_clock_went_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="year")
    monkeypatch.setattr(entries, "now", lambda: at(2099, 1, 1))
    pay(ledger, ONE)
    monkeypatch.setattr(entries, "now", lambda: at(2030, 1, 1))
    with pytest.raises(LedgerError, match="the clock shows 2030-01-01"):
        pay(ledger, ONE)
    pay(ledger, ONE, period="2030")
    with pytest.raises(BudgetExceededError, match=r"in 2030\. Limit: rho = 1\. Spent: rho = 1"):
        pay(ledger, ONE, period="2030")
    with pytest.raises(ArgumentError, match='must be a year such as "2026", got'):
        pay(ledger, ONE, period="2030-01")
    ledger.verify()


def test_an_account_without_end_does_not_ask_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=2))
    for moment in (at(2030, 1, 1), at(2020, 1, 1)):
        monkeypatch.setattr(entries, "now", lambda moment=moment: moment)
        pay(ledger, ONE)
    with pytest.raises(ArgumentError, match=r"account .* has no periods"):
        pay(ledger, ONE, period="2030")
    assert ledger.verify().balances[0].payments == 2


@pytest.mark.parametrize(
    "address",
    [
        "nfs://server/ledger.db",
        "gs://bucket/ledger.db",
        "postgresql://ledger:secret@db/privacy",
        "postgresql://ledger@db/privacy?password=secret",
        "postgresql://[bad/privacy",
        "",
        "a\0b",
    ],
)
def test_places_that_are_none_are_refused_without_a_password_in_the_message(address: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Ledger(address)
    assert caught.value.code == "E139"
    assert "secret" not in str(caught.value)


def test_a_payment_that_names_another_release_is_refused(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=10))
    run = pay(ledger, ONE)
    with pytest.raises(LedgerError, match="is for another release"):
        bill(ledger, Loss(Fraction(2))).pay(run)


def test_a_spec_stays_of_its_account_in_copies_and_pickles(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=10))
    spec = ledger.spend("visits", PrivacySpec(rho=1), who="the team of maps")
    copies = (spec, pickle.loads(pickle.dumps(spec)), spec.with_summary_counts(), spec.losing(Fraction(1, 10**8)))
    for each in copies:
        assert each.payer == spec.payer
        assert each.payer is not None
        assert not each.is_of_budget
    assert spec.without_budget().payer is None
    assert spec == PrivacySpec(rho=1)
    with pytest.raises(ArgumentError, match="must not belong to a budget or another account"):
        ledger.spend("visits", spec)


@given(st.data())
def test_damaged_files_are_named_and_never_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Bytes that were changed, cut off or added: a `LedgerError`, or the ledger as it was."""
    file = tmp_path_factory.mktemp("damage") / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    run = pay(ledger, ONE)
    right, content = ledger.verify(), bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    with contextlib.suppress(LedgerError):
        assert ledger.verify(right.head) == right
    for use in (lambda: bill(ledger, ONE).pay(run), ledger.balances, lambda: ledger.write_off(run.hex(), "test")):
        with contextlib.suppress(LedgerError, ArgumentError, BudgetExceededError):
            use()


def test_text_that_is_damaged_is_named(tmp_path: Path) -> None:
    """A byte that is not of UTF-8, in the version of the file or in a body."""
    for text in (b"version:", b"rho"):
        ledger = with_account(tmp_path / text.decode().strip(":"), LossLimit(rho=10))
        file = tmp_path / text.decode().strip(":")
        file.write_bytes(file.read_bytes().replace(text, text[:-1] + b"\x80"))
        with pytest.raises(LedgerError):
            ledger.verify()


def test_a_damaged_schema_is_named(tmp_path: Path) -> None:
    """Also where SQLite's own message holds the bytes that are damaged."""
    file, named = tmp_path / "ledger", 0
    ledger = with_account(file, LossLimit(rho=10))
    right, content = ledger.verify(), file.read_bytes()
    for place in range(content.index(b"CREATE") - 80, content.index(b"CREATE") + 400, 4):
        file.write_bytes(content[:place] + b"\x80" + content[place + 1 :])
        try:
            assert ledger.verify(right.head) == right
        except LedgerError:
            named += 1
    assert named > 20


TEXTS = st.one_of(
    st.text(max_size=20),
    st.binary(max_size=20),
    st.integers(-(2**40), 2**40),
    st.none(),
    st.sampled_from(['{"kind":"spend"}', "[]", "null", "{" * 3000, '{"number":1e999}']),
)


@given(column=st.sampled_from(["body", "digest", "occasion", "account", "period", "payment", "by_clock"]), value=TEXTS)
def test_rows_that_were_changed_are_named(tmp_path_factory: pytest.TempPathFactory, column: str, value: Any) -> None:
    file = tmp_path_factory.mktemp("rows") / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    run = pay(ledger, ONE)
    connection = sqlite3.connect(file)
    (before,) = connection.execute(f"SELECT {column} FROM dpsketch_ledger WHERE number = 2").fetchone()
    try:
        connection.execute(f"UPDATE dpsketch_ledger SET {column} = ? WHERE number = 2", (value,))
        connection.commit()
    except (sqlite3.IntegrityError, UnicodeEncodeError):
        return
    finally:
        connection.close()
    if value != before:
        with pytest.raises(LedgerError):
            ledger.verify()
    for use in (lambda: pay(ledger, ONE), lambda: bill(ledger, ONE).pay(run), ledger.balances, ledger.accounts):
        with contextlib.suppress(LedgerError, ArgumentError):
            use()


def test_a_body_with_a_right_digest_is_read_as_strictly(tmp_path: Path) -> None:
    """Who makes digests anew may still write what no version of this package does."""
    file = tmp_path / "ledger"
    ledger = with_account(file, LossLimit(rho=10))
    pay(ledger, ONE)
    text = ledger.entries()[2].to_text()
    for old, new in [
        ('"kind":"spend"', '"kind":"gift"'),
        ('"rho":"1"', '"rho":"-1"'),
        ('"rho":"1"', '"rho":1'),
        ('"rho":"1"', f'"rho":"1{"0" * 2000}"'),
        ('"number":2', '"number":3'),
        ('"who":', '"whom":'),
    ]:
        changed = text.replace(old, new)
        assert changed != text
        connection = sqlite3.connect(file)
        row = (changed, entries.digest_of(changed))
        connection.execute("UPDATE dpsketch_ledger SET body = ?, digest = ? WHERE number = 2", row)
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError) as caught:
            ledger.verify()
        assert caught.value.code == "E142"
