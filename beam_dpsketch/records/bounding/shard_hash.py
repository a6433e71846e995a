"""Hash canonical bytes to 64 bits, vectorised, to choose shards and priorities; part of no format.

Guarantee: a hash is a function of its value alone, in any column, slice or batch, and equal for a number and its
canonical bytes. So all records of a privacy id meet. Equal hashes do not mean equal values.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.byte_blocks import blocks
from beam_dpsketch.hashing.encodings import NEGATIVE, NON_NEGATIVE
from beam_dpsketch.hashing.fingerprints import fingerprints

_MAX_SHORT = 64  # bytes; longer values are hashed one by one
_CHUNK = 1 << 14  # values at a time, so that they stay in the cache


def shard_hash(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a hash for each value, uint64 of shape (n,); the column holds canonical bytes or int64, and no nulls."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not len(values):
        return np.zeros(0, dtype=np.uint64)
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy()
        return np.concatenate([_hash_numbers(numbers[i : i + _CHUNK]) for i in range(0, len(numbers), _CHUNK)])
    values = values.cast(pa.large_binary())
    hashes = np.empty(len(values), dtype=np.uint64)
    for places, data in blocks(values, most=_MAX_SHORT):
        hashes[places] = fingerprints(values.take(pa.array(places))) if data is None else _hash_one_size(data)
    return hashes


def _hash_numbers(numbers: np.ndarray) -> np.ndarray:
    """Hash int64 numbers, to what `_hash_one_size` makes of their canonical bytes."""
    bits = numbers.view(np.uint64)
    tags = np.where(numbers < 0, np.uint64(NEGATIVE[0]), np.uint64(NON_NEGATIVE[0]))
    hashes = cells.mix(_initial_hash(9) ^ tags ^ (bits << np.uint64(8)), seed=0, row=0)
    return cells.mix(hashes ^ (bits >> np.uint64(56)), seed=0, row=0)


def _initial_hash(size: int) -> np.ndarray:
    return cells.mix(np.array([size], dtype=np.uint64), seed=0, row=0)


def _hash_one_size(data_bytes: np.ndarray) -> np.ndarray:
    """Hash values of one size, uint8 of shape (n, size)."""
    count, size = data_bytes.shape
    padded = np.zeros((count, -(-size // 8) * 8), dtype=np.uint8)
    padded[:, :size] = data_bytes
    hashes = np.repeat(_initial_hash(size), count)
    for part in padded.view("<u8").T:
        hashes = cells.mix(hashes ^ part.astype(np.uint64), seed=0, row=0)
    return hashes
