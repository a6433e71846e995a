"""What the documentation says is so: its code runs, its output is what is printed, its names exist."""

import importlib
import json
import math
import operator
import re
from inspect import ismodule
from typing import Any

import pytest

import beam_dpsketch
from beam_dpsketch import explore, plots, transforms
from tests.cli.consoles import run
from tests.helpers.pages import PAGES, README, ROOT, fenced, printed_by

CLIPPING, OVER_TIME, STREAMS, KEYS = (PAGES[name] for name in ("clipping", "continual", "streams", "keys"))


def test_the_quantiles_are_those_of_the_delays():
    output = printed_by(fenced("## In a Beam pipeline", PAGES["quantiles"]))
    usual = [0] * 8 + [20] * 5 + [-5] * 3 + [45] * 2
    delays = sorted((usual + [i % 97] * 2)[i % 20] for i in range(20_000))
    printed = re.search(r"^<Intervals of 3 .*: (-?\d+) \[.*; (-?\d+) \[.*; (-?\d+) \[", output, re.MULTILINE)
    assert printed
    for share, answer in zip((0.1, 0.5, 0.9), map(int, printed.groups()), strict=True):
        assert abs(answer - delays[int(share * len(delays))]) <= 8
    assert "Expected rank error (RMS)" in output
    assert "Expected error of a quantile (RMS)" in output
    # They differ by 1,000 of the 20,000 and more, 15 deviations of a rank.
    assert re.findall(r"(-?\d+): \d+ \[", output) == ["0", "20", "-5"]


def test_quantiles_of_a_table_are_those_of_its_latencies():
    """The median has a deviation below 2 ms, the 95 % point one below 12: each limit is 6 of them or more."""
    output = printed_by(fenced("# Quantiles", PAGES["quantiles"]))
    found = re.findall(r"^(0\.\d+) Interval\(estimate=([\d.]+)", output, re.MULTILINE)
    assert [share for share, _ in found] == ["0.5", "0.95"]
    for (_, value), (exact, limit) in zip(found, ((121.3, 15), (385.9, 80)), strict=True):
        assert abs(float(value) - exact) < limit


def test_the_epsilons_of_the_page_are_those_printed():
    printed = printed_by(fenced("**rho** is the whole", PAGES["privacy_model"]))
    assert fenced("<!-- checked by tests/test_documentation.py -->", PAGES["privacy_model"]) == printed


def test_answers_of_a_dictionary_are_closer():
    """Of the estimate of `word 7`, an error of 60 or of 15 is 9 deviations and more: 1 false alarm in 10^18."""
    output = printed_by(fenced("## Closer answers", PAGES["accuracy"]))
    (_, wide, wide_half), (_, close, half) = frequencies(output)
    assert abs(wide - 10) < 60
    assert abs(close - 10) < 15
    assert half < wide_half


def frequencies(output: str) -> list[tuple[str, float, float]]:
    """The item, the estimate and half the width of the interval, of each frequency that was printed."""
    found = re.findall(r"Frequency\(item='([\w ]+)', estimate=(\S+), lower=(\S+), upper=(\S+)\)", output)
    return [(item, float(estimate), (float(upper) - float(lower)) / 2) for item, estimate, lower, upper in found]


@pytest.mark.slow
def test_a_timeline_answers_about_ranges_and_differences_for_one_rho():
    """3.5 half widths are 6.8 deviations: one of three answers is farther off in less than 1 run in 10^10."""
    output = printed_by(fenced("## In a Beam pipeline", OVER_TIME))
    found = frequencies(output)
    for (item, estimate, half), truth in zip(found, (2880, 1920, 0), strict=True):
        assert item == "Oslo"
        assert abs(estimate - truth) < 3.5 * half < 60
    assert "any one record, over all windows of the horizon" in output
    assert "epsilon = 4.887, delta = 1e-06" in output
    assert "Timeline" not in output


def test_a_timeline_of_the_page_answers_about_people_for_one_rho():
    """14 days have 1,400 rides, two thirds from Oslo. 3.5 half widths are 6.8 deviations, as above."""
    output = printed_by(fenced("# Continual release", OVER_TIME))
    found = frequencies(output)
    for item, estimate, half in found:
        assert item == "Oslo"
        assert abs(estimate - 1400 * 2 / 3) < 3.5 * half < 250
    assert len(found) == 2
    records = re.findall(r"^Interval\(estimate=(\S+), lower=(\S+), upper=(\S+)\)$", output, re.MULTILINE)
    for estimate, lower, upper in (map(float, each) for each in records):
        assert abs(estimate - 1400) < 3.5 * (estimate - lower) < upper
    assert len(records) == 2


