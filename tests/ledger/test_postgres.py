"""A ledger in PostgreSQL, on a real server: `make test-services`."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import Account, ArgumentError, Ledger, LedgerError, LossLimit, release_frame
from beam_dpsketch.cli.main import main
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.ledger import postgres
from beam_dpsketch.privacy.loss.composition import Loss
from tests.helpers.ledger_checks import CHECKS, SETTINGS, TABLE
from tests.helpers.ledgers import at_once, bill, check_at_once, pay, payments, with_account
from tests.ledger.kills import check_kills

_USERS = ("postgres", "nobody")
_CONNECTIONS = 150


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`, which Debian puts out of the way; `None` if there is none."""
    folders = [*sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True), *os.get_exec_path()]
    return next((Path(each) for each in folders if Path(each, "initdb").exists()), None)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start an empty server that is reached by a socket of its own, and yield the URL of a database in it."""
    found = programs()
    assert found is not None, "PostgreSQL is not installed: apt-get install postgresql"
    user = _other_user() if os.getuid() == 0 else pwd.getpwuid(os.getuid())
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    if os.getuid() == 0:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data, log = folder / "data", folder / "log"
    run = _Runner(user, folder)
    try:
        run(found / "initdb", "-D", data, "-U", "ledger", "-A", "trust", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c max_connections={_CONNECTIONS}"
        run(found / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql://ledger@/postgres?host={folder}"
        finally:
            run(found / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _other_user() -> Any:
    for name in _USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError(f"the server refuses to run as root, and there is no user {' or '.join(_USERS)}")


class _Runner:
    def __init__(self, user: Any, folder: Path) -> None:
        self._user, self._folder = user, folder

    def __call__(self, *command: object) -> None:
        others = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run(
            [str(each) for each in command],
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self._folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            **others,
        )
        assert done.returncode == 0, done.stderr


pytestmark = [pytest.mark.services, pytest.mark.pipeline]
ONE = Loss(Fraction(1))
OF_FILES = ("accidents_are_found", "lost_ends_are_found", "tables_pay_before_noise")


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def address(place: str) -> Iterator[str]:
    """A database without a ledger."""
    yield place
    with postgres.PostgresStore(place)._open() as execute:
        execute("DROP TABLE IF EXISTS dpsketch_ledger")


class At:
    """Where checks put a ledger, in place of a file of a folder."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __truediv__(self, name: str) -> str:
        return self._address


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in OF_FILES])
def test_the_promise_holds(name: str, address: str) -> None:
    CHECKS[name](At(address))  # type: ignore[arg-type]


def test_a_hundred_processes_share_a_limit(address: str) -> None:
    check_at_once(address, 100, 50)


def test_processes_that_are_killed_leave_whole_entries(address: str) -> None:
    check_kills(address, 50, seed=3)


class Creator:
    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, number: int) -> None:
        with_account(self._address, LossLimit(rho=1))


def test_accounts_are_made_once_by_processes_at_once(address: str) -> None:
    made = at_once(Creator(address), 8)
    assert made.count(None) == 1
    assert {each.code for each in made if each is not None} == {"E132"}


def test_settings_take_a_url(address: str) -> None:
    ledger = with_account(address, LossLimit(rho=1))
    privacy = {"rho": 1, "ledger": address, "account": "visits"}
    released = release_frame(TABLE, {**SETTINGS, "privacy": privacy})
    assert [each.hex()[:32] for each in released.privacy.release_ids] == payments(ledger)
    with pytest.raises(BudgetExceededError):
        release_frame(TABLE, {**SETTINGS, "privacy": privacy})


def test_entries_that_were_changed_or_lost_are_found(address: str) -> None:
    ledger = with_account(address, LossLimit(rho=10))
    for _ in range(3):
        pay(ledger, ONE)
    head = ledger.verify().head
    with postgres.PostgresStore(address)._open() as execute:
        execute("DELETE FROM dpsketch_ledger WHERE number = 4")
    ledger.verify()
    with pytest.raises(LedgerError, match="does not contain this head"):
        ledger.verify(head)
    with postgres.PostgresStore(address)._open() as execute:
        execute('UPDATE dpsketch_ledger SET body = replace(body, \'"rho":"1"\', \'"rho":"0"\') WHERE number = 2')
    for use in (ledger.verify, ledger.balances):
        with pytest.raises(LedgerError, match="entry 2 is damaged"):
            use()


def test_a_lock_of_a_live_process_is_waited_for_and_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = with_account(address, LossLimit(rho=10))
    with postgres.PostgresStore(address).writing():
        monkeypatch.setattr(postgres, "LOCK_SECONDS", 1)
        with pytest.raises(LedgerError, match="was locked by another process"):
            pay(ledger, ONE)
    pay(ledger, ONE)
    assert len(payments(ledger)) == 1


