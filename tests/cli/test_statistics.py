"""The command with sums and means: every command takes a release of numbers, and says where nothing is known."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_dpsketch import read_releases
from beam_dpsketch.answers.statistics import ReleasedStatistics
from tests.cli.consoles import run, write
from tests.helpers.noise import without_noise

DOMAIN = "{type: integer, low: -60, high: 240}"
RUN = ("--kind", "statistics", "--item", "delay", "--domain", DOMAIN, "--rho", "1", "--privacy-unit", "record")
KEYED = ("--key", "city", "--public-keys", "cities.txt")
DELAYS = {"Oslo": [10, 20, 30] * 20, "Rome": [300] * 40}


@pytest.fixture(autouse=True)
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of two cities and one without data, exact but for what clipping does."""
    monkeypatch.chdir(tmp_path)
    without_noise(monkeypatch)
    rows = [f"{city},{delay}" for city, delays in DELAYS.items() for delay in delays]
    Path("delays.csv").write_text("\n".join(["city,delay", *rows]))
    Path("cities.txt").write_text("\n".join([*DELAYS, "Nowhere"]))
    code, printed = run("run", "delays.csv", *RUN, *KEYED, "--variance", "--output", "x.dpsketch")
    assert code == 0, printed


def answers(*asked: str) -> dict[str, dict[str, str]]:
    """The rows of an answer by key, out of CSV without the notes on stderr."""
    code, printed = run("query", "x.dpsketch", *asked, "--format", "csv")
    assert code == 0
    lines = [line for line in printed.splitlines() if not line.startswith("dpsketch: ")]
    return {row["key"]: row for row in csv.DictReader(io.StringIO("\n".join(lines)))}


@pytest.mark.parametrize(
    ("asked", "oslo", "rome"),
    [
        ("count", 60, 40),
        ("total", 1200, 9600),
        ("mean", 20, 240),
        ("variance", 200 / 3, 0),
        ("std", (200 / 3) ** 0.5, 0),
    ],
)
def test_questions_have_options(asked: str, oslo: float, rome: float) -> None:
    """Numbers outside are clipped. A variance has what noise adds to it on average taken out."""
    found = answers(f"--{asked}")
    slack = {"abs": 60} if asked in ("variance", "std") else {"rel": 1e-9}
    assert float(found["Oslo"]["estimate"]) == pytest.approx(oslo, **slack)
    assert float(found["Rome"]["estimate"]) == pytest.approx(rome, **slack)


def test_a_mean_that_is_not_known_is_an_empty_cell_null_or_a_dash() -> None:
    (empty,) = [row for key, row in answers("--mean").items() if key == "Nowhere"]
    assert (empty["estimate"], float(empty["lower"]), float(empty["upper"])) == ("", -60, 240)
    assert "too_few_records" in empty["notes"].split(",")
    _, printed = run("query", "x.dpsketch", "--mean", "--key", "Nowhere", "--format", "json")
    assert json.loads(printed.splitlines()[-1])["estimate"] is None
    _, printed = run("query", "x.dpsketch", "--mean", "--key", "Nowhere")
    assert printed.splitlines()[-2:] == [
        "key      estimate  lower 95 %  upper 95 %",
        "Nowhere         -         -60         240",
    ]
    assert "note: x.dpsketch, key Nowhere: Too few records" in printed


def test_questions_that_it_does_not_answer_are_refused() -> None:
    code, printed = run("query", "x.dpsketch", "--quantile", "0.5", "--key", "Oslo")
    assert (code, "A release of kind statistics does not answer --quantile. Use --" in printed) == (1, True)
    run("run", "delays.csv", *RUN, "--output", "plain.dpsketch")
    code, printed = run("query", "plain.dpsketch", "--std")
    assert (code, "variance is not in this release" in printed) == (1, True)


def test_it_is_shown_written_and_added_up() -> None:
    code, printed = run("inspect", "x.dpsketch", "--privacy")
    assert code == 0
    assert "Oslo     statistics  whole numbers -60 to 240" in printed
    oslo = re.search(r"Oslo .* about ([\d.]+) records \(±", printed)
    assert oslo is not None
    assert abs(float(oslo[1]) - 60) < 7  # sigma is 1
    assert "(unit: the contribution of one record)" in printed
    assert [printed.count(f"\n{heading}  ") for heading in ("Guarantee", "Noise", "Contents")] == [1, 1, 3]
    code, printed = run("inspect", "x.dpsketch", "--privacy", "--key", "Oslo")
    assert (code, printed.count("\nContents  "), "x.dpsketch, key Oslo:" in printed) == (0, 1, True)
    assert run("inspect", "x.dpsketch", "--key", "Paris")[0] == 1
    assert run("inspect", "x.dpsketch", "--output", "x.parquet")[0] == 0
    assert pq.read_table("x.parquet")["kind"].to_pylist() == ["statistics"] * 3
    assert "       3     1    1" in run("spent", "x.dpsketch")[1]


def test_plans_and_rehearsals_know_it() -> None:
    settings = {
        "kind": "statistics",
        "item": "delay",
        "domain": DOMAIN,
        "privacy": {"rho": 1},
        "privacy_unit": "record",
    }
    Path("s.yaml").write_text(json.dumps(settings))
    assert "s.yaml: OK: statistics of delay" in run("check", "s.yaml")[1]
    assert "\n  a mean of 500 records               ±" in run("plan", "--config", "s.yaml", "--records", "500")[1]
    assert (
        json.loads(run("plan", "--config", "s.yaml", "--records", "500", "--format", "json")[1])["kind"] == "statistics"
    )
    code, printed = run("rehearse", "delays.csv", "--config", "s.yaml", "--format", "json")
    assert code == 0
    rows = {row["asked"]: row for row in json.loads(printed.splitlines()[-1])["rows"]}
    assert rows["mean"]["exact"] == pytest.approx((1200 + 40 * 240) / 100)


def test_a_picture_of_one_release_is_refused() -> None:
    pytest.importorskip("matplotlib")
    code, printed = run("plot", "x.dpsketch", "--mean", "--output", "x.svg")
    assert (code, "is not the release of a window. Plots over time require" in printed) == (2, True)


def test_a_picture_over_time_has_windows_of_which_nothing_is_known() -> None:
    pytest.importorskip("matplotlib")
    day = "20240501T{}0000Z-20240501T{}0000Z"
    for hour, key in enumerate(["Oslo", "Nowhere"]):
        stored = dict(read_releases("x.dpsketch", ReleasedStatistics, keyed=True))[key]
        write(Path(f"hour-{day.format(f'{hour:02}', f'{hour + 1:02}')}.dpsketch"), stored)
    code, printed = run("plot", "hour-*.dpsketch", "--mean", "--value-label", "delay, minutes", "--output", "x.svg")
    assert (code, "drew 1 panel(s) to x.svg" in printed) == (0, True)
    assert "delay, minutes" in Path("x.svg").read_text()
