"""Each recipe runs as it is written, and its answers are near the truth."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas
import pytest

from tests.cli.consoles import run_block
from tests.helpers.pages import PAGES, ROOT, fenced, printed_by

PAGE = PAGES["recipes"]


def recipe(heading: str) -> str:
    return printed_by(fenced(f"## {heading}", PAGE))


def test_visits_of_each_country_and_day_are_counted() -> None:
    """A count has a deviation of 44: 310 are 7 of these, 1 false alarm in 10^11."""
    found = re.findall(r"^(NO|SE) (\S+) Interval\(estimate=([\d.]+),", recipe("Visits per country"), re.MULTILINE)
    times = pandas.date_range("2026-03-28", periods=8_000, freq="31s", tz="UTC").tz_convert("Europe/Oslo")
    exact = pandas.Series(times.strftime("%Y-%m-%d")).value_counts() / 2
    counts = {(country, day): float(count) for country, day, count in found}
    assert counts == pytest.approx({(key, day): exact[day] for key in ("NO", "SE") for day in exact.index}, abs=310)


@pytest.mark.pipeline
def test_each_minute_has_its_largest_queries_as_json() -> None:
    """A count has a deviation below 40: 300 are 7 of these, 1 false alarm in 10^11."""
    rows = [json.loads(line) for line in recipe("Top queries per minute").splitlines()]
    assert [(row["window_start"][11:16], row["item"]) for row in rows] == [
        (minute, item) for minute in ("00:00", "00:01") for item in ("news", "maps")
    ]
    assert [row["estimate"] for row in rows] == pytest.approx([2400, 1200] * 2, abs=300)


def test_margins_of_a_day_are_those_of_the_command() -> None:
    measured = (ROOT / "benchmarks/results/streams/a_day.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+ \w+) \| ([\d,]+ \|.*) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for length, cells in rows:
        (line,) = re.findall(rf"^{length} +(.*?) +- +-$", measured, re.MULTILINE)
        windows, _, *margins = line.split()
        assert cells.replace("|", "").split() == [windows, *margins]
    assert f"{8.45 * 5**0.5:.3g} people" in PAGE


def test_revenue_of_each_month_is_near_the_truth() -> None:
    """A total has a deviation of 2,587: 18,200 are 7 of these, 1 false alarm in 10^11."""
    found = re.findall(r"(book|toy) +(2026-0\d) +([\d.]+)", recipe("Revenue per category"))
    times = pandas.date_range("2026-01-01", periods=9_000, freq="14min", tz="UTC").tz_convert("Europe/Rome")
    sold = pandas.DataFrame({"category": ["book", "toy", "toy"] * 3_000, "month": times.strftime("%Y-%m")})
    sold["euros"] = [5 + i % 41 for i in range(9_000)]
    exact = sold.groupby(["category", "month"])["euros"].sum().to_dict()
    assert {(category, month): float(total) for category, month, total in found} == pytest.approx(exact, abs=18_200)


def check_calls(text: str) -> None:
    """A count has a deviation below 30, a mean one below 0.4: each limit is 7 of these, 1 false alarm in 10^11."""
    found = re.findall(r"(Oslo|Rome) (\d+) ([\d.]+)$", text, re.MULTILINE)
    assert {city for city, *_ in found} == {"Oslo", "Rome"}
    for _, count, mean in found:
        assert float(count) == pytest.approx(10_000, abs=210)
        assert float(mean) == pytest.approx(99.75, abs=3)


def test_the_program_after_gives_the_answers_of_the_page() -> None:
    check_calls(printed_by(fenced("After:", PAGE)))
    check_calls(fenced("<!-- checked by tests/test_recipes.py -->", PAGE))


@pytest.mark.peers
def test_the_program_before_gives_the_same_answers() -> None:
    check_calls(recipe("A PipelineDP program"))


def test_visits_and_people_of_each_city_and_month_are_counted_in_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count has a deviation below 5: 35 are 7 of these, 1 false alarm in 10^11."""
    assert (ROOT / "docs/releases/per_month.yaml").read_text(encoding="utf-8") in PAGE
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    printed = run_block(fenced("## Visits and people per city", PAGE))
    people = re.findall(r"^(Oslo|Rome) +(2024-05) +people +(-?[\d.]+) ", printed, re.MULTILINE)
    week = pandas.read_csv(ROOT / "docs/releases/week.csv").groupby("city")["person"].nunique()
    assert {city: float(count) for city, _, count in people} == pytest.approx(week.to_dict(), abs=35)
    assert len(re.findall(r",(?:Oslo|Rome),2024-05,,visits,", printed, re.MULTILINE)) == 2


def test_a_csv_file_becomes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    assert "to trips.html" in run_block(fenced("## From a CSV file", PAGE))
    page = (tmp_path / "trips.html").read_text(encoding="utf-8")
    assert "Trips" in page
    assert "Oslo" in page


@pytest.mark.pipeline
def test_rows_are_read_out_of_parquet_and_suit_bigquery() -> None:
    """A count has a deviation below 22: 155 are 7 of these, 1 false alarm in 10^11."""
    found = re.findall(r"^\d +(\w+) +(-?[\d.]+) ", recipe("Results to Parquet"), re.MULTILINE)
    assert {item: float(count) for item, count in found} == pytest.approx(
        {"home": 2000, "news": 2000, "help": 0}, abs=155
    )
    columns = re.findall(r'schema="(.*?)"', PAGE)[0]
    assert [each.split(":")[0] for each in columns.split(",")] == ["item", "estimate", "lower", "upper"]
