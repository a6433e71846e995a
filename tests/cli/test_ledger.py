"""`dpsketch ledger`: what it prints and writes, and what it says of mistakes."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import dp_accounting
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import CountSketch, Ledger, LossLimit, PrivacySpec, ReleaseTerms, SketchSpec, read_releases, release
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.research import noise_for_tests
from beam_dpsketch.statement.accounting import add_up
from tests.cli.consoles import run
from tests.helpers.ledgers import pay, with_account
from tests.ledger.page import write_year


@pytest.fixture
def year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    write_year(tmp_path / "year.db")
    monkeypatch.chdir(tmp_path)
    return Ledger("year.db")


def test_accounts_of_all_kinds_of_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, *limit in (("a", "--epsilon", "1/3"), ("b", "--rho", "0.1", "--delta", "1e-8"), ("c", "--rho", "2")):
        code, said = run("ledger", "create", "spent.db", name, *limit, "--privacy-unit", "record", "--period", "month")
        assert (code, "renewed each month" in said) == (0, True)
    assert [each.limit for each in Ledger("spent.db").accounts()] == [
        LossLimit(epsilon=Fraction(1, 3)),
        LossLimit(rho=0.1, delta=1e-8),
        LossLimit(rho=2),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("create year.db visits --rho 1", "the ledger already has 'visits' [dpsketch-E132]"),
        ("create year.db other", "--epsilon or --rho is missing"),
        ("create year.db other --rho 1 --epsilon 1", "limit must be either rho or epsilon"),
        ("create year.db other --rho -1", "rho must be finite and greater than 0, got -1"),
        ("create year.db other --rho 1 --delta 2", "delta must be greater than 0 and less than 1"),
        ("create year.db other --rho one", "argument --rho: expected a number, got 'one'"),
        ("create year.db /other --rho 1", "account must be a name of at most 100 letters"),
        ("create folder/year.db other --rho 1", "folder/year.db cannot be opened"),
        ("create s3://bucket/year.db other --rho 1", "address must be a local file"),
        ("list none.db", "none.db cannot be opened: the file does not exist"),
        ("list notes.txt", "notes.txt is damaged, or is not a ledger"),
        ("show year.db other", "account must be in the ledger, got 'other'. To list"),
        ("show year.db '\udcff'", "account must be a single line of at most 500 characters"),
        ("show year.db visits --period 2026-01", 'period must be a year such as "2026"'),
        ("write-off year.db 00ff --reason test", "payment must be in the ledger, got '00ff'"),
        ("write-off year.db e423c1eee419ae638053fb50ae053466 --reason test", "payment is already written off by entry"),
        ("write-off year.db 6234dec8f60777a194945ee732f27e3d --reason ' '", "reason must not be empty"),
        ("verify year.db --head 12", "the ledger does not contain this head"),
        ("plot year.db --output year.txt", "--output must end with .png, .svg or .pdf"),
        ("plot year.db --account other --output year.png", "account must be in the ledger, got 'other'"),
        ("export year.db --output year.db", "--output must end with .csv or .json"),
        ("ask year.db visits", "one of the arguments --config --epsilon --rho is required"),
        ("ask year.db visits --rho 1 --period 2026-01", 'period must be a year such as "2026"'),
        ("ask year.db visits --config notes.txt --delta 1e-6", "--config and --delta cannot be combined"),
        ("ask year.db visits --rho 9 --period 2026", "account 'visits' cannot pay for this release in 2026"),
        ("record year.db visits none.dpsketch", "no file matches none.dpsketch"),
        ("record year.db visits notes.txt", "notes.txt"),
        ("spend year.db", "argument COMMAND: expected one of create, list"),
        ("", "the following arguments are required: COMMAND"),
    ],
)
@pytest.mark.usefixtures("year")
def test_mistakes_are_one_line(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but a text that is long enough to be read as one" * 20)
    code, printed = run("ledger", *shlex.split(line))
    assert code == 2
    assert said in printed
    assert len(printed.splitlines()) == 1
    assert Ledger("year.db").verify().entries == 20


@pytest.mark.usefixtures("year")
def test_a_write_off_gives_back_and_stays(year: Ledger) -> None:
    before = year.balances()[0].spent.rho
    payment = year.entries()[-1].payment
    assert run("ledger", "write-off", "year.db", payment, "--reason", "never made", "--who", "Ada")[0] == 0
    entry = year.entries()[-1]
    assert (entry.who, entry.what["reason"]) == ("Ada", "never made")
    assert year.balances()[0].spent.rho == before - entry.loss.rho
    assert run("ledger", "verify", "year.db")[0] == 0


RELEASES = Path(__file__).parents[2] / "docs" / "releases"


def test_a_release_is_recorded_once_with_its_loss(tmp_path: Path) -> None:
    """All releases of a run are one payment, and a release that was paid for as it was made is not paid for again."""
    ledger = with_account(tmp_path / "spent.db", LossLimit(rho=0.35, delta=1e-6))
    record = ("ledger", "record", ledger.address, "visits")
    code, said = run(*record, str(RELEASES / "cities.dpsketch"), str(RELEASES / "delays.dpsketch"), "--who", "Ada")
    assert (code, said.count("is entered: rho = 0.1006")) == (0, 2)
    spent = add_up(read_releases(RELEASES / "delays.dpsketch")[0].privacy for _ in range(2))[0].loss
    assert [each.loss for each in ledger.paid("visits")] == [spent, spent]
    assert {each.who for each in ledger.paid("visits")} == {"Ada"}
    code, said = run(*record, str(RELEASES / "cities.dpsketch"), str(RELEASES / "delays.dpsketch"))
    assert code == 2
    assert {*re.findall(r"(\w+)\.dpsketch: account 'visits' has already paid", said)} == {"cities", "delays"}
    assert "left for one release: rho = 0.1489" in (said := run("ledger", "show", ledger.address, "visits")[1])
    assert "that is 1 release like the last one" in said
    assert run("ledger", "verify", ledger.address)[0] == 0


def test_a_release_above_the_limit_or_of_another_unit_is_not_recorded(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "spent.db", LossLimit(rho=0.1, delta=1e-6))
    for name, code in (("cities", "E130"), ("words", "E134")):
        assert (
            f"[dpsketch-{code}]"
            in run("ledger", "record", ledger.address, "visits", str(RELEASES / name) + ".dpsketch")[1]
        )
    files = [str(RELEASES / f"{name}.dpsketch") for name in ("cities", "words")]
    code, said = run("ledger", "record", ledger.address, "visits", *files)
    assert (code, f"{files[1]}: privacy_unit must match account" in said) == (2, True)
    assert "`dpsketch ledger create` makes with --privacy-unit record" in said
    assert not ledger.paid("visits")


def test_all_files_are_recorded_or_none(tmp_path: Path) -> None:
    """A message that nothing was spent is true for all files of the command."""
    cities, delays = (str(RELEASES / f"{name}.dpsketch") for name in ("cities", "delays"))
    for place, (limit, before) in enumerate([(0.15, []), (0.35, [cities]), (0.35, [delays])]):
        ledger = with_account(tmp_path / f"{place}.db", LossLimit(rho=limit, delta=1e-6))
        record = ("ledger", "record", ledger.address, "visits")
        assert all(run(*record, file)[0] == 0 for file in before)
        code, said = run(*record, cities, delays)
        assert (code, "Nothing was spent" in said, "is entered" in said) == (2, True, False)
        assert len(ledger.paid("visits")) == len(before)


def test_a_release_with_a_public_seed_is_not_recorded(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "spent.db", LossLimit(rho=2, delta=1e-6))
    raw = CountSketch(SketchSpec(width=64)).accumulate(["a"])
    release(raw, ReleaseTerms(PrivacySpec(rho=1)), noise_for_tests(7)).save(tmp_path / "public.dpsketch")
    code, said = run("ledger", "record", ledger.address, "visits", str(tmp_path / "public.dpsketch"))
    assert (code, "NOT PRIVATE" in said, ledger.paid("visits")) == (2, True, [])


def test_the_ledger_is_asked_without_paying(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "spent.db", LossLimit(rho=0.35, delta=1e-6))
    ask = ("ledger", "ask", ledger.address, "visits")
    assert "Left for one release after it: rho = 0.25" in (said := run(*ask, "--rho", "1/10")[1])
    assert "that is 2 releases like this one. Nothing was spent" in said
    code, said = run(*ask, "--config", str(RELEASES / "visits.yaml"))
    assert (code, "can pay for this release: rho = 0.1006. Left" in said) == (0, True)
    assert run(*ask, "--rho", "2/5")[0] == 2
    assert "set --delta" not in said
    assert "(Laplace noise alone; otherwise, set --delta). Left" in run(*ask, "--epsilon", "0.1")[1]
    assert not ledger.paid("visits")


@given(st.integers(1, 60), st.integers(1, 60), st.booleans())
def test_releases_like_this_are_counted_exactly(spent: int, each: int, is_pure: bool) -> None:
    """As many fit as are counted, and one more does not."""
    loss = Loss.of_pure(Fraction(each, 20)) if is_pure else Loss(Fraction(each, 200))
    for limit in (LossLimit(rho=1), LossLimit(epsilon=4, delta=1e-6), LossLimit(epsilon=3)):
        total = Loss.of_pure(Fraction(spent, 20))
        count = limit.count(total, loss)
        for _ in range(count):
            total = total.plus(loss)
        assert count == 0 or limit.holds(total)
        assert not limit.holds(total.plus(loss))


def test_what_is_left_is_granted_and_a_little_more_is_not(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "left.db", LossLimit(epsilon=2, delta=1e-6))
    pay(ledger, PrivacySpec(epsilon=1, delta=1e-6, noise="gaussian").loss())
    pay(ledger, Loss.of_pure(Fraction(1, 10)))
    limit, spent = ledger.account("visits").limit, ledger.balances()[0].spent
    left = float(limit.left_words(spent).split()[2])
    assert left > 1
    with pytest.raises(BudgetExceededError):
        pay(ledger, PrivacySpec(epsilon=left * 1.001, delta=1e-6, noise="gaussian").loss())
    pay(ledger, PrivacySpec(epsilon=left, delta=1e-6, noise="gaussian").loss())
    assert ledger.verify().balances[0].share <= 1


@pytest.mark.usefixtures("year")
def test_tables_of_a_ledger_hold_all_entries_and_events(year: Ledger) -> None:
    for name in ("year.csv", "year.json"):
        assert run("ledger", "export", "year.db", "--output", name)[0] == 0
    rows: list[dict[str, Any]] = [json.loads(line) for line in Path("year.json").read_text().splitlines()]
    with open("year.csv", newline="") as file:
        flat = list(csv.DictReader(file))
    entries = year.entries()
    assert [row["digest"] for row in rows] == [row["digest"] for row in flat] == [each.digest for each in entries]
    events = [row["dp_event"] for row in rows if row["dp_event"]]
    assert len(events) == 17
    accountant = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    paid = {each.payment for each in year.paid("visits")}
    for row in rows:
        if row["payment"] in paid and row["dp_event"]:
            accountant.compose(dp_accounting.GaussianDpEvent(**row["dp_event"]["GaussianDpEvent"]))
    epsilon = year.balances()[0].spent.epsilon(1e-6)
    assert accountant.get_epsilon(1e-6) == pytest.approx(epsilon, rel=1e-2)
    composed = year.to_dp_event("visits", "2026")
    assert len(composed.events) == len(paid) == 16
    assert composed.events[0].noise_multiplier == pytest.approx(
        1 / math.sqrt(2 * float(year.paid("visits")[0].loss.rho)), rel=1e-9
    )


@pytest.mark.usefixtures("year")
def test_pictures_of_a_ledger(year: Ledger) -> None:
    with_account("year.db", LossLimit(rho=1), "second", period="month")
    pay(year, Loss(Fraction(1, 3)), "second")
    for name, start in (("year.png", b"\x89PNG"), ("year.svg", b"<?xml"), ("year.pdf", b"%PDF")):
        assert run("ledger", "plot", "year.db", "--output", name)[0] == 0
        assert Path(name).read_bytes().startswith(start)
    code, said = run("ledger", "plot", "year.db", "--output", "year.png")
    assert (code, "already exists" in said) == (2, True)


def test_periods_are_shown_each_and_together(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "months.db", LossLimit(rho=1), period="month")
    for period in ("2026-01", "2026-02"):
        pay(ledger, Loss(Fraction(1, 2)), period=period)
    code, said = run("ledger", "show", str(tmp_path / "months.db"), "visits")
    assert code == 0
    assert "visits in 2026-01: rho = 0.5 of rho = 1 is spent; left for one release: rho = 0.5" in said
    assert (
        "all periods together: rho = 1 for a privacy unit in every period, and rho = 0.5 for a privacy unit in" in said
    )
    code, said = run("ledger", "show", str(tmp_path / "months.db"), "visits", "--period", "2026-02", "--format", "json")
    assert [row["period"] for row in map(json.loads, said.splitlines()[:1])] == ["2026-02"]
