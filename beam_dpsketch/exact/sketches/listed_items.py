"""Exact histograms without collisions, for listed items, and the items of thresholded counts.

Guarantee: an item or record adds its weight to its own counter and to no other, so the counters are a linear function
of the input. Unlisted items change nothing. Subclasses define the meaning of the keys and the released numbers.

Thresholded counts have an exact count for each value of a domain, which Beam stores. Values outside the domain are
clamped as in trees: numbers to its ends, text and bytes to their first max_bytes bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import decode, encode, join_parts, named, split_parts
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains.base import Domain, short_keys
from beam_dpsketch.exact.domains.text import BytesDomain
from beam_dpsketch.exact.hashing.lookup import NOT_AN_ITEM, ItemLookup
from beam_dpsketch.exact.sketches.linear import RawSketch, Table, read_only
from beam_dpsketch.exact.sketches.spec import Spec

Self = TypeVar("Self", bound="Histogram")


class Histogram(RawSketch):
    """One table of counters. By default, keys are places, and an item changes the counter at its place."""

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self._counters = np.zeros(spec.cells, dtype=np.int64)

    @property
    def counters(self) -> np.ndarray:
        """Exact counters, int64, shape (cells,), read-only. They are not private: never publish them."""
        return read_only(self._counters)

    @classmethod
    def tables(cls, spec: Any) -> tuple[Table, ...]:
        return (Table(1, False, Fraction(1)),)

    @classmethod
    def cells_of(cls, spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, keys.astype(np.int64)

    def accumulate_keys(self: Self, keys: np.ndarray, weights: np.ndarray | None) -> Self:
        np.add.at(self._counters, keys.astype(np.int64), np.int64(1) if weights is None else weights)
        return self

    def counter_tables(self) -> Sequence[np.ndarray]:
        return (self._counters,)


@named("CountSpec")
@dataclasses.dataclass(frozen=True)
class CountSpec(Spec):
    """A single counter that counts records or privacy ids.

    Args:
      counts_privacy_ids: whether a summary count answers, next to other metrics.
    """

    kind: ClassVar[str] = "count"
    is_histogram: ClassVar[bool] = True
    domain: ClassVar[None] = None  # type: ignore[misc]
    cells: ClassVar[int] = 1  # type: ignore[misc]
    key_range: ClassVar[int] = 1
    counts_privacy_ids: bool = False

    @property
    def total_cells(self) -> int | None:
        return None if self.counts_privacy_ids else 1

    def describe(self) -> str:
        return "privacy ids" if self.counts_privacy_ids else "records"

    def exactly(self, places: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        """Compute the exact count. It is not private: a rehearsal shows it for public data."""
        return {"count": float(weights.sum())}


class RecordCounter(Histogram):
    """Counter of records whose item is not null."""

    name = "count"
    spec_type = CountSpec

    @classmethod
    def usable_keys(cls, spec: CountSpec, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        usable = items.is_valid() if isinstance(items, pa.Array) else [each is not None for each in items]
        return np.zeros(len(items), dtype=np.uint64), np.asarray(usable, dtype=bool)


MAX_ITEMS = 1 << 20
MAX_BYTES = (1 << 32) - 1
_KNOWN: weakref.WeakValueDictionary[bytes, ListedItems] = weakref.WeakValueDictionary()
"""Decoded lists. Releases of many keys share a list."""


@named("ListedItems")
@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class ListedItems(Spec):
    """Items that are counted exactly. All other items are dropped.

    The list must be public, because every release and its bytes contain it. A list computed from the data would be
    published.

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
            raise ArgumentTypeError("items", f"must be ordered, got a {type(items).__name__}. Sort it", "E509")
        listed = _validate.many("E509", items=items)
        plain = listed.to_pylist() if isinstance(listed, pa.Array) else listed
        encoded = dict.fromkeys(map(encode, plain))
        if not encoded:
            raise ArgumentError("items", "must not be empty. List the items to count", "E509")
        if len(encoded) > MAX_ITEMS:
            raise ArgumentError(
                "items",
                f"must contain at most {MAX_ITEMS} items, got {len(encoded)}. Use a SketchSpec for more",
                "E509",
            )
        if sum(map(len, encoded)) + 4 * len(encoded) > MAX_BYTES:
            raise ArgumentError(
                "items", f"must use at most {MAX_BYTES} bytes in total, counting 5 extra bytes per item", "E509"
            )
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
        """Canonical bytes of the items, each after its length as four bytes."""
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
    """Decode a list, sharing the object while it is in use. Raise `ValueError` for invalid bytes."""
    spec = _KNOWN.get(encoded_items)
    if spec is None:
        spec = ListedItems(map(decode, split_parts(encoded_items)))
        if spec.encoded_items != encoded_items:
            raise ArgumentError("", "Items are listed more than once", "E509")
        _KNOWN[encoded_items] = spec
    return spec


