"""What must hold of any ledger, as checks that can fail: tests run them, and run them again with planted faults."""

from __future__ import annotations

import datetime
import os
import sqlite3
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.pipeline import PipelineVisitor
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import (
    AutoNorm,
    Horizon,
    KeySelection,
    LedgerError,
    LossLimit,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
    release_frame,
)
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.ledger import entries
from beam_dpsketch.noise import tables
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.transforms import PrivateFrequencies, PrivateTopK, SelectKeys
from beam_dpsketch.transforms.steps import release_once
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise
from tests.helpers.ledgers import Spender, at_once, bill, check_at_once, pay, payments, with_account

THIRD = Fraction(1, 10)


def sums_are_exact(path: Path) -> None:
    """Three tenths are within a limit of 0.3, and nothing more is."""
    ledger = with_account(path / "exact", LossLimit(epsilon=0.3))
    for _ in range(3):
        pay(ledger, Loss.of_pure(THIRD))
    with pytest.raises(BudgetExceededError):
        pay(ledger, Loss.of_pure(Fraction(1, 10**30)))
    assert ledger.balances()[0].spent.pure == Fraction(3, 10)


def deltas_add_up(path: Path) -> None:
    ledger = with_account(path / "deltas", LossLimit(rho=10, delta=2e-8))
    each = Loss(Fraction(1), Fraction(1, 10**8))
    pay(ledger, each)
    pay(ledger, each)  # 1 - (1 - d)^2 is below 2 d
    with pytest.raises(BudgetExceededError):
        pay(ledger, each)
    assert ledger.balances()[0].spent.delta == 1 - (1 - Fraction(1, 10**8)) ** 2


def limits_are_reached(path: Path) -> None:
    """A release that asks for all of a limit is granted."""
    ledger = with_account(path / "reached", LossLimit(epsilon=1, delta=1e-6))
    pay(ledger, PrivacySpec(epsilon=1, delta=1e-6, noise="gaussian").loss())
    assert len(payments(ledger)) == 1


def periods_begin_anew(path: Path) -> None:
    ledger = with_account(path / "periods", LossLimit(rho=1), period="month")
    with pytest.MonkeyPatch.context() as patch:
        for month in (1, 2, 3):
            moment = datetime.datetime(2030, month, 5, tzinfo=datetime.UTC)
            patch.setattr(entries, "now", lambda moment=moment: moment)
            pay(ledger, Loss(Fraction(1)))
            with pytest.raises(BudgetExceededError):
                pay(ledger, Loss(Fraction(1, 100)))
    assert [each.period for each in ledger.balances() if each.payments] == ["2030-01", "2030-02", "2030-03"]


def clocks_do_not_go_back(path: Path) -> None:
    ledger = with_account(path / "clock", LossLimit(rho=1), period="month")
    pay(ledger, Loss(Fraction(1)))
    before = entries.now() - datetime.timedelta(days=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries, "now", lambda: before)
        with pytest.raises(LedgerError, match="clock"):
            pay(ledger, Loss(Fraction(1)))
    assert len(payments(ledger)) == 1


def a_run_pays_once(path: Path) -> None:
    """A worker that is asked again pays no second time."""
    ledger, run = with_account(path / "once", LossLimit(rho=1)), os.urandom(16)
    for _ in range(3):
        bill(ledger, Loss(Fraction(1, 2))).pay(run)
    assert payments(ledger) == [run.hex()]


def write_offs_stay(path: Path) -> None:
    ledger = with_account(path / "off", LossLimit(rho=1))
    run = pay(ledger, Loss(Fraction(1)))
    ledger.write_off(run.hex(), "the cluster was down")
    assert ledger.balances()[0].spent == Loss()
    assert [each.what.get("reason") for each in ledger.entries()][-1] == "the cluster was down"
    bill(ledger, Loss(Fraction(1))).pay(run)  # it was made after all
    with pytest.raises(BudgetExceededError):
        pay(ledger, Loss(Fraction(1, 100)))
    assert ledger.verify().entries == 5


def processes_share_a_limit(path: Path) -> None:
    check_at_once(path / "processes", 8, 12)


