"""The example pipeline of mean delays runs as a user runs it, and tells the means that can be told."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from beam_dpsketch.answers.statistics import ReleasedStatistics
from pipelines import mean_delays
from pipelines.running import read_keyed_releases
from tests.helpers.example_runs import AS_USERS, RUNNERS, needs_flights, on_every_runner

pytestmark = AS_USERS
AIRCRAFT, MEANS = 1000, {"BOS": -8, "ORD": 25}
EMPTY = [f"Q{number:02}" for number in range(20)]
_LINE = re.compile(
    r"^  (\w{3})  +(-?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\) +[\d.]+ \([\d.]+ to [\d.]+\) +(-?[\d.]+|nan)$", re.M
)


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options for a flight of each aircraft to each of two airports, of a list with others that have none."""
    random, folder = np.random.default_rng(7), tmp_path_factory.mktemp("flights")
    rows = [
        (dest, "JFK", f"N{number}", "900", round(random.normal(mean, 10)))
        for number in range(AIRCRAFT)
        for dest, mean in MEANS.items()
    ]
    unused = [("ORD", "JFK", "N1", "NA", "NA"), ("LAX", "JFK", "N2", "900", 5)]
    with (folder / "flights.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("dest", "origin", "tailnum", "dep_time", "arr_delay"), *rows, *unused])
    (folder / "airports.csv").write_text("\n".join(["faa", *MEANS, *EMPTY]))
    files = [f"--input={folder / 'flights.csv'}", f"--candidates={folder / 'airports.csv'}"]
    return [*files, "--epsilon=8", "--max_norm=2"]


@on_every_runner
def test_means_are_those_of_the_flights(
    runner: str, flown: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sum has a deviation below 4 flights of 120 minutes, a count below 5: a mean is 5 off in 1 run in 10^20.

    The mean of an airport without a flight is told in about 1 of 20 releases, and is never among the best two.
    """
    mean_delays.main([*flown, f"--output={tmp_path / 'means'}", *RUNNERS[runner]])
    printed = capsys.readouterr().out
    found = _LINE.findall(printed)
    assert {found[0][0], found[1][0]} == {*MEANS}
    for airport, mean, lower, upper, exact in found[:2]:
        assert float(mean) == pytest.approx(MEANS[airport], abs=5)
        assert float(lower) < float(mean) < float(upper)
        assert float(exact) == pytest.approx(MEANS[airport], abs=3)
    assert printed.index("a mean of 1,000 records") < printed.index("Mean arrival delay in minutes")
    assert re.search(r"^Of 22 airports of the list, \d+ have a mean that can be told; \d+ are shown\.$", printed, re.M)
    released = read_keyed_releases(str(tmp_path / "means"), [*MEANS, *EMPTY])
    assert all(isinstance(each, ReleasedStatistics) for each in released.values())


@needs_flights
@pytest.mark.slow
def test_real_means_are_near_those_of_all_flights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the airports with most flights, noise has a deviation below 1.5 minutes, and bounding takes less than 5.

    So 15 minutes leave 6.6 deviations: one of ten means is farther off in less than 1 run in 10^9.
    """
    mean_delays.main([f"--output={tmp_path / 'means'}"])
    found = _LINE.findall(capsys.readouterr().out)
    assert len(found) == 10
    for _, mean, _, _, exact in found:
        assert float(mean) == pytest.approx(float(exact), abs=15)