def test_a_lock_of_a_dead_process_is_gone(address: str) -> None:
    ledger, (reads, writes) = with_account(address, LossLimit(rho=10)), os.pipe()
    child = os.fork()
    if child == 0:
        with postgres.PostgresStore(address).writing() as execute:
            execute("DELETE FROM dpsketch_ledger")
            os.write(writes, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(reads, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pay(ledger, ONE)
    assert ledger.verify().entries == 3


def test_a_database_without_a_ledger_says_so(address: str) -> None:
    for use in (lambda ledger: pay(ledger, ONE), lambda ledger: ledger.verify()):
        with pytest.raises(LedgerError, match=r"has no ledger in schema public\. Create it with dpsketch ledger"):
            use(Ledger(address))


def test_a_server_that_is_not_there_says_so() -> None:
    with pytest.raises(LedgerError, match="cannot be reached") as caught:
        pay(Ledger("postgresql://ledger@/privacy?host=/nonexistent"), ONE)
    assert caught.value.code == "E140"


def test_a_user_who_may_not_write_spends_nothing(address: str) -> None:
    ledger = with_account(address, LossLimit(rho=10))
    with postgres.PostgresStore(address)._open() as execute:
        execute("DROP ROLE IF EXISTS reader")
        execute("CREATE ROLE reader LOGIN")
        execute("GRANT SELECT ON dpsketch_ledger TO reader")
    reader = Ledger(address.replace("ledger@", "reader@"))
    assert reader.verify() == ledger.verify()
    with pytest.raises(LedgerError, match="cannot be read or written by this user"):
        pay(reader, ONE)
    with pytest.raises(LedgerError):
        reader.create(Account(name="b", limit=LossLimit(rho=1)))
    with postgres.PostgresStore(address)._open() as execute:
        execute("DROP OWNED BY reader")
        execute("DROP ROLE reader")
    assert payments(ledger) == []


def test_a_user_who_may_add_rows_but_no_tables_adds_accounts(address: str) -> None:
    ledger = with_account(address, LossLimit(rho=10))
    with postgres.PostgresStore(address)._open() as execute:
        execute("DROP ROLE IF EXISTS writer")
        execute("CREATE ROLE writer LOGIN")
        execute("GRANT SELECT, INSERT ON dpsketch_ledger TO writer")
    writer = Ledger(address.replace("ledger@", "writer@"))
    writer.create(Account(name="b", limit=LossLimit(rho=1)))
    pay(writer, ONE, "b")
    with postgres.PostgresStore(address)._open() as execute:
        execute("DROP OWNED BY writer")
        execute("DROP ROLE writer")
    assert len(payments(ledger)) == 1


def test_a_user_whom_the_server_does_not_know_is_named(address: str) -> None:
    with pytest.raises(LedgerError, match=r"has no such user\. Create the role"):
        Ledger(address.replace("ledger@", "nosuch@")).balances()


def test_a_later_version_is_refused(address: str) -> None:
    ledger = with_account(address, LossLimit(rho=10))
    with postgres.PostgresStore(address)._open() as execute:
        execute("UPDATE dpsketch_ledger SET occasion = 'version:3' WHERE number = 0")
    with pytest.raises(LedgerError, match="has version 3"):
        pay(ledger, ONE)


def test_a_payment_twice_and_a_write_off(address: str) -> None:
    ledger, run = with_account(address, LossLimit(rho=1)), os.urandom(16)
    for _ in range(2):
        bill(ledger, ONE).pay(run)
    ledger.write_off(run.hex(), "nothing was released")
    with pytest.raises(ArgumentError, match="payment is already written off by entry"):
        ledger.write_off(run.hex(), "again")
    assert ledger.verify().balances[0].written_off == 1


def sql(address: str, *statements: str) -> None:
    """Run statements as a user of the database."""
    with postgres.PostgresStore(address)._open() as execute:
        for statement in statements:
            execute(statement)


@pytest.fixture
def team(address: str) -> Iterator[Callable[[str], str]]:
    """Two users with a schema each, as PostgreSQL's manual recommends; the address of the database for one of them."""
    users = ("anna", "bob")
    sql(address, *(f"CREATE ROLE {user} LOGIN" for user in users))
    sql(address, *(f"CREATE SCHEMA {user} AUTHORIZATION {user}" for user in users))
    yield lambda user: address.replace("ledger@", f"{user}@")
    sql(address, *(f"DROP OWNED BY {user} CASCADE" for user in users), *(f"DROP ROLE {user}" for user in users))


def test_one_address_is_one_ledger_for_all_users(address: str, team: Callable[[str], str]) -> None:
    """A schema that is named like a user, and comes first in the search path, holds no ledger of its own."""
    ledger = with_account(address, LossLimit(rho=1))
    sql(address, *(f"GRANT SELECT, INSERT ON dpsketch_ledger TO {user}" for user in ("anna", "bob")))
    sql(team("bob"), "CREATE TABLE bob.dpsketch_ledger (LIKE public.dpsketch_ledger INCLUDING ALL)")
    pay(Ledger(team("anna")), ONE)
    with pytest.raises(BudgetExceededError):
        pay(Ledger(team("bob")), ONE)
    sql(team("bob"), "ALTER ROLE bob SET search_path = bob")
    with pytest.raises(BudgetExceededError):
        pay(Ledger(f"{team('bob')}&options=-csearch_path%3Dbob"), ONE)
    assert len(payments(ledger)) == 1


def test_a_schema_of_the_address_is_the_ledger_of_all_who_name_it(address: str, team: Callable[[str], str]) -> None:
    ledger = with_account(f"{team('anna')}&schema=anna", LossLimit(rho=1))
    sql(team("anna"), "GRANT USAGE ON SCHEMA anna TO bob", "GRANT SELECT, INSERT ON anna.dpsketch_ledger TO bob")
    pay(Ledger(f"{team('bob')}&schema=anna"), ONE)
    with pytest.raises(BudgetExceededError):
        pay(ledger, ONE)
    assert ledger.verify() == Ledger(f"{address}&schema=anna").verify()


def test_ledgers_of_other_schemas_are_named_before_one_more_is_made(address: str, team: Callable[[str], str]) -> None:
    with_account(f"{team('anna')}&schema=anna", LossLimit(rho=1))
    for use in (lambda at: pay(Ledger(at), ONE), lambda at: Ledger(at).verify(), lambda at: Ledger(at).balances()):
        with pytest.raises(
            LedgerError, match=r"public\. To use the ledger of another schema, add schema=anna to"
        ) as caught:
            use(team("bob"))
        assert "makes one" not in str(caught.value)
        assert caught.value.code == "E140"
    with pytest.raises(LedgerError, match=r"add schema=anna to .*, or add schema=public to create another ledger"):
        with_account(team("bob"), LossLimit(rho=1))
    with_account(f"{team('bob')}&schema=bob", LossLimit(rho=1))
    with pytest.raises(LedgerError, match="add schema=anna or schema=bob to"):
        Ledger(address).verify()


def test_the_command_names_the_schema_of_a_new_account(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "create", address, "visits", "--rho", "1"]) == 0
    assert f"account 'visits' of {address}, schema public, has a limit of rho = 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nosuch", "has no such schema. Create it with CREATE SCHEMA"),
        ("anna", "denies this user access to the schema. .* schema=NAME"),
    ],
)
def test_a_schema_that_cannot_be_used_is_named(
    schema: str, said: str, address: str, team: Callable[[str], str]
) -> None:
    with pytest.raises(LedgerError, match=said):
        with_account(f"{team('bob')}&schema={schema}", LossLimit(rho=1))


