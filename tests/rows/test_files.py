"""Rows of releases go to files and come back; Parquet is read as batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet
import pytest

from beam_dpsketch import ConfigError, read_releases, rows
from tests.helpers.plain_rows import HORIZON, KEYED, PRIVACY, UNIT, VISITS, Seen, by_hand, seen, visits

SMALL = {"depth": 3, "width": 16}
PUBLIC = {"public": [4000, 4001], "field": "zip"}


def write(folder: Path) -> dict[str, Seen]:
    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        read = visits(pipeline)
        found = {
            "plain": read | rows.PrivateFrequencies("city", PRIVACY, UNIT, SMALL),
            "keyed": read | rows.PrivateFrequencies("city", PRIVACY, KEYED, SMALL, keys=PUBLIC, encoding="base64"),
            "times": read
            | rows.PrivateContinualFrequencies(
                "city", HORIZON, PRIVACY, {**UNIT, "max_windows": 2}, listed_items=["Oslo"]
            ),
        }
        names = {f"{name} names": each | rows.WriteReleases(f"{folder}/{name}") for name, each in found.items()}
        return {**found, **names}

    return seen(build)


def read(**sources: rows.ReadReleases) -> dict[str, Seen]:
    return seen(lambda pipeline: {name: pipeline | source for name, source in sources.items()})


@pytest.mark.slow
def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    written = write(tmp_path)
    back = read(
        plain=rows.ReadReleases(f"{tmp_path}/plain*"),
        keyed=rows.ReadReleases(f"{tmp_path}/keyed*", key="integer", encoding="base64"),
        times=rows.ReadReleases(f"{tmp_path}/times*", over_time=True),
    )
    for name, found in back.items():
        lost = {} if name != "times" else {"window_start", "window_end"}
        assert {**found.columns} == {each: kind for each, kind in written[name].columns.items() if each not in lost}
        kept = [{each: row[each] for each in found.columns} for row in written[name].rows]
        assert sorted(map(repr, found.rows)) == sorted(map(repr, kept))  # a share that is not told is NaN
        assert written[f"{name} names"].columns == {"path": str}
        assert {row["path"] for row in written[f"{name} names"].rows} == {*map(str, tmp_path.glob(f"{name}*"))}
    assert {row["key"] for row in back["keyed"].rows} == {4000, 4001}
    assert {key for key, _ in read_releases(f"{tmp_path}/keyed*")} == {4000, 4001}


@pytest.mark.slow
def test_files_of_another_form_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    for source, words in (
        (rows.ReadReleases(f"{tmp_path}/keyed*"), "key: is required, because a file contains releases of keys"),
        (
            rows.ReadReleases(f"{tmp_path}/keyed*", key="text"),
            "key: a file contains a release without a key of this type",
        ),
        (
            rows.ReadReleases(f"{tmp_path}/plain*", key="text"),
            "key: a file contains a release without a key of this type",
        ),
        (rows.ReadReleases(f"{tmp_path}/times*"), "path: a file contains timeline rows. Set over_time: true"),
        (
            rows.ReadReleases(f"{tmp_path}/plain*", over_time=True),
            "path: a file contains no timeline rows. Remove over_time",
        ),
    ):
        with pytest.raises(Exception, match=words):
            read(found=source)


@pytest.mark.slow
@pytest.mark.parametrize("sign", "[]*?")
def test_a_path_that_is_a_pattern_is_refused_with_its_setting(sign: str) -> None:
    """As the setting is read, also in Beam YAML; a path to read from may be one."""
    with pytest.raises(ConfigError, match=r"^path: must not contain .* as a pattern .*E724"):
        rows.WriteReleases(f"out/run{sign}1/trips")
    rows.ReadReleases(f"out/run{sign}1/trips")


def test_files_are_not_replaced_without_overwrite(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(FileExistsError):
        write(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["bytes", "base64", "not base64", "not a release"])
def test_releases_are_read_in_both_forms_and_others_are_refused(tmp_path: Path, form: str) -> None:
    private = rows.PrivateFrequencies("city", PRIVACY, UNIT, encoding="base64" if "64" in form else "bytes")
    (row,) = seen(lambda pipeline: {"rows": visits(pipeline) | private})["rows"].rows
    changed = {"not base64": "%sesame", "not a release": b"sesame"}.get(form, row["release"])

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        given = pipeline | beam.Create([by_hand({**row, "release": changed})])
        return {"answers": given | rows.QueryReleases({"items": ["Oslo"]})}

    if form in ("bytes", "base64"):
        ((answer,),) = (found.rows for found in seen(build).values())
        assert answer["release_id"] == row["release_id"]
    else:
        with pytest.raises(Exception, match=r"FormatError|not base 64|release") as caught:
            seen(build)
        assert "sesame" not in str(caught.value)


@pytest.mark.slow
def test_batches_of_parquet_count_like_rows(tmp_path: Path) -> None:
    """Keys may come from the data. Counts are exact up to noise of a deviation below 5: 40 off is 8 of them."""
    columns: dict[str, list[Any]] = {
        name: [getattr(visit, name) for visit in VISITS] for name in ("person", "city", "zip", "delay")
    }
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "visits.parquet")

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        batches = pipeline | rows.ReadParquetBatches(f"{tmp_path}/*.parquet", columns=["person", "city"])
        asked = {"items": ["Oslo"]}
        by_city = {"assume_public": True, "field": "city"}
        return {
            "all": batches | rows.PrivateFrequencies("city", PRIVACY, UNIT, ask=asked),
            "cities": batches | rows.PrivateFrequencies("city", PRIVACY, KEYED, keys=by_city, ask=asked),
        }

    found = seen(build)
    ((estimate,),) = ([row["estimate"] for row in found["all"].rows],)
    assert abs(estimate - 72) < 40
    assert {row["key"] for row in found["cities"].rows} == {"Oslo", "Bern", "Rome"}
    with pytest.raises(Exception, match=r"keys\.field: the schema of the input has no type for keys"):
        seen(
            lambda pipeline: {
                "zip": pipeline
                | rows.ReadParquetBatches(f"{tmp_path}/*.parquet")
                | rows.PrivateFrequencies("city", PRIVACY, KEYED, keys={"assume_public": True, "field": "zip"})
            }
        )
