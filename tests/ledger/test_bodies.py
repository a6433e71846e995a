"""Bodies of entries with right digests that no version of this package writes; and what commands say of them."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import ArgumentError, Ledger, LedgerError, LossLimit
from beam_dpsketch.cli.main import main
from beam_dpsketch.ledger import entries
from beam_dpsketch.privacy.loss.composition import Loss
from tests.helpers.ledgers import pay, with_account

LOSS = {"rho": "1/2", "delta": "0", "pure": "0", "pure_rho": "0"}


def rewrite(ledger: Ledger, **changes: Any) -> None:
    """Write the last entry anew, with a right digest."""
    fields = {**json.loads(ledger.entries()[-1].to_text()), **changes}
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    connection = sqlite3.connect(ledger.address)
    row = (body, entries.digest_of(body), fields["number"])
    connection.execute("UPDATE dpsketch_ledger SET body = ?, digest = ? WHERE number = ?", row)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"what": []},
        {"what": None},
        {"who": None},
        {"who": 5},
        {"number": 2.0},
        {"time": "9999-12-31T23:59:59.999999Z"},
        {"time": "0001-01-01T00:00:00.000000Z"},
        {"loss": {**LOSS, "rho": "9" * 900}},
        {"total": {**LOSS, "rho": "9" * 900}},
        {"total": {**LOSS, "pure": "9" * 900}},
        {"loss": {**LOSS, "delta": "2"}},
        {"loss": {**LOSS, "pure_rho": "3/4"}},
    ],
)
def test_what_nobody_writes_is_damage_to_all_commands(changes: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=10))
    pay(ledger, Loss(Fraction(1, 2)))
    rewrite(ledger, **changes)
    with pytest.raises(LedgerError, match="entry 2 is damaged") as caught:
        ledger.entries()
    assert caught.value.code == "E142"
    for command in (["show", "visits"], ["list"], ["verify"], ["export", "a.csv"], ["plot", "a.svg"]):
        name, *rest = command
        output = ["--output", str(tmp_path / rest[0])] if name in ("export", "plot") else rest
        assert main(["ledger", name, ledger.address, *output]) == 2
        assert capsys.readouterr().err.endswith("[dpsketch-E142]\n")


@pytest.mark.parametrize("loss", [{**LOSS, "rho": "0"}, {**LOSS, "rho": "0", "delta": "1/9"}])
def test_a_loss_without_rho_is_a_row_of_a_table(loss: dict[str, Any], tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=10, delta=0.5))
    pay(ledger, Loss(Fraction(1, 2)))
    rewrite(ledger, loss=loss)
    assert main(["ledger", "export", ledger.address, "--output", str(tmp_path / "a.json")]) == 0


def test_events_of_a_table_name_the_delta_that_they_leave_out(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(epsilon=2, delta=1e-6))
    pay(ledger, Loss(Fraction(1, 100), Fraction(1, 10**8)))
    pay(ledger, Loss(Fraction(1, 100)))
    file = tmp_path / "a.json"
    assert main(["ledger", "export", ledger.address, "--output", str(file)]) == 0
    events = [json.loads(line)["dp_event"] for line in file.read_text().splitlines()]
    assert events[2]["and_delta"] == pytest.approx(1e-8, rel=1e-9)
    assert list(events[3]) == ["GaussianDpEvent"]


@pytest.mark.parametrize("limit", [{"epsilon": 1e300, "delta": 1e-6}, {"rho": 1e308}, {"epsilon": 1_000_001}])
def test_limits_that_protect_nobody_are_refused(limit: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="must be at most 1,000,000") as caught:
        LossLimit(**limit)
    assert caught.value.code == "E133"
