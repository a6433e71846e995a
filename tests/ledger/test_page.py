"""The page about ledgers: its code runs, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beam_dpsketch import Ledger
from beam_dpsketch.config import read_privacy
from beam_dpsketch.config.text import parse
from tests.cli.consoles import is_equal, run_block
from tests.helpers.pages import PAGES, fenced, printed_by
from tests.ledger.page import BLOCK, write_year

PAGE = PAGES["ledger"]
_NOISY = re.compile(r"(?<=: )\d+ \[\d+, \d+\]|(?<=about )\d+")


@pytest.mark.pipeline
def test_two_jobs_of_the_first_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = printed_by(fenced("## Two jobs", PAGE))
    shown = fenced("<!-- checked by tests/ledger/test_page.py -->", PAGE)
    assert _NOISY.sub("#", printed) == _NOISY.sub("#", shown)
    assert Ledger("spent.db").verify().entries == 3


@pytest.mark.parametrize("block", BLOCK.findall(PAGE))
def test_commands_print_what_the_page_shows(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_year(tmp_path / "year.db")
    monkeypatch.chdir(tmp_path)
    printed = run_block(block)
    assert is_equal(block, printed), printed


def test_the_settings_of_the_page_pay_from_its_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    payer = read_privacy(parse(fenced("as a setting:", PAGE), "")["privacy"]).payer
    assert payer is not None
    assert (payer.address, payer.account) == (str(tmp_path / "spent.db"), "trips")


def test_the_press_is_refused_in_december(tmp_path: Path) -> None:
    (refused,) = write_year(tmp_path / "year.db")
    assert refused.startswith("December, team press: ")
    assert fenced("In December the press", PAGE) == refused.partition(": ")[2] + "\n"