def payments_are_durable(path: Path) -> None:
    """What was granted is there for others at once, and after the process has ended."""
    ledger = with_account(path / "durable", LossLimit(rho=100))
    (found,) = at_once(Spender(ledger, Loss(Fraction(1)), 3), 1)
    assert found == {"granted": 3}
    assert len(payments(ledger)) == 3


def _tamper(change: str) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        file = path / "changed"
        ledger = with_account(file, LossLimit(rho=100))
        for _ in range(4):
            pay(ledger, Loss(Fraction(1)))
        head = ledger.verify().head
        connection = sqlite3.connect(file)
        connection.execute(change)
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError):
            ledger.verify(head)

    return check


accidents_are_found = _tamper("DELETE FROM dpsketch_ledger WHERE number = 3")
lost_ends_are_found = _tamper("DELETE FROM dpsketch_ledger WHERE number = 5")

TABLE = pa.table({"person": list(range(50)), "item": ["a", "b"] * 25})
SETTINGS = {
    "kind": "frequencies",
    "item": "item",
    "privacy_unit": {"privacy_id": "person", "records": {"max_records": 1}},
}


def _noise_checked(patch: pytest.MonkeyPatch, paid: Callable[[], int], drawn: list[int]) -> None:
    """Note how much was paid whenever noise is drawn."""
    drawing = tables.add_noise

    def add_noise(*arguments: Any, **named: Any) -> Any:
        drawn.append(paid())
        return drawing(*arguments, **named)

    patch.setattr(tables, "add_noise", add_noise)


def tables_pay_before_noise(path: Path) -> None:
    file = path / "table"
    ledger, drawn = with_account(file, LossLimit(rho=1)), list[int]()
    privacy = {"rho": 1, "ledger": str(file), "account": "visits"}
    with pytest.MonkeyPatch.context() as patch:
        _noise_checked(patch, lambda: len(payments(ledger)), drawn)
        released = release_frame(TABLE, {**SETTINGS, "privacy": privacy})
        with pytest.raises(BudgetExceededError):
            release_frame(TABLE, {**SETTINGS, "privacy": privacy})
    assert drawn
    assert set(drawn) == {1}
    assert [each.hex()[:32] for each in released.privacy.release_ids] == payments(ledger)


def pipelines_pay_before_noise(path: Path) -> None:
    """Building costs nothing; each run pays, durably, before it draws; and the one too many draws nothing."""
    ledger, drawn = with_account(path / "pipeline", LossLimit(rho=2)), list[int]()
    privacy = ledger.spend("visits", PrivacySpec(rho=1))
    privacy_unit = PrivacyId("person", RecordBounds(1))
    counted = PrivateFrequencies(SketchSpec(width=16), privacy, privacy_unit=privacy_unit, item="item")
    counted.explain(100)
    rows = [beam.Row(person=person, item="a") for person in range(20)]
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(rows) | counted
    assert payments(ledger) == []
    with pytest.MonkeyPatch.context() as patch:
        _noise_checked(patch, lambda: len(payments(ledger)), drawn)
        for run in (1, 2):
            pipeline.run().wait_until_finish()
            assert set(drawn) == {run}
            drawn.clear()
        said = "'visits' cannot pay for this release. Limit: rho = 2. Spent: rho = 2. Requested: rho = 1."
        with pytest.raises(BudgetExceededError, match=said):
            pipeline.run().wait_until_finish()
    assert drawn == []
    assert len(payments(ledger)) == 2


def workers_pay_once(path: Path) -> None:
    """A worker that fails after it has paid, and is asked again with the name that is final, pays no second time."""
    ledger = with_account(path / "workers", LossLimit(rho=10))
    privacy = ledger.spend("visits", PrivacySpec(rho=1))
    counted = PrivateFrequencies(
        SketchSpec(width=16), privacy, privacy_unit=PrivacyId("person", RecordBounds(1)), item="item"
    )
    names: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        process = release_once._Pay.process

        def twice(self: Any, element: bytes) -> Any:
            names.append(element)
            list(process(self, element))
            yield from process(self, element)

        patch.setattr(release_once._Pay, "process", twice)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            rows = [beam.Row(person=person, item="a") for person in range(20)]
            _ = pipeline | beam.Create(rows) | counted
    assert payments(ledger) == [names[0].hex()]


