"""Fingerprints to cells: in each row a column in [0, width) and a sign, by keyed 64-bit mixing.

Rows and seeds behave like independent random functions: each has two 64-bit keys, expanded from the seed by
BLAKE2b, and each fingerprint passes two full-avalanche rounds (the finaliser of SplitMix64, Steele, Lea and Flood,
OOPSLA 2014) with a key before each. The column is the high half scaled to the width (off a uniform draw by less
than width / 2**32), the sign the lowest bit. Part of the file format, numbered by `items.HASH_VERSION`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

_ODD = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def columns(fingerprints: np.ndarray, *, seed: int, row: int, width: int) -> np.ndarray:
    """The column of each fingerprint (uint64) in one row, as int64 of the same shape."""
    return _scaled(mix(fingerprints, seed=seed, row=row), width)


def columns_and_signs(fingerprints: np.ndarray, *, seed: int, row: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The column and the sign (-1 or 1) of each fingerprint (uint64) in one row, both int64."""
    mixed = mix(fingerprints, seed=seed, row=row)
    return _scaled(mixed, width), (mixed & np.uint64(1)).astype(np.int64) * 2 - 1


def read_rows(counters: np.ndarray, fingerprints: np.ndarray, *, seed: int, has_signs: bool) -> np.ndarray:
    """The counter that each fingerprint meets in each row, times its sign if there are signs: float64, (depth, n)."""
    depth, width = counters.shape
    found = np.empty((depth, len(fingerprints)))
    for row in range(depth):
        if has_signs:
            in_row, signs = columns_and_signs(fingerprints, seed=seed, row=row, width=width)
            found[row] = counters[row, in_row] * signs
        else:
            found[row] = counters[row, columns(fingerprints, seed=seed, row=row, width=width)]
    return found


def _scaled(mixed: np.ndarray, width: int) -> np.ndarray:
    """The high 32 bits, scaled to [0, width)."""
    return (((mixed >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32)).astype(np.int64)


def mix(fingerprints: np.ndarray, *, seed: int, row: int) -> np.ndarray:
    """A random-looking 64-bit word for each fingerprint, another function for each seed and row."""
    first, second = _row_keys(seed, row)
    mixed = fingerprints * _ODD
    mixed += first
    _avalanche(mixed)
    mixed += second
    _avalanche(mixed)
    return mixed


def _avalanche(words: np.ndarray) -> None:
    words ^= words >> np.uint64(30)
    words *= _FIRST
    words ^= words >> np.uint64(27)
    words *= _SECOND
    words ^= words >> np.uint64(31)


@lru_cache(maxsize=4096)
def _row_keys(seed: int, row: int) -> tuple[np.uint64, np.uint64]:
    message = seed.to_bytes(8, "little") + row.to_bytes(4, "little")
    digest = hashlib.blake2b(message, digest_size=16, person=b"dpsketch cells 1").digest()
    return np.uint64(int.from_bytes(digest[:8], "little")), np.uint64(int.from_bytes(digest[8:], "little"))


def derived_seed(seed: int, number: int) -> int:
    """The seed of one of several sketches that belong together, independent of the others'."""
    message = seed.to_bytes(8, "little") + number.to_bytes(4, "little")
    digest = hashlib.blake2b(message, digest_size=8, person=b"dpsketch levels1").digest()
    return int.from_bytes(digest, "little")
