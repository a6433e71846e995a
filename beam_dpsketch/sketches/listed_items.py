"""An exact histogram of items that are listed beforehand: one counter for each.

Guarantee: an item adds its weight to its own counter and to no other, so there are no collisions. The counters are a
linear function of the input. Items that are not listed change nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.hashing.encodings import decode, encode, join_parts, named, split_parts
from beam_dpsketch.hashing.lookup import NOT_AN_ITEM, ItemLookup
from beam_dpsketch.sketches.histogram import Histogram
from beam_dpsketch.sketches.linear import Table
from beam_dpsketch.sketches.spec import Spec

MAX_ITEMS = 1 << 20
MAX_BYTES = (1 << 32) - 1
_KNOWN: weakref.WeakValueDictionary[bytes, ListedItems] = weakref.WeakValueDictionary()
"""Lists that were decoded: the releases of many keys have the same one."""


@named("ListedItems")
@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class ListedItems(Spec):
    """Items that are counted exactly; everything else is dropped.

    The list must be public: one that is taken from the data publishes it. It is part of every release and of its bytes.

    Args:
      items: text, bytes, 64-bit integers or tuples of these, 1 to 2**20 of them, in the order of the counters. Repeated
        items count once. 1, "1" and b"1" are three items.

    >>> from beam_dpsketch import PrivacySpec, ReleaseTerms, release
    >>> raw = ListedHistogram(ListedItems(["Oslo", "Bern"])).accumulate(["Oslo"] * 900 + ["Rome"] * 5000)
    >>> released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0)))
    >>> [city.item for city in released.top_k(1)], 850 < released.estimate("Oslo") < 950
    (['Oslo'], True)
    """

    kind: ClassVar[str] = "listed_items"
    is_listed: ClassVar[bool] = True
    is_histogram: ClassVar[bool] = True
    domain: ClassVar[None] = None  # type: ignore[misc]
    items: tuple[Any, ...]

    def __init__(self, items: Iterable[Any]) -> None:
        if isinstance(items, (set, frozenset)):
            raise ArgumentTypeError("items", f"must be in an order, got a {type(items).__name__}: sort it", "E509")
        listed = _validate.many("E509", items=items)
        plain = listed.to_pylist() if isinstance(listed, pa.Array) else listed
        encoded = dict.fromkeys(map(encode, plain))
        if not encoded:
            raise ArgumentError("items", "must not be empty: list those to count", "E509")
        if len(encoded) > MAX_ITEMS:
            raise ArgumentError(
                "items", f"must be at most {MAX_ITEMS}, got {len(encoded)}; a SketchSpec takes any number", "E509"
            )
        if sum(map(len, encoded)) + 4 * len(encoded) > MAX_BYTES:
            raise ArgumentError("items", f"must take at most {MAX_BYTES} bytes together, 5 for each included", "E509")
        object.__setattr__(self, "items", tuple(map(decode, encoded)))

    @property
    def cells(self) -> int:
        return len(self.items)

    @property
    def total_cells(self) -> int:
        return self.cells

    @property
    def key_range(self) -> int:
        return self.cells

    def describe(self) -> str:
        return f"{self.cells} listed items"

    @functools.cached_property
    def encoded_items(self) -> bytes:
        """The canonical bytes of the items, each after its length as four bytes."""
        return join_parts(map(encode, self.items))

    @functools.cached_property
    def lookup(self) -> ItemLookup:
        return ItemLookup(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListedItems) and self.encoded_items == other.encoded_items

    def __hash__(self) -> int:
        return hash(self.encoded_items)

    def __reduce__(self) -> tuple[Any, ...]:
        return from_encoded, (self.encoded_items,)

    def __repr__(self) -> str:
        return f"<ListedItems of {len(self.items)}>"


def from_encoded(encoded_items: bytes) -> ListedItems:
    """Return the list with these bytes, the same object while one is in use; raise `ValueError` for any others."""
    spec = _KNOWN.get(encoded_items)
    if spec is None:
        spec = ListedItems(map(decode, split_parts(encoded_items)))
        if spec.encoded_items != encoded_items:
            raise ArgumentError("", "items are listed twice", "E509")
        _KNOWN[encoded_items] = spec
    return spec


class ListedHistogram(Histogram):
    """A raw histogram of listed items; items that are not listed are dropped.

    Raises `TypeError` or `ValueError` for items and weights it cannot count, without showing them.

    >>> ListedHistogram(ListedItems(["a", "b", 1])).accumulate(["a", "c", "a", 1, "1"]).counters
    array([2, 0, 1])
    """

    name = "listed_items"
    spec_type = ListedItems

    @classmethod
    def usable_keys(cls, spec: ListedItems, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        places = spec.lookup.find(items)
        return places.astype(np.uint64), places >= 0

    @classmethod
    def tables(cls, spec: ListedItems) -> tuple[Table, ...]:
        return (Table(1, False, Fraction(1)),)

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        places = find_all(self._spec, items)
        return places.astype(np.uint64), places >= 0


def find_all(spec: ListedItems, items: Any) -> np.ndarray:
    """Return the places of items, `NOT_LISTED` if one has none; raise for items that cannot be counted."""
    places = spec.lookup.find(items)
    if (places == NOT_AN_ITEM).any():
        if isinstance(items, pa.Array):
            raise ArgumentTypeError("items", "must not hold nulls, or text that is not UTF-8; drop them first", "E615")
        for item in items:
            encode(item)  # raises for the first that cannot be counted
    return places
