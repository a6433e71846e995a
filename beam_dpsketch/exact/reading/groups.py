"""Group table rows by column values, or by pairs of key and item.

A pair is a single value, because an item is bounded and counted like an output key. Guarantee: pairs have equal bytes
if and only if they are equal. The bytes are for workers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.exact.domains.base import short_keys

_SMALL = 2  # multiple of their count: below it, table lookup beats hashing


def dictionary_codes(values: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Encode a column as positions in the array of its distinct values."""
    if values.type == pa.int64() and (found := _codes_of_small(values)) is not None:
        return found
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


def _codes_of_small(values: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array] | None:
    """Encode whole numbers that are small relative to their count. The distinct values are sorted."""
    numbers = values.to_numpy()
    if not len(numbers) or numbers.min() < 0 or (most := int(numbers.max())) >= _SMALL * len(numbers):
        return None
    are_there = np.zeros(most + 1, dtype=bool)
    are_there[numbers] = True
    return (np.cumsum(are_there) - 1)[numbers], pa.array(np.flatnonzero(are_there))


def in_order_of_values(codes: np.ndarray, distinct: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Sort the distinct values and adjust the positions. The order of two codes does not depend on other rows."""
    order = pc.sort_indices(distinct).to_numpy()
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order), dtype=order.dtype)
    return ranks[codes], distinct.take(pa.array(order))


def group_rows(codes: np.ndarray, count: int) -> tuple[np.ndarray, list[slice]]:
    """Sort rows by code, and return the slice of that order for each code in [0, count).

    Rows with equal codes remain in order. Larger codes are last, in no slice.
    """
    ends = np.cumsum(np.bincount(codes, minlength=count)[:count]).tolist()
    return np.argsort(codes, kind="stable"), [slice(*part) for part in zip([0, *ends[:-1]], ends, strict=False)]


_LENGTH, _HALF = 4, 1 << 63
Row: TypeAlias = tuple[int, ...]
"""Weight of a pair, followed by the columns in `SketchInput.vote_names` if units vote for pairs."""


def join_pairs(records: pa.Table) -> pa.Table:
    """Replace the columns key, if any, and item by pairs in the column `key`, and make the column `item` constant."""
    codes, items = dictionary_codes(records["item"])
    short = short_keys(items.to_pylist())
    if "key" in records.column_names:
        key_codes, keys = dictionary_codes(records["key"])
        names = [len(key).to_bytes(_LENGTH, "little") + key for key in keys.to_pylist()]
        joined = key_codes.astype(np.int64) * max(1, len(short)) + codes
        distinct, codes = np.unique(joined, return_inverse=True)
        short = [names[place // len(short)] + short[place % len(short)] for place in distinct.tolist()]
    columns = {name: records[name] for name in records.column_names if name not in ("key", "item", "weight")}
    pairs = pa.array(short, pa.large_binary()).take(pa.array(codes))
    nothing = pa.array(np.zeros(len(records), dtype=np.uint64))
    return pa.table({**columns, "key": pairs, "item": nothing, "weight": records["weight"]})


def split_pair(pair: bytes, *, per_key: bool) -> tuple[bytes, bytes]:
    """Split a pair into key (b"" without keys) and item, both encoded."""
    if not per_key:
        return b"", pair
    end = _LENGTH + int.from_bytes(pair[:_LENGTH], "little")
    return pair[_LENGTH:end], pair[end:]


def sum_by_pair(pairs: pa.ChunkedArray, rows: np.ndarray) -> Iterator[tuple[bytes, Row]]:
    """Yield each distinct pair with the sum of its rows, int64, shape (n, m)."""
    codes, distinct = dictionary_codes(pairs)
    sums = np.zeros((rows.shape[1], len(distinct)), dtype=np.int64)
    for each, column in zip(sums, rows.T, strict=True):
        np.add.at(each, codes, column)
    yield from zip(distinct.to_pylist(), zip(*sums.tolist(), strict=True), strict=True)


def add_wrapping(first: Row, second: Row) -> Row:
    """Add with 64-bit wrap-around, as all counters do. An error would reveal a record."""
    return tuple([(one + other + _HALF) % (2 * _HALF) - _HALF for one, other in zip(first, second, strict=True)])
