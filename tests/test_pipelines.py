"""The example pipelines run as a user runs them, on every runner, and say what is true."""

from __future__ import annotations

import csv
import functools
import importlib.util
import re
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.testing.util import assert_that

from beam_dpsketch import AutoNorm, CountSketch, NormBound, PrivacySpec, RecordBounds
from beam_dpsketch.answers.flat import ReleasedCountSketch
from beam_dpsketch.transforms import ReadReleases, read_releases
from pipelines import cancelled_flights, top_destinations
from pipelines.csv_batches import ReadCsvBatches
from pipelines.exact import exact_counts
from pipelines.flights import ReadFlights, airport_codes, data_file, read_table
from pipelines.running import read_release
from tests.helpers.example_runs import AS_USERS, RUNNERS, needs_flights, on_every_runner
from tests.helpers.pipelines import FN_API, ExactCounters, seen_by_sink

pytest.importorskip("matplotlib")
from pipelines import demo

pytestmark = AS_USERS
DESTINATIONS = ["ORD", "ATL", "LAX", "BOS", "MCO", "CLT", "SFO", "FLL"]
UNUSED = ["04G", "06A", "ZZV"]
ORIGINS = ["EWR", "JFK", "LGA"]
AIRCRAFT, FLIGHTS_EACH, WITHOUT_AIRCRAFT = 600, 50, 25


class Flight(NamedTuple):
    year: int
    dep_time: str
    carrier: str
    tailnum: str
    origin: str
    dest: str
    arr_delay: str

    @property
    def flew(self) -> bool:
        return self.dep_time != "NA"


class Sample(NamedTuple):
    """A small file of flights, one of candidates, and what is in them."""

    flights: list[Flight]
    input: str
    candidates: str

    def options(self, output: Path) -> list[str]:
        return [
            f"--input={self.input}",
            f"--candidates={self.candidates}",
            f"--output={output}",
            "--k=3",
            "--epsilon=30",
        ]


