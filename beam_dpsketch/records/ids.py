"""Privacy ids as columns: int64 if all are numbers, else canonical bytes.

Guarantee: two ids are equal if and only if their canonical bytes are, in either form. An int64 column is equivalent to
the canonical bytes of its numbers and four times cheaper to process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.hashing.encodings import encode_all

_MAX_INT = np.iinfo(np.int64).max


def id_column(ids: Sequence[Any] | pa.Array) -> pa.Array:
    """Return ids as int64 if all are numbers that fit, else as canonical bytes; null where one cannot be encoded."""
    if isinstance(ids, pa.Array):
        return _convert_column(ids)
    if set(map(type, ids)) == {int}:
        try:
            return pa.array(np.array(ids, dtype=np.int64))
        except OverflowError:
            pass
    return encode_all(ids)


def _convert_column(ids: pa.Array) -> pa.Array:
    kind = ids.type
    if pa.types.is_dictionary(kind):
        return id_column(ids.dictionary).take(ids.indices)
    if pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(ids).as_py() or 0) <= _MAX_INT):
        return ids.cast(pa.int64())
    return encode_all(ids)


def encode_ids(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of ids to canonical bytes."""
    if ids.type != pa.int64():
        return ids
    return pa.chunked_array([encode_all(chunk) for chunk in ids.chunks], pa.large_binary())
