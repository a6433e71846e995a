"""Every benchmark is run in the same way, and a figure on a page stands in the file that its command has written."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.command import HERE, RESULTS, Command
from benchmarks.table import Bar, Table, mean, spread

ROOT = HERE.parent
PAGES = [ROOT / "README.md", HERE / "README.md", HERE / "scale" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SMALLEST = (
    "accuracy.sums --releases 50",
    "accuracy.thresholded_counts --seeds 1 --draws 1",
    "accuracy.metrics --releases 2",
    "accuracy.rows --seeds 1",
    "accuracy.quantiles --seeds 1",
    "accuracy.two_releases --seeds 1",
    "accuracy.frequencies --seeds 1",
    "accuracy.factors --releases 1",
    "accuracy.tree_fits --seeds 1 --only few_values deleted_points",
    "people cost",
    "speed.throughput kernels answers --repetitions 1 --scale 0.01",
    "speed.selecting --ids 1000 --repetitions 1",
    "speed.factors --repetitions 1",
    "speed.memory --keys 500 --repetitions 1",
    "speed.command_run --records 50000 --repetitions 1",
    "streams.state --sizes 1000 2000",
    "streams.a_day",
)
NUMBER = r"\d[\d,]*(?:\.\d+)?%?"
HEADLINE = re.compile(r"^\| .* \| ([^|]*) \| \[`([\w. -]+)`\]\((.*)\) \|$", re.MULTILINE)


def missing(said: str, file: Path) -> list[str]:
    """The numbers of a text that are not in a file of results."""
    known = set(re.findall(NUMBER, file.read_text(encoding="utf-8")))
    return [number for number in re.findall(NUMBER, said) if number not in known]


def headlines() -> list[tuple[str, str, str]]:
    return HEADLINE.findall((HERE / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("measured", "command", "file"), headlines())
def test_a_headline_is_in_the_file_of_its_command(measured: str, command: str, file: str) -> None:
    assert re.search(r"\d", measured)
    assert file == f"results/{re.sub('[. ]', '/', command)}.txt"
    assert importlib.util.find_spec(f"benchmarks.{command.split()[0]}") is not None
    assert missing(measured, HERE / file) == []


def test_every_file_of_results_has_a_headline_or_is_named_by_its_benchmark() -> None:
    shown = {HERE / file for _, _, file in headlines()}
    others = set(RESULTS.rglob("*.txt")) - shown
    assert others == {RESULTS / "accuracy" / "tree_fits_more_seeds.txt"}
    assert "results/accuracy/tree_fits_more_seeds.txt" in (HERE / "accuracy" / "tree_fits.py").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("command", SMALLEST)
def test_a_benchmark_runs(command: str, tmp_path: Path) -> None:
    name, *options = command.split()
    started = [sys.executable, "-m", f"benchmarks.{name}", *options, "--output", str(tmp_path / "measured")]
    subprocess.run(started, cwd=ROOT, check=True, capture_output=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_that_link_to_results_are_in_them(page: Path) -> None:
    for said, file in re.findall(r"\[([^\]]*)\]\(([^)]*results/[^)]*\.txt)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / file).is_file()
        if "%" not in said and "`" not in said:  # shares and names of commands are not printed
            assert missing(said, page.parent / file) == []


def test_the_errors_over_time_are_those_of_the_benchmark() -> None:
    text = (ROOT / "docs" / "continual.md").read_text(encoding="utf-8").split("[measured](")[1]
    table = text[text.index("| `mechanism") :].split("\n\n")[0]
    assert missing(" ".join(re.findall(r"\d+\.\d\d", table)), RESULTS / "streams" / "continual_error.txt") == []


def test_a_number_that_was_never_printed_is_found(tmp_path: Path) -> None:
    (tmp_path / "measured.txt").write_text("a  1.67 (1.65 to 1.71)  2,503.1")
    assert missing("1.67 to 2,503.1, or 1.6 and 503.1", tmp_path / "measured.txt") == ["1.6", "503.1"]


def test_bars_are_judged_together_or_either(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("Title", ("name", "value"), (10, -8))
    met, missed = Bar(1, "<=", 1), Bar(1.0, ">=", 1.5, " x")
    assert table.row("both", "1", bars=(met, None, missed)) is False
    assert table.row("either", "1", bars=(met, missed), either=True) is True
    assert table.row("none", "1") is True
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["name", "value", "bar", "met"],
        ["both", "1", "<=", "1,", ">=", "1.5", "x", "NO"],
        ["either", "1", "<=", "1,", ">=", "1.5", "x", "yes"],
        ["none", "1", "-", "-"],
    ]
    assert not Bar(1, "<", 1).met
    assert (spread([1, 2, 6]), mean([1, 2, 6], 1)) == ("2 (1 to 6)", "3.0 (1.0 to 6.0)")


def test_a_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(str(HERE / "speed" / "toy.py"), "A toy.", "numpy")
    command.number("--seeds", 3, "data sets")
    known = command.parse_args(["--output", str(tmp_path / "new" / "toy.txt"), "--seeds", "5"])
    with command.writing(known, f"Seeds: {known.seeds}"):
        table = Table(None, ("name",), (10,))
        table.row("slow", bars=[Bar(2, "<=", 1)])
        table.row("quick", bars=[Bar(0, "<=", 1)])
    written = (tmp_path / "new" / "toy.txt").read_text(encoding="utf-8")
    assert written.startswith("Python ")
    assert "Seeds: 5" in written
    assert written.endswith("\nNot met: slow\n")
    assert capsys.readouterr().out == f"{written}written: {tmp_path / 'new' / 'toy.txt'}\n"


def test_a_part_has_a_file_of_its_own_and_failures_leave_the_results(tmp_path: Path) -> None:
    command = Command(str(HERE / "speed" / "toy" / "__main__.py"), "A toy.", "numpy", parts=("one", "two"))
    known = command.parse_args(["two", "--output", str(tmp_path)])
    with command.writing(known, part="two"):
        print("measured")
    with pytest.raises(OverflowError), command.writing(known, part="one"):
        raise OverflowError
    assert [path.name for path in tmp_path.iterdir()] == ["two.txt"]
    with pytest.raises(SystemExit):
        command.parse_args(["three"])
