"""Periods: which may be named, what clocks that are wrong may do, and that a stream does not outlive one."""

from __future__ import annotations

import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import ArgumentError, LedgerError, LossLimit, PrivacySpec, Record, SketchSpec
from beam_dpsketch.ledger import entries
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.helpers.ledgers import bill, pay, payments, with_account

ONE = Loss(Fraction(1))


def set_clock(patch: pytest.MonkeyPatch, year: int, month: int = 1) -> None:
    moment = datetime.datetime(year, month, 5, tzinfo=datetime.UTC)
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
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="month", privacy_unit="record")
    private: Any = PrivateFrequencies(
        SketchSpec(width=16), ledger.spend("visits", PrivacySpec(rho=1)), privacy_unit=Record()
    )
    if is_idempotent:
        private = private.with_idempotent_noise(release_id="a", secret=EnvironmentSecret("LEDGER_SECRET"))
    pipeline = beam.Pipeline(runner="BundleBasedDirectRunner")
    stream = pipeline | Stream().add_elements(["a"]).advance_watermark_to_infinity()
    _ = stream | beam.WindowInto(FixedWindows(60)) | private
    with pytest.raises((ArgumentError, RuntimeError), match="a stream pays once"):
        pipeline.run().wait_until_finish()
    assert payments(ledger) == []


class _Monthly:
    """A job that runs each month, with one release id, and pays from an account with periods of a month."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("LEDGER_SECRET", "0123456789abcdef" * 3)
        self.ledger, self._patch = with_account(path, LossLimit(rho=1), period="month", privacy_unit="record"), patch

    def run(self, month: int, release_id: str | None = "visits", period: str | None = None) -> None:
        """Run in a month; one release comes out."""
        set_clock(self._patch, 2030, month)
        spec = self.ledger.spend("visits", PrivacySpec(rho=0.4), period=period)
        private: Any = PrivateFrequencies(SketchSpec(width=16), spec, privacy_unit=Record())
        if release_id is not None:
            private = private.with_idempotent_noise(release_id=release_id, secret=EnvironmentSecret("LEDGER_SECRET"))
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            released = pipeline | beam.Create(["a"] * month) | private
            assert_that(released | beam.combiners.Count.Globally(), equal_to([1]))

    def periods(self) -> list[str]:
        return [each.period for each in self.ledger.entries() if each.kind == entries.SPEND]


@pytest.mark.pipeline
def test_one_release_id_in_two_periods_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other data would be released in the second, and nothing would pay. A replay of the first names its period."""
    monthly = _Monthly(tmp_path / "ledger", monkeypatch)
    for _ in range(2):
        monthly.run(9)
    for wrong in ({}, {"period": "2030-08"}):
        with pytest.raises((LedgerError, RuntimeError), match="Use a separate release id for each period"):
            monthly.run(10, **wrong)  # type: ignore[arg-type]
    monthly.run(10, period="2030-09")
    assert monthly.periods() == ["2030-09"]
    monthly.run(10, "visits of October")
    assert monthly.periods() == ["2030-09", "2030-10"]


@pytest.mark.pipeline
def test_runs_without_a_release_id_pay_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monthly = _Monthly(tmp_path / "ledger", monkeypatch)
    for month in (9, 10, 10):
        monthly.run(month, None)
    assert monthly.periods() == ["2030-09", "2030-10", "2030-10"]


def test_a_worker_may_be_asked_again_after_midnight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of such a run was drawn at random, so it is the same run."""
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="month")
    for month in (9, 10):
        set_clock(monkeypatch, 2030, month)
        bill(ledger, ONE).pay(b"a" * 16)
    assert len(payments(ledger)) == 1


def test_accounts_and_periods_that_are_unknown_are_refused(tmp_path: Path) -> None:
    ledger = with_account(tmp_path / "ledger", LossLimit(rho=1), period="year")
    pay(ledger, ONE)
    for use in (ledger.paid, ledger.to_dp_event):
        with pytest.raises(ArgumentError, match="must be in the ledger, got 'nosuch'"):
            use("nosuch")
    for period in ("1999", "2026-01", ""):
        with pytest.raises(ArgumentError, match="period must be in the ledger for account") as caught:
            ledger.to_dp_event("visits", period)
        assert caught.value.code == "E135"
    assert len(ledger.to_dp_event("visits", ledger.entries()[-1].period).events) == 1
