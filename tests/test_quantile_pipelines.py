"""The example pipelines of quantiles and of top-K lists without candidates run as a user runs them, and are right."""

from __future__ import annotations

import csv
import ipaddress
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import Interval, TreeSpec
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.transforms import read_releases
from pipelines import delay_quantiles, top_sources
from pipelines.exact import Distribution, exact_delays
from pipelines.flights import data_file, read_table
from pipelines.running import read_keyed_releases
from tests.helpers.example_runs import AS_USERS, RUNNERS, needs_flights, on_every_runner

pytestmark = AS_USERS
AIRCRAFT, FLIGHTS_EACH = 400, 12
ADDRESSES = {"10.0.0.1": 900, "203.0.113.255": 500, "0.0.0.0": 300, "255.255.255.255": 200}
RARE = 50


class Arrival(NamedTuple):
    dest: str
    origin: str
    tailnum: str
    dep_time: str
    arr_delay: int | str


@pytest.fixture(scope="module")
def arrivals() -> list[Arrival]:
    """Aircraft depart from all airports; flights from LGA are later; 1 in 10 has no delay, 1 in 20 no aircraft."""
    random = np.random.default_rng(2013)
    rows = []
    for number in range(AIRCRAFT * FLIGHTS_EACH):
        origin = ("EWR", "JFK", "LGA", "SWF")[number % 4]
        delay = "NA" if number % 10 == 9 else int(random.normal(20 if origin == "LGA" else -5, 15))
        aircraft = ("NA", "")[number % 2] if number % 20 == 7 else f"N{number // FLIGHTS_EACH:03}UA"
        rows.append(Arrival("ORD", origin, aircraft, "900", delay))
    return rows


