"""The example pipelines of Beam YAML run, and so do their own tests."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from beam_dpsketch import read_releases
from pipelines.yaml.make_visits import COUNTRIES, visits
from tests.rows.yaml.running import EXAMPLES, ROOT, VISITS, run, run_tests

COUNTS: dict[str, int] = {}
for _city in visits().column("city").to_pylist():
    COUNTS[_city] = COUNTS.get(_city, 0) + 1


def example(name: str) -> Path:
    return ROOT / "pipelines" / "yaml" / f"{name}.yaml"


def written(folder: Path, prefix: str) -> list[dict[str, Any]]:
    """Return the rows of files of JSON lines."""
    lines = [line for file in folder.glob(f"{prefix}-*-of-*") for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def run_example(name: str, folder: Path) -> None:
    run(example(name), VISITS=str(VISITS), OUT=str(folder))


def test_the_data_are_those_of_the_script() -> None:
    assert pyarrow.parquet.read_table(f"{VISITS}.parquet").equals(visits())
    assert pyarrow.csv.read_csv(f"{VISITS}.csv").equals(visits())
    assert len(EXAMPLES) == 5


@pytest.mark.slow
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_tests_of_each_example_pass(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run_tests(file)


def test_top_cities(tmp_path: Path) -> None:
    """The deviation of a count is below 25: 200 is 8 of them."""
    run_example("top_cities", tmp_path)
    (file,) = tmp_path.glob("top_cities.csv*")
    with file.open() as lines:
        found = list(csv.DictReader(lines))
    assert found[0]["city"] == "Oslo"
    assert [row["place"] for row in found] == [str(place + 1) for place in range(len(found))]
    for row in found:
        assert abs(float(row["visits"]) - COUNTS[row["city"]]) < 200
        assert float(row["epsilon"]) == 2


@pytest.mark.slow
def test_delays_by_country(tmp_path: Path) -> None:
    run_example("delays_by_country", tmp_path)
    found = written(tmp_path, "delays")
    assert {row["country"] for row in found} <= {*COUNTRIES.values()}
    assert {row["day"] for row in found} <= {f"2024-01-0{day}" for day in range(1, 5)}
    assert all(row["upper"] - row["lower"] < 60 and row["rho"] == 1 for row in found)
    assert ("NO", 0.5) in {(row["country"], row["quantile"]) for row in found}


@pytest.mark.slow
def test_one_release(tmp_path: Path) -> None:
    """The file holds the release that was asked; the two shares sum to the budget."""
    run_example("one_release", tmp_path)
    (release,) = read_releases(f"{tmp_path}/delays*")
    quantiles, ranges, cities = (written(tmp_path, name) for name in ("quantiles", "ranges", "cities"))
    ids = {row["release_id"] for row in [*quantiles, *ranges]}
    assert ids == {each.hex() for each in release.privacy.release_ids}
    estimates = [row["estimate"] for row in sorted(quantiles, key=lambda row: row["quantile"])]
    assert (*estimates,) == release.quantile([0.1, 0.5, 0.9]).estimate
    assert sorted(row["range_low"] for row in ranges) == [-30, 0, 30]
    assert {row["item"] for row in cities} == {"Oslo", "Bern", "Rome"}
    assert abs(quantiles[0]["rho"] / cities[0]["rho"] - 3) < 1e-6


@pytest.mark.slow
def test_cities_over_time(tmp_path: Path) -> None:
    """Oslo has about 300 visits a day; the deviation of an answer is below 10."""
    run_example("cities_over_time", tmp_path)
    found = {(row["until"], row["city"]): row["visits"] for row in written(tmp_path, "until")}
    assert abs(found["2024-01-05", "Oslo"] - COUNTS["Oslo"]) < 100
    assert found["2024-01-03", "Oslo"] < found["2024-01-05", "Oslo"]
    assert len(read_releases(f"{tmp_path}/cities*")) == 4


@pytest.mark.slow
def test_chosen_countries(tmp_path: Path) -> None:
    run_example("chosen_countries", tmp_path)
    found = {(row["key"], row["item"]): row["estimate"] for row in written(tmp_path, "chosen")}
    assert abs(found["NO", "Oslo"] - COUNTS["Oslo"]) < 200
    assert {key for key, _ in found} <= {*COUNTRIES.values()}
