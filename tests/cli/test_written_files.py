"""What pipelines write is what the command reads: keys, windows, and one run that costs rho once."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import NormBound, PrivacyId, PrivacySpec, PublicKeys, SketchSpec, TimeRange
from beam_dpsketch.transforms import PrivateFrequencies, WriteReleases
from tests.cli.consoles import run

HOUR = 3600


def write_releases(prefix: Path) -> None:
    """Release two keys in each of two hours, under one norm."""
    visits = [
        TimestampedValue(beam.Row(person=f"p{i % 50}", city=["Oslo", "Rome"][i % 2], page="a"), HOUR * (i % 2))
        for i in range(400)
    ]
    private = PrivateFrequencies(
        SketchSpec(width=32),
        PrivacySpec(rho=0.25),
        keys=PublicKeys(["Oslo", "Rome"], "city"),
        privacy_unit=PrivacyId("person", NormBound(5)),
        item="page",
        windows=TimeRange(0, 2 * HOUR),
    )
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        _ = pipeline | beam.Create(visits) | beam.WindowInto(FixedWindows(HOUR)) | private | WriteReleases(str(prefix))


@pytest.mark.slow
@pytest.mark.pipeline
def test_releases_of_one_run_cost_rho_once_and_those_of_two_runs_twice(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_releases(tmp_path / name)
    _, printed = run("inspect", str(tmp_path / "first-*"), "--format", "json")
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    windows = ["1970-01-01T00:00:00Z/1970-01-01T01:00:00Z", "1970-01-01T01:00:00Z/1970-01-01T02:00:00Z"]
    assert sorted((row["window"], row["key"]) for row in rows) == [
        (window, key) for window in windows for key in ("Oslo", "Rome")
    ]
    for files, rho in ((tmp_path / "first-*", 0.25), (tmp_path, 0.5)):
        _, printed = run("spent", str(files), "--format", "json")
        spent = json.loads(printed.splitlines()[0])
        assert (spent["rho"], spent["runs"]) == (rho, rho / 0.25)
