"""Vectorized exact item lookup, a compact encoding of item lists, and counting of repeated items.

Guarantee: an item is found if and only if a listed item has the same canonical bytes, so 1, True, "1" and b"1" are
always distinct. No result depends on a hash alone.

Repeated items are collapsed into (item, count) before hashing, which costs several times as much as sorting. Guarantee:
weights of equal items add up to their number, or to the sum of their weights, in 64-bit integers that wrap around. The
order of items is lost.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import countOf
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from beam_dpsketch import checks as _validate
from beam_dpsketch.columns import plain_column
from beam_dpsketch.encodings import Item, encode, encode_all, is_item, join_parts, split_parts
from beam_dpsketch.errors import ArgumentTypeError

_MAX_DISTINCT_SHARE = 0.9  # above this share, counting costs more than hashing every item
_SAMPLE, _RUN, _FEW_REPEATS = 1024, 64, 16
_LEAST_STEP = 8  # with fewer items per sample, sampling is as slow as sorting
_LONG = 64  # bytes; longer items are not hashed in blocks
_HALF_WORD = 1 << 32


def count_duplicates(items: list[Any] | pa.Array) -> tuple[list[Any] | pa.Array, np.ndarray | None]:
    """Collapse items to distinct items and their counts (int64), or return all items and `None` if few repeat.

    Counts lists with only text or only bytes (1 and True are equal and yet different items), and columns of text, bytes
    or integers without nulls.
    """
    if isinstance(items, pa.Array):
        return _count_duplicates_in_column(items)
    kind = type(items[0]) if items else None
    if kind not in (str, bytes) or countOf(map(type, items), kind) < len(items):
        return items, None
    counts = Counter(items)
    if len(counts) > _MAX_DISTINCT_SHARE * len(items):
        return items, None
    return list(counts), np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


def _count_duplicates_in_column(items: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    if items.null_count:
        return items, None
    if pa.types.is_integer(items.type):
        values, counts = count_duplicate_numbers(items.to_numpy(zero_copy_only=False))
        return pa.array(values), counts
    if not any(word in str(items.type) for word in ("string", "binary")) or pa.types.is_nested(items.type):
        return items, None
    if not pa.types.is_dictionary(items.type) and not may_repeat(items):
        return items, None
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    counts = np.bincount(encoded.indices.to_numpy(zero_copy_only=False), minlength=len(encoded.dictionary))
    used = np.flatnonzero(counts)
    if len(used) < len(counts):  # a dictionary may contain unused values
        return encoded.dictionary.take(pa.array(used)), counts[used]
    return encoded.dictionary, counts


def count_duplicate_numbers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Collapse numbers to distinct numbers and their counts, or return all numbers and `None` if few repeat.

    A number may occur several times, with counts that add up to its own.
    """
    if not may_repeat(pa.array(values)):
        return values, None
    ordered = in_order(values)
    new = _mark_first_of_equals(ordered)
    if np.count_nonzero(new) > _MAX_DISTINCT_SHARE * len(ordered):
        return ordered, None
    starts = np.flatnonzero(new)
    return ordered[starts], np.diff(starts, append=len(ordered))


def may_repeat(items: pa.Array) -> bool:
    """Whether some of a thousand sampled items repeat, half of them neighbors, or items are long or few.

    Then counting them is worthwhile. If no sampled item repeats, hashing all items is faster, unless they are long.
    """
    step = len(items) // _SAMPLE
    if step < _LEAST_STEP or items.nbytes > _LONG * len(items):
        return True
    half = np.arange(_SAMPLE // 2)
    runs = half // _RUN * (len(items) // (len(half) // _RUN)) + half % _RUN
    places = np.union1d(half * 2 * step, runs)
    return len(items.take(pa.array(places)).unique()) <= len(places) - _FEW_REPEATS


def in_order(values: np.ndarray) -> np.ndarray:
    """Sort whole numbers."""
    return np.sort(_narrow(values)).astype(values.dtype, copy=False)


def sort_by_key(keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort keys together with their weights."""
    if np.all(keys[1:] >= keys[:-1]):
        return keys, weights
    order = np.argsort(_narrow(keys))
    return keys[order], weights[order]


def _narrow(values: np.ndarray) -> np.ndarray:
    """Convert numbers that fit to 32 bits, which sort faster."""
    fits = values.dtype == np.uint64 and len(values) and values.max() < _HALF_WORD
    return values.astype(np.uint32) if fits else values


def sum_by_key(ordered: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum the int64 weights of each distinct key in a sorted array."""
    starts = np.flatnonzero(_mark_first_of_equals(ordered))
    return (ordered, weights) if len(starts) == len(ordered) else (ordered[starts], np.add.reduceat(weights, starts))


def _mark_first_of_equals(ordered: np.ndarray) -> np.ndarray:
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


NOT_LISTED, NOT_AN_ITEM = -1, -2
_ITEMS_OF_A_PART = 1 << 14
_MAX_INT = np.iinfo(np.int64).max


def pack(encoded: Iterable[bytes]) -> bytes:
    """Compress the canonical bytes of items into a byte string."""
    return zstandard.compress(join_parts(encoded), 1)


def unpack(packed: bytes) -> list[bytes]:
    """Decode the output of `pack`."""
    return split_parts(zstandard.decompress(packed))


def in_parts(items: Iterable[Any]) -> list[bytes]:
    """Pack items in order, in parts of some thousand items."""
    encoded = [*map(encode, items)]
    return [pack(encoded[start : start + _ITEMS_OF_A_PART]) for start in range(0, len(encoded), _ITEMS_OF_A_PART)]


class ItemSet:
    """Canonical bytes of listed items, compressed in pickles because many steps of a job contain the set."""

    def __init__(self, encoded: Iterable[bytes]) -> None:
        self._encoded = frozenset(encoded)

    def __contains__(self, encoded: bytes) -> bool:
        return encoded in self._encoded

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._encoded)

    @functools.cached_property
    def _packed(self) -> bytes:
        return pack(sorted(self._encoded))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self._packed,)


