"""What every raw sketch shares: exact integer counters that accumulate and merge, and nothing else.

Guarantee: counters are a linear function of the input in 64-bit integers that wrap around, so any split, order
and grouping of the input gives bit-identical counters, and inserting then deleting gives zeros. A raw sketch has
no estimate and no published bytes: those belong to what `beam_dpsketch.release` makes of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch.errors import IncompatibleSketchError
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.sketches.spec import SketchSpec

Self = TypeVar("Self", bound="LinearSketch")


class LinearSketch(ABC):
    """A raw sketch: depth x width exact counters.

    Raises `TypeError` or `ValueError` for items and weights it cannot count, without showing them.
    """

    name: ClassVar[str]
    has_signs: ClassVar[bool]

    def __init__(self, spec: SketchSpec) -> None:
        if not isinstance(spec, SketchSpec):
            raise TypeError(f"spec must be a SketchSpec, got {type(spec).__name__}")
        self._spec = spec
        self._counters = np.zeros((spec.depth, spec.width), dtype=np.int64)
        self._weighted = False

    @property
    def spec(self) -> SketchSpec:
        """What this sketch must share with another to be merged."""
        return self._spec

    @property
    def counters(self) -> np.ndarray:
        """The exact counters, int64 of shape (depth, width), read-only. They are not private: never publish them."""
        view = self._counters.view()
        view.flags.writeable = False
        return view

    @property
    def is_weighted(self) -> bool:
        """Whether any weights were given, so that one record may count for more than 1."""
        return self._weighted

    def accumulate(self: Self, items: Iterable[Any], weights: Iterable[int] | None = None) -> Self:
        """Adds items (any iterable, numpy or pyarrow array) with whole-number weights (default 1); negative deletes."""
        keys = self.keys(self._spec, items)
        if weights is None:
            return self.accumulate_keys(keys, None)
        self._weighted = True
        values = whole_weights(weights)
        if len(values) != len(keys):
            raise ValueError(f"weights must be as many as items, got {len(values)} for {len(keys)}")
        return self.accumulate_keys(keys, values)

    def accumulate_keys(self: Self, keys: np.ndarray, weights: np.ndarray | None) -> Self:
        """Adds items given by their `keys`, with int64 weights."""
        for row in range(self._spec.depth):
            self._add_to_row(row, keys, weights)
        return self

    @classmethod
    def keys(cls, spec: SketchSpec, items: Iterable[Any]) -> np.ndarray:
        """The items as 64-bit keys (uint64), all that a sketch needs to know of them."""
        return fingerprints(items, item_hash=spec.item_hash, item_key=spec.item_key)

    def merge(self: Self, other: LinearSketch) -> Self:
        """Adds the counters of another sketch of the same kind and spec to this one."""
        if type(self) is not type(other) or self._spec != other._spec:
            raise IncompatibleSketchError(
                f"only sketches of one kind and spec can be merged: {self!r} and {other!r} differ"
            )
        self._counters += other._counters
        self._weighted |= other._weighted
        return self

    @classmethod
    def from_counters(cls: type[Self], spec: SketchSpec, counters: np.ndarray) -> Self:
        """A raw sketch with a copy of these exact counters."""
        sketch = cls(spec)
        sketch._counters[...] = counters
        return sketch

    @abstractmethod
    def _add_to_row(self, row: int, keys: np.ndarray, weights: np.ndarray | None) -> None:
        """Adds each key's weight (1 if there are none) to its cell in one row."""

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, LinearSketch)
            and self._spec == other._spec
            and bool(np.array_equal(self._counters, other._counters))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<raw {type(self).__name__} of {self._spec}, counters hidden>"


def whole_weights(weights: Iterable[int]) -> np.ndarray:
    """Weights as int64; floats, bools and anything outside 64 bits are refused without being shown."""
    if isinstance(weights, (pa.Array, pa.ChunkedArray)):
        weights = weights.to_numpy(zero_copy_only=False) if isinstance(weights, pa.Array) else weights.to_numpy()
    if not isinstance(weights, np.ndarray):
        weights = list(weights)
        if not all(isinstance(weight, (int, np.integer)) and not isinstance(weight, bool) for weight in weights):
            raise TypeError("weights must be whole numbers")
        if not all(-(1 << 63) <= weight < 1 << 63 for weight in weights):
            raise ValueError("weights must be at least -2**63 and less than 2**63")
        return np.array(weights, dtype=np.int64)
    if weights.ndim != 1 or weights.dtype.kind not in "iu":
        raise TypeError(f"weights must be a one-dimensional array of integers, got {weights.dtype} of {weights.ndim}")
    if weights.dtype == np.uint64 and len(weights) and weights.max() >> np.uint64(63):
        raise ValueError("weights must be at least -2**63 and less than 2**63")
    return weights.astype(np.int64)
