"""All doors take an account: it pays for each run, and nothing else costs anything."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import (
    ArgumentError,
    CountSketch,
    Ledger,
    LossLimit,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    rehearse,
    release,
    release_frame,
)
from beam_dpsketch.cli.main import main
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.rows import PrivateFrequencies as FrequencyRows
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from beam_dpsketch.transforms.combine_fns import PrivateSketchFn
from tests.helpers.ledger_checks import SETTINGS, TABLE
from tests.helpers.ledgers import payments, with_account

pytestmark = pytest.mark.pipeline
ROWS = [beam.Row(person=person, item="a") for person in range(20)]
SPEC = SketchSpec(width=16)
ONE = PrivacyId("person", RecordBounds(1))


RELEASED: list[Any] = []


def _keep(released: Any) -> None:
    RELEASED.append(released)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def settings(file: str, **privacy: Any) -> dict[str, Any]:
    return {**SETTINGS, "privacy": {"rho": 1, "ledger": file, "account": "visits", **privacy}}


def test_looking_costs_nothing_and_needs_no_ledger(file: str, tmp_path: Path, capsys: Any) -> None:
    """Also where the ledger is not there."""
    (tmp_path / "settings.yaml").write_text(repr(settings(file)))
    assert main(["check", str(tmp_path / "settings.yaml")]) == 0
    assert main(["plan", "--config", str(tmp_path / "settings.yaml")]) == 0
    rehearse(TABLE, settings(file))
    private = PrivateFrequencies(SPEC, Ledger(file).spend("visits", PrivacySpec(rho=1)), privacy_unit=ONE, item="item")
    private.explain(100)
    private.check(ROWS)
    _ = beam.Pipeline(runner="FnApiRunner") | beam.Create(ROWS) | private
    assert not Path(file).exists()


def test_rows_pay(file: str) -> None:
    ledger = with_account(file, LossLimit(rho=1))
    given = {name: value for name, value in settings(file).items() if name != "kind"}
    for refused in (False, True):
        pipeline = beam.Pipeline(runner="FnApiRunner")
        _ = pipeline | beam.Create(ROWS) | FrequencyRows(**given, ask={"items": ["a"]})
        if refused:
            with pytest.raises(BudgetExceededError):
                pipeline.run().wait_until_finish()
        else:
            pipeline.run().wait_until_finish()
    assert len(payments(ledger)) == 1


def test_the_command_pays_and_is_refused_in_one_line(file: str, tmp_path: Path, capsys: Any) -> None:
    ledger = with_account(file, LossLimit(rho=1))
    pq.write_table(TABLE, tmp_path / "visits.parquet")
    line = ["run", str(tmp_path / "visits.parquet"), "--kind", "frequencies", "--item", "item"]
    line += ["--privacy-id", "person"]
    line += ["--max-records", "1", "--rho", "1", "--ledger", file, "--account", "visits", "--output"]
    assert main([*line, str(tmp_path / "a.dpsketch")]) == 0
    assert main([*line, str(tmp_path / "b.dpsketch")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(
        "dpsketch: account 'visits' cannot pay for this release. Limit: rho = 1. Spent: rho = 1. Requested: rho = 1."
    )
    assert said.endswith("[dpsketch-E130]")
    assert not (tmp_path / "b.dpsketch").exists()
    assert len(payments(ledger)) == 1


def test_a_sketch_pays_before_it_is_released(file: str) -> None:
    ledger = with_account(file, LossLimit(rho=1), privacy_unit="record")
    raw = CountSketch(SPEC).accumulate(["a"] * 10)
    terms = ReleaseTerms(ledger.spend("visits", PrivacySpec(rho=1)))
    released = release(raw, terms)
    assert [each.hex()[:32] for each in released.privacy.release_ids] == payments(ledger)
    with pytest.raises(BudgetExceededError):
        release(raw, terms)


def test_shares_of_a_whole_pay_what_they_are(file: str) -> None:
    ledger = with_account(file, LossLimit(rho=1))
    of_whole = {"rho": 1, "share": "1/4", "ledger": file, "account": "visits"}
    for _ in range(4):
        release_frame(TABLE, {**SETTINGS, "privacy": of_whole})
    with pytest.raises(BudgetExceededError):
        release_frame(TABLE, {**SETTINGS, "privacy": of_whole})
    assert ledger.balances()[0].spent.rho == 1


def test_what_could_not_pay_first_is_refused(file: str) -> None:
    spec = Ledger(file).spend("visits", PrivacySpec(rho=1))
    with pytest.raises(ArgumentError, match="must not be a ledger account here") as caught:
        PrivateSketchFn(SPEC, spec)
    assert caught.value.code == "E131"
    with pytest.raises(ArgumentError, match="must not belong to a budget"):
        Ledger(file).spend("visits", PrivacyBudget(rho=1).spend(rho=1))


@pytest.mark.parametrize(
    ("privacy_unit", "account", "said"),
    [
        (Record(), {}, "which protects all records of any one privacy id. The release protects any one record"),
        (ONE, {"privacy_unit": "record"}, "which protects any one record"),
    ],
)
def test_another_unit_is_refused_before_the_run(
    file: str, privacy_unit: Any, account: dict[str, Any], said: str
) -> None:
    ledger = with_account(file, LossLimit(rho=10), **account)
    private = PrivateFrequencies(
        SPEC, ledger.spend("visits", PrivacySpec(rho=1)), privacy_unit=privacy_unit, item="item"
    )
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(ROWS) | private
    with pytest.raises(ArgumentError, match=said):
        pipeline.run().wait_until_finish()
    assert payments(ledger) == []


def test_a_person_within_each_window_does_not_add_up(file: str) -> None:
    ledger = with_account(file, LossLimit(rho=10))
    private = PrivateFrequencies(SPEC, ledger.spend("visits", PrivacySpec(rho=1)), privacy_unit=ONE, item="item")
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(ROWS) | beam.WindowInto(FixedWindows(60)) | private
    with pytest.raises(ArgumentError, match="Set max_windows"):
        pipeline.run().wait_until_finish()


def test_transforms_of_a_pipeline_are_refused_together_before_it_runs(file: str) -> None:
    """Each alone would be within the limit; the sum is not, and nothing is read or paid."""
    ledger = with_account(file, LossLimit(rho=1.5))
    privacy = ledger.spend("visits", PrivacySpec(rho=1))
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create(ROWS)
    for name in ("first", "second"):
        _ = rows | name >> PrivateFrequencies(SPEC, privacy, privacy_unit=ONE, item="item")
    with pytest.raises(BudgetExceededError, match=r"Spent: rho = 1. Requested: rho = 1. Together: rho = 2"):
        pipeline.run().wait_until_finish()
    assert payments(ledger) == []


def test_a_run_that_is_repeated_under_a_secret_pays_once(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_SECRET", "0123456789abcdef" * 3)
    ledger = with_account(file, LossLimit(rho=1))
    private = PrivateFrequencies(SPEC, ledger.spend("visits", PrivacySpec(rho=1)), privacy_unit=ONE, item="item")
    for name, refused in (("monday", False), ("monday", False), ("tuesday", True)):
        noisy = private.with_idempotent_noise(release_id=name, secret=EnvironmentSecret("LEDGER_SECRET"))
        pipeline = beam.Pipeline(runner="FnApiRunner")
        _ = pipeline | beam.Create(ROWS) | noisy
        if refused:
            with pytest.raises(
                (BudgetExceededError, RuntimeError), match=r"cannot pay for this release\. Limit: rho = 1"
            ):
                pipeline.run().wait_until_finish()
        else:
            pipeline.run().wait_until_finish()
    assert len(payments(ledger)) == 1


def test_a_stream_pays_once_for_all_windows(file: str) -> None:
    ledger = with_account(file, LossLimit(rho=1), privacy_unit="record")
    private = PrivateFrequencies(SPEC, ledger.spend("visits", PrivacySpec(rho=1)), privacy_unit=Record())
    stream = Stream()
    for moment in range(0, 300, 60):
        stream = stream.add_elements([TimestampedValue("a", moment + 1)]).advance_watermark_to(moment + 60)
    RELEASED.clear()
    options = beam.pipeline.PipelineOptions(["--streaming"])
    with beam.Pipeline(runner="BundleBasedDirectRunner", options=options) as pipeline:
        windows = pipeline | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(60))
        _ = windows | private | beam.Map(_keep)
    assert len(RELEASED) == 5
    assert len(payments(ledger)) == 1


def test_a_table_with_a_norm_of_the_data_pays_before_it_is_chosen(file: str) -> None:
    ledger = with_account(file, LossLimit(rho=1))
    with_norm = {**settings(file), "privacy_unit": {"privacy_id": "person", "norm": "auto"}}
    release_frame(TABLE, with_norm)
    with pytest.raises(BudgetExceededError):
        release_frame(TABLE, with_norm)
    assert ledger.balances()[0].spent.rho == 1


def test_what_keys_cost_is_paid_for(file: str) -> None:
    """delta too, which is known only when the transform is declared."""
    ledger = with_account(file, LossLimit(rho=2, delta=1.5e-8))
    privacy_unit = {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1}}
    keyed = {**settings(file), "privacy_unit": privacy_unit, "keys": {"select": {"delta": 1e-8}, "field": "item"}}
    table = pa.table({"person": list(range(50)), "item": ["a"] * 50})
    release_frame(table, keyed)
    with pytest.raises(BudgetExceededError, match="delta = 1e-08 for keys"):
        release_frame(table, keyed)
    assert ledger.balances()[0].spent.delta == Fraction(1, 10**8)


def test_a_wrong_file_costs_nothing(file: str) -> None:
    """What is refused before the noise is refused before the payment."""
    ledger = with_account(file, LossLimit(rho=1))
    broken = pa.RecordBatchReader.from_batches(TABLE.schema, _fails())
    with pytest.raises(OSError, match="the disk"):
        release_frame(broken, settings(file))
    assert payments(ledger) == []


def _fails() -> Any:
    yield TABLE.to_batches()[0]
    raise OSError("the disk")
