"""Collapse repeated items into (item, count) before hashing, which costs several times as much as sorting.

Guarantee: the weights of equal items add up to their number, or to the sum of their weights, in 64-bit integers that
wrap around. Order is not kept.
"""

from __future__ import annotations

from collections import Counter
from operator import countOf
from typing import Any

import numpy as np
import pyarrow as pa

_MAX_DISTINCT_SHARE = 0.9  # above it, counting costs more than hashing every item
_SAMPLE, _RUN, _FEW_REPEATS = 1024, 64, 16
_LEAST_STEP = 8  # samples in all: of fewer items, drawing one takes as long as sorting all
_LONG = 64  # bytes; longer items are not hashed by columns
_HALF_WORD = 1 << 32


def count_duplicates(items: list[Any] | pa.Array) -> tuple[list[Any] | pa.Array, np.ndarray | None]:
    """Return the distinct items and their counts (int64), or all items and `None` if few repeat.

    Counted are lists of text only or bytes only (1 and True are equal and yet different items), and columns of text,
    bytes or integers without nulls.
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
    if len(used) < len(counts):  # a dictionary may hold values that no row has
        return encoded.dictionary.take(pa.array(used)), counts[used]
    return encoded.dictionary, counts


def count_duplicate_numbers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the distinct numbers and their counts, or all numbers and `None` if few repeat.

    A number may come several times, with counts that add up to its own.
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
    """Return whether some of a thousand items repeat, half of them neighbours; or whether items are long, or few.

    So counting them pays. Where none of the sample repeats, hashing all items is faster, unless they are long.
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
    """Sort keys, and their weights with them."""
    if np.all(keys[1:] >= keys[:-1]):
        return keys, weights
    order = np.argsort(_narrow(keys))
    return keys[order], weights[order]


def _narrow(values: np.ndarray) -> np.ndarray:
    """Return numbers in 32 bits if they fit, which are sorted faster; other values as they are."""
    fits = values.dtype == np.uint64 and len(values) and values.max() < _HALF_WORD
    return values.astype(np.uint32) if fits else values


def sum_by_key(ordered: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys of a sorted array, and the sum of the int64 weights of each."""
    starts = np.flatnonzero(_mark_first_of_equals(ordered))
    return (ordered, weights) if len(starts) == len(ordered) else (ordered[starts], np.add.reduceat(weights, starts))


def _mark_first_of_equals(ordered: np.ndarray) -> np.ndarray:
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new
