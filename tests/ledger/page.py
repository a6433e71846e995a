"""The page about ledgers: its year of three teams, its console blocks and its picture; writes them anew.

python -m tests.ledger.page
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_dpsketch import Account, Ledger, LossLimit, PrivacySpec
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.ledger import entries
from beam_dpsketch.ledger.ledger import payer_of
from tests.cli.consoles import run, run_block
from tests.helpers.ledgers import PERSON

ROOT = Path(__file__).parents[2]
PAGE, PICTURE = ROOT / "docs" / "ledger.md", ROOT / "docs" / "ledger.png"
BLOCK = re.compile(r"(?<=<!-- executed by tests/ledger/test_page.py -->\n```console\n).*?(?=```)", re.DOTALL)
YEAR, ACCOUNT = 2026, "visits"
_KINDS = {"maps": "frequencies", "search": "top_k", "press": "statistics"}
_EPSILONS = {"maps": 0.5, "search": 1.0, "press": 1.5}
_DAYS = {"maps": 3, "search": 10, "press": 20}
_MONTHS = {"maps": range(1, 13), "search": (2, 5, 8, 11), "press": (6, 12)}
_FAILED = ("search", 5)


def releases() -> Iterator[tuple[datetime.datetime, str]]:
    """When each team asks for a release."""
    asked = [(month, _DAYS[team], team) for team, months in _MONTHS.items() for month in months]
    for month, day, team in sorted(asked):
        yield datetime.datetime(YEAR, month, day, 9, 30, tzinfo=datetime.UTC), team


def write_year(file: Path) -> list[str]:
    """Write the ledger of the year, always the same; return what was refused."""
    refused = []
    with pytest.MonkeyPatch.context() as patch:
        ledger = Ledger(file)
        patch.setattr(entries, "now", lambda: datetime.datetime(YEAR, 1, 1, 8, tzinfo=datetime.UTC))
        limit = LossLimit(epsilon=3.5, delta=1e-6)
        account = Account(name=ACCOUNT, limit=limit, period="year", data_set="visits of our pages")
        ledger.create(account, who="privacy office")
        for moment, team in releases():
            patch.setattr(entries, "now", lambda moment=moment: moment)
            run_name = hashlib.blake2b(f"{team} {moment}".encode(), digest_size=16).digest()
            spec = PrivacySpec(epsilon=_EPSILONS[team], delta=1e-6, noise="gaussian")
            payer = payer_of(ledger.address, ACCOUNT, who=f"team {team}")
            try:
                payer.bill(spec.loss(), PERSON, {"kind": _KINDS[team]}).pay(run_name)
            except BudgetExceededError as error:
                refused.append(f"{moment:%B}, team {team}: {error}")
            if (team, moment.month) == _FAILED:
                later = moment + datetime.timedelta(days=1)
                patch.setattr(entries, "now", lambda later=later: later)
                ledger.write_off(run_name.hex(), "the job ended before it wrote", who="privacy office")
    return refused


def write_anew() -> None:
    """Write what the commands of the page print, and the picture."""
    with tempfile.TemporaryDirectory() as folder:
        write_year(Path(folder, "year.db"))
        os.chdir(folder)
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(BLOCK.sub(lambda block: run_block(block.group()), text), encoding="utf-8")
        run("ledger", "plot", "year.db", "--output", str(PICTURE), "--replace")


if __name__ == "__main__":
    write_anew()
