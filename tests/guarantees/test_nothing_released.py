"""A run that chooses no key has spent its rho and delta, and its files say so; one that chooses some spends no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
    read_releases,
    release_frame,
)
from beam_dpsketch.answers.release_file import from_record, to_record
from beam_dpsketch.cli.stored import read_all
from beam_dpsketch.errors import FormatError
from beam_dpsketch.statement.accounting import Spent, add_up
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies, PrivateTopK, WriteReleases, files
from tests.cli.consoles import run
from tests.helpers.pipelines import BUNDLE_BASED, FN_API

SPEC, PRIVACY = SketchSpec(depth=2, width=16), PrivacySpec(epsilon=8, delta=1e-6)
LOST = Fraction(1, 10**10)
FEW = [{"person": f"p{n}", "key": f"k{n}", "item": "x"} for n in range(3)]  # a key is chosen with less than 1e-10
CROWD = [{"person": f"p{n}", "key": "many", "item": "x"} for n in range(2000)]  # and missed with less than 1e-50
BY_RECORDS = PrivacyId("person", RecordBounds(1, max_keys=1))
MADE: dict[str, Callable[[], Any]] = {
    "records": lambda: PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=BY_RECORDS, item="item", keys=KeySelection(LOST, "key")
    ),
    "norm": lambda: PrivateFrequencies(
        SPEC,
        PRIVACY,
        privacy_unit=PrivacyId("person", NormBound(1, max_keys=1)),
        item="item",
        keys=KeySelection(LOST, "key"),
    ),
    "groups": lambda: PrivateTopK(
        TextDomain(3),
        PRIVACY,
        k=2,
        privacy_unit=BY_RECORDS,
        item="item",
        keys=AssumePublicKeys("key"),
        method=Thresholding(LOST),
    ),
}
TERMS = {"release_id": "visits", "secret": EnvironmentSecret("DPSKETCH_TEST_SECRET")}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSKETCH_TEST_SECRET", "planted-secret-4711-4711-4711-4711-4711")


def write(transform: Any, rows: list[Any], prefix: Path, runner: str = FN_API) -> None:
    transform.check(rows[:1])
    with beam.Pipeline(runner) as pipeline:
        released = pipeline | beam.Create(rows) | transform
        kept = released | "Other step" >> beam.Filter(lambda pair: pair[0] != "hidden")
        kept | WriteReleases(str(prefix))


def spent(folder: Path) -> list[Spent]:
    stored, nothing, _ = read_all([str(folder)])
    return add_up((each.released.privacy for each in stored), [each.spent.privacy for each in nothing])


CASES = [
    ("records", False, FN_API),
    *(
        pytest.param(name, keyed, runner, marks=pytest.mark.slow)
        for name, keyed, runner in [
            ("norm", False, FN_API),
            ("groups", True, BUNDLE_BASED),
            ("records", True, BUNDLE_BASED),
        ]
    ),
]


@pytest.mark.pipeline
@pytest.mark.parametrize(("name", "keyed", "runner"), CASES)
def test_files_say_what_was_spent_with_keys_and_without(name: str, keyed: bool, runner: str, tmp_path: Path) -> None:
    transform = MADE[name]().with_idempotent_noise(**TERMS) if keyed else MADE[name]()
    for rows in (FEW, CROWD):
        write(transform, rows, tmp_path / rows[0]["key"] / "part", runner)
    (few,), (many,) = spent(tmp_path / "k0"), spent(tmp_path / "many")
    assert (few.release_count, few.run_count, many.release_count, many.run_count) == (0, 1, 1, 1)
    assert dataclasses.replace(few, release_count=1) == many  # rho, delta, unit: all is that of a release
    assert few.lost == LOST
    assert read_releases(str(tmp_path / "k0" / "part*")) == []
    assert [key for key, _ in read_releases(str(tmp_path / "many" / "part*"))] == ["many"]
    (both,) = spent(tmp_path)
    assert both.rho == (1 if keyed else 2) * many.rho  # one secret and release id: that is one run
    if keyed:  # a replay writes the same
        write(transform, FEW, tmp_path / "k0" / "part", runner)


@pytest.mark.pipeline
def test_nothing_is_added_where_keys_are_public(tmp_path: Path) -> None:
    listed = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=BY_RECORDS, item="item", keys=PublicKeys(["k0"], "key"))
    assumed = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=BY_RECORDS, item="item", keys=AssumePublicKeys("key"))
    write(listed, FEW, tmp_path / "listed" / "part")
    write(assumed, FEW[:1], tmp_path / "assumed" / "part")
    for name in ("listed", "assumed"):
        (found,) = spent(tmp_path / name)
        assert (found.release_count, found.run_count) == (1, 1)


@pytest.mark.pipeline
def test_a_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "spent_before", lambda releases: [])
    write(MADE["records"](), FEW, tmp_path / "part")
    assert spent(tmp_path) == []


SETTINGS: dict[str, Any] = {
    "kind": "frequencies",
    "item": "item",
    "privacy": {"epsilon": 8, "delta": 1e-6},
    "privacy_unit": {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1}},
    "keys": {"select": {"delta": 1e-10}, "field": "key"},
}


def test_a_frame_says_what_was_spent() -> None:
    released = release_frame(pa.Table.from_pylist(FEW), SETTINGS)
    assert released == {}
    assert "Released      nothing, because no key passed the selection" in str(released.unreleased)
    (one,) = release_frame(pa.Table.from_pylist(CROWD), SETTINGS).values()
    assert (released.unreleased.privacy.rho, released.unreleased.privacy.delta) == (one.privacy.rho, LOST)
    assert released.unreleased.privacy.keys == one.privacy.keys
    assert release_frame(pa.Table.from_pylist(CROWD), SETTINGS).unreleased is None


def test_the_command_writes_and_shows_what_was_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pa.parquet.write_table(pa.Table.from_pylist(FEW), "few.parquet")
    line = ["--kind", "frequencies", "--item", "item", "--key", "key", "--select-keys", "1e-10", "--max-keys", "1"]
    line += ["--privacy-id", "person", "--max-norm", "1", "--epsilon", "8", "--delta", "1e-6"]
    code, printed = run("run", "few.parquet", *line, "--output", "few.dpsketch")
    assert (code, "no key passed the selection, so" in printed) == (0, True)
    for options in (["spent"], ["inspect"], ["inspect", "--privacy"]):
        for form in ("table", "json", "csv"):
            code, printed = run(*options, "few.dpsketch", "--format", form)
            assert (code, "1e-10" in printed) == (0, True)
    for asked in (["query", "--records"], ["plot", "--top", "3", "--output", "x.png"]):
        code, printed = run(asked[0], "few.dpsketch", *asked[1:])
        assert (code, "no key passed the selection, so it contains no release" in printed) == (1, True)
    assert "nothing: no key chosen" in run("inspect", "few.dpsketch")[1]
    assert "the privacy budget is spent all the same" in run("inspect", "few.dpsketch", "--privacy")[1]


def test_damaged_records_are_refused() -> None:
    record = to_record(release_frame(pa.Table.from_pylist(FEW), SETTINGS).unreleased)
    assert to_record(from_record(record)) == record
    accepted = 0
    for place in range(1, len(record)):
        for damaged in (record[:place], record[:place] + bytes([record[place] ^ 1]) + record[place + 1 :]):
            try:
                read = from_record(damaged)
            except FormatError:
                continue
            accepted += 1
            assert to_record(read) == damaged  # another valid statement: the digests of a file tell
    assert 0 < accepted < len(record)
    with pytest.raises(FormatError):
        from_record(record + b"\0")
