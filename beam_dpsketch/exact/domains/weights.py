"""Record weights as 64-bit whole numbers. Other weights are masked, because an error would reveal a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch.columns import plain_value
from beam_dpsketch.exact.domains.base import is_real

_MAX_INT = np.iinfo(np.int64).max


def parse_weights(weights: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Convert weights to int64, and mark whole numbers. Other weights are 0.

    Weights that do not fit are clamped symmetrically, so that an insertion and its deletion still cancel. The value
    of a weight does not depend on the other weights, which belong to other units.
    """
    if isinstance(weights, pa.Array) and not pa.types.is_decimal(weights.type):
        return _parse_column(weights)
    weights = weights.to_pylist() if isinstance(weights, pa.Array) else weights
    if set(map(type, weights)) == {int}:
        try:
            return np.maximum(np.array(weights, dtype=np.int64), -_MAX_INT), np.ones(len(weights), dtype=bool)
        except OverflowError:
            pass
    numbers = [_clip_whole(weight) for weight in weights]
    mask = np.array([number is not None for number in numbers], dtype=bool)
    return np.array([number or 0 for number in numbers], dtype=np.int64), mask


def _clip_whole(weight: Any) -> int | None:
    weight = plain_value(weight)
    if not is_real(weight) or (not isinstance(weight, (int, np.integer)) and not float(weight).is_integer()):
        return None
    return max(-_MAX_INT, min(_MAX_INT, int(weight)))


def _parse_column(weights: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    mask = np.asarray(weights.is_valid())
    if pa.types.is_null(weights.type):
        return np.zeros(len(weights), dtype=np.int64), mask
    values = weights.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        mask = mask & np.isfinite(values) & (np.floor(values) == values)
        values = np.where(mask, values, 0).astype(np.float64)
        large = np.abs(values) >= 2.0**63
        whole = np.where(large, 0, values).astype(np.int64)
        return np.where(large, np.where(values < 0, -_MAX_INT, _MAX_INT), whole), mask
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(_MAX_INT))
    return np.maximum(values.astype(np.int64), -_MAX_INT), mask
