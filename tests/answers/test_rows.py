"""Sequences of rows: columns, tables, reprs, and one item or many."""

from __future__ import annotations

import copy
import datetime
import ipaddress
import json
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import Frequencies, Interval
from beam_dpsketch.answers.rows import Frequency, Intervals, as_asked, as_many
from beam_dpsketch.answers.statistics import Statistic
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


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_answers_become_frames_where_the_library_is_installed(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def frame(answer: Any) -> Any:
        return getattr(answer, f"to_{library}")()

    def rows(answer: Any) -> Any:
        return frame(answer).to_dict("records") if library == "pandas" else frame(answer).to_dicts()

    assert rows(frequencies()) == frequencies().to_rows()
    assert rows(ROWS[0]) == [ROWS[0]._asdict()]
    assert list(frame(INTERVALS).columns) == ["estimate", "lower", "upper"]
    monkeypatch.setitem(sys.modules, library, None)
    words = rf"^to_{library}\(\) requires {library}, .* not installed: pip install 'beam-dpsketch\[{library}\]'\. "
    with pytest.raises(ImportError, match=words):
        frame(frequencies())


def test_tables_have_the_columns_of_the_question() -> None:
    shares = Intervals([1, None], [0, 0], [2, 9], asked={"quantile": np.array([0.5, 1.0])})
    expected = [{"quantile": 0.5, "estimate": 1, "lower": 0, "upper": 2}]
    assert shares[:1].to_rows() == shares[0].to_rows() == shares[0].to_arrow().to_pylist() == expected
    assert shares[1:].to_arrow().schema == shares.to_arrow().schema  # an unknown estimate has a type too
    largest = frequencies(truncated=frozenset(["Rome"])).largest(2)
    assert largest[1].to_rows() == [
        {"place": 2, "item": "Rome", "estimate": 0.5, "lower": -3.0, "upper": 4.0, "truncated": True}
    ]
    assert pickle.loads(pickle.dumps(largest[1])).to_rows() == largest.to_rows()[1:]
    address = ipaddress.IPv4Address("10.0.0.1")
    assert Intervals([address], [address], [address]).to_arrow().to_pylist()[0]["lower"] == "10.0.0.1"


@given(rows=st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3)), max_size=30), k=st.integers(0, 12))
def test_the_largest_are_the_first_of_all_in_order(rows: list[tuple[int, int]], k: int) -> None:
    """An item counts at its first place, and ties keep the order of these places."""
    numbers = np.array([number for _, number in rows], dtype=np.float64)
    found, firsts = Frequencies([item for item, _ in rows], numbers, numbers, numbers), dict(reversed(rows))
    ordered = sorted(firsts, key=found.item.index)
    for largest, sign in ((found.largest, lambda each: -each), (found.largest_changes, lambda each: -abs(each))):
        expected = sorted(ordered, key=lambda item, sign=sign: sign(firsts[item]))[:k]  # type: ignore[misc]
        assert [each[:2] for each in largest(k)] == [(item, firsts[item]) for item in expected]
        assert [row["place"] for row in largest(k).to_rows()] == [*range(1, len(expected) + 1)]


NO_ARITHMETIC: dict[str, Any] = {
    "plus": lambda answer: answer + 1,
    "reversed": lambda answer: 1 - answer,
    "two": lambda answer: answer + answer,
    "repeated": lambda answer: 2 * answer,
    "shared": lambda answer: answer / 2,
    "negative": lambda answer: -answer,
    "rounded": lambda answer: round(answer, 2),
    "an array": lambda answer: np.ones(3) + answer,
    "a numpy number": lambda answer: np.float64(1) * answer,
    "a sum": lambda answer: sum([answer, answer]),
    "a mean": lambda answer: np.mean([answer]),
    "an array of an answer": np.asarray,
    "a search": lambda answer: 5 in answer,
    "a format": lambda answer: f"{answer:.1f}",
    "above": lambda answer: answer > 3,
    "below": lambda answer: np.float64(3) <= answer,
    "a plain tuple": lambda answer: answer < (1, 2, 3),
}


@pytest.mark.parametrize("answer", [Interval(1.5, 1.0, 2.0), ROWS[0], Statistic(1.0, 0.0, 2.0)], ids=type)
@pytest.mark.parametrize("name", NO_ARITHMETIC)
def test_single_answers_convert_to_numbers_and_refuse_arithmetic(name: str, answer: Any) -> None:
    assert float(answer) == answer.estimate
    with pytest.raises(TypeError, match=r"Use float\(answer\), answer\.lower or answer\.upper.*E725"):
        NO_ARITHMETIC[name](answer)


def test_answers_are_compared_sorted_unpacked_and_printed() -> None:
    low, high = Interval(1.5, 1.0, 2.0), Interval(2.5, 1.0, 3.0)
    assert sorted([high, low]) == [low, high]
    assert low != high
    assert low in {low, high}
    assert low in [high, low]
    assert (low <= low, low < high, low >= high, low > high) == (True, True, False, False)
    estimate, *bounds = low
    assert (estimate, bounds) == (1.5, [1.0, 2.0])
    assert f"{low}" == str(low) == repr(low)


@pytest.mark.parametrize("estimate", [None, "10.0.0.1", datetime.datetime(2026, 11, 16)])
def test_an_estimate_that_is_no_number_is_not_converted(estimate: Any) -> None:
    with pytest.raises(TypeError, match="The estimate of this answer is not a number, got ") as caught:
        float(Interval(estimate, 0, 9))
    assert str(estimate) not in str(caught.value) or estimate is None


def test_an_unknown_estimate_is_told() -> None:
    assert str(Interval(None, 0, 9)) == "cannot tell, from 0 to 9"
    found = Intervals([None, 3], [0, 2], [9, 4])
    assert repr(found).startswith("<Intervals of 2: cannot tell [0, 9]; 3 [2, 4]>\nnote: ")
    assert [note.code for note in found.notes] == [note.code for note in found[0].notes] == ["too_few_records"]
    assert found[1:].notes == found[1].notes == ()


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
