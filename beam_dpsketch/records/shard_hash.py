"""Canonical bytes to 64-bit words that choose shards and ranks, vectorised; no part of any format.

Guarantee: a word is a function of its value alone, whatever column, slice or batch it is in and whether numbers are in
canonical bytes or not, so that all records of a privacy id meet; equal words do not mean equal values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.encodings import NEGATIVE, NON_NEGATIVE
from beam_dpsketch.hashing.fingerprints import fingerprints

_SHORT = 64
_CHUNK = 1 << 14  # values at a time, so that they stay in the cache


def shard_hash(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """One word for each value, uint64 of shape (n,), of canonical bytes or int64; the column has no nulls."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not len(values):
        return np.zeros(0, dtype=np.uint64)
    if pa.types.is_integer(values.type):
        return _in_chunks(_of_numbers, values.to_numpy())
    values = values.cast(pa.large_binary())
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    letters = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    sizes = np.minimum(np.diff(offsets), _SHORT + 1)
    words = np.empty(len(values), dtype=np.uint64)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        rows = np.flatnonzero(sizes == size)
        if size > _SHORT:
            words[rows] = fingerprints(values.take(pa.array(rows)).to_numpy(zero_copy_only=False))
        elif len(rows) == len(values):
            words = _in_chunks(_of_one_size, letters[offsets[0] : offsets[-1]].reshape(len(values), size))
        else:
            words[rows] = _of_one_size(letters[offsets[rows][:, None] + np.arange(size)])
    return words


def _in_chunks(words_of: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    return np.concatenate([words_of(values[start : start + _CHUNK]) for start in range(0, len(values), _CHUNK)])


def _of_numbers(numbers: np.ndarray) -> np.ndarray:
    """Words of int64 numbers: those that `_of_one_size` makes of their canonical bytes."""
    bits = numbers.view(np.uint64)
    tags = np.where(numbers < 0, np.uint64(NEGATIVE[0]), np.uint64(NON_NEGATIVE[0]))
    words = cells.mix(_first_word(9) ^ tags ^ (bits << np.uint64(8)), seed=0, row=0)
    return cells.mix(words ^ (bits >> np.uint64(56)), seed=0, row=0)


def _first_word(size: int) -> np.ndarray:
    return cells.mix(np.array([size], dtype=np.uint64), seed=0, row=0)


def _of_one_size(letters: np.ndarray) -> np.ndarray:
    """Words of values of one size, uint8 of shape (n, size)."""
    count, size = letters.shape
    padded = np.zeros((count, -(-size // 8) * 8), dtype=np.uint8)
    padded[:, :size] = letters
    words = np.repeat(_first_word(size), count)
    for part in padded.view("<u8").T:
        words = cells.mix(words ^ part.astype(np.uint64), seed=0, row=0)
    return words
