"""The page about sums, means and variances: its code runs, and prints what it shows."""

from __future__ import annotations

import csv
import re
from collections import defaultdict

import pytest

from tests.cli.consoles import run_block
from tests.helpers.pages import PAGES, ROOT, fenced, printed_by

PAGE = PAGES["means"]
_LINE = re.compile(
    r"^(\w+): mean (?:about ([\d.]+)|cannot tell), from ([\d.]+) to ([\d.]+); "
    r"std (?:about ([\d.]+)|cannot tell), from ([\d.]+) to ([\d.]+); n Interval\(estimate=(-?[\d.]+),",
    re.MULTILINE,
)


def test_a_frame_has_a_mean_for_each_key() -> None:
    """Each limit is 12 deviations of the noise or more: a false alarm in 1 run in 10^20."""
    printed = printed_by(fenced("# Sums", PAGE))
    for text in (printed, fenced("<!-- checked by tests/test_means.py -->", PAGE)):
        found = {key: rest for key, *rest in _LINE.findall(text)}
        assert [*found] == ["Oslo", "Rome", "Bern"]
        for city in ("Oslo", "Rome"):
            mean, _, _, std, _, _, count = (float(each) for each in found[city])
            assert mean == pytest.approx(100, abs=4)
            assert std == pytest.approx(57.4, abs=6)
            assert count == pytest.approx(10_000, abs=500)


def test_closer_clip_bounds_have_less_noise_as_the_page_says() -> None:
    chosen = PAGE.split("## Choose the value range")[1]
    assert printed_by(fenced("`explain(n)`", chosen)) == fenced("<!-- checked by tests/test_means.py -->", chosen)


def test_the_command_of_the_page_releases_means(tmp_path, monkeypatch) -> None:
    """50 minutes of the fewest, 270 visits, are 28 scales of the noise of a sum: a false alarm in 1 run in 10^11."""
    visits = (ROOT / "pipelines" / "yaml" / "visits.csv").read_text(encoding="utf-8")
    delays = defaultdict[str, list[int]](list)
    for row in csv.DictReader(visits.splitlines()):
        delays[row["country"]].append(int(row["delay"]))
    (tmp_path / "visits.csv").write_text(visits)
    (tmp_path / "countries.txt").write_text("NO\nCH\nIT\n")
    monkeypatch.chdir(tmp_path)
    block = fenced("the command ask with", PAGE)
    printed = run_block(block)
    ran, shown = (re.sub("Clipping: .*", "", text).split("\n$ ")[0] for text in (printed, block))  # it is of the noise
    assert ran == shown
    for text in (block, printed):
        found = re.findall(r"^(\w\w) +(-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+)$", text, re.MULTILINE)
        assert {key: float(mean) for key, mean, _, _ in found} == pytest.approx(
            {key: sum(each) / len(each) for key, each in delays.items()}, abs=50
        )
