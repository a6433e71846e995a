"""Hash items to 64-bit fingerprints, equal in every process, on every platform and in every later version.

Integers are their own fingerprint (as 64-bit two's complement, so -1 and 2**64 - 1 share it). Text, bytes and tuples
are hashed over a canonical, type-tagged encoding. MurmurHash3 (x64, 128-bit variant, first 64 bits) is fast. Use keyed
BLAKE2b if an adversary can choose items: items of 32 bytes or more can be made to collide under MurmurHash3 for every
seed, which ruins accuracy (never privacy). The encoding and both hashes are part of the file format, with version
`HASH_VERSION`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import mmh3
import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.columns import plain_value
from beam_dpsketch.encodings import BYTES_TAG, TEXT_TAG, WORD, encode, to_integer
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.hashing.lookup import may_repeat
from beam_dpsketch.exact.hashing.murmur import blocks, murmur3

HASH_VERSION = 1
ITEM_HASHES = ("murmur3", "blake2b")
KEY_BYTES = 16

_TAGS = {pa.string(): TEXT_TAG, pa.large_string(): TEXT_TAG, pa.binary(): BYTES_TAG, pa.large_binary(): BYTES_TAG}
_MAX_SHORT, _FEW = 64, 16

_HashAll: TypeAlias = Callable[[Iterable[bytes]], np.ndarray]


def fingerprints(items: Iterable[Any], *, item_hash: str = "murmur3", item_key: bytes = b"") -> np.ndarray:
    """Compute the fingerprints for any iterable, numpy array or pyarrow array of items, uint64, shape (n,).

    Raises `TypeError` for a type that cannot be counted and `ValueError` for an integer outside 64 bits. Neither
    message contains the item.
    """
    if isinstance(items, (str, bytes)):
        _validate.many(items=items)
    hash_all = _keyed_blake2b(item_key) if item_hash == "blake2b" else _murmur3
    integers_as_they_are = item_hash == "murmur3"
    if isinstance(items, (pa.Array, pa.ChunkedArray)):
        return _hash_column(items, hash_all, integers_as_they_are)
    if isinstance(items, np.ndarray):
        if items.ndim != 1:
            raise ArgumentTypeError("items", f"must have one dimension, got {items.ndim}", "E615")
        if items.dtype.kind in "iu" and integers_as_they_are:
            return _wrap_integers(items)
        if items.dtype.kind in "mM":  # tolist() would turn nanoseconds into integers
            raise ArgumentTypeError(
                "items", f"must be text, bytes, 64-bit integers or tuples of these, got {items.dtype}", "E615"
            )
        items = items.tolist()
    return _hash_objects(list(items), hash_all, integers_as_they_are)


def _hash_objects(items: list[Any], hash_all: _HashAll, integers_as_they_are: bool) -> np.ndarray:
    types = set(map(type, items))
    if types == {str}:
        return _hash_text(items, hash_all)
    if types == {bytes}:
        return hash_all(BYTES_TAG + item for item in items)
    if types == {int} and integers_as_they_are:
        try:
            return np.array(items, dtype=np.int64).view(np.uint64)
        except OverflowError:
            pass
    items = [*map(plain_value, items)]
    hashed = [not integers_as_they_are or isinstance(item, (str, bytes, tuple)) for item in items]
    values = np.empty(len(items), dtype=np.uint64)
    values[hashed] = hash_all(map(encode, itertools.compress(items, hashed)))
    values[np.logical_not(hashed)] = [
        to_integer(item) % WORD for item, is_hashed in zip(items, hashed, strict=True) if not is_hashed
    ]
    return values


def _hash_text(items: list[str], hash_all: _HashAll) -> np.ndarray:
    try:
        return hash_all(TEXT_TAG + item.encode() for item in items)
    except UnicodeEncodeError:  # lone surrogates
        return hash_all(map(encode, items))


def _hash_column(items: pa.Array | pa.ChunkedArray, hash_all: _HashAll, integers_as_they_are: bool) -> np.ndarray:
    if items.null_count:
        raise ArgumentTypeError("items", "must not contain nulls or text that is not UTF-8. Drop them first", "E615")
    if pa.types.is_integer(items.type) and integers_as_they_are:
        return _wrap_integers(items.to_numpy(zero_copy_only=False) if isinstance(items, pa.Array) else items.to_numpy())
    if isinstance(items, pa.ChunkedArray):
        items = items.combine_chunks()
    if pa.types.is_nested(items.type):
        raise ArgumentTypeError(
            "items", f"must be text, bytes or 64-bit integers in a pyarrow column, got {items.type}", "E615"
        )
    if not len(items):
        return np.zeros(0, dtype=np.uint64)
    if not pa.types.is_dictionary(items.type):
        if items.type in _TAGS and not may_repeat(items):
            return _hash_distinct(items, hash_all, integers_as_they_are)
        items = items.dictionary_encode()
    distinct = _hash_distinct(items.dictionary, hash_all, integers_as_they_are)
    return distinct[items.indices.to_numpy(zero_copy_only=False)]


def _hash_distinct(items: pa.Array, hash_all: _HashAll, integers_as_they_are: bool) -> np.ndarray:
    """Hash column values: text and bytes in blocks with equal lengths, unless they are few or long."""
    tag = _TAGS.get(items.type) if hash_all is _murmur3 and not items.null_count else None
    if tag is None:
        return _hash_objects(items.to_pylist(), hash_all, integers_as_they_are)
    hashes = np.empty(len(items), dtype=np.uint64)
    for places, data in blocks(items, most=_MAX_SHORT):
        if data is None or len(places) < _FEW:
            hashes[places] = _hash_objects(items.take(pa.array(places)).to_pylist(), hash_all, True)
        else:
            hashes[places] = murmur3(data, tag)
    return hashes


def _wrap_integers(items: np.ndarray) -> np.ndarray:
    return items.astype(np.uint64) if items.dtype.kind == "u" else items.astype(np.int64).view(np.uint64)


def _murmur3(data: Iterable[bytes]) -> np.ndarray:
    """Hash to the first 64 of the 128 bits, without a Python loop per item."""
    return np.frombuffer(b"".join(map(mmh3.mmh3_x64_128_digest, data)), dtype="<u8")[::2].astype(np.uint64)


def _keyed_blake2b(key: bytes) -> _HashAll:
    """Create BLAKE2b under a key. The keyed state is prepared once and copied for each item."""
    keyed = hashlib.blake2b(digest_size=8, key=key)

    def digest(data: bytes) -> bytes:
        state = keyed.copy()
        state.update(data)
        return state.digest()

    return lambda data: np.frombuffer(b"".join(map(digest, data)), dtype="<u8").astype(np.uint64)
