"""The paper's figures: made at toy size, with the settings of the notebook, and the page is that of its CSV files."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys

import numpy as np
import pytest

from beam_dpsketch import CountMin, CountSketch, IntegerDomain, IPv4Domain, SketchSpec
from beam_dpsketch.exact.hashing import cells
from benchmarks import readings
from benchmarks.paper import __main__ as paper
from benchmarks.paper import demands, departures, frequency, page, plots, prototype, records, spent, theorems
from tests.helpers.raw import raw_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a toy run without a trace."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paper", "--toy", "--out", str(folder)])
        paper.main()
    return folder


def test_every_table_has_seeds_and_the_version(made):
    tables = list(made.rglob("*.csv"))
    assert len(tables) == 9
    for path in tables:
        row = records.read(path)[0]
        assert row["seeds"]
        assert row["version"].startswith("beam-dpsketch ")


def test_figures_and_page_are_written(made):
    assert {path.stem for path in made.rglob("*.png")} == {
        *("frequency_zipf_ARE", "frequency_zipf_F1", "quantiles_zipf", "theorems")
    }
    text = (made / "README.md").read_text(encoding="utf-8")
    for heading in ("Figure 1", "Figure 2", "Theorems", "Privacy", "departs from the paper"):
        assert heading in text
    assert "frequency_trace" not in text
    assert "{" not in text


def test_a_trace_is_measured_where_there_is_one(tmp_path):
    trace = tmp_path / "trace.csv"
    addresses = np.random.default_rng(0).integers(0, 1 << 32, 3000)
    trace.write_text("ip\n" + "\n".join(map(str, addresses)), encoding="utf-8")
    wanted = paper.measurements(paper.TOY, ["frequency"], str(trace), "ip")
    assert set(wanted) == {"frequency_zipf", "frequency_trace"}
    measure, seeds = wanted["frequency_trace"]
    rows = measure()
    assert {row["data_sets"] for row in rows} == {paper.TOY.slices}
    assert "slices" in seeds


def test_own_data_have_their_name_and_no_bars(tmp_path, monkeypatch):
    """Only the trace of the committed page has demands."""
    own = tmp_path / "own.csv"
    own.write_text("ms\n" + "\n".join(map(str, range(3000))), encoding="utf-8")
    for name, expected in (("your data", 1), (records.TRACE, 2)):
        wanted = paper.measurements(paper.TOY, ["quantiles"], str(own), "ms", name)
        tables = {key: [] for key in paper.TABLES} | {table: measure() for table, (measure, _) in wanted.items()}
        subjects = {each.what.split(",")[0] for each in demands.all_demands(tables)}
        assert len(subjects) == expected
        titles = []
        monkeypatch.setattr(plots, "curves", lambda *given, titles=titles: titles.append(given[-1]))
        paper.draw(tmp_path, tables)
        assert titles[-1] == f"{name if expected == 1 else 'IPv4 trace, U = 2^32'}, N = 100,000"


@pytest.mark.parametrize(("options", "words"), [(["--help"], "--trace-name"), ([], "pip install '.[figures]'")])
def test_a_missing_matplotlib_is_named(options, words):
    blocked = (
        "import sys, runpy; sys.modules['matplotlib'] = None; runpy.run_module('benchmarks.paper', None, '__main__')"
    )
    found = subprocess.run([sys.executable, "-c", blocked, *options], capture_output=True, text=True, check=False)
    assert "Traceback" not in found.stderr
    assert words in found.stdout + found.stderr


def test_the_committed_page_is_that_of_the_committed_tables(tmp_path):
    tables = {name: records.read(paper.HERE / "results" / f"{name}.csv") for name in paper.TABLES}
    page.write(tmp_path / "README.md", tables)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == (paper.HERE / "README.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(("data", "words"), [("zipf", "times closer than"), ("trace", "times on IPv4 addresses")])
def test_the_ratios_of_the_page_on_the_paper_are_those_of_the_tables(data, words):
    """Within 5 %, because the noise of a new run is another."""
    said_there = " ".join((paper.HERE.parent.parent / "docs" / "paper.md").read_text(encoding="utf-8").split())
    said = float(re.search(rf"([\d.]+) {words}", said_there).group(1))
    rows = records.read(paper.HERE / "results" / f"quantiles_{data}.csv")
    assert demands.ratio(rows, "paper, 3 rows", "ours, chosen", "1") == pytest.approx(said, rel=0.05)


def test_published_values_are_complete():
    rows = records.read(records.PUBLISHED)
    assert len(rows) == 2 * 2 * 2 * 4 * 5 + 2 * 4 * 6
    rising = records.select(records.published("ARE", "zipf"), sketch="count_min", rho="0.1")
    assert [row["mean"] for row in rising] == [942.2148, 1221.095, 1626.8332, 2224.6494, 3100.2703]
    assert [row["x"] for row in rising] == [frequency.kilobytes(gamma) for gamma in frequency.GAMMAS]


def test_the_notebook_has_the_same_width_at_every_space():
    shapes = [prototype.figure_1(gamma, 0.01, 1.0)[:2] for gamma in frequency.GAMMAS]
    assert shapes == [(7, 100), (7, 100), (8, 100), (9, 100), (10, 100)]


@pytest.mark.parametrize(("domain", "memory"), [(IntegerDomain(0, (1 << 16) - 1), 169_344), (IPv4Domain(), 502_272)])
def test_the_prototype_tree_has_three_rows_of_eight(domain, memory):
    tree = prototype.tree(domain, 0.01, 1.0)
    assert (tree.depth, tree.paper_depth) == (3, 8)
    assert tree.memory(domain) == memory
    assert tree.sigma**2 == pytest.approx(np.log(16) * domain.bits)


def test_sketches_as_written_fit_the_axis():
    for gamma in frequency.GAMMAS:
        room = 1024 * frequency.kilobytes(gamma) / 4
        assert room - 7 < frequency.as_written(gamma, 0).cells <= room + 1


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_colliding_pair_is_found_exactly_if_there_is_one(rows, seed):
    spec = SketchSpec(depth=3, width=8, seed=seed)
    items = np.arange(40, dtype=np.uint64)
    found = [cells.columns_and_signs(items, seed=seed, row=row, width=spec.width) for row in range(rows)]
    columns, signs = (np.array(part) for part in zip(*found, strict=True))
    opposite = {
        (a, b)
        for a, b in itertools.combinations(range(len(items)), 2)
        if np.all(columns[:, a] == columns[:, b]) and np.all(signs[:, a] == -signs[:, b])
    }
    pair = spent.colliding_pair(spec, items, rows)
    assert tuple(sorted(pair)) in opposite if pair else not opposite
    if pair and rows == spec.depth:
        assert spent.squared_distance(CountSketch, spec, pair) == 4 * spec.depth


@pytest.mark.parametrize("kind", [CountMin, CountSketch])
def test_one_row_alone_answers_in_adversarial_data(kind):
    spec = SketchSpec(kind=kind.name, depth=7, width=256, seed=7)
    items, weights = theorems.adversarial(spec, kind)
    raw = kind(spec).accumulate(items, weights)
    assert readings.frequencies(raw, items[:1]) == [1]
    noise = np.zeros(raw.counters.shape)
    noise[1:] = 1000.0
    assert readings.frequencies(raw, items[:1], noise) == [1]
    noise[0] = 5 if kind is CountMin else 5 * cells.columns_and_signs(items[:1], seed=7, row=0, width=256)[1][0]
    assert readings.frequencies(raw, items[:1], noise) == [6]


def test_algorithm_4_counts_the_wrong_nodes():
    counts = np.random.default_rng(0).integers(0, 100, 16)
    for x in range(16):
        assert departures.algorithm_4(counts, x, sibling=1) == counts[:x].sum()
    assert departures.algorithm_4(np.arange(1, 17), 7, sibling=0) == 49


def test_the_share_of_wrong_count_min_answers_is_the_binomial_one():
    """On m equal items an answer is wrong if every row has a collision; 50,000 answers, 6 standard deviations."""
    row = theorems.accuracy_guarantee(seeds=500)[0]
    expected = (1 - (1 - 1 / 100) ** 98) ** 6
    assert row["dimensions"] == "paper"
    assert abs(row["failed"] - expected) < 6 * np.sqrt(expected / 500)


def test_mixed_up_settings_would_be_seen():
    """A re-run at the space of the axis is nowhere near the published curve: the comparison can fail."""
    items, counts = theorems.zipf(0, 100_000)
    published = records.only(records.published("ARE", "zipf"), "mean", sketch="count_min", rho="none", x=9.2103)
    raw = raw_of(CountMin, frequency.as_written(2**-9, 0)).accumulate(items, counts)
    again = raw_of(CountMin, prototype.spec(prototype.figure_1(2**-9, 0.01, None), 0)).accumulate(items, counts)
    errors = [readings.mean_relative_error(readings.frequencies(each, items), counts) for each in (raw, again)]
    assert errors[0] < published / 4
    assert errors[1] == pytest.approx(published, rel=0.06)
