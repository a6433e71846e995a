"""One release from every door: under one secret, Python, rows, YAML, the command and a frame give the same bytes.

Equal bytes mean equal exact counters: noise is a function of the secret, of the release id and of what is released.
`tests/engines/test_languages.py` does the same with Java and Go.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from apache_beam.yaml import main as beam_yaml

from beam_dpsketch import read_releases, rows
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli.main import main
from beam_dpsketch.config import read_release
from beam_dpsketch.frames import releasing
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.rows.base import private_transform
from beam_dpsketch.transforms import EnvironmentSecret

RELEASE_ID, VARIABLE = "doors", "DPSKETCH_TEST_SECRET"
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "quantiles": ("PrivateQuantiles", {"domain": {"type": "integer", "low": -120, "high": 1500}}),
    "top_k": ("PrivateTopK", {"domain": {"type": "integer", "low": 0, "high": 99}, "k": 3}),
    "frequencies": ("PrivateFrequencies", {"spec": {"depth": 3, "width": 64}}),
}
UNITS = {
    "norm": {"privacy_id": "person", "norm": {"max_norm": 3}},
    "sampled": {"privacy_id": "person", "records": {"max_records": 2}},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, secrets.token_hex(32))
    people, delays = [f"p{n % 300}" for n in range(2000)], [(n * n) % 97 for n in range(2000)]
    table = pa.table({"person": people, "delay": delays, "city": [f"c{n % 2}" for n in range(2000)]})
    pq.write_table(table, "visits.parquet", row_group_size=300)
    pa.csv.write_csv(table, "visits.csv")
    return tmp_path


def settings(kind: str, privacy_unit: str) -> dict[str, Any]:
    item = "city" if kind == "frequencies" else "delay"
    return {"item": item, "privacy": {"rho": 0.5}, "privacy_unit": UNITS[privacy_unit], **KINDS[kind][1]}


def secret() -> KeyedRandomness:
    private = private_transform(read_release({"kind": "frequencies", **settings("frequencies", "norm")}))
    noise = private.with_idempotent_noise(release_id=RELEASE_ID, secret=EnvironmentSecret(VARIABLE))._idempotent_noise
    assert noise is not None
    return noise.resolve_secret()


def by_python(kind: str, given: dict[str, Any]) -> bytes:
    private = private_transform(read_release({"kind": kind, **given}))
    keyed = private.with_idempotent_noise(release_id=RELEASE_ID, secret=EnvironmentSecret(VARIABLE))
    return by_pipeline(keyed, beam.io.ReadFromParquetBatched("visits.parquet"))


def by_rows(kind: str, given: dict[str, Any]) -> bytes:
    noise = {"release_id": RELEASE_ID, "environment": VARIABLE}
    private = getattr(rows, KINDS[kind][0])(**given, ask="releases", idempotent_noise=noise)
    with beam.Pipeline("FnApiRunner") as pipeline:
        read = pipeline | beam.io.ReadFromParquet("visits.parquet", as_rows=True)
        _ = read | private | rows.WriteReleases(path="out")
    return only("out-*")


def by_yaml(kind: str, given: dict[str, Any], source: str = "ReadParquetBatches") -> bytes:
    name, path = KINDS[kind][0], "file_pattern" if source == "ReadFromParquet" else "path"
    given = {**given, "ask": "releases", "idempotent_noise": {"release_id": RELEASE_ID, "environment": VARIABLE}}
    own = [name, "WriteReleases", *([source] if source == "ReadParquetBatches" else [])]
    steps = [
        {"type": source, "config": {path: "visits.parquet"}},
        {"type": name, "config": given},
        {"type": "WriteReleases", "config": {"path": "out"}},
    ]
    provider = {"type": "python", "config": {}, "transforms": {each: f"beam_dpsketch.rows.{each}" for each in own}}
    text = yaml.safe_dump({"pipeline": {"type": "chain", "transforms": steps}, "providers": [provider]})
    beam_yaml.run(["--yaml_pipeline", text, "--runner=FnApiRunner"])
    return only("out-*")


def by_yaml_of_rows(kind: str, given: dict[str, Any]) -> bytes:
    return by_yaml(kind, given, "ReadFromParquet")


def by_command(kind: str, given: dict[str, Any], file: str = "visits.parquet") -> bytes:
    """The command has no setting for a secret: it draws noise once. The test lends it one."""
    Path("s.json").write_text(json.dumps({"kind": kind, **given}), encoding="utf-8")
    exact = releasing.release_table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releasing, "release_table", lambda table, config: exact(table, config, secret()))
        assert main(["run", file, "--config", "s.json", "--output", "out-1.dpsketch"]) == 0
    return only("out-*")


def by_command_of_csv(kind: str, given: dict[str, Any]) -> bytes:
    return by_command(kind, given, "visits.csv")


def by_frame(kind: str, given: dict[str, Any]) -> bytes:
    config = read_release({"kind": kind, **given})
    released, _ = releasing.release_table(pq.read_table("visits.parquet").to_pandas(), config, secret())
    return released.to_bytes()  # type: ignore[no-any-return]


def by_pipeline(private: Any, source: Any) -> bytes:
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | source | private | rows.files.python.WriteReleases("out")
    return only("out-*")


def only(pattern: str) -> bytes:
    (released,) = read_releases(pattern, ReleasedSketch)
    for path in Path().glob(pattern):
        path.unlink()
    return released.to_bytes()


DOORS = (by_rows, by_yaml, by_yaml_of_rows, by_command, by_command_of_csv, by_frame)


@pytest.mark.pipeline
@pytest.mark.parametrize("privacy_unit", [pytest.param("norm", marks=pytest.mark.slow), "sampled"])
@pytest.mark.parametrize(
    "kind", ["quantiles", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("top_k", "frequencies"))]
)
def test_every_door_gives_one_release(kind: str, privacy_unit: str) -> None:
    given = settings(kind, privacy_unit)
    expected = by_python(kind, given)
    assert [door.__name__ for door in DOORS if door(kind, given) != expected] == []


@pytest.mark.slow
@pytest.mark.pipeline
def test_another_record_or_setting_is_another_release() -> None:
    given = settings("quantiles", "sampled")
    expected = by_frame("quantiles", given)
    assert by_frame("quantiles", {**given, "privacy": {"rho": 0.25}}) != expected
    table = pq.read_table("visits.parquet")
    pq.write_table(table.slice(0, 1999), "visits.parquet")
    assert by_frame("quantiles", settings("quantiles", "norm")) != expected
    assert by_rows("quantiles", settings("quantiles", "norm")) == by_frame("quantiles", settings("quantiles", "norm"))
