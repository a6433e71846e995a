"""The pages show what the commands print."""

from __future__ import annotations

import re

import pytest

from tests.cli.consoles import PAGES, blocks, is_equal, run_block

CASES = [pytest.param(block, id=f"{page.stem}-{number}") for page in PAGES for number, block in enumerate(blocks(page))]


@pytest.mark.parametrize("block", CASES)
@pytest.mark.usefixtures("folder")
def test_the_pages_show_what_the_commands_print(block: str) -> None:
    printed = run_block(block)
    assert is_equal(block, printed), printed


@pytest.mark.usefixtures("folder")
def test_changed_text_and_numbers_are_found() -> None:
    block = next(block for page in PAGES for block in blocks(page) if "--quantile" in block)
    printed = run_block(block)
    assert is_equal(block, printed)
    assert not is_equal(block.replace("estimate", "guess"), printed)
    assert not is_equal("1.25 to 3", "1.26 to 3")
    assert not is_equal("1 to 3.5", "2 to 3.5")


def test_the_page_names_every_command_and_every_option_of_query() -> None:
    page, golden = (page.read_text(encoding="utf-8") for page in (PAGES[0], PAGES[-1]))
    for option in (
        "quantile",
        "rank",
        "range",
        "histogram",
        "cdf",
        "estimate",
        "top",
        "total-weight",
        "records",
        "privacy-units",
    ):
        assert f"--{option}" in page
        assert f"--{option}" in golden
    assert set(re.findall(r"^\$ dpsketch ([\w-]+)", page, re.MULTILINE)) == {
        *("inspect", "query", "plot", "spent", "plan", "check", "run", "expansion-service")
    }
