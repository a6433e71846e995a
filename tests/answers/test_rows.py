"""Sequences of rows: columns, tables, reprs, and one item or many."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import Frequencies, Interval
from beam_dpsketch.answers.rows import Frequency, Intervals, as_asked, as_many
from beam_dpsketch.statement.showing import html_table

ROWS = [
    Frequency("Oslo", 1990.25, 1962.0, 2018.5),
    Frequency("Rome", 0.5, -3.0, 4.0),
    Frequency("Bern", 0.25, 0.0, 1.0),
]


def frequencies(**more: Any) -> Frequencies:
    items, *columns = zip(*ROWS, strict=True)
    return Frequencies(items, *map(np.array, columns), **more)


INTERVALS = Intervals(np.array([0.5, 0.75]), np.array([0.25, 0.5]), np.array([0.75, 1.0]))


def test_rows_are_a_sequence_of_typed_rows_with_plain_numbers() -> None:
    found = frequencies()
    assert isinstance(found, Sequence)
    assert list(found) == ROWS == [*reversed([*reversed(found)])]
    assert (len(found), found[0], found[-1]) == (3, ROWS[0], ROWS[2])
    assert type(found[0]) is Frequency
    assert all(type(number) is float for row in (*found, found[1]) for number in row[1:])
    assert ROWS[1] in found
    with pytest.raises(IndexError):
        found[3]
    assert list(INTERVALS) == [Interval(0.5, 0.25, 0.75), Interval(0.75, 0.5, 1.0)]


def test_slices_and_choices_are_of_the_same_type_and_keep_what_goes_with_the_rows() -> None:
    found = frequencies(detection_limit=7.0, truncated=frozenset(["Rome", "Bern", "other"]))
    assert found.truncated == {"Rome", "Bern"}
    for part, items in ((found[:2], ("Oslo", "Rome")), (found[::-2], ("Bern", "Oslo")), (found.take([1]), ("Rome",))):
        assert type(part) is Frequencies
        assert part.item == items
        assert part.estimate.dtype == np.float64
        assert part.detection_limit == 7.0
        assert part.truncated == set(items) - {"Oslo"}
    assert len(found[5:]) == len(found.take([])) == 0


def test_rows_cannot_be_changed() -> None:
    estimates = np.array([1.0, 2.0])
    found = Frequencies(["a", "b"], estimates, estimates, estimates)
    estimates[0] = 9.0
    assert found.estimate.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        found.estimate[0] = 9.0
    with pytest.raises(AttributeError):
        found.estimate = estimates  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.item[0] = "c"  # type: ignore[index]


def test_equal_rows_are_equal() -> None:
    assert frequencies() == frequencies(detection_limit=7.0)
    assert frequencies() != frequencies()[:2]
    assert frequencies() != ROWS
    assert frequencies()[:0] != INTERVALS[:0]
    for again in (pickle.loads(pickle.dumps(frequencies())), copy.deepcopy(frequencies())):
        assert again == frequencies()


def test_rows_become_plain_dicts_for_json() -> None:
    expected = [{"item": "Oslo", "estimate": 1990.25, "lower": 1962.0, "upper": 2018.5}]
    assert json.loads(json.dumps(frequencies()[:1].to_rows())) == frequencies()[:1].to_rows() == expected
    columns = (np.array(["a"]), pa.array(["a"]), ["a"])
    numbers = np.array([1.0])
    for items in columns:
        assert type(Frequencies(items, numbers, numbers, numbers).to_rows()[0]["item"]) is str


def test_rows_become_arrow_tables() -> None:
    table = frequencies().to_arrow()
    assert table.to_pylist() == frequencies().to_rows()
    assert str(table.schema.field("lower").type) == "double"
    assert frequencies()[:0].to_arrow().num_rows == 0
    time = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    assert Intervals([time], [time], [time]).to_arrow().to_pylist()[0]["upper"] == time
    numbers = np.array([1.0, 2.0])
    for items in (["a", 1], [("a", 1), ("b", 2)], [1 << 64, -1]):
        with pytest.raises(TypeError, match=r"no common Arrow type\. Use to_rows\(\)"):
            Frequencies(items, numbers, numbers, numbers).to_arrow()


def test_rows_become_pandas_frames_where_pandas_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frequencies().to_pandas()
    assert frame.to_dict("records") == frequencies().to_rows()
    assert list(INTERVALS.to_pandas().columns) == ["estimate", "lower", "upper"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas\(\) requires pandas, which is not installed\. Use to_rows"):
        frequencies().to_pandas()


def test_reprs_are_short() -> None:
    assert repr(frequencies()) == ("<Frequencies of 3: Oslo: 1990 [1962, 2018]; Rome: 0.5 [-3, 4]; Bern: 0.25 [0, 1]>")
    assert repr(INTERVALS) == "<Intervals of 2: 0.5 [0.25, 0.75]; 0.75 [0.5, 1]>"
    many = np.arange(1000.0)
    assert repr(Intervals(many, many, many)).endswith("4 [4, 4]; ...>")
    found = frequencies(detection_limit=512.5, truncated=frozenset(["Rome"]))
    assert repr(found).startswith("<Frequencies of 3, detection limit 512, 1 truncated: Oslo")


def test_html_is_escaped_and_of_limited_length() -> None:
    numbers = np.arange(1000.0)
    found = Frequencies(["<script>alert(1)</script>&\"'"] * 1000, numbers, numbers, numbers)._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#x27;" in found
    assert "<script" not in found
    assert found.count("<tr>") == 101
    assert "Frequencies of 1000; the first 100<" in found
    assert "<script" not in html_table([["<script>"]], header=["<script>"], caption="<script>")


@pytest.mark.parametrize("one", ["ab", b"ab", 7, 0.5, np.int64(7), np.str_("ab"), np.array(7), None])
def test_one_item_is_known(one: Any) -> None:
    many, single = as_many(one)
    assert (list(many), single) == ([one], True)
    answer = as_asked(np.array([1.5]), single)
    assert (answer, type(answer)) == (1.5, float)


@pytest.mark.parametrize(
    "many", [["a", "b"], ("a", "b"), iter("ab"), {"a": 1, "b": 2}, np.array(["a", "b"]), pa.array(["a", "b"])]
)
def test_many_items_are_known(many: Any) -> None:
    values, single = as_many(many)
    assert (pa.array(values).to_pylist(), single) == (["a", "b"], False)
    assert as_asked(values, single) is values
