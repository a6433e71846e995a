"""Periods: which may be named, what clocks that are wrong may do, and that a stream does not outlive one."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import ArgumentError, LedgerError, LossLimit, PrivacySpec, Record, SketchSpec
from beam_dpsketch.ledger import entries
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers.ledgers import pay, payments, with_account

ONE = Loss(Fraction(1))


def set_clock(patch: pytest.MonkeyPatch, year: int, month: int = 1) -> None:
    moment = datetime.datetime(year, month, 5, tzinfo=datetime.timezone.utc)
    patch.setattr(entries, "now", lambda: moment)


@pytest.mark.parametrize("period", ["\uff12\uff10\uff12\uff16", "\u0662\u0660\u0662\u0666", "2031", "9999"])
def test_later_periods_and_other_digits_are_refused(
    period: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="year")
    set_clock(monkeypatch, 2030)
    with pytest.raises(ArgumentError) as caught:
        pay(ledger, ONE, period=period)
    assert caught.value.code == "E135"
    assert payments(ledger) == []


def test_named_periods_and_write_offs_by_a_wrong_clock_lock_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="month")
    set_clock(monkeypatch, 2030, 2)
    run = pay(ledger, ONE)
    set_clock(monkeypatch, 2090)
    pay(ledger, ONE, period="2030-01")
    ledger.write_off(run.hex(), "the job was ended")
    set_clock(monkeypatch, 2030, 2)
    pay(ledger, ONE)
    set_clock(monkeypatch, 2030, 1)
    with pytest.raises(LedgerError, match="was used at 2030-02-05"):
        pay(ledger, ONE)
    ledger.verify()


@pytest.mark.pipeline
@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_stream_is_refused_where_a_period_ends(
    is_idempotent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One payment would be for the records of all later periods."""
    monkeypatch.setenv("LEDGER_SECRET", "0123456789abcdef" * 3)
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="month", unit="record")
    private: Any = PrivateFrequencies(SketchSpec(width=16), ledger.spend("visits", PrivacySpec(rho=1)), unit=Record())
    if is_idempotent:
        private = private.with_idempotent_noise(release_id="a", secret=EnvironmentSecret("LEDGER_SECRET"))
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner")
    stream = pipeline | Stream().add_elements(["a"]).advance_watermark_to_infinity()
    _ = stream | beam.WindowInto(FixedWindows(60)) | private
    with pytest.raises((ArgumentError, RuntimeError), match="a stream pays once"):
        pipeline.run().wait_until_finish()
    assert payments(ledger) == []


def test_accounts_and_periods_that_are_unknown_are_refused(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="year")
    pay(ledger, ONE)
    for use in (ledger.paid, ledger.to_dp_event):
        with pytest.raises(ArgumentError, match="'nosuch' is none"):
            use("nosuch")
    for period in ("1999", "2026-01", ""):
        with pytest.raises(ArgumentError, match="must be one in which") as caught:
            ledger.to_dp_event("visits", period)
        assert caught.value.code == "E135"
    assert len(ledger.to_dp_event("visits", ledger.entries()[-1].period).events) == 1
