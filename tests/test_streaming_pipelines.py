"""The example pipelines of streams run as a user runs them: windows come out one by one, and are right."""

from __future__ import annotations

import csv
import datetime
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import SketchTimeline
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.transforms import read_releases, window_file
from pipelines.following import appearing
from pipelines.running import IN_MEMORY, REPLAY
from pipelines.schedule import DAWN, DAY, HOUR, ReadDepartures, dawn, read_departures
from tests.helpers.example_runs import AS_USERS, RUNNERS, needs_flights, on_every_runner
from tests.helpers.pipelines import seen_by_sink

pytest.importorskip("matplotlib")
from pipelines import continual_delays, windowed_top_k

pytestmark = AS_USERS
DESTINATIONS = ["ORD", "ATL", "LAX"]
DATE, DAYS = "2013-07-01", 3


class Departure(NamedTuple):
    dest: str
    tailnum: str
    dep_delay: str
    time_hour: str

    @property
    def second(self) -> int:
        return int(datetime.datetime.fromisoformat(self.time_hour.replace("Z", "+00:00")).timestamp())

    @property
    def day(self) -> int:
        return (self.second - dawn(DATE)) // DAY


def made_up_departures() -> list[Departure]:
    """Of each aircraft one departure a day; on the second day there are none; the last of all comes a day too late."""
    random = np.random.default_rng(7)
    rows = []
    for day in (0, 2, 3):
        for aircraft in range(60):
            hour = datetime.datetime(2013, 7, 1 + day, 8 + aircraft % 15).isoformat() + "Z"
            delay = "NA" if aircraft % 10 == 9 else str(int(random.integers(-10, 60)))
            dest = DESTINATIONS[0 if aircraft % 6 < 3 else 1 if aircraft % 6 < 5 else 2]
            rows.append(Departure(dest, f"N{aircraft:03}", delay, hour))
    return [rows[place] for place in random.permutation(len(rows))]


@pytest.fixture(scope="module")
def departures() -> list[Departure]:
    return made_up_departures()