@pytest.mark.parametrize("before", ["`explain()` computes where", "## Protect people"])
def test_noise_over_time_is_what_the_page_shows(before):
    page = OVER_TIME[OVER_TIME.index(before) :]
    assert fenced("<!-- checked by tests/test_documentation.py -->", page) == printed_by(fenced(before, page))


@pytest.mark.slow
def test_timelines_of_keys_are_those_that_people_vote_for():
    """Each city is left out in 1 run in 10^10 at most. 3.5 half widths are 6.8 deviations, as above."""
    found = re.findall(r"^(Oslo|Rome) (.*)$", printed_by(fenced("## Keys", OVER_TIME)), re.MULTILINE)
    assert [city for city, _ in found] == ["Oslo", "Rome"]
    for ((_, estimate, half),) in (frequencies(line) for _, line in found):
        assert abs(estimate - 720) < 3.5 * half < 200


def test_a_runner_in_memory_loses_timers():
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    assert printed_by(fenced("### Timers in memory", page)) == "3\n"


def test_each_minute_of_a_stream_has_its_largest_queries():
    """The deviation of a count is below 40: 300 are 7 of these, 1 false alarm in 10^11."""
    rows = [json.loads(line) for line in printed_by(fenced("# Streams", STREAMS)).splitlines()]
    found = {(row["window_start"], row["item"]): row["estimate"] for row in rows}
    minutes = ("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z")
    counts = {"news": 2400, "maps": 1200}
    assert found == pytest.approx({(start, item): counts[item] for start in minutes for item in counts}, abs=300)


def test_the_noise_of_windows_is_what_the_page_shows():
    printed = printed_by(fenced("## What you can have", STREAMS))
    assert fenced("<!-- checked by tests/test_documentation.py -->", STREAMS) == printed


def test_deleted_records_do_not_count():
    """The deviation is below 2: 60 are 30 of these, 1 false alarm in 10^190."""
    (left,) = map(float, re.findall(r"-?[\d.]+", printed_by(fenced("## Deletions", STREAMS))))
    assert abs(left - 600) < 60


def test_a_stream_can_be_tested_in_this_process():
    """500 late elements are dropped, and count where the runner takes the stream for a batch.

    The deviation is below 2: 60 are 30 of these, 1 false alarm in 10^190.
    """
    code = fenced("## Test a stream", STREAMS)
    batch = code.replace(', argv=["--streaming"]', "")
    assert batch != code
    for each, first_hour in ((code, 1000), (batch, 1500)):
        found = sorted(map(float, re.findall(r"-?[\d.]+", printed_by(each))))
        assert len(found) == 2
        assert abs(found[0]) < 60
        assert abs(found[1] - first_hour) < 60


def test_rows_of_a_stream_come_back_out_of_files():
    """A window has about 514 records. 150 are more than 7 deviations of an answer about two windows."""
    available, estimate = printed_by(fenced("Timeline rows of a", STREAMS)).split()
    assert available == "4"
    assert abs(float(estimate) - 2 * 3600 / 7) < 150


def test_daily_counts_of_a_table_are_those_of_its_days():
    """A day has 720 visits to a page. The deviation is below 28, so 200 are 7 of it: 1 false alarm in 10^11."""
    lines = printed_by(fenced("# Windows", PAGES["windows"])).splitlines()
    assert [line.split()[0] for line in lines] == [f"2024-01-0{day}" for day in range(1, 8)]
    assert all(abs(float(line.split()[1]) - 720) < 200 for line in lines)


@pytest.mark.slow
def test_one_norm_covers_sliding_windows():
    lines = printed_by(fenced("## In a Beam pipeline", PAGES["windows"])).splitlines()
    assert len(lines) == 35
    assert {line.split()[-1] for line in lines} == {"1"}


def test_the_statement_for_privacy_officers_is_the_one_shown():
    shown = fenced("<!-- checked by tests/test_documentation.py -->", PAGES["privacy_officers"])
    _, printed = run("inspect", str(ROOT / "docs" / "releases" / "delays.dpsketch"), "--privacy")
    assert f"delays.dpsketch:\n{shown}" in printed


