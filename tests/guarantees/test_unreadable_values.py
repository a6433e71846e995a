"""Nothing is dropped in silence: every spelling of a number or a time is read, or it is told before anything is spent.

A case is a column in which a third of the values have one spelling, for one role, through one door. Either all rows
count, or the table is refused. Noise is so small that a row is a hundred deviations: a false alarm has a probability
below 1e-20 a case.
"""

from __future__ import annotations

import csv
import datetime
import random
import re
import warnings
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import (
    ConfigError,
    InputWarning,
    LossLimit,
    PrivacyBudget,
    ReleaseSpec,
    Spelling,
    rehearse,
    release_frame,
)
from beam_dpsketch.cli.text import read_lines
from beam_dpsketch.config import read_release
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, RefusalError
from beam_dpsketch.exact.domains import spelling
from beam_dpsketch.exact.domains.spelling import FLOAT, INTEGER, MISSING, TIME
from beam_dpsketch.frames.steps.files import open_files
from tests.cli.consoles import run
from tests.helpers import spellings
from tests.helpers.ledgers import payments, with_account
from tests.helpers.recasts import code_in, recast

ROWS, ODD = 36, 12
_WHEN = {"start": "2020-01-01", "end": "2030-01-01"}
_DOMAINS = {
    "whole": {"type": "integer", "low": -10, "high": 10},
    "real": {"type": "float", "low": -10, "high": 10, "step": 0.5},
    "log": {"type": "log", "low": 1, "high": 10, "relative_step": 0.1},
    "when": {"type": "timestamp", **_WHEN, "step": "100d"},
}


def settings(role: str) -> dict[str, Any]:
    """A release in which column x has this role."""
    every: dict[str, Any] = {"privacy": {"rho": 50}, "privacy_unit": "record", "item": "x"}
    if role == "weight":
        every |= {"item": "y", "weight": "x", "privacy_unit": {"record": {"max_weight": 1}}}
    if role in ("time", "weight"):
        every |= {"kind": "frequencies", "item": "y", "spec": {"depth": 1, "width": 16}}
    else:
        every |= {"kind": "quantiles", "domain": _DOMAINS[role]}
    return every | ({"windows": _WHEN, "time": {"field": "x", "every": "3653d"}} if role == "time" else {})


NUMBERS, TIMES = ("whole", "real", "log", "weight"), ("when", "time")
PLAIN = {"when": "2025-12-31", "time": "2025-12-31", "whole": 7, "real": 7, "log": 7, "weight": 7}


def texts(role: str, odd: str) -> list[str]:
    return [odd if place % 3 == 0 else str(PLAIN[role]) for place in range(ROWS)]


def objects(role: str, odd: str) -> list[Any]:
    """As pandas 2 holds a column that was made of several: text among numbers."""
    return [odd if place % 3 == 0 else PLAIN[role] for place in range(ROWS)]


def arrow(column: list[Any]) -> pa.Table:
    return pa.table({"x": column, "y": ["a"] * ROWS})


def polars(column: list[Any]) -> Any:
    pl = pytest.importorskip("polars")
    return pl.DataFrame({"x": column, "y": ["a"] * ROWS})


def csv_file(folder: Path, role: str, odd: str) -> Path:
    path = folder / "x.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerows([("x", "y"), *((text, "a") for text in texts(role, odd))])
    return path


def of_csv(folder: Path, role: str, odd: str, **more: Any) -> Any:
    path, declared = csv_file(folder, role, odd), read_release({**settings(role), **more})
    return release_frame(open_files([str(path)], declared, lambda _: None, lambda _: None).table, declared)


def of_parquet(folder: Path, role: str, odd: str) -> Any:
    declared = read_release(settings(role))
    pq.write_table(arrow(texts(role, odd)), folder / "x.parquet")
    return release_frame(
        open_files([str(folder / "x.parquet")], declared, lambda _: None, lambda _: None).table, declared
    )