class ListedHistogram(Histogram):
    """Raw histogram of listed items. Unlisted items are dropped.

    Raises `TypeError` or `ValueError` for items and weights that cannot be counted, without showing them.

    >>> ListedHistogram(ListedItems(["a", "b", 1])).accumulate(["a", "c", "a", 1, "1"]).counters
    array([2, 0, 1])
    """

    name = "listed_items"
    spec_type = ListedItems

    @classmethod
    def usable_keys(cls, spec: ListedItems, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        places = spec.lookup.find(items)
        return places.astype(np.uint64), places >= 0

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        places = find_all(self._spec, items)
        return places.astype(np.uint64), places >= 0


def find_all(spec: ListedItems, items: Any) -> np.ndarray:
    """Find the places of items, `NOT_LISTED` for unlisted items. Raise if an item cannot be counted."""
    places = spec.lookup.find(items)
    if (places == NOT_AN_ITEM).any():
        if isinstance(items, pa.Array):
            raise ArgumentTypeError(
                "items", "must not contain nulls or text that is not UTF-8. Drop them first", "E615"
            )
        for item in items:
            encode(item)  # raises for the first item that cannot be counted
    return places


@named("GroupedItems")
@dataclasses.dataclass(frozen=True, repr=False)
class ThresholdedItems(Spec):
    """A domain, and its released items.

    Args:
      domain: the item domain.
      encoded_items: the items as `short_keys`, each after its length as four bytes.
      left_out: in a combination, maximum number of items omitted because only some releases contain them.
    """

    kind: ClassVar[str] = "groups"
    domain: Domain | BytesDomain
    encoded_items: bytes = b""
    left_out: int = 0

    def __post_init__(self) -> None:
        _validate.instance(Domain, BytesDomain, domain=self.domain)
        _validate.whole_fields(self, "left_out", low=0, high=(1 << 62) - 1)
        if not all(map(self.domain.is_short_key, self.short_keys)) or len(self.places) < len(self.short_keys):
            raise ArgumentError("items", "must be distinct values in the domain", "E509")
        if len(set(self.items) - {None}) < len(self.items):
            raise ArgumentError("items", "must be valid and distinct text", "E509")

    @classmethod
    def of(cls, domain: Domain | BytesDomain, short_keys: Iterable[bytes], left_out: int = 0) -> ThresholdedItems:
        return cls(domain, join_parts(short_keys), left_out)

    @property
    def cells(self) -> int:
        return len(self.short_keys)

    @functools.cached_property
    def short_keys(self) -> tuple[bytes, ...]:
        return tuple(split_parts(self.encoded_items))

    @functools.cached_property
    def places(self) -> dict[bytes, int]:
        return {key: place for place, key in enumerate(self.short_keys)}

    @functools.cached_property
    def items(self) -> tuple[Any, ...]:
        """Items as plain Python values. Cut items are their beginning."""
        return tuple(self.domain.from_short_keys(self.short_keys))

    def truncated(self, items: Sequence[Any]) -> frozenset[Any] | None:
        """Select the items that are counted by their beginning. `None` if the domain cuts no items."""
        if self.domain.is_ordered:
            return None
        keys = self.short_keys if items is self.items else short_keys(self.domain.index(items)[0].tolist())
        return frozenset(item for key, item in zip(keys, items, strict=True) if self.domain.is_cut(key))

    def find(self, items: Any) -> np.ndarray:
        """Find the place of each item, -1 if it is absent. Raise if the domain cannot read an item."""
        keys, usable = self.domain.index(items)
        if not usable.all():
            raise ArgumentTypeError("items", f"must be {self.domain.takes} ({type(self.domain).__name__})", "E615")
        return np.array([self.places.get(key, -1) for key in short_keys(keys.tolist())], dtype=np.int64)

    def __repr__(self) -> str:
        return f"ThresholdedItems({self.domain}, {self.cells} items)"


class GroupedHistogram(RawSketch):
    """Reader and counter of items that have separate counts. It has no instances, because Beam stores the counts."""

    name = "groups"
    spec_type = ThresholdedItems

    @classmethod
    def key_type(cls, spec: ThresholdedItems) -> np.dtype[Any]:
        return spec.domain.key_type

    @classmethod
    def tables(cls, spec: ThresholdedItems) -> tuple[Table, ...]:
        return (Table(1, False, Fraction(1)),)

    @classmethod
    def cells_of(cls, spec: ThresholdedItems, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, np.zeros(len(keys), dtype=np.int64)
