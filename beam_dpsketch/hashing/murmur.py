"""MurmurHash3 (x64, 128-bit variant, first 64 bits) of many values of one length at once.

Guarantee: the bits of the package `mmh3`, with seed 0. Source: Appleby, MurmurHash3_x64_128.
"""

from __future__ import annotations

import numpy as np

_FIRST, _SECOND = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_ADD_FIRST, _ADD_SECOND, _FIVE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_MIX = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_BLOCK = 16


def murmur3(values: np.ndarray, tag: bytes = b"") -> np.ndarray:
    """Return the hash of each row of bytes after a tag: uint64 of shape (n,), from uint8 of shape (n, length)."""
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
