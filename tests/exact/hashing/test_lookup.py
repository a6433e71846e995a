"""Items are found in a list exactly as a dictionary of canonical bytes finds them, in every form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.encodings import encode, is_item
from beam_dpsketch.exact.hashing.lookup import NOT_AN_ITEM, NOT_LISTED, ItemLookup
from tests.helpers import strategies

signed = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.one_of(signed, st.integers(-9, 9), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 62]))


def distinct(items: list[Any]) -> tuple[Any, ...]:
    return tuple({encode(item): item for item in items}.values())


def places(listed: tuple[Any, ...], asked: Any) -> list[int]:
    """The places by definition."""
    known = [encode(item) for item in listed]
    return [
        NOT_AN_ITEM if not is_item(item) else known.index(encode(item)) if encode(item) in known else NOT_LISTED
        for item in asked
    ]


@given(listed=st.lists(numbers, unique=True, min_size=1, max_size=40), asked=st.lists(numbers, max_size=40))
def test_numbers_are_found_as_in_a_dictionary(listed: list[int], asked: list[int]) -> None:
    known = {number: place for place, number in enumerate(listed)}
    asked = asked + listed
    for items in (asked, np.array(asked, dtype=np.int64), pa.array(asked, pa.int64())):
        found = ItemLookup(tuple(listed)).find(items)
        assert found.dtype == np.int64
        assert found.tolist() == [known.get(number, NOT_LISTED) for number in asked]


@given(listed=strategies.item_lists, asked=strategies.item_lists)
def test_items_are_found_by_their_canonical_bytes(listed: list[Any], asked: list[Any]) -> None:
    known = distinct(listed)
    asked = [*asked, *listed]
    found = ItemLookup(known).find(asked)
    assert found.dtype == np.int64
    assert found.tolist() == places(known, asked)


ALIKE = (1, "1", b"1", (1,), ("1",), -1, (1 << 64) - 1, 0, "", b"", (), "a", b"a", "ä", "\ud800")


@pytest.mark.parametrize("wrong", strategies.UNSUPPORTED, ids=repr)
def test_what_cannot_be_counted_is_told_from_what_is_not_listed(wrong: Any) -> None:
    lookup = ItemLookup(ALIKE)
    assert lookup.find([wrong, 1, "absent", (1, wrong)]).tolist() == [NOT_AN_ITEM, 0, NOT_LISTED, NOT_AN_ITEM]
    assert lookup.find([1 << 64, 1]).tolist() == [NOT_AN_ITEM, 0]
    assert lookup.find([*ALIKE]).tolist() == [*range(len(ALIKE))]


ARRAYS: dict[str, tuple[Any, list[Any]]] = {
    **{
        f"{name} {kind}": (container(kind), [1, 0, 5, 1])
        for name, container in {
            "numpy": lambda kind: np.array([1, 0, 5, 1], dtype=kind),
            "column": lambda kind: pa.array([1, 0, 5, 1], getattr(pa, kind)()),
        }.items()
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
    "negative": (np.array([-1, -2], dtype=np.int16), [-1, -2]),
    "large": (np.array([(1 << 64) - 1, 1], dtype=np.uint64), [(1 << 64) - 1, 1]),
    "large column": (pa.array([(1 << 64) - 1, 1, None], pa.uint64()), [(1 << 64) - 1, 1, None]),
    "no numbers": (np.array([], dtype=np.int64), []),
    "numpy text": (np.array(["a", "ä", "b"]), ["a", "ä", "b"]),
    "numpy bytes": (np.array([b"a", b"1"]), [b"a", b"1"]),
    "numpy objects": (np.array([1, "1", b"1", None, True], dtype=object), [1, "1", b"1", None, True]),
    "numpy floats": (np.array([1.0]), [1.0]),
    "numpy bools": (np.array([True]), [True]),
    "numpy times": (np.array([1], dtype="datetime64[ns]"), [None]),
    "nulls": (pa.array([0, None, 1]), [0, None, 1]),
    "only nulls": (pa.array([None, None]), [None, None]),
    "text": (pa.array(["a", None, "b", "", "a"]), ["a", None, "b", "", "a"]),
    "large text": (pa.array(["a", "x"], pa.large_string()), ["a", "x"]),
    "bytes": (pa.array([b"a", None, b"1"]), [b"a", None, b"1"]),
    "fixed bytes": (pa.array([b"a", b"1"], pa.binary(1)), [b"a", b"1"]),
    "sliced text": (pa.array(["x", "a", None, "1"]).slice(1), ["a", None, "1"]),
    "dictionary": (pa.array(["a", None, "1", "a"]).dictionary_encode(), ["a", None, "1", "a"]),
    "dictionary of numbers": (pa.array([1, None, 7]).dictionary_encode(), [1, None, 7]),
    "no text": (pa.array([], pa.string()), []),
    "all null text": (pa.array([None], pa.string()), [None]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_and_columns_are_read_like_lists(name: str) -> None:
    array, values = ARRAYS[name]
    assert ItemLookup(ALIKE).find(array).tolist() == places(ALIKE, values)
    assert ItemLookup(("a",)).find(array).tolist() == places(("a",), values)


@pytest.mark.parametrize(
    "items",
    [
        pa.array([1.5]),
        pa.array([True, None]),
        pa.array([["a"]]),
        pa.array([{"name": "a"}]),
        pa.array([1.5, None]).dictionary_encode(),
        np.array([[1]]),
        "text",
        b"bytes",
    ],
)
def test_what_never_holds_items_is_refused(items: Any) -> None:
    with pytest.raises(TypeError, match="items must"):
        ItemLookup(("a",)).find(items)