@pytest.fixture(scope="module")
def flights_file(arrivals: list[Arrival], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("flights") / "flights.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([Arrival._fields, *arrivals])
    return str(path)


def counted_delays(arrivals: list[Arrival], origin: str) -> np.ndarray:
    """The delays that count, sorted."""
    rows = (row for row in arrivals if row.origin == origin and row.arr_delay != "NA" and row.tailnum not in ("NA", ""))
    return np.sort([row.arr_delay for row in rows])


def close(released: ReleasedDyadicCountSketch, delays: np.ndarray) -> None:
    """Ranks within 8 sigma of the truth: of 6 levels, the noise of at most 3 nodes each is in one rank."""
    sigma = float(released.privacy.sigma_squared) ** 0.5
    assert sigma < 2
    values = np.arange(-120, 200, 5)
    true = np.searchsorted(delays, values, side="right")
    assert np.abs(released.rank(values) - true).max() < 8 * 4 * sigma
    assert abs(released.total_weight().estimate - len(delays)) < 8 * 4 * sigma


@on_every_runner
def test_delay_quantiles(
    runner: str, arrivals: list[Arrival], flights_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefix = str(tmp_path / "delays")
    options = [f"--input={flights_file}", f"--output={prefix}", "--epsilon=150", "--max_norm=6"]
    delay_quantiles.main([*options, *RUNNERS[runner]])
    printed = capsys.readouterr().out
    assert re.search(r"Expected rank error \(RMS\)\n  any data +at most about [\d.]+ of 100,000 ", printed)
    assert printed.index("Expected rank error") < printed.index("Arrival delay in minutes")
    assert len(re.findall(r"^ +\d\d%(?: +-?\d+ \(-?\d+ to -?\d+\)){3}$", printed, flags=re.MULTILINE)) == 6
    assert len(re.findall(r"^ +>15 min(?: +[\d.]+% \([\d.]+% to [\d.]+%\)){3}$", printed, flags=re.MULTILINE)) == 1
    assert "Protects      all records of any one privacy id\n" in printed
    assert "an L2 norm of 6 records per privacy id" in printed
    released = read_keyed_releases(prefix, delay_quantiles.AIRPORTS)
    for origin, each in released.items():
        close(each, counted_delays(arrivals, origin))
    check_answers(tmp_path, released)


def check_answers(folder: Path, released: dict[str, ReleasedDyadicCountSketch]) -> None:
    """The answers that the pipeline wrote are those of the releases it wrote."""
    lines = [line for path in folder.glob("delays-answers-*.txt") for line in path.read_text().splitlines()]
    assert len(lines) == 9
    for airport, each in released.items():
        rows = [row for ask in delay_quantiles.IN_PIPELINE for row in ask.answer(each).rows]
        assert {delay_quantiles.in_words({"key": airport, **row}) for row in rows} <= {*lines}


def test_the_share_of_late_flights_is_the_rest() -> None:
    assert delay_quantiles.later(Interval(0.75, 0.5, 1.0)) == Interval(0.25, 0.0, 0.5)


@pytest.mark.slow
def test_releases_of_other_runs_are_not_taken_for_the_keys(flights_file: str, tmp_path: Path) -> None:
    prefix = str(tmp_path / "delays")
    delay_quantiles.main([f"--input={flights_file}", f"--output={prefix}"])
    with pytest.raises(ValueError, match="3 releases in"):
        read_keyed_releases(prefix, ["EWR", "JFK"])


def test_exact_distributions() -> None:
    distribution = Distribution.of(pa.chunked_array([[5, -3], [10, 0]]), np.array([1.0, 2.0, 0.0, 1.0]))
    assert [distribution.quantile(share) for share in (0, 0.5, 0.51, 0.75, 0.76, 1)] == [-3, -3, 0, 0, 5, 5]
    assert distribution.cdf(np.array([-4, -3, 4, 5, 99])).tolist() == [0, 0.5, 0.75, 1, 1]


def test_exact_delays_weigh_flights_as_bounding_does() -> None:
    flights = pa.table(
        {
            "origin": ["JFK"] * 5 + ["LGA"],
            "tailnum": ["a", "a", "b", None, "a", "a"],
            "arr_delay": pa.array([1, 2, 3, 4, None, 5], pa.int64()),
        }
    )
    spec = TreeSpec.for_memory(delay_quantiles.DOMAIN)
    exact = exact_delays(flights, spec, 1)["JFK"]
    together = [121 >> spec.shift(number) == 122 >> spec.shift(number) for number in range(len(spec.levels))]
    assert 0 < sum(together) < len(together)
    # The delays 1 and 2 share a node on some levels; that from LGA is in another tree.
    squared_norm = sum(level.share * (5 if same else 3) for level, same in zip(spec.levels, together, strict=True))
    factor = float(squared_norm) ** -0.5
    assert exact.flights.values.tolist() == [1, 2, 3, 4]
    assert exact.flights.cumulated.tolist() == [1, 2, 3, 4]
    assert exact.kept.values.tolist() == [1, 2, 3]
    assert exact.kept.cumulated.tolist() == pytest.approx([factor, 2 * factor, 2 * factor + 1])


class Log(NamedTuple):
    """One log in three forms: CSV of dotted addresses, CSV and Parquet of integers."""

    dotted: str
    integers: str
    parquet: str


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Frequent addresses, rare ones, and lines without an address; users of 10 lines each."""
    folder = tmp_path_factory.mktemp("log")
    sources: list[str | None] = [address for address, count in ADDRESSES.items() for _ in range(count)]
    sources += [f"192.0.2.{row}" for row in range(RARE)] + [None] * 20
    random = np.random.default_rng(4)
    sources = [sources[place] for place in random.permutation(len(sources))]
    numbers = [None if source is None else int(ipaddress.IPv4Address(source)) for source in sources]
    users = [f"u{row // 10}" for row in range(len(sources))]
    for name, column in (("dotted", sources), ("integers", numbers)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("ip", "user"), *zip(column, users, strict=True)])
    parquet = pa.table({"user": users, "ip": pa.array(numbers, pa.uint32())})
    pq.write_table(parquet, folder / "log.parquet", row_group_size=500)
    return Log(str(folder / "dotted.csv"), str(folder / "integers.csv"), str(folder / "log.parquet"))


def listed(text: str) -> dict[str, int]:
    """The addresses of a list, in order, with their estimates."""
    rows = re.findall(r"^  (\d+\.\d+\.\d+\.\d+) +([\d,]+)   [\d,]+ to [\d,]+$", text, flags=re.MULTILINE)
    return {address: int(count.replace(",", "")) for address, count in rows}


def run_top_sources(path: str, output: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    top_sources.main([f"--input={path}", "--column=ip", f"--output={output}", "--epsilon=20", *options])
    return capsys.readouterr().out


@pytest.mark.one_fast_case
@pytest.mark.parametrize("form", Log._fields)
def test_top_sources_reads_all_forms(form: str, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_top_sources(getattr(log, form), tmp_path / "top", capsys, "--k=4")
    found = listed(printed)
    assert list(found) == list(ADDRESSES)
    assert all(abs(found[address] - count) < 40 for address, count in ADDRESSES.items())
    (written,) = tmp_path.glob("top-list-*.txt")
    assert listed(written.read_text()) == found
    assert "Cut off: addresses of fewer than about" in printed
    assert "Protects      any one record (" in printed
    assert len(read_releases(f"{tmp_path}/top-*.dpsketch")) == 1


@on_every_runner
def test_top_sources_by_user(runner: str, log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--privacy_id=user", "--max_records=10", "--k=2", "--epsilon=150", *RUNNERS[runner]]
    printed = run_top_sources(log.parquet, tmp_path / "top", capsys, *options)
    assert list(listed(printed)) == list(ADDRESSES)[:2]
    assert "Protects      all records of any one privacy id\n" in printed
    assert "not the records dropped by the bounds" in printed


def test_what_does_not_stand_out_is_not_listed(log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Noise fills the list of 10 with a probability below 1e-12: each listed node is one of 44 that stand out."""
    printed = run_top_sources(log.dotted, tmp_path / "top", capsys, "--epsilon=0.005")
    limit = int(re.search(r"fewer than about ([\d,]+) records", printed).group(1).replace(",", ""))
    assert limit > max(ADDRESSES.values())
    assert len(listed(printed)) < 10


@needs_flights
@pytest.mark.slow
def test_delays_of_the_real_flights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delay_quantiles.main([f"--output={tmp_path / 'delays'}"])
    capsys.readouterr()
    flights = read_table(data_file("flights.csv.zip"))
    exact_by_airport = exact_delays(flights, TreeSpec.for_memory(delay_quantiles.DOMAIN), delay_quantiles.MAX_NORM)
    released = read_keyed_releases(str(tmp_path / "delays"), delay_quantiles.AIRPORTS)
    for airport, each in released.items():
        exact = exact_by_airport[airport]
        assert exact.flights.quantile(0.5) in (-6, -5, -4)
        assert abs(exact.kept.cdf(np.array([15])) - exact.flights.cdf(np.array([15]))) < 0.03
        # Ranks are wrong by about 720 of 40,000 at most, shares by 0.018; this is six times that.
        values = np.arange(-60, 180, 5)
        assert np.abs(each.cdf(values) - exact.kept.cdf(values)).max() < 0.11