def test_a_plan_says_what_the_page_on_clipping_shows():
    order, norm = (CLIPPING[CLIPPING.index(each) :] for each in ("## L1 or L2", "## Choose `max_norm`"))
    for page in (order, norm):
        assert fenced("<!-- checked by tests/test_documentation.py -->", page) == printed_by(fenced(page[:9], page))


@pytest.mark.slow
def test_the_data_choose_a_norm_and_the_release_says_how_much_is_in_it():
    """A number is more than 6.6 deviations off with a probability below 5e-11; two of them are read."""
    output = printed_by(fenced("* **The data, privately.**", CLIPPING))
    found = re.findall(r"^Interval\(estimate=(\S+), lower=(\S+), upper=(\S+)\)$", output, re.MULTILINE)
    for interval, truth in zip(found, (5_000, 100_000), strict=True):
        estimate, lower, upper = map(float, interval)
        assert abs(estimate - truth) < 3.4 * (estimate - lower)
        assert upper == (math.inf if truth > 5_000 else pytest.approx(2 * estimate - lower, abs=0.1))
    assert "\nClipping: " in output
    assert "norm chosen from the data" in output


@pytest.mark.slow
@pytest.mark.parametrize("before", ["# Compare two releases", "## In a Beam pipeline"])
def test_two_months_are_compared_as_the_page_says(before):
    """Deviations are 38 of a change and 55 of the distance: 7 and more, 1 false alarm in 10^11."""
    output = printed_by(fenced(before, PAGES["compare"]))
    changes = {item: float(change) for item, change in re.findall(r"(\w+): (-?[\d.]+) \[", output)}
    assert changes == pytest.approx({"sale": 1500, "news": -1000, "help": -500}, abs=300)
    estimates = dict(re.findall(r"^(\w+) Interval\(estimate=([\d.]+)", output, re.MULTILINE))
    assert float(estimates["distance"]) == pytest.approx((1500**2 + 1000**2 + 500**2) ** 0.5, abs=400)


@pytest.mark.slow
def test_a_key_that_one_person_brings_in_is_not_released():
    """A rare key is in 1 run in 10^10. The estimates have a deviation below 11, of 900: 100 is 9 of these."""
    code = fenced("## In a Beam pipeline", KEYS)
    found = re.findall(r"^(\w+)\nFrequency\(item='train', estimate=([\d.]+)", printed_by(code), re.MULTILINE)
    assert {city for city, _ in found} == {"Oslo", "Rome"}
    assert all(abs(float(estimate) - 900) < 100 for _, estimate in found)
    taken_from_the_data = code.replace("KeySelection(1e-10, ", "AssumePublicKeys(").replace(
        "KeySelection", "AssumePublicKeys"
    )
    assert "Vardø" in printed_by(taken_from_the_data)


def test_keys_of_several_columns_are_all_countries_and_days():
    printed = printed_by(fenced("## Several columns, and calendar days", KEYS))
    days = [f"2026-03-{day}" for day in (28, 29, 30)]
    assert re.findall(r"^(\w+) (\S+) Frequency", printed, re.M) == [(key, day) for key in ("NO", "SE") for day in days]


def test_keys_of_a_table_are_those_of_many_people():
    """A rare key is in 1 run in 10^8. The estimates have a deviation below 11, of 900: 100 is 9 of these."""
    printed = printed_by(fenced("# Keys", KEYS))
    found = re.findall(r"^(\w+) Frequency\(item='train', estimate=([\d.]+)", printed, re.MULTILINE)
    assert {city for city, _ in found} == {"Oslo", "Rome"}
    assert all(abs(float(estimate) - 900) < 100 for _, estimate in found)


def test_the_people_that_a_key_needs_are_those_the_page_shows():
    printed = printed_by(fenced("## How many people", KEYS))
    assert fenced("<!-- checked by tests/test_documentation.py -->", KEYS) == printed


@pytest.mark.slow
def test_keys_of_a_day_serve_its_hours():
    """The deviation of an estimate is below 14: one of six is 100 off in less than 1 run in 10^11."""
    output = printed_by(fenced("## Windows", KEYS))
    assert "with probability at most 1e-08 (included in delta)" in output
    found = re.findall(r"^(Oslo|Rome) (-?[\d.]+)$", output, re.MULTILINE)
    assert sorted(city for city, _ in found) == ["Oslo"] * 3 + ["Rome"] * 3
    assert all(abs(float(estimate) - 300) < 100 for _, estimate in found)


