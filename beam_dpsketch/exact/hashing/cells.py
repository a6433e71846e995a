"""Keyed 64-bit mixing: map a fingerprint to a cell in each row, that is, a column in [0, width) and a sign.

Rows and seeds behave like independent random functions. Each has two 64-bit keys, expanded from the seed by BLAKE2b,
and each fingerprint passes two full-avalanche rounds (the finalizer of SplitMix64, Steele, Lea and Flood, OOPSLA 2014)
with a key before each. The column is the high half scaled to the width, which deviates from a uniform draw by less than
width / 2**32. The sign is the lowest bit. The mapping is part of the file format, with version
`fingerprints.HASH_VERSION`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_CACHE_LINE = 8  # uint64 values
AT_ONCE = 1 << 15
"""Fingerprints per batch: small enough for the L2 cache, large enough to amortize a numpy call."""


def columns(fingerprints: np.ndarray, *, seed: int, row: int, width: int) -> np.ndarray:
    """Compute the column of each fingerprint (uint64) in a row, int64, same shape."""
    return _scale(mix(fingerprints, seed=seed, row=row), width)


def columns_and_signs(fingerprints: np.ndarray, *, seed: int, row: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the column and the sign (-1 or 1) of each fingerprint (uint64) in a row, both int64."""
    mixed = mix(fingerprints, seed=seed, row=row)
    return _scale(mixed, width), (mixed & np.uint64(1)).astype(np.int64) * 2 - 1


