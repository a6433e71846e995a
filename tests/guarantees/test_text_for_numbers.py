"""Advice that cannot misread text, and settings and options of CSV files where they do not apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from beam_dpsketch import release_frame
from beam_dpsketch.errors import RefusalError
from tests.cli.consoles import run
from tests.helpers.recasts import code_in, recast

SETTINGS: dict[str, Any] = {"kind": "quantiles", "item": "x", "privacy": {"rho": 1}, "unit": "record"}
SETTINGS |= {"domain": {"type": "float", "low": -10, "high": 10, "resolution": 0.5}}


def polars_of(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def said(table: Any, given: dict[str, Any]) -> str:
    with pytest.raises(RefusalError) as caught:
        release_frame(table, given)
    return str(caught.value)


@pytest.mark.parametrize("texts", [["958,57", "1.234,56"], ["1,234.50", "9.50"], ["12,5", "7"]])
@pytest.mark.parametrize(
    "form", [lambda t: t, lambda t: pd.DataFrame({"x": t["x"].to_pylist()}, dtype="string[pyarrow]"), polars_of]
)
def test_the_code_for_a_text_column_never_makes_other_numbers_of_it(
    form: Callable[[pa.Table], Any], texts: list[str]
) -> None:
    """It reads plain numbers and fails on the rest: commas that were left out would make 95857 of 958,57."""
    code = code_in(said(form(pa.table({"x": texts * 9})), SETTINGS))
    assert code is not None
    assert "replace" not in code
    with pytest.raises(Exception):  # noqa: B017, PT011 - each library has its own
        recast(form(pa.table({"x": texts * 9})), "x", code)
    made = recast(form(pa.table({"x": ["12.5", "7"]})), "x", code)["x"]
    assert list(made.to_pylist() if isinstance(made, pa.ChunkedArray) else made) == [12.5, 7]


def test_the_spelling_of_csv_is_refused_for_other_tables() -> None:
    assert "csv: is for CSV files" in said(pa.table({"x": [1.0]}), {**SETTINGS, "csv": {"decimal": ","}})


@pytest.mark.parametrize("option", ["--sep", "--delimiter"])
def test_a_separator_is_told_to_be_a_comma(option: str) -> None:
    code, printed = run("run", "x.csv", option, ";")
    assert code == 2
    assert "commas between columns" in printed
    assert "did you mean" not in printed


@pytest.mark.parametrize(("option", "hint"), [("--hep", "--help"), ("--epsilom", "--epsilon"), ("--zep", None)])
def test_only_an_option_of_nearly_this_name_is_meant(option: str, hint: str | None) -> None:
    printed = run("run", "x.csv", option)[1]
    assert (f"did you mean '{hint}'?" in printed) if hint else ("did you mean" not in printed)
