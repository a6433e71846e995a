"""The codelab runs from the raw log to the page, and its stored answers are near the truth."""

import json
import re
from typing import Any

import pytest

from tests.helpers import notebooks
from tests.helpers.pages import ROOT

CODELAB: dict[str, Any] = json.loads((ROOT / "docs" / "codelab.ipynb").read_text(encoding="utf-8"))
PAGES = {"/": 18_733, "/news": 11_983, "/search": 9_416, "/help": 3_888, "/jobs": 2_331}


@pytest.fixture(scope="module", params=["run", "stored"])
def outputs(request: pytest.FixtureRequest) -> list[str]:
    return notebooks.run(CODELAB) if request.param == "run" else notebooks.stored(CODELAB)


def output_of(code: str, outputs: list[str]) -> str:
    (found,) = (
        output
        for cell, output in zip(notebooks.code_cells(CODELAB), outputs, strict=True)
        if code in "".join(cell["source"])
    )
    return found


def test_published_counts_are_near_the_truth(outputs: list[str]) -> None:
    """A count has a deviation below 122 and clipping below 110: an error of 1,000 is 7 deviations and more."""
    published = output_of("releases = {", outputs)
    counts = re.findall(r" (/\w*): (\d+) \[", published)
    assert {page: int(count) for page, count in counts} == pytest.approx(PAGES, abs=1000)
    days = re.findall(r"^2026-03-\d\d Interval\(estimate=(\d+)", published, re.MULTILINE)
    assert [*map(int, days)] == pytest.approx([9400] * 5, abs=1200)
    assert str(PAGES["/news"]) in output_of("value_counts", outputs)


def test_larger_norms_clip_less_and_add_noise(outputs: list[str]) -> None:
    rows = re.findall(r"clipping ([\d,]+), noise ±(\d+)", output_of("for norm in", outputs))
    clipping, noise = zip(*((int(clipped.replace(",", "")), int(width)) for clipped, width in rows), strict=True)
    assert clipping == (11_589, 2_606, 103, 0)
    assert [*noise] == sorted(noise)
    assert clipping[2] < noise[2]


def test_a_narrow_range_moves_values_and_a_wide_one_keeps_them(outputs: list[str]) -> None:
    """The 0.95 quantile of the narrow range is its end, 200; of the wide one, about 370 ms."""
    narrow, wide = output_of("relative_step", outputs).split("And with")
    assert re.search(r"^0.95 +200 ", narrow, re.MULTILINE)
    assert re.search(r"^0.95 +3\d\d ", wide, re.MULTILINE)


def test_the_ledger_refuses_a_fourth_release(outputs: list[str]) -> None:
    refusal = output_of("except BudgetExceededError", outputs)
    assert refusal.startswith("account 'site' cannot pay for this release.")
    assert refusal.endswith("[dpsketch-E130]\n")


def test_the_first_statement_protects_lines_and_the_last_one_users(outputs: list[str]) -> None:
    assert output_of("read_release(pages)", outputs).startswith("Protects      any one record (a person with")
    statement = output_of("site.html", outputs)
    assert statement.startswith("Protects      all records of any one privacy id")
    assert "epsilon = 1.102, delta = 1e-06" in statement
