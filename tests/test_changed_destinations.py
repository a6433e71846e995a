"""The example pipeline that compares two months runs as a user runs it, and finds what changed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_dpsketch import NormBound
from pipelines.csv_batches import read_csv_table
from pipelines.exact import exact_changes
from pipelines.flights import airport_codes, data_file
from pipelines.running import read_keyed_releases
from tests.helpers.example_runs import AS_USERS, RUNNERS, needs_flights, on_every_runner

pytest.importorskip("matplotlib")
from pipelines import changed_destinations

pytestmark = AS_USERS
BEFORE = {"ORD": 300, "BOS": 240, "LAX": 100, "MIA": 200}
AFTER = {"ORD": 290, "BOS": 60, "LAX": 400, "MIA": 205}
UNUSED = ["04G", "06A"]


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options for a file of flights in three months, each of an aircraft of its own, and for its candidates."""
    folder = tmp_path_factory.mktemp("months")
    flown = [(3, BEFORE), (8, AFTER), (5, AFTER)]
    rows = [(month, dest) for month, counts in flown for dest, count in counts.items() for _ in range(count)]
    with (folder / "flights.csv").open("w", newline="") as file:
        table = [(month, dest, f"N{number}") for number, (month, dest) in enumerate(rows)]
        csv.writer(file).writerows([("month", "dest", "tailnum"), *table, (8, "LAX", "NA"), (8, "XYZ", "N1")])
    (folder / "airports.csv").write_text("faa\n" + "".join(f"{code}\n" for code in [*BEFORE, *UNUSED]))
    of_months = ["--before=3", "--after=8", "--k=2", "--epsilon=8", "--max_norm=1"]
    return [f"--input={folder / 'flights.csv'}", f"--candidates={folder / 'airports.csv'}", *of_months]


@on_every_runner
def test_changed_destinations(
    runner: str, months: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sigma of a change is about 1, so one moves by 8 in less than 1 run in 10^14."""
    prefix = str(tmp_path / "changed")
    changed_destinations.main([*months, f"--output={prefix}", *RUNNERS[runner]])
    printed = capsys.readouterr().out
    rows = re.findall(r"^  (\w{3}) +([+-]\d+)   [+-]\d+ to [+-]\d+$", printed, flags=re.MULTILINE)
    assert [name for name, _ in rows] == ["LAX", "BOS"]
    assert [int(change) for _, change in rows] == pytest.approx([300, -180], abs=8)
    released = read_keyed_releases(prefix, [3, 8])
    apart = released[8].distance(released[3])
    assert apart.estimate == pytest.approx(np.sqrt(300**2 + 180**2 + 10**2 + 5**2), abs=8)
    assert f"distance = {apart.estimate:.4g}, 95 % interval {apart.lower:.4g} to {apart.upper:.4g}" in printed
    assert printed.count("Protects      all records of any one privacy id\n") == 1
    assert released[3].privacy.rho == released[8].privacy.rho == released[8].minus(released[3]).privacy.rho
    lines = [line for path in tmp_path.glob("changed-answers-*.txt") for line in path.read_text().splitlines()]
    assert len(lines) == 3
    assert all(line in printed for line in lines)
    assert Path(f"{prefix}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("wrong", ["--after=3", "--after=13", "--before=0"])
def test_months_must_be_two(wrong: str, months: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        changed_destinations.main([*months, wrong])
    assert "--before and --after must be two months, 1 to 12" in capsys.readouterr().err


def test_exact_changes_weigh_both_months_by_one_norm() -> None:
    flights = pa.table(
        {
            "month": [1, 1, 1, 7, 7, 7, 3],
            "dest": ["ORD", "ORD", "LAX", "ORD", "LAX", "LAX", "LAX"],
            "tailnum": ["a", "a", "b", "a", "b", None, "a"],
        }
    )
    exact = exact_changes(flights, 1, 7, NormBound(1))
    assert exact.flights == {"ORD": -1, "LAX": 1}
    assert exact.kept == pytest.approx({"ORD": -1 / 5**0.5, "LAX": 0})


@needs_flights
@pytest.mark.slow
def test_what_changed_most_is_found_in_the_real_flights(tmp_path: Path) -> None:
    """A change of noise alone is within 8 deviations of 33, and few of 1,458 airports exceed 2: 1 false alarm in 10^9.

    The three largest changes are 285 and more, after scaling.
    """
    changed_destinations.main([f"--output={tmp_path / 'changed'}"])
    released = read_keyed_releases(str(tmp_path / "changed"), [1, 7])
    found = released[7].minus(released[1]).top_k(100)
    assert {"LAX", "SFO", "ORD"} <= {*found.item}
    flights = read_csv_table(data_file("flights.csv.zip"), changed_destinations.COLUMNS)
    flights = flights.filter(pc.is_in(flights["dest"], pa.array(airport_codes())))
    exact = exact_changes(flights, 1, 7, NormBound(changed_destinations.MAX_NORM))
    deviation = float(2 * released[1].privacy.sigma_squared) ** 0.5
    assert deviation == pytest.approx(33, abs=1)
    assert all(abs(change.estimate - exact.kept.get(change.item, 0)) < 8 * deviation for change in found)
