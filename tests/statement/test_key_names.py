"""Columns of a key have the names of the input, and never the name of another column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import AssumePublicKeys, Calendar, CountSketch, PublicKeys, Released, SketchSpec, release_frame
from beam_dpsketch.answers.questions.ask import QUESTIONS, answer_columns
from beam_dpsketch.errors import FormatError
from beam_dpsketch.explore.content import entries_of
from beam_dpsketch.rows.schema import WINDOW_COLUMNS, release_columns
from beam_dpsketch.statement.showing import OTHER_COLUMNS, is_key_column, key_columns
from tests.cli.consoles import run, write
from tests.helpers import by_hand
from tests.helpers.stored import packed, plain_of

NAMES = st.sampled_from(["country", "day", "key", "key_1", "key_2", "item", "file", "", "Ø"])


@given(st.lists(NAMES, min_size=2, max_size=5))
def test_columns_of_a_key_are_as_many_as_its_values(names: list[str]) -> None:
    found = key_columns((*range(len(names)),), (*names,))
    assert [*found.values()] == [*range(len(names))]
    assert all(map(is_key_column, found))
    own = {
        name: place for place, name in enumerate(names) if name in ("country", "day", "Ø") and names.count(name) == 1
    }
    assert own.items() <= found.items()


def test_other_columns_are_those_of_answers_and_releases() -> None:
    columns = {*release_columns(WINDOW_COLUMNS, over_time=True, is_text=False)}
    for kind in QUESTIONS:
        columns |= answer_columns(kind, str, truncates=True).keys()
    assert columns <= OTHER_COLUMNS


def test_a_declaration_names_its_columns() -> None:
    days = Calendar("at", "day", start="2026-11-16", end="2026-11-18")
    assert PublicKeys(["NO"], ["country", days]).column_names == ("country", "day")
    assert AssumePublicKeys(["country\n", len, "page"]).column_names == ("", "", "page")
    assert PublicKeys(["NO"], "country").column_names == AssumePublicKeys(days).column_names == ()


def test_names_travel_with_a_statement() -> None:
    def one(**names: Any) -> Released:
        return by_hand.released(CountSketch, SketchSpec(depth=1, width=2), [[1, 2]], **names)

    named = one(key_names=("country", "day"))
    assert Released.from_bytes(named.to_bytes()).privacy.key_names == ("country", "day")
    assert named.privacy.as_dict()["key_names"] == ["country", "day"]
    forged = plain_of(named.to_bytes())
    forged[1][-1] = ["country", "\x1b[2J"]
    with pytest.raises(FormatError, match="key_names must be printable"):
        Released.from_bytes(packed(forged))


def test_releases_of_a_table_and_its_page_have_the_names() -> None:
    visits = pd.DataFrame({"user": [f"u{n}" for n in range(99)], "country": "NO", "page": "a", "by": "train"})
    settings = {"kind": "frequencies", "item": "by", "listed_items": ["train"], "privacy": {"rho": 1}}
    settings |= {"privacy_unit": {"privacy_id": "user", "norm": {"max_norm": 2}}}
    keys = {"field": ["country", "page"], "public": [["NO", "a"], ["NO", "b"]]}
    found = release_frame(visits, {**settings, "keys": keys})
    assert {each.privacy.key_names for each in found.values()} == {("country", "page")}
    places = [each.place for each in entries_of(found)]
    assert [(each["country"], each["page"]) for each in places] == [*found] == [("NO", "a"), ("NO", "b")]


def test_inspect_writes_files_with_other_key_columns(tmp_path: Path) -> None:
    """A key may be 0, and a file may lack the key columns of another."""
    people = pd.DataFrame({"person": [f"p{each}" for each in range(90)], "item": ["a"] * 90, "n": [0, 1, 2] * 30})
    unit = {"privacy_id": "person", "norm": {"max_norm": 1}}
    declared = {"kind": "frequencies", "item": "item", "privacy_unit": unit, "privacy": {"rho": 1}}
    for name, keys in (
        ("one", {"field": "n", "public": [0, 1]}),
        ("two", {"field": ["n", "item"], "public": [[0, "a"]]}),
    ):
        write(tmp_path / f"{name}.dpsketch", *release_frame(people, {**declared, "keys": keys}).items())
    code, printed = run("inspect", str(tmp_path), "--output", str(tmp_path / "all.parquet"))
    assert code == 0, printed
    rows = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert [(row["key"], row["n"]) for row in rows] == [("0", None), ("1", None), (None, "0")]