def test_the_environment_of_a_user_moves_no_ledger(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = with_account(address, LossLimit(rho=1))
    for name in ("PGHOST", "PGHOSTADDR", "PGDATABASE"):
        monkeypatch.setenv(name, "192.0.2.1")
    monkeypatch.setenv("PGPORT", "1")
    assert ledger.verify().entries == 2
    with pytest.raises(LedgerError) as caught:  # the socket of this machine, and not 192.0.2.1
        Ledger("postgresql://ledger@/postgres").verify()
    assert caught.value.code == "E140"


DROPS = {
    "a trigger": (
        "CREATE FUNCTION keep_nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER t BEFORE INSERT ON dpsketch_ledger FOR EACH ROW EXECUTE FUNCTION keep_nothing()",
    ),
    "a rule": ("CREATE RULE r AS ON INSERT TO dpsketch_ledger DO INSTEAD NOTHING",),
}


@pytest.mark.parametrize("drop", DROPS)
def test_a_row_that_the_server_does_not_keep_is_no_payment(drop: str, address: str) -> None:
    ledger = with_account(address, LossLimit(rho=10))
    sql(address, *DROPS[drop])
    with pytest.raises(LedgerError, match="could not be read back"):
        pay(ledger, ONE)
    assert ledger.verify().entries == 2
    sql(address, "DROP TABLE dpsketch_ledger", "DROP FUNCTION IF EXISTS keep_nothing")
