"""A histogram of listed items is a `Counter` restricted to the list, and the list is a value like other specs."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IncompatibleSketchError, ListedItems, RecordBounds
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.sketches import listed_items, raw_type
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from tests.helpers import laws, strategies
from tests.helpers.strategies import bounds

lists = strategies.item_lists.filter(bool)


def sketch_of(listed: list[Any]) -> laws.SketchOf:
    def sketch(records: laws.Records) -> ListedHistogram:
        items, weights = zip(*records, strict=True) if records else ((), ())
        return ListedHistogram(ListedItems(listed)).accumulate(items, weights)

    return sketch


def counted(listed: list[Any], records: Any) -> list[int]:
    """The counters by definition, wrapped to 64 bits."""
    counter: Counter[bytes] = Counter()
    for item, weight in records:
        counter[encode(item)] += weight
    return [(counter[key] + (1 << 63)) % (1 << 64) - (1 << 63) for key in dict.fromkeys(map(encode, listed))]


@given(listed=lists, records=strategies.records)
def test_counters_are_those_of_a_counter_restricted_to_the_list(listed: list[Any], records: Any) -> None:
    records = records + [(item, 3) for item in listed]
    assert sketch_of(listed)(records).counters.tolist() == counted(listed, records)
    items = [item for item, _ in records]
    ones = ListedHistogram(ListedItems(listed)).accumulate(items)
    assert ones.counters.tolist() == counted(listed, [(item, 1) for item in items])


@given(listed=lists, parts=st.tuples(*[strategies.records] * 3))
def test_histograms_are_a_commutative_monoid(listed: list[Any], parts: Any) -> None:
    first, second, third = ([(listed[0], 7), *part] for part in parts)
    laws.check_commutative_monoid(sketch_of(listed), first, second, third)
    laws.check_deletion_is_inverse(sketch_of(listed), first)
    laws.check_merge_changes_only_the_left(sketch_of(listed), first, second)


@given(listed=lists, items=strategies.item_lists, limits=bounds(single=True))
def test_an_accumulator_counts_the_same_through_its_bytes(listed: list[Any], items: list[Any], limits: Any) -> None:
    sketch_input, items = SketchInput(ListedItems(listed), limits), items + listed * 3
    accumulator = SketchAccumulator(sketch_input)
    for item in [*items, None, 1.5, True]:
        accumulator.add(item)
    expected = counted(listed, [(item, 1) for item in items])
    assert SketchAccumulator.from_bytes(sketch_input, accumulator.to_bytes()).to_sketch().counters.tolist() == expected
    assert pickle.loads(pickle.dumps(accumulator)).to_sketch().counters.tolist() == expected


def test_unlisted_items_reach_no_sum() -> None:
    sketch_input = SketchInput(ListedItems(["a", "b"]), RecordBounds(1))
    for items in (["x", "b", "y", "b"], pa.array(["x", "b", None, "b"]), [1, "b", "b", ("b",)]):
        keys, weights, *_ = sketch_input.contributions(items, None)
        assert isinstance(sketch_input.contributions(items, None), WeightedItems)
        assert set(keys.tolist()) == {1}
        assert int(np.sum(weights)) == 2


def test_the_list_keeps_its_order_and_each_item_once() -> None:
    spec = ListedItems(["b", 1, "a", np.int64(1), "1", b"1", "b", np.str_("c"), ("a", 1)])
    assert spec.items == ("b", 1, "a", "1", b"1", "c", ("a", 1))
    assert [type(item) for item in spec.items] == [str, int, str, str, bytes, str, tuple]
    assert spec.cells == 7
    assert raw_type(spec) is ListedHistogram
    (table,) = ListedHistogram.tables(spec)
    assert (table.cells_per_item, table.has_signs, table.share) == (1, False, Fraction(1))


@pytest.mark.parametrize(
    "items",
    [
        ("a", "b"),
        iter(["a", "b"]),
        dict.fromkeys(["a", "b"]),
        np.array(["a", "b"]),
        pa.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
        pd.Series(["a", "b"]),
    ],
    ids=lambda items: type(items).__name__,
)
def test_any_iterable_in_an_order_is_a_list(items: Any) -> None:
    assert ListedItems(items) == ListedItems(["a", "b"])


SECRET = "Jenny-8675309"
WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "empty": ([], ValueError, "items must not be empty"),
    "one text": (SECRET, TypeError, "items must be a list, got one text"),
    "one byte string": (SECRET.encode(), TypeError, "got one text"),
    "one number": (8675309, TypeError, "items must be a list, got int"),
    "a set": ({SECRET}, TypeError, "ordered, got a set. Sort it"),
    "a frozen set": (frozenset([SECRET]), TypeError, "ordered, got a frozenset. Sort it"),
    "a list in it": ([SECRET, [SECRET]], TypeError, "items must be text, bytes, .* got list"),
    "a null column": (pa.array([SECRET, None]), TypeError, "items must be text, .* got NoneType"),
    "a float": ([SECRET, 8675309.0], TypeError, "got float"),
    "a bool": ([SECRET, True], TypeError, "got bool"),
    "a large number": ([SECRET, 8675309 << 64], ValueError, "Integer items must be at least"),
    "times": (np.array([8675309], dtype="datetime64[ns]"), TypeError, "got datetime64"),
    "a table": (np.array([[8675309]]), TypeError, "got ndarray"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_list_of_items_is_refused_without_showing_it(name: str) -> None:
    items, error, message = WRONG[name]
    with pytest.raises(error, match=message) as caught:
        ListedItems(items)
    assert "8675309" not in str(caught.value)


def test_more_items_or_bytes_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed_items.MAX_ITEMS == 1 << 20
    monkeypatch.setattr(listed_items, "MAX_ITEMS", 4)
    assert ListedItems(range(4)).cells == 4
    with pytest.raises(ValueError, match=r"items must contain at most 4 items, got 5\. Use a SketchSpec for more"):
        ListedItems(range(5))
    assert len(ListedItems(["a", "bc"]).encoded_items) == 13
    monkeypatch.setattr(listed_items, "MAX_BYTES", 13)
    ListedItems(["a", "bc"])
    with pytest.raises(ValueError, match="items must use at most 13 bytes in total"):
        ListedItems(["a", "bcd"])


def test_lists_are_values() -> None:
    spec, same, other = ListedItems(["a", 1]), ListedItems(["a", 1, "a"]), ListedItems([1, "a"])
    assert spec == same
    assert hash(spec) == hash(same)
    assert len({spec, same, other, ListedItems(["a", "1"])}) == 3
    assert spec != ("a", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.items = ("b",)  # type: ignore[misc]
    assert repr(ListedItems(range(5000))) == str(ListedItems(range(5000))) == "<ListedItems of 5000>"
    assert copy.deepcopy(spec) == spec


@given(listed=lists)
def test_a_list_is_pickled_as_its_bytes_and_read_once(listed: list[Any]) -> None:
    spec = ListedItems(listed)
    spec.lookup.find(listed)
    data = pickle.dumps(spec)
    assert len(data) < len(spec.encoded_items) + 200
    first, second = pickle.loads(data), pickle.loads(data)
    assert first is second
    assert first == spec
    assert first.items == spec.items


@given(listed=lists)
def test_each_item_has_the_one_cell_that_it_is_said_to_have(listed: list[Any]) -> None:
    spec = ListedItems(listed)
    keys, usable = ListedHistogram.usable_keys(spec, listed)
    assert usable.all()
    ((table, cells),) = ListedHistogram.cells_of(spec, keys)
    assert (table, cells.dtype) == (0, np.int64)
    for item, cell in zip(listed, cells, strict=True):
        assert np.flatnonzero(ListedHistogram(spec).accumulate([item]).counters).tolist() == [cell]


@pytest.mark.parametrize("listed", [["a", "b", "a"], ["b"], [("a", "b")]])
def test_only_histograms_of_one_list_are_merged(listed: list[Any]) -> None:
    one, other = ListedHistogram(ListedItems(["a", "b"])), ListedHistogram(ListedItems(listed))
    if one.spec == other.spec:
        assert one.merge(other) is one
    else:
        with pytest.raises(IncompatibleSketchError, match="with the same kind, spec and scale"):
            one.merge(other)


BAD: dict[str, Any] = {
    "float": [1.5],
    "null": ["a", None],
    "null column": pa.array(["a", None]),
    "float column": pa.array([1.5]),
    "one text": "a",
    "nested": [("a", [1])],
    "large": [1 << 64],
    "numpy floats": np.array([1.5]),
    "table": np.array([[1]]),
}


@pytest.mark.parametrize("name", BAD)
def test_items_that_cannot_be_counted_are_refused_by_hand(name: str) -> None:
    with pytest.raises((TypeError, ValueError), match="items must"):
        ListedHistogram(ListedItems(["a", 1])).accumulate(BAD[name])


def test_the_exact_counters_are_read_only_and_hidden() -> None:
    raw = ListedHistogram(ListedItems(["a"])).accumulate(["a"] * 86753)
    with pytest.raises(ValueError, match="read-only"):
        raw.counters[0] = 1
    assert repr(raw) == "<raw ListedHistogram of <ListedItems of 1>, counters hidden>"
    with pytest.raises(TypeError, match="spec must be a ListedItems"):
        ListedHistogram(["a"])  # type: ignore[arg-type]