def of_frame(make: Callable[[str, str], Any]) -> Callable[[Path, str, str], Any]:
    return lambda _, role, odd: release_frame(make(role, odd), settings(role))


DOORS: dict[str, Callable[[Path, str, str], Any]] = {
    "csv": of_csv,
    "parquet": of_parquet,
    "objects of pandas": of_frame(
        lambda role, odd: pd.DataFrame({"x": pd.Series(objects(role, odd), dtype=object), "y": "a"})
    ),
    "text of pandas": of_frame(lambda role, odd: pd.DataFrame({"x": texts(role, odd), "y": "a"})),
    "categories": of_frame(lambda role, odd: pd.DataFrame({"x": pd.Categorical(objects(role, odd)), "y": "a"})),
    "Arrow in pandas": of_frame(
        lambda role, odd: pd.DataFrame({"x": pd.array(texts(role, odd), dtype="string[pyarrow]"), "y": "a"})
    ),
    "Arrow": of_frame(lambda role, odd: arrow(texts(role, odd))),
    "dictionary": of_frame(lambda role, odd: arrow(pa.array(texts(role, odd)).dictionary_encode())),
    "view": of_frame(lambda role, odd: arrow(pa.array(texts(role, odd)).cast(pa.string_view()))),
    "Polars": of_frame(lambda role, odd: polars(texts(role, odd))),
}
CASES = [
    (door, role, odd)
    for door in DOORS
    for role in (*NUMBERS, *TIMES)
    for odd in (*spellings.unread(role), *(spellings.PLAIN_TIMES if role in TIMES else spellings.PLAIN))
    if role != "weight" or spellings.PLAIN.get(odd, 1) > 0  # those of 0 and below count as nothing, and are told
]


def records(released: Any) -> float:
    """About how many rows count, in all windows."""
    many = released.values() if isinstance(released, dict) else [released]
    return sum(each.records().estimate for each in many)


def lost(folder: Path, door: str, role: str, odd: str) -> str | None:
    """What is wrong with a case; `None` if all rows count, or the table was refused in words that show no value."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            count = records(DOORS[door](folder, role, odd))
    except RefusalError as error:
        said = str(error)
        is_told = re.search(r"E608\]$|(about 3[05] %|all) .*E618\]$", said) and re.search(r"='x'", said)
        is_shown = len(odd) > 2 and re.search(r"[0-8]", odd) and odd in said
        return None if is_told and not is_shown else f"{door}, {role}, {odd!r}: {said}"
    return None if abs(count - ROWS) < ODD / 2 else f"{door}, {role}, {odd!r}: dropped in silence"


def wrong(folder: Path, cases: Iterable[tuple[str, str, str]]) -> list[str]:
    return [each for case in cases if (each := lost(folder, *case)) is not None]


def test_a_sample_of_spellings_is_read_or_refused_in_every_door(tmp_path: Path) -> None:
    assert len(CASES) > 4000
    assert wrong(tmp_path, random.Random(1).sample(CASES, 120)) == []


@pytest.mark.slow
def test_many_spellings_are_read_or_refused_in_every_door(tmp_path: Path) -> None:
    assert wrong(tmp_path, random.Random(2).sample(CASES, 1500)) == []


@pytest.mark.parametrize("word", ["(", "/", "%"])
def test_a_spelling_that_is_dropped_in_silence_is_found(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault takes such text for a missing value."""
    odd = [text for text in (*spellings.NUMBERS, *spellings.TIME_FORMATS) if word in text]
    known = frozenset({*MISSING, *(text.strip().lower() for text in odd)})
    monkeypatch.setattr("beam_dpsketch.exact.domains.missing.MISSING", known)
    monkeypatch.setattr(spelling, "MISSING", known)
    some = [
        case
        for case in CASES
        if case[0] in ("csv", "objects of pandas") and case[2] in odd and case[1] in ("real", "when")
    ]
    found = wrong(tmp_path, some)
    assert len(found) == len(some)
    assert all("dropped in silence" in each for each in found)


