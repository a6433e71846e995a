"""Items that repeat, each once and how often: hashing costs several times what sorting does.

Guarantee: the weights of equal items add up to how often they were there, or to the sum of their weights, in 64-bit
integers that wrap around. Order is not kept.
"""

from __future__ import annotations

from collections import Counter
from operator import countOf
from typing import Any

import numpy as np
import pyarrow as pa

_WORTH = 0.9
"""Up to which share of distinct items it pays to count them."""


def count_duplicates(items: list[Any] | pa.Array) -> tuple[list[Any] | pa.Array, np.ndarray | None]:
    """The distinct items and how often each is there (int64), or all of them and `None` if few or none repeat.

    Nulls are left as they are, and so are items that are equal and yet not the same, such as 1 and True.
    """
    if isinstance(items, pa.Array):
        return _of_column(items)
    kind = type(items[0]) if items else None
    if kind not in (str, bytes) or countOf(map(type, items), kind) < len(items):
        return items, None
    counts = Counter(items)
    if len(counts) > _WORTH * len(items):
        return items, None
    return list(counts), np.fromiter(counts.values(), dtype=np.int64, count=len(counts))


def _of_column(items: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    if items.null_count:
        return items, None
    if pa.types.is_integer(items.type):
        values, counts = count_duplicate_numbers(items.to_numpy(zero_copy_only=False))
        return pa.array(values), counts
    if not any(word in str(items.type) for word in ("string", "binary")) or pa.types.is_nested(items.type):
        return items, None
    encoded = items if pa.types.is_dictionary(items.type) else items.dictionary_encode()
    counts = np.bincount(encoded.indices.to_numpy(zero_copy_only=False), minlength=len(encoded.dictionary))
    there = np.flatnonzero(counts)
    if len(there) < len(counts):  # a dictionary may hold what no row has
        return encoded.dictionary.take(pa.array(there)), counts[there]
    return encoded.dictionary, counts


def count_duplicate_numbers(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The distinct numbers in order and how often each is there, or all of them in order and `None`."""
    ordered = np.sort(values)
    new = _first_of_equals(ordered)
    if np.count_nonzero(new) > _WORTH * len(ordered):
        return ordered, None
    starts = np.flatnonzero(new)
    return ordered[starts], np.diff(starts, append=len(ordered))


def sort_by_key(keys: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys from the smallest to the largest, and the weight of each."""
    if np.all(keys[1:] >= keys[:-1]):
        return keys, weights
    order = np.argsort(keys)
    return keys[order], weights[order]


def sum_by_key(ordered: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys that are in order, each once, and the sum of its int64 weights."""
    starts = np.flatnonzero(_first_of_equals(ordered))
    return (ordered, weights) if len(starts) == len(ordered) else (ordered[starts], np.add.reduceat(weights, starts))


def _first_of_equals(ordered: np.ndarray) -> np.ndarray:
    """Where a value in order is not the one before, as bool."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new