def test_the_keys_of_pipelinedp_are_those_of_the_benchmark():
    measured = (ROOT / "benchmarks/results/accuracy/key_selection.txt").read_text(encoding="utf-8")
    one, many = (measured.split(f"\nk = {k}, delta of KeySelection 5e-07")[1].split("\nk = ")[0] for k in (1, 16))
    rows = re.findall(r"^\| ([\w ]+) ((?:\| [\d.]+ ){7})\|$", PAGES["from_pipelinedp"], re.MULTILINE)
    assert len(rows) == 5
    for name, cells in rows:
        expected = []
        for section, columns in ((one, (7, 3)), (many, (6, 4, 3))):
            line = re.search(rf"^{name} +([\d. ]+?)(?: +>= .*| +- +-)?$", section, re.MULTILINE).group(1).split()
            expected += [max(line[:2], key=float), *(line[column] for column in columns)]
        assert cells.replace("|", "").split() == expected


def test_what_bounds_take_is_what_the_benchmark_printed():
    """A row of the page has some of the columns of its line: bound, lost, estimate, at least, at most."""
    measured = (ROOT / "benchmarks/results/people/lost.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (flights|web log) \| (n \d+) \| (.*) \|$", CLIPPING, re.MULTILINE)
    assert len(rows) == 5
    for data, bound, cells in rows:
        (line,) = re.findall(rf"^ +{bound} .*$", measured.split(f"\n{data}")[1].split("\n\n")[0], re.MULTILINE)
        shown, printed = iter(cells.replace("|", " ").split()), line.split()
        assert all(cell in printed for cell in shown)


def test_tables_are_released_as_the_page_says():
    """A count has a deviation below 27, a median one below 3 km: each is 7 of them off in 1 run in 10^11."""
    page = printed_by(fenced("# Release pandas", PAGES["tables"]))
    assert abs(float(re.search(r"Oslo: ([\d.,]+) \[", page)[1].replace(",", "")) - 20_000) < 240
    medians = re.findall(r"^(Oslo|Rome) <Intervals of 2 [^:]*: (-?\d+) \[", page, re.MULTILINE)
    assert [city for city, _ in medians] == ["Oslo", "Rome"]
    assert all(abs(int(km) - 44) <= 21 for _, km in medians)
    assert "Oslo: " in printed_by(fenced("A reader is read batch by batch", PAGES["tables"]))
    assert "has already paid for another release" in printed_by(fenced("## Budget", PAGES["tables"]))


@pytest.mark.slow
def test_frequent_phrases_are_counted_and_a_secret_is_hidden():
    """Sigma is 27: a count is 200 off in less than 1 run in 10^12. Half a person of three records stays hidden."""
    output = printed_by(fenced("## In a Beam pipeline", PAGES["top_k"]))
    rows = re.findall(r"(of the|in the|green tea): (\d+) \[", output)
    assert {item: int(count) for item, count in rows} == pytest.approx(
        {"of the": 16_000, "in the": 12_000, "green tea": 4000}, abs=200
    )
    assert "my secret: " not in output
    assert "item='my secret', estimate=nan, lower=0," in output
    assert "Items         released if the noisy count reaches " in output


def test_releases_of_a_stream_are_read_from_files():
    """The noise of a record has a deviation below 3: 60 is far more than 7 of them."""
    found = map(float, printed_by(fenced("## Write and read files", STREAMS)).split())
    assert [*found] == pytest.approx([515, 485], abs=60)


def test_every_block_that_is_said_to_be_executed_can_be():
    for text in (README, *PAGES.values()):
        blocks = re.findall(r"<!-- executed by \S+ -->\n```python\n(.*?)```", text, re.DOTALL)
        assert len(blocks) == text.count("```python")
        for block in blocks:
            compile(block, "documentation", "exec")
    printed_by(fenced("## Replayable noise", STREAMS))


def test_readme_publishes_the_counts_of_its_table():
    """A count has a deviation below 44, and the number of users one below 30: 310 and 210 are 7 of each."""
    marks = (fenced(f"<!-- {mark} by tests/test_documentation.py -->") for mark in ("executed", "checked"))
    code, shown = marks
    exact = {"home": 30_000, "news": 10_000, "help": 10_000, "shop": 0}
    texts = []
    for text in (printed_by(code), shown):
        answers, *lines = text.splitlines()
        found = {item: float(estimate) for item, estimate in re.findall(r"(\w+): (-?[\d.]+) \[", answers)}
        assert found == pytest.approx(exact, abs=310)
        (users,) = re.findall(r"about ([\d,]+) (?:units|privacy ids)", text)
        assert float(users.replace(",", "")) == pytest.approx(5000, abs=210)
        texts.append([re.sub(r"-?[\d,]*\d(?:\.\d+)?", "#", line) for line in lines if "Clipping" not in line])
    assert texts[0] == texts[1]


