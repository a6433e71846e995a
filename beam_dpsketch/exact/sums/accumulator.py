"""Exact sum for a key before its release: lazy, and small while it has few items.

Items wait in a list and are hashed together. Hashed items wait as (key, weight) arrays, added up if they repeat, until
they need twice the memory of dense counters. A sum travels, and is released, as `KeyedSums`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.hashing.lookup import sort_by_key, sum_by_key
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sketches import RawSketch
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums, one_norm

_FEW = 16  # shorter arrays are not added up
_OWN_BYTES, _ITEM_BYTES, _CHUNK_BYTES, _HASHED_BYTES = 1000, 100, 400, 24


class SketchAccumulator:
    """Raw sketch under construction, without noise. `repr` shows no data."""

    __slots__ = (
        "_chunks",
        "_dense",
        "_hashed",
        "_limit",
        "_selectors",
        "_sketch_input",
        "items",
        "max_norm",
        "side",
        "weights",
    )

    def __init__(self, sketch_input: SketchInput, selectors: Selectors | None = None) -> None:
        self._sketch_input = sketch_input
        self._selectors = selectors  # for log messages about arguments without usable values
        self._limit = sketch_input.pending_limit
        self.items: list[Any] = []
        self.weights: list[Any] | None = None
        self._chunks: list[WeightedItems] = []
        self._hashed = 0
        self._dense: np.ndarray | None = None  # counters with shape (1, cells)
        self.side = np.zeros(sketch_input.side_size, dtype=np.int64)
        self.max_norm: Fraction | None = None

    @property
    def nbytes(self) -> int:
        """Approximate memory use."""
        waiting = _ITEM_BYTES * len(self.items) + _CHUNK_BYTES * len(self._chunks) + _HASHED_BYTES * self._hashed
        return _OWN_BYTES + waiting + (0 if self._dense is None else self._dense.nbytes)

    @property
    def has_records(self) -> bool:
        """Whether any record counts."""
        self.flush()
        return bool(self._chunks) or self._dense is not None

    def add(self, item: Any) -> None:
        self.items.append(item)
        if len(self.items) >= self._limit:
            self.flush()

    def add_weighted(self, item: Any, weight: Any) -> None:
        if self.weights is None:
            self.weights = []
        self.weights.append(weight)
        self.add(item)

    def add_contributions(self, contributions: WeightedItems) -> None:
        if contributions.side is not None:
            self.side = self.side + contributions.side
        self.max_norm = one_norm(self.max_norm, contributions.max_norm)
        if len(contributions.keys):
            self._chunks.append(WeightedItems(contributions.keys, contributions.weights))
        self._hashed += len(contributions.keys)
        if self._hashed > self._sketch_input.spec.cells:
            self._compact()

    def flush(self) -> None:
        if self.items:
            items, weights = self.items, self.weights
            self.items, self.weights = [], None
            self.add_contributions(self._sketch_input.contributions(items, weights, self._selectors))

    def absorb(self, sums: KeyedSums) -> None:
        """Add a sum for a key with the same sketch input."""
        self.flush()
        if len(sums.dense):
            self._add_dense(sums.dense.copy())
        self.add_contributions(WeightedItems(sums.items, sums.weights, sums.side[0], sums.max_norm))

    def to_sums(self, key: bytes = NO_KEY) -> KeyedSums:
        """Convert to sums for an encoded key."""
        return sums_of(self._sketch_input, {key: self})

    def to_sketch(self) -> RawSketch:
        """Convert to a raw sketch."""
        (counters,), made = self.to_sums().counters, self._sketch_input
        return made.kind.from_vector(made.spec, counters).in_units_of(made.scale_bits)

    def to_bytes(self) -> bytes:
        return self.to_sums().to_bytes()

    @staticmethod
    def from_bytes(sketch_input: SketchInput, data: bytes) -> SketchAccumulator:
        """Decode a sum for a key that was encoded with the same sketch input."""
        accumulator = SketchAccumulator(sketch_input)
        accumulator.absorb(KeyedSums.from_bytes(sketch_input, data))
        return accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        return SketchAccumulator.from_bytes, (self._sketch_input, self.to_bytes())

    def __repr__(self) -> str:
        return f"<SketchAccumulator of {self._sketch_input.spec}, contents hidden>"

    def _compact(self) -> None:
        """Add up waiting items: in dense counters, unless they are the first ones, are numbers and repeat often."""
        if self._dense is None and len(self._chunks) > 1 and self._sketch_input.key_type == np.uint64:
            self._chunks = [_add_up(_concat(self._chunks))]
            self._hashed = len(self._chunks[0].keys)
        if self._dense is not None or 4 * self._hashed > 3 * self._sketch_input.spec.cells:
            waiting = _concat(self._chunks)
            places = np.zeros(self._hashed, dtype=np.int64)
            self._add_dense(self._sketch_input.kind.count_many(self._sketch_input.spec, *waiting[:2], places, 1))
            self._chunks, self._hashed = [], 0

    def _add_dense(self, counters: np.ndarray) -> None:
        if self._dense is None:
            self._dense = counters
        else:
            self._dense += counters


def sums_of(sketch_input: SketchInput, accumulators: Mapping[bytes, SketchAccumulator]) -> KeyedSums:
    """Convert accumulators by encoded key to sums."""
    each = accumulators.values()
    for accumulator in each:
        accumulator.flush()
    norm = functools.reduce(one_norm, [accumulator.max_norm for accumulator in each], None)
    waiting = _concat([sketch_input.empty(), *(chunk for accumulator in each for chunk in accumulator._chunks)])
    dense = [accumulator._dense for accumulator in each if accumulator._dense is not None]
    return KeyedSums(
        sketch_input,
        pa.array([*accumulators], pa.large_binary()),
        np.array([accumulator.side for accumulator in each], dtype=np.int64).reshape(len(each), sketch_input.side_size),
        np.repeat(np.arange(len(each)), np.array([accumulator._hashed for accumulator in each], dtype=np.int64)),
        waiting.keys,
        waiting.weights,
        np.flatnonzero([accumulator._dense is not None for accumulator in each]),
        np.concatenate(dense) if dense else np.zeros((0, sketch_input.spec.cells), dtype=np.int64),
        norm,
    )


def _add_up(items: WeightedItems) -> WeightedItems:
    """Add up equal items and drop weights of 0, unless there are few items."""
    if len(items.keys) < _FEW:
        return items
    keys, weights = sum_by_key(*sort_by_key(*items[:2]))
    return WeightedItems(keys[weights != 0], weights[weights != 0])


def _concat(chunks: list[WeightedItems]) -> WeightedItems:
    keys, weights = (np.concatenate([chunk[column] for chunk in chunks]) for column in (0, 1))
    return WeightedItems(keys, weights)
