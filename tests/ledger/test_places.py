"""Where a ledger may be: what is no place, what would hold a password, and what workers may not reach."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.portable_runner import PortableRunner

from beam_dpsketch import ArgumentError, Ledger, LossLimit, PrivacySpec, Record, SketchSpec
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.ledger.ledger import payer_of
from beam_dpsketch.ledger.places import address_of
from beam_dpsketch.ledger.sqlite import refuse_network
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.checks.guards import check_reach
from tests.helpers.ledgers import with_account


class _Bytes:
    def __fspath__(self) -> Any:
        return b"/folder/secret.db"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ledger:sec/ret@db/privacy",
        "postgresql://ledger:sec#ret@db/privacy",
        "postgresql://ledger:sec?ret@db/privacy",
        "postgresql://ledger@db/privacy?p%61ssword=secret",
        "postgresql://ledger@db/privacy?sslpassw%6Frd=secret",
        "postgresql:/ledger:secret@db/privacy",
        "postgres:ledger:secret@db/privacy",
        "PostgreSQL+psycopg:/ledger:secret@db/privacy",
        "a\udce9.db",
        _Bytes(),
    ],
)
def test_passwords_in_any_spelling_and_names_of_no_text_are_refused(address: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        Ledger(address)
    assert caught.value.code == "E139"
    assert not {"secret", "sec", "ret"} & set(str(caught.value).replace("/", " ").split())


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ledger@db.example.com",
        "postgresql://ledger@db.example.com/",
        "postgresql://",
        "postgresql:///?host=/run/postgresql",
        "postgresql://db/privacy/other",
        "postgresql://db/privacy?dbname=other",
        "postgresql://db/privacy?service=mine",
        "postgresql:///privacy?servicefile=/home/me/services",
        "postgresql://db/privacy?schema=",
        "postgresql://db/privacy?schema=a&schema=b",
        'postgresql://db/privacy?schema=a"b',
        "postgresql://db/privacy?schema=a.b",
        "postgresql://db/privacy?schema=a:b",
        "postgresql://db/privacy?schema=7a",
        f"postgresql://db/privacy?schema={'a' * 64}",
    ],
)
def test_addresses_that_mean_another_table_to_another_user_are_refused(address: str) -> None:
    """Without a database the server would look for one named like the user; a service is a file of the user."""
    with pytest.raises(ArgumentError, match="must contain the database, and its schema") as caught:
        Ledger(address)
    assert caught.value.code == "E139"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://a%40b@db:5432/privacy?sslmode=require",
        "postgresql:///privacy",
        "postgresql://db/privacy?schema=team-a$1&sslmode=require",
    ],
)
def test_addresses_without_a_password_are_taken(address: str) -> None:
    assert address_of(address) == address


def test_two_slashes_are_those_of_a_file(tmp_path: Path) -> None:
    ledger = with_account(f"/{tmp_path}/a?b#c%41.db", LossLimit(rho=1))
    assert ledger.address == f"{tmp_path}/a?b#c%41.db"
    assert "a?b#c%41.db" in os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["who", "period"])
def test_a_number_is_no_text(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"{name} must be a str, got int"):
        Ledger("spent.db").spend("visits", PrivacySpec(rho=1), **{name: 2026})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("system", "is_refused"),
    [
        *((each, True) for each in ("9p", "virtiofs", "orangefs", "fuse.sshfs", "fuse.juicefs", "fuse.grpcfuse")),
        *((each, False) for each in ("ext4", "overlay", "fuseblk", "fuse.ntfs-3g", "fuse.fuse-overlayfs")),
    ],
)
def test_what_may_be_on_another_machine_is_refused(system: str, is_refused: bool) -> None:
    mounts = ["21 1 254:0 / / rw - ext4 /dev/vda rw", f"30 21 0:44 / /mnt/share rw - {system} host rw"]
    if is_refused:
        with pytest.raises(ArgumentError, match=f"is on {system}"):
            refuse_network("/mnt/share/ledger.db", mounts)
    else:
        refuse_network("/mnt/share/ledger.db", mounts)


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("runner", "options", "address", "warns"),
    [
        (FlinkRunner(), [], "/srv/spent.db", True),
        (PortableRunner(), ["--job_endpoint=localhost:8099"], "/srv/spent.db", True),
        ("FnApiRunner", [], "/srv/spent.db", False),
    ],
)
def test_a_file_that_workers_may_not_have_is_warned_of(
    runner: Any, options: list[str], address: str, warns: bool
) -> None:
    privacy = Ledger(address).spend("visits", PrivacySpec(rho=1))
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(options))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        _ = pipeline | beam.Create(["a"]) | PrivateFrequencies(SketchSpec(width=16), privacy, privacy_unit=Record())
    assert any("separate disks" in str(each.message) for each in found) == warns


def test_a_database_is_reached_by_all_workers() -> None:
    pipeline = beam.Pipeline(runner=FlinkRunner())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_reach(pipeline, payer_of("postgresql://ledger@db/privacy", "visits").bill(Loss(), {}, {}))