@pytest.mark.parametrize("role", ["whole", "real", "when", "time", "weight"])
def test_missing_words_are_no_mistake_and_stay_values_where_text_is_read(role: str, tmp_path: Path) -> None:
    for word in random.Random(role).sample(spellings.MISSING_WORDS, 10):
        for door in ("csv", "objects of pandas", *(["Arrow", "Polars"] if role in TIMES else [])):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", InputWarning)
                assert abs(records(DOORS[door](tmp_path, role, word)) - (ROWS - ODD)) < ODD / 2, (door, word)
            assert not [each for each in caught if "look like" in str(each.message)], (door, word)
    names = pa.table({"x": ["NA", "null", "-", "n/a"] * 9, "y": ["a"] * ROWS})
    as_text = {"kind": "frequencies", "item": "x", "privacy": {"rho": 50}, "privacy_unit": "record"}
    assert round(release_frame(names, as_text).estimate("NA")) == 9


def test_the_page_lists_the_words() -> None:
    page = (Path(__file__).parents[2] / "docs" / "values.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^-  --  .*$", page, re.MULTILINE)
    assert {word.lower() for word in line.split("  ")} == MISSING - {""}
    assert {word.strip(" \u00a0").lower() for word in spellings.MISSING_WORDS} == MISSING


def test_what_is_declared_is_read_as_what_it_means() -> None:
    for text, ways in spellings.DECLARED.items():
        for thousands, decimal in ways:
            declared = Spelling(thousands, decimal)
            assert declared.parse(text, FLOAT) == spellings.NUMBERS[text], text
            column = pa.array([text, "7", None, f"-{text}"], pa.large_string())
            assert declared.read(column, FLOAT).to_pylist() == [
                spellings.NUMBERS[text],
                7,
                None,
                -spellings.NUMBERS[text],
            ]
            coded = declared.read(column.dictionary_encode(), FLOAT)
            assert coded.to_pylist() == declared.read(column, FLOAT).to_pylist()
    times = [Spelling(date_format=each).parse(text, TIME) for text, each in spellings.TIME_FORMATS.items()]
    days = {micros // 86_400_000_000 for micros in times}
    assert days == {20453}


@pytest.mark.parametrize("text", spellings.NUMBERS)
def test_no_declaration_reads_what_it_does_not_declare(text: str) -> None:
    """A number is read as what it means, or not at all: 12,5 is never 125."""
    for thousands in (None, ",", ".", " ", "'", "_"):
        for decimal in (".", ","):
            if thousands != decimal:
                found = Spelling(thousands, decimal).parse(text, FLOAT)
                ways = [*spellings.DECLARED.get(text, []), *AMBIGUOUS.get(text, [])]
                assert found is None or found == spellings.NUMBERS[text] or (thousands, decimal) in ways, (text, found)


AMBIGUOUS: dict[str, list[tuple[str | None, str]]] = {"1,234": [(mark, ",") for mark in (None, ".", " ", "'", "_")]}
"""What two declarations read as two numbers."""


@pytest.mark.parametrize(
    ("thousands", "decimal", "date_format"), [("12", ".", None), ("5", ".", None), (",", ",", None)]
)
def test_wrong_spellings_are_refused(thousands: str, decimal: str, date_format: str | None) -> None:
    with pytest.raises(ArgumentError, match="thousands must"):
        Spelling(thousands, decimal, date_format)
    with pytest.raises(ArgumentError, match="decimal must be a single separator"):
        Spelling(decimal="")
    with pytest.raises(ArgumentError, match="thousands must be a single separator"):
        Spelling(thousands="")
    with pytest.raises(ArgumentTypeError, match="date_format must be a str"):
        Spelling(date_format=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^csv\.date_format: must be a format such as"):
        read_release({**settings("real"), "csv": {"date_format": "DD/MM/YYYY"}})


DOMAIN = "{type: float, low: 0, high: 2000, step: 0.5}"
OPTIONS = ["--kind", "quantiles", "--item", "x", "--domain", DOMAIN]
OPTIONS += ["--privacy-unit", "record", "--rho", "50", "--output", "x.dpsketch", "--replace"]


def test_the_command_refuses_before_it_spends_and_reads_what_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As run, check and rehearse say it; the message has the option that helps."""
    monkeypatch.chdir(tmp_path)
    csv_file(tmp_path, "real", "1.234,50")
    Path("s.yaml").write_text(
        f"{{kind: quantiles, item: x, domain: {DOMAIN}, privacy_unit: record, privacy: {{rho: 1}}}}"
    )
    words = "item='x': about 35 % of the values cannot be read as numbers (FloatDomain). They look like "
    words += "9.999,99. Write numbers as 1234.50, or declare --thousands . --decimal ,. "
    words += "To drop these rows, set unreadable: drop (in a shell: --unreadable drop)."
    from_file = ["--config", "s.yaml"]
    for line in (
        ["run", "x.csv", *OPTIONS],
        ["check", "s.yaml", "--against", "x.csv"],
        ["rehearse", "x.csv", *from_file],
    ):
        code, printed = run(*line)
        assert (code, words in printed) == (2, True), printed
        assert "1.234" not in printed
    assert not Path("x.dpsketch").exists()
    code, printed = run("run", "x.csv", *OPTIONS, "--thousands", ".", "--decimal", ",")
    assert (code, "look like" in printed) == (0, False)
    _, printed = run("query", "x.dpsketch", "--quantile", "0.9", "--format", "csv")
    assert ",1234.5," in printed
    code, printed = run("run", "x.csv", *OPTIONS, "--unreadable", "drop")
    assert (code, printed.count("They look like 9.999,99")) == (0, 1)
    assert "These rows do not count." in printed


def test_nothing_is_paid_for_a_table_that_is_refused(tmp_path: Path) -> None:
    bad, good = (
        pd.DataFrame({"x": pd.Series(objects("real", odd), dtype=object), "y": "a"}) for odd in ("1,234", "n/a")
    )
    budget = PrivacyBudget(rho=1)
    declared = read_release(settings("real"))
    of_budget = ReleaseSpec(declared.count, budget.spend(rho=1), declared.privacy_unit, item="x")
    with pytest.raises(ArgumentError, match="Nothing was spent"):
        release_frame(bad, of_budget)
    assert abs(records(release_frame(good, of_budget)) - 24) < 24
    with pytest.raises(ValueError, match="has already paid for another release"):
        release_frame(good, of_budget)
    ledger = with_account(tmp_path / "spent.db", LossLimit(rho=1), privacy_unit="record")
    pays = {"privacy": {"rho": 1, "ledger": str(tmp_path / "spent.db"), "account": "visits"}}
    with pytest.raises(ArgumentError, match="Nothing was spent"):
        release_frame(bad, {**settings("real"), **pays})
    assert payments(ledger) == []
    release_frame(good, {**settings("real"), **pays})
    assert len(payments(ledger)) == 1


def test_nothing_is_paid_for_a_norm_that_the_data_choose_either(tmp_path: Path) -> None:
    """It has noise of its own, which is drawn before the rest."""
    ledger = with_account(tmp_path / "spent.db", LossLimit(rho=1))
    pays = {"privacy": {"rho": 1, "ledger": str(tmp_path / "spent.db"), "account": "visits"}}
    table = pd.DataFrame({"x": pd.Series(objects("real", "1,234"), dtype=object), "y": "a"})
    with pytest.raises(ArgumentError, match="Nothing was spent"):
        release_frame(table, {**settings("real"), **pays, "privacy_unit": {"privacy_id": "y", "norm": "auto"}})
    assert payments(ledger) == []


SHARES = {1: "under 1 %", 10: "under 1 %", 11: "over 1 %", 24: "over 1 %", 26: "about 5 %", 340: "about 35 %"}
SHARES |= {999: "over 95 %", 1000: "all"}


@pytest.mark.parametrize(("odd", "share"), SHARES.items())
def test_shares_are_rounded_and_above_one_per_cent_refused(odd: int, share: str) -> None:
    """Missing values are in no share."""
    column = pd.Series(["9,9"] * odd + [7] * (1000 - odd) + [None, "n/a", float("nan")] * 500, dtype=object)
    table = pd.DataFrame({"x": column, "y": "a"})
    words = f"item='x': {share} of the values cannot be read as numbers (FloatDomain). They look like 9,9. "
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        if share == "under 1 %":
            release_frame(table, settings("real"))
        else:
            with pytest.raises(ArgumentError, match=re.escape(words)):
                release_frame(table, settings("real"))
            with pytest.raises(ArgumentError, match=re.escape(words)):
                rehearse(table, settings("real"))
            assert not [each for each in caught if words in str(each.message)]
            if share == "all":
                with pytest.raises(ArgumentError, match="Without these rows, no row would count"):
                    release_frame(table, {**settings("real"), "unreadable": "drop"})
                return
            release_frame(table, {**settings("real"), "unreadable": "drop"})
    assert [
        str(each.message).endswith("These rows do not count.") for each in caught if words in str(each.message)
    ] == [True]


FIXES = [
    (
        "objects of pandas",
        "real",
        "1,234.50",
        'pd.to_numeric(df["x"].map(str, na_action="ignore").str.replace(",", ""))',
    ),
    ("text of pandas", "real", "1.234,50", 'pd.to_numeric(df["x"].str.replace(".", "").str.replace(",", "."))'),
    ("objects of pandas", "whole", "12,5", 'str.replace(",", ".")'),
    ("objects of pandas", "when", "31/12/2025", 'pd.to_datetime(df["x"], format="%d/%m/%Y")'),
    ("Polars", "real", "1,234.50", 'pl.col("x").str.replace_all(",", "", literal=True).cast(pl.Float64)'),
    ("Polars", "time", "31/12/2025", 'pl.col("x").str.to_datetime("%d/%m/%Y")'),
    ("Arrow", "real", "1,234,567", 'pc.cast(pc.replace_substring(pc.cast(table["x"], "string"), ",", ""), "double")'),
    ("Polars", "time", "11/12/2025", "Write times as 2024-01-31T08:00:00Z. "),
    ("text of pandas", "when", "12/31/2025", 'pd.to_datetime(df["x"], format="%m/%d/%Y")'),
    ("Polars", "whole", "12,5", 'pl.col("x").str.replace_all(",", ".", literal=True).cast(pl.Float64)'),
    ("Arrow", "real", "1,234", "Write numbers as 1234.50. "),
    ("csv", "real", "1,234", "declare --thousands , or --decimal ,"),
    ("Arrow", "when", "31/12/2025", 'pc.strptime(table["x"], "%d/%m/%Y", "us")'),
    ("csv", "real", "1,234.50", "declare --thousands ,"),
    ("csv", "real", "1'234,50", 'declare --thousands "\'" --decimal ,'),
    ("csv", "whole", "12,5", "declare --decimal ,"),
    ("csv", "time", "31/12/2025", "declare --date-format"),
]


OF_FILES = [
    ("real", "1.234.567", {"decimal": ","}, "write numbers as 1234,50, or correct the declared --decimal ,. To"),
    ("real", "twelve", {"decimal": ","}, "write numbers as 1234,50, or correct the declared --decimal ,. To"),
    ("whole", "9,999", {"thousands": " "}, 'write numbers as 1234, or correct the declared --thousands " ". To'),
    ("whole", "9,999", {}, "write numbers as 1234, or declare --thousands , or --decimal ,. To"),
    ("time", "12/31/2025", {"date_format": "%d/%m/%Y"}, "00Z, or correct the declared --date-format %d/%m/%Y. No"),
    ("time", "12/31/2025", {}, "T08:00:00Z, or declare --date-format %m/%d/%Y. To"),
    ("time", "11/12/2025", {}, "T08:00:00Z, or declare --date-format %d/%m/%Y or --date-format %m/%d/%Y. To"),
    ("time", "31/12/2025", {"thousands": ","}, "T08:00:00Z, or declare --date-format %d/%m/%Y. To"),
    ("real", "1,234.50", {"date_format": "%d/%m/%Y"}, "write numbers as 1234.50, or declare --thousands ,. To"),
    ("time", "1767200580", {}, "T08:00:00Z, or declare --date-format %s. To"),
]


@pytest.mark.parametrize(("role", "odd", "declared", "fix"), OF_FILES)
def test_the_fix_knows_what_is_declared_for_a_file(
    role: str, odd: str, declared: dict[str, str], fix: str, tmp_path: Path
) -> None:
    with pytest.raises(RefusalError, match=re.escape(fix[1:])):
        of_csv(tmp_path, role, odd, csv=declared)


def test_ids_with_a_point_have_a_way_out_of_csv(tmp_path: Path) -> None:
    csv_file(tmp_path, "weight", "12.1")
    ids = {
        "kind": "frequencies",
        "item": "y",
        "privacy": {"rho": 1},
        "privacy_unit": {"privacy_id": "x", "norm": {"max_norm": 1}},
    }
    declared = read_release({**ids, "spec": {"depth": 1, "width": 16}})
    way_out = r"look like 99\.9\. Write whole numbers\. If .* use Parquet with a text column"
    with pytest.raises(RefusalError, match=way_out):
        release_frame(open_files([str(tmp_path / "x.csv")], declared, lambda _: None, lambda _: None).table, declared)


@pytest.mark.parametrize(("door", "role", "odd", "fix"), FIXES)
def test_the_fix_is_in_the_words_of_the_door(door: str, role: str, odd: str, fix: str, tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match=re.escape(fix)):
        DOORS[door](tmp_path, role, odd)


TYPED: dict[str, tuple[list[Any], pa.DataType]] = {
    "booleans": ([True, False, None], pa.bool_()),
    "text": (["1234", "7", None], pa.large_string()),
    "fractions": ([1.5, 7.0, None], pa.float64()),
    "decimals": ([Decimal("1.5"), Decimal(7), None], pa.decimal128(9, 1)),
    "durations": ([datetime.timedelta(1), datetime.timedelta(2), None], pa.duration("us")),
    "dates": ([datetime.date(2025, 12, 31), None], pa.date32()),
    "times": ([datetime.datetime(2025, 12, 31), None], pa.timestamp("us")),
    "seconds since 1970": ([1767200580, None], pa.int64()),
    "bytes": ([b"1", b"10.0.0.1", None], pa.large_binary()),
    "lists": ([[1], [2], None], pa.list_(pa.int64())),
}
LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda table: polars_of(table),
}
OTHERS = {"text": {"type": "text", "max_bytes": 8}, "ipv4": {"type": "ipv4"}}


@pytest.mark.parametrize("role", [*NUMBERS, *TIMES, *OTHERS])
@pytest.mark.parametrize("door", LIBRARIES.values(), ids=LIBRARIES)
def test_the_code_in_a_refusal_of_a_type_runs(door: Any, role: str) -> None:
    """Its table is read, or refused for its values, or for its new type with code that was not tried yet."""
    top: dict[str, Any] = {"kind": "top_k", "k": 1, "item": "x", "domain": OTHERS.get(role)}
    top |= {"privacy": {"epsilon": 9, "delta": 1e-6}, "privacy_unit": "record"}
    given = settings(role) if role in (*NUMBERS, *TIMES) else top
    codes = []
    for values, kind in TYPED.values():
        table = door(pa.table({"x": pa.array(values * 12, kind), "y": ["a"] * 12 * len(values)}))
        tried: list[str] = []
        while (code := code_in(refused(table, given, "E608"))) is not None:
            assert code not in tried
            table, tried = recast(table, "x", code), [*tried, code]
        codes += tried
    assert codes


def refused(table: Any, given: dict[str, Any], code: str) -> str:
    """What is said of a table that is refused with this code; nothing if it is not, or for its values."""
    try:
        release_frame(table, given)
    except RefusalError as error:
        return str(error) if code in str(error) else ""
    return ""


def test_keys_that_no_file_can_hold_are_told() -> None:
    """Halves of surrogate pairs: a release with such a key could not leave a pipeline."""
    table = pd.DataFrame({"k": pd.Series(["\udcff"] * 12 + ["b"] * 24, dtype=object), "x": "a"})
    given = {"kind": "frequencies", "item": "x", "privacy": {"rho": 50}, "privacy_unit": "record"}
    with pytest.raises(ArgumentError, match=r"key='k': about 35 % .* bytes that are not UTF-8\. Write text in UTF-8"):
        release_frame(table, {**given, "keys": {"assume_public": True, "field": "k"}})


def test_whole_numbers_that_floats_have_rounded_are_refused() -> None:
    """In ids, keys, items and domains of pandas, and with an exponent in CSV; beyond a domain they are clamped."""
    large = [float(2**53 + 2 * n) for n in range(12)]
    table = pd.DataFrame({"x": [*large, *map(float, range(24)), None], "y": "a", "p": range(37)})
    person = {"privacy_id": "x", "records": {"max_records": 1}}
    key = {"keys": {"assume_public": True, "field": "x"}}
    as_text = {"kind": "frequencies", "item": "x", "privacy": {"rho": 50}, "privacy_unit": "record"}
    inside = {**settings("whole"), "domain": {"type": "integer", "low": 0, "high": 2**62}}
    for given, words in (
        ({**as_text, "item": "y", "privacy_unit": person}, "privacy_id='x': about 35 %"),
        ({**as_text, "item": "y", **key}, "key='x': about 35 %"),
        (as_text, "item='x': about 35 %"),
        (inside, "item='x': about 35 %"),
    ):
        with pytest.raises(
            ArgumentError, match=f"{words}.*look like 99999999999999.*Floats, and numbers with an exponent"
        ):
            release_frame(table, given)
    assert abs(records(release_frame(table, settings("whole"))) - 36) < 6
    with pytest.raises(RefusalError, match="got double"):
        release_frame(pa.table({"x": large, "y": ["a"] * 12}), {**as_text, "item": "y", "privacy_unit": person})
    assert Spelling().read(
        pa.array(["9007199254740993", "9.007199254740993e15"], pa.large_string()), INTEGER
    ).to_pylist() == [9007199254740993, None]


def test_rows_without_an_id_outside_of_the_windows_or_not_listed_are_told() -> None:
    days = ["2025-01-01"] * 60 + ["2031-01-01"] * 30 + [None] * 10
    table = pa.table(
        {
            "person": [None] * 35 + [f"p{n}" for n in range(65)],
            "country": ["NO "] * 20 + [None] * 10 + ["NO"] * 70,
            "city": ["Oslo"] * 50 + ["Rome"] * 50,
            "day": days,
        }
    )
    given: dict[str, Any] = {
        "kind": "frequencies",
        "item": "city",
        "listed_items": ["Oslo", "Bern"],
        "privacy": {"rho": 1},
    }
    given |= {"privacy_unit": {"privacy_id": "person", "records": {"max_records": 9, "max_keys": 1}}}
    given |= {"keys": {"public": ["NO", "SE"], "field": "country"}}
    given |= {"windows": _WHEN, "time": {"field": "day", "every": "3653d"}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        release_frame(table, given)
    assert sorted(str(each.message) for each in caught if each.category is InputWarning) == [
        "item='city': about 50 % of the rows have an unlisted value. They do not count.",
        "key='country': about 10 % of the rows have no value. They do not count.",
        "key='country': about 20 % of the rows have an unlisted value, though some differ only in spaces or "
        "capital letters. They do not count.",
        "privacy_id='person': about 35 % of the rows have no value. They do not count.",
        "time='day': about 10 % of the rows have no value. They do not count.",
        "time='day': about 30 % of the rows are outside the declared windows. They do not count. Check start and end.",
    ]


@pytest.mark.parametrize(
    "form", [lambda table: table, pa.Table.to_pandas, lambda table: polars_of(table)], ids=["a", "b", "c"]
)
def test_lists_of_another_type_are_refused_before_anything_is_spent(form: Any) -> None:
    table = form(pa.table({"x": ["1", "2"] * 50, "n": [1, 2] * 50}))
    base = {"kind": "frequencies", "privacy": {"rho": 1}, "privacy_unit": "record"}
    for given, words in (
        (
            {"item": "n", "keys": {"public": [1, 2], "field": "x"}},
            "key='x' contains text, but the list contains whole numbers",
        ),
        (
            {"item": "x", "keys": {"public": ["1"], "field": "n"}},
            "key='n' contains whole numbers, but the list contains text",
        ),
        ({"item": "x", "listed_items": [1, 2]}, "item='x' contains text, but the list contains whole numbers"),
    ):
        with pytest.raises(ArgumentError, match=f"{words}, so no row would count. List .*E619"):
            release_frame(table, {**base, **given})
    release_frame(table, {**base, "item": "n", "keys": {"public": [1, "2"], "field": "x"}})


def polars_of(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


def test_blanks_around_fields_of_csv_are_no_part_of_them(tmp_path: Path) -> None:
    """Nor of the names of columns, of the lines of a list, and of a field in quotes."""
    rows = 'person, item ,country\nAnn, "a", NO\n' + " Ann,a ,NO \n Ann ,b, NO\n" * 20
    (tmp_path / "x.csv").write_text(rows)
    given = {"kind": "frequencies", "item": "item", "privacy": {"rho": 50}, "privacy_unit": "record"}
    given |= {"keys": {"public": ["NO"], "field": "country"}}
    person = {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1}}
    for privacy_unit, counts in (("record", [21, 20, 0]), (person, None)):
        declared = read_release({**given, "privacy_unit": privacy_unit})
        released = release_frame(
            open_files([str(tmp_path / "x.csv")], declared, lambda _: None, lambda _: None).table, declared
        )["NO"]
        estimates = [round(each) for each in released.estimate(["a", "b", ' "a"'])]
        assert estimates == counts or sum(estimates) == 1
    (tmp_path / "keys.txt").write_text("NO \n\u00a0SE\n \n")
    assert read_lines(str(tmp_path / "keys.txt"), "--public-keys") == ["NO", "SE"]


def test_dates_beyond_the_calendar_of_text_are_clamped_as_times_are(tmp_path: Path) -> None:
    days = [20453] * 24 + [3_663_000] * 6 + [-800_000] * 6
    for kind in (pa.date32(), pa.date64()):
        column = pa.array(days, pa.int32()).cast(pa.date32()).cast(kind)
        for form in (column, column.dictionary_encode(), pa.chunked_array([column[:5], column[5:]])):
            released = release_frame(arrow(form), settings("when"))
            assert abs(records(released) - ROWS) < 6
            assert [released.quantile(each).estimate.year for each in (0.05, 0.5, 0.95)] == [2020, 2025, 2029]


def test_text_in_the_time_column_of_a_calendar_is_refused_with_code() -> None:
    months = {"time": "day", "bucket": "month", "zone": "UTC", "start": "2025-01-01", "end": "2026-01-01"}
    table = pd.DataFrame({"person": range(500), "city": "Oslo", "day": "31/12/2025"})
    settings = {
        "kind": "frequencies",
        "item": "city",
        "listed_items": ["Oslo"],
        "keys": {"public": ["Oslo"], "field": ["city", months]},
        "privacy_unit": {"privacy_id": "person", "norm": {"max_norm": 1}},
        "privacy": {"rho": 1},
    }
    with pytest.raises(ArgumentError, match=r'pd\.to_datetime\(df\["day"\], format="%d/%m/%Y"\)'):
        release_frame(table, settings)
