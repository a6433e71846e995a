"""What travels between workers before the release: exact, lazy, small until it is big.

Items wait in a list and are hashed together; the hashed ones wait as (key, weight) arrays, added up where they repeat,
until they take twice the memory of dense counters. The bytes are for workers only and no release format: they change
with the package.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import zstandard

from beam_dpsketch.hashing.repeats import sort_by_key, sum_by_key
from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.selectors import Selectors
from beam_dpsketch.sketches import RawSketch

_DTYPES = tuple(map(np.dtype, ("<i1", "<i2", "<i4", "<i8")))
_LIMITS = tuple((int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for dtype in _DTYPES)
_DENSE, _SPARSE = b"d", b"s"
_SMALL = 256
"""Bytes that are not worth compressing, nor as many records adding up."""
_PLAIN, _COMPRESSED = b"p", b"z"


class SketchAccumulator:
    """A raw sketch in the making. Knows no noise; `repr` shows no data."""

    __slots__ = ("_chunks", "_elements", "_hashed", "_limit", "_recipe", "_sketch", "items", "weights")

    def __init__(self, recipe: SketchInput, elements: Selectors | None = None) -> None:
        self._recipe = recipe
        self._elements = elements  # to name an argument that gave nothing usable
        self._limit = recipe.pending_limit
        self.items: list[Any] = []
        self.weights: list[Any] | None = None
        self._chunks: list[WeightedItems] = []
        self._hashed = 0
        self._sketch: RawSketch | None = None

    def add(self, item: Any) -> None:
        """One record of weight 1."""
        self.items.append(item)
        if len(self.items) >= self._limit:
            self.flush()

    def add_weighted(self, item: Any, weight: Any) -> None:
        """One record."""
        if self.weights is None:
            self.weights = []
        self.weights.append(weight)
        self.add(item)

    def add_contributions(self, contributions: WeightedItems) -> None:
        """Many records that are hashed already."""
        self._chunks.append(contributions)
        self._hashed += len(contributions.keys)
        if self._hashed > self._recipe.spec.cells:
            self._settle()

    def flush(self) -> None:
        """Hashes the items that wait."""
        if self.items:
            items, weights = self.items, self.weights
            self.items, self.weights = [], None
            contributions = self._recipe.contributions(items, weights)
            if not len(contributions.keys) and self._elements is not None:
                self._recipe.warn_if_unused(self._elements, items, weights)
            self.add_contributions(contributions)

    def absorb(self, other: SketchAccumulator) -> None:
        """Adds another accumulator of the same recipe, which is left as it is."""
        self.flush()
        if other._sketch is not None:
            self._make_dense()
            assert self._sketch is not None
            self._sketch.merge(other._sketch)
        for chunk in other._pending():
            self.add_contributions(chunk)

    def to_sketch(self) -> RawSketch:
        """The raw sketch of everything added; the accumulator is left as it is."""
        recipe = self._recipe
        sketch = recipe.kind(recipe.spec)
        if self._sketch is not None:
            sketch.merge(self._sketch)
        if pending := list(self._pending()):
            sketch.accumulate_keys(*_joined(pending))
        return sketch

    def to_bytes(self) -> bytes:
        """The accumulator for another worker: the smaller of sparse and dense, in narrow integers, compressed."""
        self.flush()
        if self._sketch is not None or 2 * self._hashed > self._recipe.spec.cells:  # more bytes than dense counters
            payload = _DENSE + _pack(self.to_sketch().to_vector())
        else:
            keys, weights = _summed([self._recipe.empty(), *self._pending()])
            payload = _SPARSE + keys.tobytes() + _pack(weights) if len(keys) else b""
        return _PLAIN + payload if len(payload) < _SMALL else _COMPRESSED + zstandard.compress(payload, 1)

    @staticmethod
    def from_bytes(recipe: SketchInput, data: bytes) -> SketchAccumulator:
        """What `to_bytes` wrote, under the same recipe."""
        accumulator = SketchAccumulator(recipe)
        payload = data[1:] if data[:1] == _PLAIN else zstandard.decompress(data[1:])
        if payload[:1] == _DENSE:
            accumulator._sketch = recipe.kind.from_vector(recipe.spec, _unpack(payload[1:], recipe.spec.cells))
        elif payload:
            key_type = recipe.key_type.newbyteorder("<")
            size = (len(payload) - 2) // (key_type.itemsize + _DTYPES[payload[-1]].itemsize)
            keys = np.frombuffer(payload, key_type, count=size, offset=1)
            weights = _unpack(payload[1 + keys.nbytes :], size)
            accumulator.add_contributions(WeightedItems(keys, weights))
        return accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        return SketchAccumulator.from_bytes, (self._recipe, self.to_bytes())

    def __repr__(self) -> str:
        return f"<SketchAccumulator of {self._recipe.spec}, contents hidden>"

    def _pending(self) -> Iterable[WeightedItems]:
        """All that is not in dense counters yet, hashed."""
        yield from self._chunks
        if self.items:
            yield self._recipe.contributions(self.items, self.weights)

    def _settle(self) -> None:
        """Adds up what waits; into dense counters, unless it is the first time and much of it repeats."""
        if self._sketch is None and len(self._chunks) > 1:
            self._chunks = [_summed(self._chunks)]
            self._hashed = len(self._chunks[0].keys)
        if self._sketch is not None or 4 * self._hashed > 3 * self._recipe.spec.cells:
            self._make_dense()

    def _make_dense(self) -> None:
        if self._sketch is None:
            self._sketch = self._recipe.kind(self._recipe.spec)
        if self._chunks:
            self._sketch.accumulate_keys(*_joined(self._chunks))
        self._chunks, self._hashed = [], 0


def _summed(chunks: list[WeightedItems]) -> WeightedItems:
    """One chunk with each key once and no weight 0, unless it is small."""
    chunks = [chunk for chunk in chunks if len(chunk.keys)] or chunks
    if len(chunks) == 1 and len(chunks[0].keys) < _SMALL:
        return chunks[0]
    keys, weights = sum_by_key(*sort_by_key(*_joined(chunks)))
    return WeightedItems(keys[weights != 0], weights[weights != 0])


def _joined(chunks: list[WeightedItems]) -> WeightedItems:
    """All of them as one; a single one, such as a large batch, is not copied."""
    return chunks[0] if len(chunks) == 1 else WeightedItems(*map(np.concatenate, zip(*chunks, strict=True)))


def _pack(values: np.ndarray) -> bytes:
    """Integers as the narrowest type that holds them; which one is the last byte."""
    smallest, largest = int(values.min()), int(values.max())
    code = next(code for code, (low, high) in enumerate(_LIMITS) if low <= smallest and largest <= high)
    return values.astype(_DTYPES[code]).tobytes() + bytes([code])


def _unpack(data: bytes, size: int) -> np.ndarray:
    return np.frombuffer(data, _DTYPES[data[-1]], count=size).astype(np.int64)
