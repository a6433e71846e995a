"""MurmurHash3 (x64, 128-bit variant, first 64 bits), vectorized over values with equal lengths.

Guarantee: the bits are those from the package `mmh3`, with seed 0. Source: Appleby, MurmurHash3_x64_128.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

_CHUNK = 1 << 12  # values per batch, which fit into the cache


def blocks(values: pa.Array, *, most: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield the places of values with equal lengths in a column, int64, and their bytes, uint8, shape (n, length).

    Args:
      values: text or bytes, without nulls. Offsets have 32 or 64 bits.
      most: maximum length of values in blocks. Longer values form a block without bytes.
    """
    _, ends, data = values.buffers()
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32)[values.offset : values.offset + len(values) + 1]
    offsets = offsets.astype(np.int64, copy=False)
    data_bytes = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, dtype=np.uint8)
    sizes = np.minimum(np.diff(offsets), most + 1)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        places = np.flatnonzero(sizes == size)
        if size > most:
            yield places, None
            continue
        for start in range(0, len(places), _CHUNK):
            some = places[start : start + _CHUNK]
            if len(places) == len(values):
                yield some, data_bytes[offsets[some[0]] : offsets[some[-1] + 1]].reshape(len(some), size)
            else:
                yield some, data_bytes[np.add.outer(offsets[some], np.arange(size))]


_FIRST, _SECOND = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_ADD_FIRST, _ADD_SECOND, _FIVE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_MIX = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_BLOCK = 16


def murmur3(values: np.ndarray, tag: bytes = b"") -> np.ndarray:
    """Hash each row of bytes after a tag: uint64, shape (n,), from uint8, shape (n, length)."""
    count, size = len(values), values.shape[1] + len(tag)
    padded = np.zeros((count, max(1, -(-size // _BLOCK)) * _BLOCK), dtype=np.uint8)
    padded[:, : len(tag)] = np.frombuffer(tag, dtype=np.uint8)
    padded[:, len(tag) : size] = values
    words = np.ascontiguousarray(padded.view("<u8").T).astype(np.uint64, copy=False)
    first, second = np.zeros((2, count), dtype=np.uint64)
    whole, rest = divmod(size, _BLOCK)
    for block in range(whole):
        first ^= _scrambled(words[2 * block], _FIRST, 31, _SECOND)
        _stir(first, 27, second, _ADD_FIRST)
        second ^= _scrambled(words[2 * block + 1], _SECOND, 33, _FIRST)
        _stir(second, 31, first, _ADD_SECOND)
    if rest > _BLOCK // 2:
        second ^= _scrambled(words[2 * whole + 1], _SECOND, 33, _FIRST)
    if rest:
        first ^= _scrambled(words[2 * whole], _FIRST, 31, _SECOND)
    first ^= np.uint64(size)
    second ^= np.uint64(size)
    first += second
    second += first
    return _finished(first) + _finished(second)


def _scrambled(word: np.ndarray, factor: np.uint64, bits: int, last: np.uint64) -> np.ndarray:
    mixed = word * factor
    _rotate(mixed, bits)
    mixed *= last
    return mixed


def _stir(word: np.ndarray, bits: int, other: np.ndarray, add: np.uint64) -> None:
    """Change a word in place."""
    _rotate(word, bits)
    word += other
    word *= _FIVE
    word += add


def _rotate(word: np.ndarray, bits: int) -> None:
    high = word >> np.uint64(64 - bits)
    word <<= np.uint64(bits)
    word |= high


def _finished(word: np.ndarray) -> np.ndarray:
    for factor in _MIX:
        word = (word ^ (word >> _SHIFT)) * factor
    return word ^ (word >> _SHIFT)
