"""Advice that cannot misread text, and settings and options of CSV files where they do not apply."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from beam_dpsketch import release_frame
from beam_dpsketch.errors import RefusalError
from tests.cli.consoles import run
from tests.helpers.recasts import code_in, recast

SETTINGS: dict[str, Any] = {"kind": "quantiles", "item": "x", "privacy": {"rho": 1}, "privacy_unit": "record"}
SETTINGS |= {"domain": {"type": "float", "low": -10, "high": 10, "step": 0.5}}


def polars_of(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


FORMS = [lambda t: t, lambda t: pd.DataFrame({"x": t["x"].to_pylist()}, dtype="string[pyarrow]"), polars_of]


def said(table: Any, given: dict[str, Any]) -> str:
    with pytest.raises(RefusalError) as caught:
        release_frame(table, given)
    return str(caught.value)


MEANT: list[tuple[list[str], list[float] | None]] = [
    (["958,57", "1.234,56"], [958.57, 1234.56]),
    (["1,234.50", "9.50"], [1234.5, 9.5]),
    (["12,5", "7"], [12.5, 7]),
    (["1,234,567", "8,901"], [1234567, 8901]),
    (["1,234", "7"], None),
    (["12,5", "1,234.50"], None),
    (["1.234", "1.234.567"], [1234, 1234567]),
    (["twelve", "7"], None),
    (["1,234.50"] * 600 + ["1.234,50"] * 600, None),
    (["7", "2.0", "2e3"], [7, 2, 2000]),
    (["9.5", " 7"], None),
    (["1\u00a0234,5", "7"], None),
]
"""Text, and what its numbers are; `None` where it may be read in several ways, or in none."""


@pytest.mark.parametrize(("texts", "meant"), MEANT)
@pytest.mark.parametrize("form", FORMS)
def test_the_code_for_a_text_column_never_makes_other_numbers_of_it(
    form: Callable[[pa.Table], Any], texts: list[str], meant: list[float] | None
) -> None:
    """No code is told where commas may be left out or may be points: it would make 95857 of 958,57."""
    table = form(pa.table({"x": texts * 9}))
    words = said(table, SETTINGS)
    assert re.search(
        r"item='x': all of the values cannot be read as numbers \(FloatDomain\). They look like .*9", words
    )
    code = code_in(words)
    assert (code is None) == (meant is None)
    if code is not None:
        made = recast(table, "x", code)["x"]
        assert list(made.to_pylist() if isinstance(made, pa.ChunkedArray) else made) == meant * 9
    assert "--unreadable drop" not in words, "no row would be left"
    assert "Without these rows, no row would count. Nothing was spent." in said(
        table, {**SETTINGS, "unreadable": "drop"}
    )


@pytest.mark.parametrize("texts", [["9.5", "N/A", "7"], ["9.5", "", "3.25"], ["1,234.50", "-", "7"]])
@pytest.mark.parametrize("form", FORMS)
def test_the_code_lets_missing_words_pass(form: Callable[[pa.Table], Any], texts: list[str]) -> None:
    """Of Arrow, which has no such cast, the message says that the column must hold numbers."""
    table = form(pa.table({"x": texts * 9}))
    words = said(table, SETTINGS)
    if isinstance(table, pa.Table):
        assert "Write numbers as 1234.50, in a column of numbers. Nothing was spent." in words
        return
    code = code_in(words)
    assert code is not None
    made = pd.Series(recast(table, "x", code)["x"].to_list())
    assert made.notna().sum() == 2 * 9
    release_frame(recast(table, "x", code), SETTINGS)


@pytest.mark.parametrize("form", FORMS)
def test_the_code_for_days_is_told_where_one_order_fits(form: Callable[[pa.Table], Any]) -> None:
    domain = {"type": "timestamp", "start": "2024-01-01", "end": "2025-01-01", "step": "1d"}
    given = {**SETTINGS, "domain": domain}
    for texts, day in ((["02/01/2024", "31/01/2024"], 31), (["02/01/2024", "01/31/2024"], 31), (["01/02/2024"], None)):
        table = form(pa.table({"x": texts * 9}))
        code = code_in(said(table, given))
        assert (code is None) == (day is None)
        if code is not None:
            days = recast(table, "x", code)["x"]
            assert day in {each.day for each in (days.to_pylist() if isinstance(table, pa.Table) else days)}
            release_frame(recast(table, "x", code), given)


def test_the_spelling_of_csv_is_refused_for_other_tables() -> None:
    assert "csv: is supported only for CSV files" in said(pa.table({"x": [1.0]}), {**SETTINGS, "csv": {"decimal": ","}})


@pytest.mark.parametrize("option", ["--sep", "--delimiter"])
def test_a_separator_is_told_to_be_a_comma(option: str) -> None:
    code, printed = run("run", "x.csv", option, ";")
    assert code == 2
    assert "commas between columns" in printed
    assert "did you mean" not in printed.lower()


@pytest.mark.parametrize(("option", "hint"), [("--hep", "--help"), ("--epsilom", "--epsilon"), ("--zep", None)])
def test_only_an_option_of_nearly_this_name_is_meant(option: str, hint: str | None) -> None:
    printed = run("run", "x.csv", option)[1]
    assert (f"Did you mean '{hint}'?" in printed) if hint else ("did you mean" not in printed.lower())