@pytest.mark.pipeline
def test_the_pipeline_of_readme_finds_its_quantiles():
    """A miss of 8 ms needs a share of 0.95 at 120 ms, which is 6.9 deviations of 0.65 % below the mean there."""
    printed = printed_by(fenced("## In a Beam pipeline"))
    assert [*map(float, re.findall(r"-?[\d.]+", printed))] == pytest.approx([68, 112], abs=8)


def is_found(room: Any, name: str) -> bool:
    """Find a name in a room, or below the package in one of its modules, as `answers.tree.ReleasedRanks`."""
    module, _, last = name.rpartition(".")
    if module and module[0].islower() and importlib.util.find_spec(f"beam_dpsketch.{module}"):
        return hasattr(importlib.import_module(f"beam_dpsketch.{module}"), last)
    try:
        operator.attrgetter(name)(room)
    except AttributeError:
        return name == "beam_dpsketch.rows"
    return True


def test_names_in_the_table_of_all_names_exist():
    table = PAGES["reference"].split("\n## ")[0]
    first = re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)
    names = [name.strip("` .").split("(")[0] for cell in first for name in re.split("`, ?`", cell)]
    rooms = (beam_dpsketch, transforms, plots, explore, transforms.PrivateFrequencies, beam_dpsketch.Frequencies)
    missing = [name for name in names if not any(is_found(room, name) for room in rooms)]
    assert names
    assert not missing


def test_the_index_lists_every_page():
    assert set(re.findall(r"\]\((\w+)\.md\)", PAGES["index"])) == set(PAGES) - {"index"}


def test_linked_files_exist():
    for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        links = re.findall(r"\]\(([^)#]+)\)", text)
        assert [link for link in links if not link.startswith("https://") and not (page.parent / link).exists()] == []


def test_two_labelled_transforms_give_two_releases():
    answers = re.findall(r"-?[\d.]+", printed_by(fenced("## Mistakes and data", PAGES["limits"])))
    for estimate, count in zip(sorted(map(float, answers)), (1000, 2000), strict=True):
        assert abs(estimate - count) < 150


def test_the_version_is_that_of_the_package_and_every_public_name_is_exported():
    assert f'version="{beam_dpsketch.__version__}"' in (ROOT / "setup.py").read_text(encoding="utf-8")
    for module in (beam_dpsketch, transforms):
        public = {name for name, value in vars(module).items() if not name.startswith("_") and not ismodule(value)}
        assert public | {"__version__"} == set(module.__all__) | {"__version__"}


def test_a_runner_in_memory_loses_a_timer_as_the_page_says():
    """Where Beam mends it, this fails: the page and the way around it can then go."""
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    assert printed_by(fenced("### Timers in memory", page)) == "3\n"


def test_a_large_job_is_explained():
    page = (ROOT / "docs" / "runners.md").read_text(encoding="utf-8")
    assert "16,384 shards of privacy ids" in printed_by(fenced("## Large inputs", page))


_BLOCK = re.compile(r"(<!-- executed by (\S+) -->\n)?^```(python|yaml|sh|console|go|java)\n", re.MULTILINE)
_EXECUTED = {
    ("command_line.md", "console"): "cli/consoles.py",
    ("command_line.md", "sh"): "cli/test_pictures_and_plans.py",
    ("java_go.md", "go"): "rows/test_java_and_go.py",
    ("java_go.md", "java"): "rows/test_java_and_go.py",
    ("settings.md", "yaml"): "config/test_documentation.py",
    ("beam_yaml.md", "sh"): "rows/yaml/test_documentation.py",
    ("beam_yaml.md", "yaml"): "rows/yaml/test_documentation.py",
}
"""Pages and languages whose blocks one test takes, all of them; go and java are parts of programs that run."""


def test_every_block_of_code_is_executed_by_a_test():
    pages = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
    for name, text in pages.items():
        for _, test, language in _BLOCK.findall(text):
            path = ROOT / test if test else ROOT / "tests" / _EXECUTED[name, language]
            assert test or name in path.read_text(encoding="utf-8"), (name, language)
            assert path.is_file(), (name, test)
