"""Columns of bytes as blocks of equal lengths, so that numpy hashes many values at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

_CHUNK = 1 << 12  # values at a time, so that they stay in the cache


def blocks(values: pa.Array, *, most: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield the places of some values in a column, int64, and their bytes, uint8 of shape (n, length).

    Args:
      values: text or bytes, without nulls; offsets have 32 or 64 bits.
      most: how long values of a block are at most; longer ones come all together, without their bytes.
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