def made_up_flights() -> list[Flight]:
    """Each aircraft flies to at most 5 destinations, 10 times to each; 1 flight in 20 is cancelled."""
    random = np.random.default_rng(2013)
    popularity = 1 / np.arange(1, len(DESTINATIONS) + 1)
    flights = []
    for aircraft in range(AIRCRAFT):
        served = random.choice(DESTINATIONS, 5, replace=False, p=popularity / popularity.sum())
        for number in range(FLIGHTS_EACH):
            time = "NA" if random.random() < 0.05 else str(600 + number)
            delay = "NA" if time == "NA" else str(number * 37 % 160 - 40)
            flights.append(
                Flight(2013, time, "UA", f"N{aircraft:03}UA", ORIGINS[number % 3], served[number % 5], delay)
            )
    flights += [
        Flight(2013, "NA", "US", "NA" if row % 2 else "", "EWR", "DCA", "NA") for row in range(WITHOUT_AIRCRAFT)
    ]
    return flights


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("flights")
    flights = made_up_flights()
    with (folder / "flights.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Flight._fields, *flights])
    with zipfile.ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.write(folder / "flights.csv", "flights.csv")
    (folder / "airports.csv").write_text("faa,name\n" + "".join(f"{code},x\n" for code in [*DESTINATIONS, *UNUSED]))
    return Sample(flights, str(folder / "flights.csv"), str(folder / "airports.csv"))


def names_in(printed: str) -> list[str]:
    """The destinations of the printed table, in order."""
    return re.findall(r"^  ([A-Z0-9]{3}) +[\d,-]+ ", printed, flags=re.MULTILINE)


def test_text_and_zip_files_give_the_same_flights_and_na_is_null(sample: Sample) -> None:
    flights = read_table(sample.input)
    assert flights.equals(read_table(sample.input + ".zip"))
    assert flights["tailnum"].null_count == WITHOUT_AIRCRAFT
    assert flights["dep_time"].null_count == sum(not flight.flew for flight in sample.flights)
    assert flights["dest"].to_pylist() == [flight.dest for flight in sample.flights]
    delays = [None if flight.arr_delay == "NA" else int(flight.arr_delay) for flight in sample.flights]
    assert flights["arr_delay"].to_pylist() == delays


def test_flights_may_be_many_files(sample: Sample) -> None:
    rows = seen_by_sink(
        lambda pipeline: pipeline | ReadFlights(sample.input + "*") | beam.Map(len) | beam.CombineGlobally(sum)
    )
    assert rows == [2 * len(sample.flights)]


def test_candidates_are_the_first_column(sample: Sample) -> None:
    assert airport_codes(sample.candidates) == [*DESTINATIONS, *UNUSED]


def test_without_the_data_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'beam_dpsketch\[demo\]'"):
        data_file("flights.csv.zip")


@on_every_runner
def test_top_destinations(runner: str, sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    top_destinations.main([*sample.options(tmp_path / "top"), *RUNNERS[runner]])
    printed = capsys.readouterr().out
    released = read_release(str(tmp_path / "top"))
    assert names_in(printed) == [each.item for each in released.top_k(3, [*DESTINATIONS, *UNUSED])]
    assert "Protects      all records of any one privacy id\n" in printed
    assert "(norm chosen from the data, privately)" in printed
    assert released.privacy.norm_share == AutoNorm().share
    # Noise may choose any norm; what the release should hold follows from the one that it names.
    check_release(tmp_path / "top", exact_counts(read_table(sample.input), released.privacy.bounds).kept)


def test_top_destinations_under_a_given_norm(
    sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top_destinations.main([*sample.options(tmp_path / "top"), "--max_norm=50"])
    printed = capsys.readouterr().out
    truth = Counter(flight.dest for flight in sample.flights if flight.tailnum not in ("NA", ""))
    assert names_in(printed) == [dest for dest, _ in truth.most_common(3)]
    assert "norm chosen from the data" not in printed
    assert check_release(tmp_path / "top", truth) < 30


@pytest.mark.slow
@on_every_runner
def test_cancelled_flights(runner: str, sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cancelled_flights.main([*sample.options(tmp_path / "flown"), "--epsilon=150", *RUNNERS[runner]])
    printed = capsys.readouterr().out
    truth = Counter(flight.dest for flight in left(sample))
    cancelled = sum(not flight.flew for flight in sample.flights)
    assert f"{len(sample.flights):,} flights scheduled, {cancelled:,} of them cancelled" in printed
    assert names_in(printed) == [dest for dest, _ in truth.most_common(3)]
    assert "shown only because this data is public" in printed
    assert "takes 0% of the weight of the flights that are left" in printed
    for name in ("after-deletion", "never-saw"):
        assert check_release(tmp_path / f"flown-{name}", truth) < 20
    # A chi-square of 10,240 is within 10 % of its mean but for less than 1 run in 10^9.
    assert re.search(r"differ by (1\.0|0\.9)\d+ standard deviations", printed)


def left(sample: Sample) -> list[Flight]:
    """The flights that no change takes back."""
    return [flight for flight in sample.flights if flight.flew and flight.origin != "JFK"]


def test_the_change_log_inserts_all_flights_and_deletes_what_is_taken_back(sample: Sample) -> None:
    flights = read_table(sample.input)
    changes = cancelled_flights.change_log(flights, "JFK").to_pylist()
    assert [change["change"] for change in changes[: len(flights)]] == [1] * len(flights)
    sums: Counter[Any] = Counter()
    for change in changes:
        sums[change["tailnum"], change["dest"]] += change["change"]
    assert +sums == Counter((flight.tailnum, flight.dest) for flight in left(sample))
    assert min(sums.values()) == 0


def check_release(prefix: Path, truth: Mapping[str, float]) -> float:
    """The files hold one release, near the truth: 8 sigma, so one false alarm in 10^13 runs. Returns sigma."""
    (released,) = read_releases(f"{prefix}*.dpsketch")
    assert isinstance(released, ReleasedCountSketch)
    items = [*DESTINATIONS, *UNUSED]
    sigma = float(released.privacy.sigma_squared) ** 0.5
    assert np.all(np.abs(released.estimate(items) - [truth.get(item, 0) for item in items]) < 8 * sigma)
    with beam.Pipeline(runner=FN_API) as pipeline:
        assert_that(pipeline | ReadReleases(f"{prefix}*.dpsketch"), is_only(released))
    return sigma


def is_only(expected: Any) -> Any:
    def check(actual: list[Any]) -> None:
        assert actual == [expected]

    return check


def test_releases_of_earlier_runs_are_not_taken_for_this_one(sample: Sample, tmp_path: Path) -> None:
    earlier, made = tmp_path / "top-00000-of-00007.dpsketch", tmp_path / "top-00000-of-00001.dpsketch"
    earlier.write_bytes(b"")
    options = [*sample.options(tmp_path / "top"), "--max_norm=50"]
    with pytest.raises(FileExistsError, match=r"top-00000-of-00007\.dpsketch already exists"):
        top_destinations.main(options)
    top_destinations.main([*options, "--overwrite"])
    assert not earlier.exists()
    earlier.write_bytes(made.read_bytes())
    with pytest.raises(ValueError, match="2 releases in"):
        read_release(str(tmp_path / "top"))


def counted_destinations(pipeline: beam.Pipeline, path: str) -> beam.PCollection:
    flights = pipeline | ReadFlights(path)
    return flights | ExactCounters(top_destinations.count_destinations(PrivacySpec(rho=1), RecordBounds(300)))


def counted_left(pipeline: beam.Pipeline, path: str) -> beam.PCollection:
    changes = pipeline | ReadCsvBatches(path, cancelled_flights.CHANGES)
    return changes | ExactCounters(cancelled_flights.count_left(PrivacySpec(rho=1)))


@pytest.mark.slow
@pytest.mark.parametrize("options", RUNNERS.values(), ids=RUNNERS)
def test_exact_counters_are_the_same_on_every_runner(options: tuple[str, ...], sample: Sample, tmp_path: Path) -> None:
    runner = next((option.split("=")[1] for option in options if option.startswith("--runner=")), FN_API)
    with_aircraft = [flight for flight in sample.flights if flight.tailnum not in ("NA", "")]
    changes = cancelled_flights.change_log(read_table(sample.input), "JFK")
    log = cancelled_flights.write_changes(changes, str(tmp_path / "changes.csv"))
    for build, path, flights, privacy_unit in (
        (counted_destinations, sample.input, with_aircraft, 1),
        (counted_left, log, left(sample), 1 << 16),  # a norm counts in fractions
    ):
        destinations = [flight.dest for flight in flights]
        counters = seen_by_sink(functools.partial(build, path=path), *options, runner=runner)
        exact = CountSketch(top_destinations.SPEC).accumulate(destinations, [privacy_unit] * len(destinations))
        assert counters == [exact.counters.tolist()]


@pytest.mark.slow
def test_demo(sample: Sample, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main([*sample.options(tmp_path), "--epsilon=20"])
    printed = capsys.readouterr().out
    assert f"{len(sample.flights):,} flights of {AIRCRAFT} aircraft, {WITHOUT_AIRCRAFT} without" in printed
    assert len(names_in(printed)) == 3
    assert set(trials(printed)) == {"chosen", *(f"norm {norm}" for norm in demo.FIXED), "300 records"}
    # Aircraft have a length of sqrt(5) 10 flights; of all flights, 25 of 30,025 are without one.
    assert trials(printed)["norm 20"]["dropped"] == pytest.approx(100 - 2_000 / 500**0.5 * 30_000 / 30_025, abs=0.06)
    assert trials(printed)["300 records"]["dropped"] == 0.1
    check_held(printed, AIRCRAFT, len(sample.flights))
    check_who_chose(tmp_path)
    assert "Its privacy statement\nProtects      all records of any one privacy id\n" in printed
    assert "shown only because this data is public" in printed
    assert "no bound may be chosen from it" in printed
    for airport in ORIGINS:
        assert re.search(rf"^  {airport} +exact +bounded +private", printed, flags=re.MULTILINE)
    (cost,) = re.findall(r"All 8 releases of this demo together cost epsilon = ([\d.]+) at delta = 1e-06\.", printed)
    assert 20 < float(cost) <= 8 * 20
    assert f"dpsketch inspect {tmp_path}, or " in printed
    for plot in ("top_destinations.png", "delay_cdf.png"):
        assert (tmp_path / plot).read_bytes().startswith(b"\x89PNG")


def check_who_chose(folder: Path) -> None:
    """The data chose one norm, privately; all other bounds are those that the module names."""
    releases = {name: read_release(str(folder / name.replace(" ", "_"))).privacy for name in demo.BOUNDS}
    assert {name for name, privacy in releases.items() if privacy.norm_share} == {"chosen"}
    del releases["chosen"]
    assert all(privacy.bounds == demo.BOUNDS[name] for name, privacy in releases.items())


def trials(printed: str) -> dict[str, dict[str, float]]:
    """The printed table of bounds."""
    numbers = r" +([\d.]+)% +([\d.]+) +([\d,]+) +([\d,]+) +\+- ([\d,]+)   (?:Gaussian|Laplace)$"
    rows = re.findall(rf"^  (chosen|norm \d+|\d+ records)(?:: ([\d.]+))?{numbers}", printed, flags=re.MULTILINE)
    names = ("norm", "dropped", "f1", "error", "typical error", "half width")
    return {
        bounds: {name: float(each.replace(",", "") or "nan") for name, each in zip(names, row, strict=True)}
        for bounds, *row in rows
    }


def check_held(printed: str, aircraft: float, flights: int) -> None:
    """The noisy counts are near the clipped sums: 3.4 half widths are 6.6 deviations, 1 false alarm in 10^10 runs.

    What the chosen norm drops of all flights is printed in tenths of a per cent.
    """
    kept = flights * (1 - trials(printed)["chosen"]["dropped"] / 100)
    for name, truth, rounded in (("aircraft", aircraft, 1), ("flights kept", kept, flights / 1000)):
        row = re.search(rf"^  {name} +([\d,]+)   ([\d,]+) (?:to [\d,]+|or more)$", printed, flags=re.MULTILINE)
        estimate, lower = (float(each.replace(",", "")) for each in row.groups())
        assert lower < estimate
        assert abs(estimate - truth) < 3.4 * (estimate - lower) + rounded


@needs_flights
@pytest.mark.slow
def test_the_figures_of_the_real_flights() -> None:
    flights = read_table(data_file("flights.csv.zip"))
    cancelled = flights.filter(pc.is_null(flights["dep_time"]))
    assert len(flights) == 336_776
    assert len(cancelled) == 8_255
    assert flights["tailnum"].null_count == cancelled["tailnum"].null_count == 2_512


@needs_flights
@pytest.mark.slow
def test_how_many_of_the_real_top_10_bounding_keeps_on_average() -> None:
    flights = read_table(data_file("flights.csv.zip"))
    counts = {name: exact_counts(flights, bounds) for name, bounds in demo.BOUNDS.items() if name != "chosen"}
    kept = {name: len({*exact.top(10)} & {*exact.top(10, kept=True)}) for name, exact in counts.items()}
    assert kept == {"norm 20": 9, "norm 75": 9, "norm 150": 10, "norm 300": 10, "norm 600": 10, "records": 10}


@needs_flights
@pytest.mark.slow
def test_the_claims_of_the_demo_on_the_real_flights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main([f"--output={tmp_path}"])
    printed = capsys.readouterr().out
    found = trials(printed)
    assert found["norm 20"]["dropped"] == 53.9
    assert found["norm 150"]["dropped"] == 2.4
    # The mean of 10 errors of standard deviation 450 each, and of a bias of 700, is below 3,000 but for less than 1 run
    # in 10^9; those of a low norm are weights taken, not noise.
    assert found["norm 150"]["error"] < 3_000 < 6_000 < found["norm 20"]["error"]
    # The typical error comes from a quantile of noisy counters, so it moves by a few per cent: 150 and 300 are close.
    best = min((f"norm {norm}" for norm in demo.FIXED), key=lambda name: found[name]["typical error"])
    assert best in ("norm 150", "norm 300")
    # Noise may choose any norm. What follows from it: the width, since the choice takes 1/20 of epsilon, and the error,
    # in which 10 deviations would have to be 5 typical ones on average, in less than 1 run in 10^15.
    norm, per_norm = found["chosen"]["norm"], found["300 records"]["half width"] / 300 * 0.96 / 0.91
    assert found["chosen"]["half width"] == pytest.approx(norm * per_norm, rel=0.25)
    assert found["chosen"]["error"] < 5 * found["chosen"]["typical error"]
    of_each = (
        pc.value_counts(read_table(data_file("flights.csv.zip"))["tailnum"].drop_null()).field("counts").to_numpy()
    )
    check_held(printed, len(of_each), 336_776)


def test_kept_records_are_counted_as_they_are_kept_on_average() -> None:
    flights = pa.table({"dest": ["ORD"] * 3 + ["LAX", "LAX"], "tailnum": ["a", "a", "b", "a", None]})
    exact = exact_counts(flights, RecordBounds(2))
    assert exact.flights == {"ORD": 3, "LAX": 2}
    assert exact.kept == pytest.approx({"ORD": 2 * 2 / 3 + 1, "LAX": 2 / 3})
    assert exact_counts(flights).kept == {"ORD": 3, "LAX": 1}
    assert exact_counts(flights, NormBound(1)).kept == pytest.approx({"ORD": 2 / 5**0.5 + 1, "LAX": 1 / 5**0.5})
