"""What the documentation says is so: its code runs, its output is what is printed, its names exist."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import beam_dpsketch
from beam_dpsketch import transforms

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def fenced(after: str) -> str:
    """The first fenced block after a marker."""
    match = re.search(re.escape(after) + r".*?```\w*\n(.*?)```", README, re.DOTALL)
    assert match, after
    return match.group(1)


@pytest.fixture(scope="module")
def printed() -> str:
    code = fenced("<!-- executed by tests/test_documentation.py -->")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    return output.getvalue()


def test_the_quantiles_are_those_of_the_delays():
    code = fenced("## Quantiles")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    delays = sorted((i * i) % 97 - 20 for i in range(20_000))
    printed = re.search(r"^\[(-?\d+), (-?\d+), (-?\d+)\]$", output.getvalue(), re.MULTILINE)
    assert printed
    for share, answer in zip((0.1, 0.5, 0.9), map(int, printed.groups()), strict=True):
        assert abs(answer - delays[int(share * len(delays))]) <= 8
    assert "root mean square" in output.getvalue()


def test_ranges_of_windows_are_estimated_for_one_rho():
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(fenced("## Over time"), "README.md", "exec"), {"__name__": "readme"})
    oslo, lima = map(float, re.findall(r"[\d.]+", output.getvalue().splitlines()[0]))
    assert abs(oslo - 8 * 240) < 150
    assert abs(lima - 8 * 120) < 150
    assert "one record, over the whole declared horizon" in output.getvalue()
    assert "rho = 1 zCDP" in output.getvalue()


def test_the_pipeline_prints_the_largest_cities(printed):
    assert "item='Oslo'" in printed.splitlines()[0]


def test_the_privacy_statement_is_the_one_shown(printed):
    assert fenced("<!-- checked by tests/test_documentation.py -->") in printed


def test_the_pipeline_is_about_fifteen_lines():
    code = fenced("<!-- executed by tests/test_documentation.py -->")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15


def test_names_in_the_readme_table_exist():
    table = README.split("## What there is")[1].split("\nWhich sketch?")[0]
    names = {name.split(".")[0].split("(")[0] for name in re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)}
    names = {part.strip("` ") for name in names for part in name.split(",")}
    missing = [name for name in names if name and not hasattr(beam_dpsketch, name) and not hasattr(transforms, name)]
    assert names
    assert not missing


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert all(link.startswith("https://") or (ROOT / link).exists() for link in links)
