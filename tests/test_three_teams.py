"""The example of a ledger: two teams publish, the third is refused, and so is who comes later."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from beam_dpsketch import Ledger, read_releases
from pipelines import three_teams
from tests.helpers.example_runs import AS_USERS, RUNNERS, on_every_runner

pytestmark = AS_USERS


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    rows = [("BOS", "JFK", f"N{number}", "900", number % 60) for number in range(300)]
    with (tmp_path / "flights.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("dest", "origin", "tailnum", "dep_time", "arr_delay"), *rows])
    return [f"--input={tmp_path / 'flights.csv'}", f"--output={tmp_path / 'out'}", f"--ledger={tmp_path / 'spent.db'}"]


@on_every_runner
def test_two_teams_publish_and_the_third_is_refused(
    runner: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    three_teams.main([*options, *RUNNERS[runner]])
    printed = capsys.readouterr().out
    assert [team for team in ("maps", "timetable", "press") if [*tmp_path.glob(f"out-{team}-*")]] == [
        "maps",
        "timetable",
    ]
    assert (
        printed.count(
            "refused: account 'flights of 2013' cannot pay for this release. Limit: epsilon = 3 at delta = 1e-06"
        )
        == 1
    )
    assert printed.count("in 2 payment(s)") == 2
    ledger = Ledger(tmp_path / "spent.db")
    paid = {each.payment: each.who for each in ledger.paid("flights of 2013")}
    assert [*paid.values()] == ["team maps", "team timetable"]
    for team, payment in zip(("maps", "timetable"), paid, strict=True):
        (released,) = read_releases(f"{tmp_path}/out-{team}-*")
        assert {each.hex()[:32] for each in released.privacy.release_ids} == {payment}
    three_teams.main([*options, "--overwrite", *RUNNERS[runner]])
    assert capsys.readouterr().out.count("refused: ") == 3
    assert ledger.verify().entries == 4
