"""Group the rows of a table by the values of a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def dictionary_codes(values: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Return a column as positions in the array of its distinct values, and that array."""
    encoded = values.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary


def in_order_of_values(codes: np.ndarray, distinct: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return the same positions and distinct values, sorted: no other row decides which of two codes is smaller."""
    order = pc.sort_indices(distinct).to_numpy()
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order), dtype=order.dtype)
    return ranks[codes], distinct.take(pa.array(order))


def group_rows(codes: np.ndarray, count: int) -> tuple[np.ndarray, list[slice]]:
    """Return the rows ordered by code, and the slice of that order for each code in [0, count).

    Rows with equal codes keep their order; larger codes come last, in no slice.
    """
    ends = np.cumsum(np.bincount(codes, minlength=count)[:count]).tolist()
    return np.argsort(codes, kind="stable"), [slice(*part) for part in zip([0, *ends[:-1]], ends, strict=False)]