@pytest.fixture(scope="module")
def options(departures: list[Departure], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("departures")
    with (folder / "flights.csv").open("w", newline="") as file:
        csv.writer(file).writerows([Departure._fields, *departures])
    (folder / "airports.csv").write_text("faa\n" + "\n".join([*DESTINATIONS, "04G", "ZZV"]))
    return [f"--input={folder}/flights.csv", f"--start={DATE}", f"--days={DAYS}", "--epsilon=60"]


def path_of(options: list[str]) -> str:
    return options[0].removeprefix("--input=")


class _WithTime(beam.DoFn):
    def process(self, element: object, timestamp: object = beam.DoFn.TimestampParam) -> object:
        yield timestamp.seconds(), element


def rows_of(element: object) -> list[dict]:
    return [element] if isinstance(element, dict) else element.to_pylist()


@pytest.mark.parametrize("runner", [IN_MEMORY, REPLAY])
def test_a_replay_has_the_same_departures_at_the_same_times_as_the_file(
    runner: str, departures: list[Departure], options: list[str]
) -> None:
    start, end = dawn(DATE), dawn(DATE) + DAYS * DAY

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | ReadDepartures(path_of(options), start, end) | beam.ParDo(_WithTime())

    found = seen_by_sink(build, runner=runner)
    rows = [(seconds, row) for seconds, element in found for row in rows_of(element)]
    assert all(seconds == row["second"] for seconds, row in rows)
    expected = Counter((each.dest, each.tailnum, each.second) for each in departures if each.day < DAYS)
    assert Counter((row["dest"], row["tailnum"], row["second"]) for _, row in rows) == expected
    assert len(found) == (30 if runner == REPLAY else len(rows))  # 15 hours on each of two days


def test_no_departure_of_a_day_is_before_dawn() -> None:
    assert dawn("1970-01-01") == DAWN == 8 * HOUR
    assert dawn("2013-07-02") - dawn("2013-07-01") == DAY


def test_departures_are_read_in_the_order_of_their_hours(departures: list[Departure], options: list[str]) -> None:
    seconds = read_departures(path_of(options), 0, 1 << 40)["second"].to_pylist()
    assert seconds == sorted(each.second for each in departures)


@pytest.mark.slow
@on_every_runner
def test_windowed_top_k(
    runner: str, departures: list[Departure], options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates = str(Path(path_of(options)).with_name("airports.csv"))
    prefix = str(tmp_path / "top")
    own = ["--k=2", f"--candidates={candidates}", f"--output={prefix}", *RUNNERS[runner]]
    windowed_top_k.main([*options, *own])
    printed = capsys.readouterr().out
    assert re.findall(r"^released (\d) of 3: ", printed, flags=re.MULTILINE) == ["1", "2", "3"]
    assert "Mon 01 Jul 2013 08:00 UTC, 60 departures" in printed
    assert "Tue 02 Jul 2013 08:00 UTC, 0 departures" in printed
    assert "within one window; not across windows" in printed
    for day in range(DAYS):
        window = dawn(DATE) + day * DAY, dawn(DATE) + (day + 1) * DAY
        (counts,) = read_releases(window_file(f"{prefix}-destinations", *window))
        (tree,) = read_releases(window_file(f"{prefix}-delays", *window))
        of_day = [each for each in departures if each.day == day]
        # The noise has a sigma below 1 on each counter: 10 of it is never exceeded but for 1 run in 10^20.
        true = Counter(each.dest for each in of_day)
        assert np.abs(counts.estimate(DESTINATIONS) - [true[dest] for dest in DESTINATIONS]).max() < 10
        delays = np.array([int(each.dep_delay) for each in of_day if each.dep_delay != "NA"])
        assert all(abs(tree.rank(value) - np.sum(delays <= value)) < 10 for value in (-10, 0, 30, 60))
    assert len(list(tmp_path.iterdir())) == 2 * DAYS


def test_hourly_windows_are_said_to_be_noise(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    candidates = str(Path(path_of(options)).with_name("airports.csv"))
    own = [f"--candidates={candidates}", "--k=2", f"--output={tmp_path / 'top'}", "--epsilon=1", "--days=1"]
    windowed_top_k.main([*options, *own, "--window_hours=6", f"--runner={IN_MEMORY}"])
    printed = capsys.readouterr().out
    assert "All 4 windows of 6 h" in printed
    assert "the lists are mostly noise" in printed


@pytest.mark.parametrize("wrong", [["--window_hours=5"], ["--window_hours=0"], ["--days=0"]])
def test_windows_that_do_not_fill_days_are_refused(wrong: list[str], options: list[str]) -> None:
    with pytest.raises(SystemExit):
        windowed_top_k.main([*options, *wrong])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protect", "mechanism", "epsilon"), [("flight", "binned", 32), ("flight", "tree", 32), ("aircraft", "binned", 62)]
)
def test_continual_delays(
    protect: str,
    mechanism: str,
    epsilon: int,
    departures: list[Departure],
    options: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Counters of an answer have a sigma below 0.9. A rank adds up 4 a level at most: 14 is seven of its deviations."""
    prefix = str(tmp_path / "delays")
    own = [f"--output={prefix}", f"--protect={protect}", f"--mechanism={mechanism}", f"--epsilon={epsilon}"]
    own.append("--norm=2")  # scales nobody: of each aircraft there are two departures
    continual_delays.main([*options, *own])
    printed = capsys.readouterr().out
    assert re.findall(r"^so far, to \d\d Jul 2013 \((\d) of 3\): ", printed, flags=re.MULTILINE) == ["1", "2", "3"]
    assert "over all windows of the horizon" in printed
    assert ("aircraft in each window" in printed) == (protect == "aircraft")
    assert Path(f"{prefix}.png").read_bytes().startswith(b"\x89PNG")
    days = continual_delays.Days(dawn(DATE), DAY, DAYS, mechanism)
    assert len(list(tmp_path.glob("*.dpsketch"))) == DAYS
    timeline = SketchTimeline(read_releases(f"{prefix}-*.dpsketch", TimelineRow), days.horizon)
    assert timeline.available == DAYS
    delays = {
        day: [int(each.dep_delay) for each in departures if each.day == day and each.dep_delay != "NA"]
        for day in range(DAYS)
    }
    exact = continual_delays.Exact(path_of(options), days)
    for first, last in ((0, 0), (0, 1), (0, 2), (1, 2)):
        inside = [delay for day in range(first, last + 1) for delay in delays[day]]
        late = sum(delay > continual_delays.LATE for delay in inside) / len(inside)
        median = sorted(inside)[(len(inside) - 1) // 2]
        assert exact.of(first, last) == (len(inside), median, pytest.approx(late))
        released = timeline.between(first, last)
        assert abs(released.total_weight().estimate - len(inside)) < 14
        assert abs(released.rank(continual_delays.LATE) - (1 - late) * len(inside)) < 14
        line = continual_delays.Line.of(timeline, first, last)
        assert line.late.lower <= line.late.estimate == 1 - released.cdf(continual_delays.LATE) <= line.late.upper


@pytest.mark.slow
def test_over_the_horizon_an_aircraft_can_be_protected_in_a_stream_too(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    continual_delays.main([*options, f"--output={tmp_path}/d", "--protect=aircraft", f"--runner={REPLAY}"])
    printed = capsys.readouterr().out
    assert "Protects      all records of any one privacy id, over all windows of the horizon\n" in printed


@pytest.mark.parametrize(("days", "norm"), [(1, 1), (8, 1), (64, 9), (364, 52)])
def test_the_norm_of_an_aircraft_is_that_of_a_departure_in_every_week(days: int, norm: int) -> None:
    privacy_unit = continual_delays.aircraft(continual_delays.Days(0, DAY, days), None, streamed=False)
    assert privacy_unit.bounds.max_norm == norm


@pytest.mark.parametrize("wrong", [["--days=1"], ["--window_days=0"], ["--days=7", "--window_days=7"]])
def test_a_horizon_of_one_window_is_refused(wrong: list[str], options: list[str]) -> None:
    with pytest.raises(SystemExit):
        continual_delays.main([*options, *wrong])


class _Fails(beam.DoFn):
    def process(self, element: object) -> None:
        raise RuntimeError("the pipeline failed")


@pytest.mark.parametrize("runner", [IN_MEMORY, REPLAY])
def test_who_follows_a_pipeline_sees_its_failure_and_no_files_of_earlier_runs(runner: str, tmp_path: Path) -> None:
    path = tmp_path / "earlier"
    path.write_text("earlier")
    pipeline = beam.Pipeline(runner)
    pipeline | beam.Create([1]) | beam.ParDo(_Fails())
    with pytest.raises(FileExistsError, match=r"earlier exists already; change --output, or add --overwrite"):
        list(appearing(pipeline, [str(path)]))
    assert path.exists()
    with pytest.raises(Exception, match="the pipeline failed"):
        list(appearing(pipeline, [str(path)], overwrite=True))
    assert not path.exists()


@needs_flights
@pytest.mark.slow
def test_a_week_of_the_real_flights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    windowed_top_k.main([f"--output={tmp_path}/top", "--epsilon=60"])
    printed = capsys.readouterr().out
    assert "966 departures" in printed
    found = int(re.search(r"(\d+) of 35 listed airports", printed).group(1))
    assert found >= 22  # 30.4 on average, with a standard deviation of 1.1, over 50 runs; by chance 2 would be
    assert "the lists exceed the noise." in printed


@needs_flights
@pytest.mark.slow
def test_a_year_of_the_real_flights_by_week(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = str(tmp_path / "delays")
    continual_delays.main([f"--output={prefix}", "--protect=aircraft", "--window_days=7", "--days=364"])
    printed = capsys.readouterr().out
    assert "clipped to an L2 norm of 52 records" in printed
    late = float(re.search(r"\(52 of 52\).*late +([\d.]+)%", printed).group(1))
    assert abs(late - 21.6) < 12  # the interval is +- 3.1 at 95 %: more than 7 standard deviations
