"""The table of runners claims only what a test shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLE = (TESTS / "README.md").read_text(encoding="utf-8").split("\n|---|---|---|---|---|\n")[1]
ROWS = [[cell.strip() for cell in row.strip("|").split("|")] for row in TABLE.split("\n\n")[0].splitlines()]
WITHOUT_TEST = {"not run", "does not stream", "one process", "has none"}


def defined_in(folder: Path) -> set[str]:
    """The tests of all files below a folder."""
    sources = (path.read_text(encoding="utf-8") for path in folder.rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.MULTILINE)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_cells_name_tests_that_exist(row: list[str]) -> None:
    _, in_memory, prism, flink, dataflow = row
    of_engines = defined_in(TESTS / "engines")
    for cell, tests in ((in_memory, defined_in(TESTS)), (prism, of_engines), (flink, of_engines)):
        names = re.findall(r"`(\w+)`", cell)
        assert set(names) <= tests
        assert cell == ", ".join(f"`{name}`" for name in names) if names else cell in WITHOUT_TEST
    assert dataflow == "not run"


def test_the_table_has_rows() -> None:
    assert len(ROWS) >= 10
