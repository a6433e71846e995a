"""The page about ledgers: its code runs, and prints what it shows."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from beam_dpsketch import Ledger, LossLimit, PrivacySpec
from beam_dpsketch.config import read_privacy
from beam_dpsketch.config.plain import parse
from beam_dpsketch.ledger.ledger import payer_of
from beam_dpsketch.privacy.loss.composition import Loss
from tests.cli.consoles import CLIPPED, is_equal, run, run_block
from tests.helpers.ledgers import PERSON, with_account
from tests.helpers.pages import PAGES, fenced, printed_by
from tests.ledger.page import BLOCK, write_year

PAGE = PAGES["ledger"]
_NOISY = re.compile(rf"{CLIPPED.pattern}|(?<=: )\d+ \[\d+, \d+\]|(?<=about )\d+")


@pytest.mark.pipeline
def test_the_second_release_of_the_first_example_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = printed_by(fenced("## Two releases", PAGE))
    shown = fenced("<!-- checked by tests/ledger/test_page.py -->", PAGE)
    assert _NOISY.sub("#", printed) == _NOISY.sub("#", shown)
    assert Ledger("spent.db").verify().entries == 3
    assert re.search(r"home: \d+ \[", printed_by(fenced("returns the privacy spec:", PAGE)))
    assert Ledger("spent.db").verify().entries == 5


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


def test_epsilons_of_laplace_noise_alone_add_up(tmp_path: Path) -> None:
    """The second row of `dpsketch ledger show` has the sum; the first, the cost of one release as `run` says it."""
    (said,) = re.findall(r"Epsilons of Gaussian .*\n.*delta = 0", PAGE)
    for noise, cost, both in (("gaussian", "1 at delta = 1e-06", "1.455"), ("laplace", "1 at delta = 0", "2")):
        file = str(tmp_path / noise)
        with_account(file, LossLimit(epsilon=3, delta=1e-6))
        bill = payer_of(file, "visits").bill(PrivacySpec(epsilon=1, delta=1e-6, noise=noise).loss(), PERSON, {})
        for run_name in (b"1" * 16, b"2" * 16):
            bill.pay(run_name)
        found = re.findall(
            r"epsilon = \S+ at delta = [^\s,]+", run("ledger", "show", file, "visits", "--format", "csv")[1]
        )
        total = f"epsilon = {both} {cost[2:]}"
        assert found[:4] == [f"epsilon = {cost}"] * 3 + [total]
        assert f"together epsilon = {both}" in said


def test_many_pure_losses_are_told_at_the_delta_that_lowers_their_epsilon() -> None:
    limit, one = LossLimit(epsilon=3, delta=1e-6), Loss.of_pure(Fraction(1, 100))
    assert limit.words(one) == "epsilon = 0.01 at delta = 0"
    assert limit.words(Loss.of_pure(Fraction(1), Fraction("1e-8"))) == "epsilon = 1 at delta = 1e-08"
    many = Loss(1000 * one.rho, pure=1000 * one.pure, pure_rho=1000 * one.pure_rho)
    assert limit.words(many).endswith(" at delta = 1e-06")
    assert many.least_epsilon(1e-6) < 2


def test_the_press_is_refused_in_december(tmp_path: Path) -> None:
    (refused,) = write_year(tmp_path / "year.db")
    assert refused.startswith("December, team press: ")
    assert fenced("In December the press", PAGE) == refused.partition(": ")[2] + "\n"