ROW = beam.Row(person=1, item="a", key="k")


def _transforms(privacy: PrivacySpec) -> dict[str, beam.PTransform]:
    """A transform for each way in which noise is drawn."""
    one, norm = PrivacyId("person", RecordBounds(1)), PrivacyId("person", AutoNorm())
    in_one = PrivacyId("person", RecordBounds(1, max_keys=1))
    spec, keys = SketchSpec(width=16), KeySelection(1e-7, "key")
    public = PublicKeys(["k"], "key")
    grouped = PrivateTopK(TextDomain(5), privacy, k=2, privacy_unit=in_one, item="item", method=Thresholding(1e-7))
    over_time, in_keys = (PrivacyId("person", RecordBounds(1, max_keys=count), max_windows=2) for count in (None, 1))
    rows = Horizon(START, 3600, 4)
    return {
        "counters": PrivateFrequencies(spec, privacy, privacy_unit=one, item="item"),
        "a norm": PrivateFrequencies(spec, privacy, privacy_unit=norm, item="item"),
        "keys": PrivateFrequencies(spec, privacy, privacy_unit=in_one, item="item", keys=keys),
        "lost": PrivateFrequencies(spec, privacy, privacy_unit=in_one, item="item", keys=public),
        "keys alone": SelectKeys(privacy, privacy_unit=in_one, keys=keys),
        "groups": grouped,
        "rows": PrivateFrequencies(spec, privacy, privacy_unit=over_time, item="item", windows=rows),
        "keys of rows": PrivateFrequencies(spec, privacy, privacy_unit=in_keys, item="item", keys=keys, windows=rows),
    }


START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
OF_STREAMS = ("counters", "keys alone", "groups", "rows")


def noise_waits_for_payment(path: Path) -> None:
    """Each step that draws noise reads what the payment gives, in all kinds of graphs, bounded or not."""
    ledger = with_account(path / "graphs", LossLimit(epsilon=100, delta=1e-5))
    privacy = ledger.spend("visits", PrivacySpec(epsilon=1, delta=1e-6, noise="gaussian"))
    made = _transforms(privacy)
    for name, is_bounded in [*((name, True) for name in made), *((name, False) for name in OF_STREAMS)]:
        pipeline, steps = beam.Pipeline(runner="FnApiRunner"), _Steps()
        rows = pipeline | beam.Create([ROW])
        rows.is_bounded = is_bounded
        if not is_bounded and name != "rows":
            rows = rows | beam.WindowInto(FixedWindows(60))
        _ = rows | made[name]
        pipeline.visit(steps)
        assert steps.drawing, name
        assert steps.waiting == steps.drawing, name


class _Steps(PipelineVisitor):
    """The steps that draw noise, and those of them that wait for a payment."""

    def __init__(self) -> None:
        self.drawing, self.waiting = set[str](), set[str]()

    def visit_transform(self, transform_node: Any) -> None:
        fn = getattr(transform_node.transform, "fn", None)
        if isinstance(fn, DrawsNoise) and not isinstance(fn, (release_once._NameRun, release_once._MakeRecord)):
            self.drawing.add(transform_node.full_label)
            sources = [each.pvalue.producer.transform for each in transform_node.side_inputs]
            if any(isinstance(getattr(each, "fn", None), release_once._Pay) for each in sources):
                self.waiting.add(transform_node.full_label)


CHECKS: Mapping[str, Callable[[Path], None]] = {
    "sums_are_exact": sums_are_exact,
    "deltas_add_up": deltas_add_up,
    "limits_are_reached": limits_are_reached,
    "periods_begin_anew": periods_begin_anew,
    "clocks_do_not_go_back": clocks_do_not_go_back,
    "a_run_pays_once": a_run_pays_once,
    "write_offs_stay": write_offs_stay,
    "processes_share_a_limit": processes_share_a_limit,
    "payments_are_durable": payments_are_durable,
    "accidents_are_found": accidents_are_found,
    "lost_ends_are_found": lost_ends_are_found,
    "tables_pay_before_noise": tables_pay_before_noise,
    "pipelines_pay_before_noise": pipelines_pay_before_noise,
    "workers_pay_once": workers_pay_once,
    "noise_waits_for_payment": noise_waits_for_payment,
}