def _unpacked(packed: bytes) -> ItemSet:
    return ItemSet(unpack(packed))


class ItemLookup:
    """Places of items in a list without repetitions."""

    def __init__(self, items: tuple[Item, ...]) -> None:
        self._items = items

    def find(self, items: Any) -> np.ndarray:
        """Find the place of each item in a list, numpy array or pyarrow array, int64, shape (n,).

        The place is `NOT_LISTED` for unlisted items, and `NOT_AN_ITEM` for nulls and for values that cannot be counted.
        Raises `TypeError` for a single item, for a two-dimensional array, and for a pyarrow array whose type can never
        be counted.
        """
        if isinstance(items, (str, bytes)):
            _validate.many(items=items)
        items = plain_column(items) if isinstance(items, pa.Array) else items
        if isinstance(items, pa.Array) and pa.types.is_decimal(items.type):
            items = items.to_pylist()
        if isinstance(items, pa.Array):
            return self._find_in_column(items)
        if not isinstance(items, np.ndarray):
            return self._find_objects(items)
        if items.ndim != 1:
            raise ArgumentTypeError("items", f"must have one dimension, got {items.ndim}", "E615")
        if items.dtype.kind in "iu":
            return self._find_integers(items)
        return self._find_objects(list(items) if items.dtype.kind in "mM" else items.tolist())

    def _find_objects(self, items: list[Any]) -> np.ndarray:
        types = set(map(type, items))
        if types in ({str}, {bytes}) or (types == {int} and is_item(min(items)) and is_item(max(items))):
            return _look_up(self._places_of_type[types.pop()], items)
        return _look_up(self._places_of_bytes, encode_all(items).to_pylist())

    def _find_in_column(self, items: pa.Array) -> np.ndarray:
        found = self._find_distinct(items)
        if items.null_count:
            found = np.where(np.asarray(items.is_valid()), found, NOT_AN_ITEM)
        if np.count_nonzero(found == NOT_AN_ITEM) > items.null_count:
            raise ArgumentTypeError(
                "items", f"must be text, bytes or 64-bit integers in a pyarrow column, got {items.type}", "E615"
            )
        return found

    def _find_distinct(self, items: pa.Array) -> np.ndarray:
        if pa.types.is_integer(items.type):
            return self._find_integers(items.fill_null(0).to_numpy(zero_copy_only=False))
        if pa.types.is_nested(items.type):
            return np.full(len(items), NOT_AN_ITEM, dtype=np.int64)
        encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
        found = self._find_objects(encoded.dictionary.to_pylist())
        indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return found[indices] if len(found) else np.full(len(items), NOT_AN_ITEM, dtype=np.int64)

    def _find_integers(self, values: np.ndarray) -> np.ndarray:
        if values.dtype == np.uint64 and values.max(initial=0) > _MAX_INT:
            return _look_up(self._places_of_bytes, encode_all(values.tolist()).to_pylist())
        integers, places = self._integers
        return places[pc.index_in(pa.array(values.astype(np.int64, copy=False)), integers).fill_null(-1).to_numpy()]

    @functools.cached_property
    def _places_of_type(self) -> dict[type, dict[Any, int]]:
        """Places of texts, byte strings and integers."""
        numbered = [*enumerate(self._items)]
        return {kind: {item: place for place, item in numbered if type(item) is kind} for kind in (str, bytes, int)}

    @functools.cached_property
    def _places_of_bytes(self) -> dict[bytes | None, int]:
        places: dict[bytes | None, int] = {encode(item): place for place, item in enumerate(self._items)}
        return {**places, None: NOT_AN_ITEM}

    @functools.cached_property
    def _integers(self) -> tuple[pa.Array, np.ndarray]:
        """Listed int64 values, and their places followed by `NOT_LISTED`."""
        found = {item: place for place, item in enumerate(self._items) if isinstance(item, int) and item <= _MAX_INT}
        return pa.array([*found], pa.int64()), np.array([*found.values(), NOT_LISTED], dtype=np.int64)


def _look_up(places: dict[Any, int], items: Iterable[Any]) -> np.ndarray:
    return np.fromiter(map(places.get, items, itertools.repeat(NOT_LISTED)), dtype=np.int64)