def add_to_rows(
    counters: np.ndarray, fingerprints: np.ndarray, weights: np.ndarray | None, *, seed: int, has_signs: bool
) -> None:
    """Add each fingerprint's int64 weight (`None`: 1), times its sign if there are signs, to its cell in each row."""
    depth, width = counters.shape
    size = min(AT_ONCE, len(fingerprints))
    rows_at_once = min(depth, AT_ONCE // max(1, size))
    buffers = _allocate_aligned(3 * rows_at_once * size).reshape(3, rows_at_once, size)
    for start in range(0, len(fingerprints), AT_ONCE):
        part = fingerprints[start : start + AT_ONCE]
        products = np.multiply(part, _ODD, out=buffers[2, 0, : len(part)])
        added = np.int64(1) if weights is None else weights[start : start + AT_ONCE]
        doubled = added * np.int64(2) if has_signs else added
        for first in range(0, depth, rows_at_once):
            rows = range(first, min(depth, first + rows_at_once))
            mixed, spare = buffers[:2, : len(rows), : len(part)]
            _mix_rows_into(mixed, products, spare, *keys_of_rows(seed, rows))
            columns_of_rows = _scale_into(spare, mixed, width)
            if has_signs:
                signed = _apply_signs(mixed, added, doubled)
            for row, places in zip(rows, columns_of_rows, strict=True):
                np.add.at(counters[row], places, signed[row - first] if has_signs else added)


def _allocate_aligned(size: int) -> np.ndarray:
    """Allocate uint64 memory aligned to a cache line. Unaligned buffers slow down every mixing step."""
    memory = np.empty(size + _CACHE_LINE, dtype=np.uint64)
    start = -(memory.__array_interface__["data"][0] // 8) % _CACHE_LINE
    return memory[start : start + size]


def read_rows(counters: np.ndarray, fingerprints: np.ndarray, *, seed: int, has_signs: bool) -> np.ndarray:
    """Read each fingerprint's counter in each row, times its sign if there are signs: float64, (depth, n)."""
    depth, width = counters.shape
    found = np.empty((depth, len(fingerprints)))
    for start in range(0, len(fingerprints), AT_ONCE):
        products = fingerprints[start : start + AT_ONCE] * _ODD
        mixed, spare = np.empty((2, len(products)), dtype=np.uint64)
        for row in range(depth):
            _mix_into(mixed, products, spare, seed=seed, row=row)
            read = counters[row].take(_scale_into(spare, mixed, width))
            found[row, start : start + len(products)] = read * _apply_signs(mixed, 1, 2) if has_signs else read
    return found


class Places:
    """Cells of some fingerprints in every row, hashed once for many uses."""

    def __init__(self, fingerprints: np.ndarray, *, seed: int, depth: int, width: int, has_signs: bool) -> None:
        self.depth, self.width, self.size = depth, width, len(fingerprints)
        found = [columns_and_signs(fingerprints, seed=seed, row=row, width=width) for row in range(depth)]
        self._columns = [columns for columns, _ in found]
        self._signs = np.array([signs if has_signs else np.ones_like(signs) for _, signs in found], dtype=np.float64)

    def read(self, counters: np.ndarray) -> np.ndarray:
        """Read each fingerprint's counter in each row, times its sign if there are signs: float64, (depth, n)."""
        return self.look_up(counters) * self._signs

    def look_up(self, table: np.ndarray) -> np.ndarray:
        """Read each fingerprint's value in each row of a table, without a sign: (depth, n)."""
        return np.array([row.take(columns) for row, columns in zip(table, self._columns, strict=True)])

    def sketch(self, weights: np.ndarray) -> np.ndarray:
        """Sketch these weights, (n,), or different weights in each row, (depth, n), to counters, (depth, width)."""
        return self.sums(weights * self._signs)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum the values in each row, (depth, n), over each cell without signs: (depth, width)."""
        rows = zip(self._columns, values, strict=True)
        return np.array([np.bincount(columns, weights=row, minlength=self.width) for columns, row in rows])


def _scale(mixed: np.ndarray, width: int) -> np.ndarray:
    return _scale_into(np.empty_like(mixed), mixed, width)


def _scale_into(out: np.ndarray, mixed: np.ndarray, width: int) -> np.ndarray:
    if not width & (width - 1):  # a power of two
        return np.right_shift(mixed, np.uint64(65 - width.bit_length()), out=out).view(np.int64)
    np.right_shift(mixed, _HALF, out=out)
    out *= np.uint64(width)
    out >>= _HALF
    return out.view(np.int64)


def _apply_signs(mixed: np.ndarray, weights: Any, doubled: Any) -> np.ndarray:
    """Negate weights modulo 2**64 where the lowest bit is 0."""
    mixed &= np.uint64(1)
    signed = mixed.view(np.int64)
    signed *= doubled
    signed -= weights
    return signed


def mix(fingerprints: np.ndarray, *, seed: int, row: int) -> np.ndarray:
    """Mix each fingerprint to a random-looking uint64, by a different function for each seed and row."""
    mixed = fingerprints * _ODD
    _mix_into(mixed, mixed, np.empty_like(mixed), seed=seed, row=row)
    return mixed


def _mix_into(out: np.ndarray, products: np.ndarray, spare: np.ndarray, *, seed: int, row: int) -> None:
    """Mix fingerprints that are already multiplied by `_ODD`, without allocating another array."""
    _mix_rows_into(out, products, spare, *_row_keys(seed, row))


def _mix_rows_into(out: np.ndarray, products: np.ndarray, spare: np.ndarray, first: Any, second: Any) -> None:
    """Mix into several rows, whose keys have shape (rows, 1)."""
    np.add(products, first, out=out)
    _avalanche(out, spare)
    out += second
    _avalanche(out, spare)


def _avalanche(hashes: np.ndarray, spare: np.ndarray) -> None:
    hashes ^= np.right_shift(hashes, np.uint64(30), out=spare)
    hashes *= _FIRST
    hashes ^= np.right_shift(hashes, np.uint64(27), out=spare)
    hashes *= _SECOND
    hashes ^= np.right_shift(hashes, np.uint64(31), out=spare)


@lru_cache(maxsize=4096)
def _row_keys(seed: int, row: int) -> tuple[np.uint64, np.uint64]:
    message = seed.to_bytes(8, "little") + row.to_bytes(4, "little")
    digest = hashlib.blake2b(message, digest_size=16, person=b"dpsketch cells 1").digest()
    return np.uint64(int.from_bytes(digest[:8], "little")), np.uint64(int.from_bytes(digest[8:], "little"))


@lru_cache(maxsize=4096)
def keys_of_rows(seed: int, rows: range) -> tuple[np.ndarray, np.ndarray]:
    """Compute the two keys of each row, both uint64, shape (rows, 1)."""
    first, second = zip(*(_row_keys(seed, row) for row in rows), strict=True)
    return np.array(first)[:, None], np.array(second)[:, None]


def derive_seed(seed: int, number: int) -> int:
    """Derive the seed of one of several related sketches, independent of the other seeds."""
    message = seed.to_bytes(8, "little") + number.to_bytes(4, "little")
    digest = hashlib.blake2b(message, digest_size=8, person=b"dpsketch levels1").digest()
    return int.from_bytes(digest, "little")
