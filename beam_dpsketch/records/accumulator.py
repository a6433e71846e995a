"""What travels between workers before the release: exact, lazy, small until it is big.

Items wait in a list and are hashed together; the hashed ones wait as (key, weight) arrays, added up where they repeat,
until they take twice the memory of dense counters. The bytes are for workers only and no release format: they change
with the package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import zstandard

from beam_dpsketch.hashing.repeats import counted, counted_numbers, in_order, summed
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.sketches import RawSketch
from beam_dpsketch.records.columns import HASHED, Readable
from beam_dpsketch.records.containers import check_values
from beam_dpsketch.records.selectors import Elements, whole_weights
from beam_dpsketch.records.unused import MANY, warn_of_unused

_DTYPES = tuple(map(np.dtype, ("<i1", "<i2", "<i4", "<i8")))
_LIMITS = tuple((int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for dtype in _DTYPES)
_DENSE, _SPARSE = b"d", b"s"
_SMALL = 256
"""Bytes that are not worth compressing, nor as many records adding up."""
_PLAIN, _COMPRESSED = b"p", b"z"


class Contributions(NamedTuple):
    """Items that are bounded and turned into keys already: keys and int64 weights of shape (n,)."""

    keys: np.ndarray
    weights: np.ndarray


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a sketch is made of: its kind and spec, and the bounds on a record's weight."""

    kind: type[RawSketch]
    spec: Any
    bounds: ContributionBounds

    def keys(self, items: list[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The keys of the items, and which of them can be counted."""
        return self.kind.usable_keys(self.spec, items)

    @property
    def readable(self) -> Readable:
        """The types of item columns that can be counted."""
        domain = getattr(self.spec, "domain", None)
        return HASHED if domain is None else Readable(f"values of {type(domain).__name__}", domain.reads_column)

    def bounded(self, keys: np.ndarray, weights: np.ndarray) -> Contributions:
        """Keys of bounded records and their weights; made fewer where all weights are 1 and keys repeat."""
        if keys.dtype == np.uint64 and len(weights) and weights.min() == weights.max() == 1:
            keys, counts = counted_numbers(keys)
            weights = weights if counts is None else counts
        return Contributions(keys, weights)

    def column_keys(self, column: pa.ChunkedArray) -> np.ndarray:
        """Keys that were put into a column."""
        return column.to_numpy().astype(self.key_type, copy=False)

    def clamp(self, weights: np.ndarray) -> np.ndarray:
        """Weights within the bounds."""
        return np.clip(weights, self.bounds.min_weight, self.bounds.max_weight)

    def contributions(self, items: list[Any] | pa.Array, weights: list[Any] | pa.Array | None) -> Contributions:
        """The items and weights that count; the others are left out."""
        if weights is None:
            return self._counted(items)
        keys, usable = self.keys(items)
        values, whole = whole_weights(weights)
        usable = usable & whole
        if not usable.all():
            _check_values(item=items, weight=weights)
        return Contributions(keys[usable], self.clamp(values[usable]))

    def _counted(self, items: list[Any] | pa.Array) -> Contributions:
        """Records of weight 1, made fewer where they repeat."""
        distinct, counts = counted(items)
        keys, usable = self.keys(distinct)
        if not usable.all():
            _check_values(item=items)
            keys, counts = keys[usable], None if counts is None else counts[usable]
        if counts is None and keys.dtype == np.uint64 and not isinstance(items, pa.Array):
            keys, counts = counted_numbers(keys)
        return Contributions(keys, np.broadcast_to(np.int64(1), len(keys)) if counts is None else counts)

    def warn_if_unused(
        self, elements: Elements, items: list[Any] | pa.Array, weights: list[Any] | pa.Array | None
    ) -> None:
        """Logs the argument that gave no usable value, if these are many records and none of them counts."""
        if len(items) >= MANY:
            unused = {"item"} if not self.keys(items)[1].any() else set()
            if weights is not None and not whole_weights(weights)[1].any():
                unused.add("weight")
            warn_of_unused(elements, unused)

    @property
    def key_type(self) -> np.dtype[Any]:
        """The numpy type of keys."""
        return self.kind.key_type(self.spec)

    def nothing(self) -> Contributions:
        """No contributions."""
        return Contributions(np.zeros(0, dtype=self.key_type), np.zeros(0, dtype=np.int64))

    @property
    def pending_limit(self) -> int:
        """How many items wait to be hashed together: enough to be fast, and no more than the sketch is worth."""
        return min(4096, max(256, self.spec.cells // 8))


class SketchAccumulator:
    """A raw sketch in the making. Knows no noise; `repr` shows no data."""

    __slots__ = ("_chunks", "_elements", "_hashed", "_limit", "_recipe", "_sketch", "items", "weights")

    def __init__(self, recipe: Recipe, elements: Elements | None = None) -> None:
        self._recipe = recipe
        self._elements = elements  # to name an argument that gave nothing usable
        self._limit = recipe.pending_limit
        self.items: list[Any] = []
        self.weights: list[Any] | None = None
        self._chunks: list[Contributions] = []
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

    def add_contributions(self, contributions: Contributions) -> None:
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
            keys, weights = _summed([self._recipe.nothing(), *self._pending()])
            payload = _SPARSE + keys.tobytes() + _pack(weights) if len(keys) else b""
        return _PLAIN + payload if len(payload) < _SMALL else _COMPRESSED + zstandard.compress(payload, 1)

    @staticmethod
    def from_bytes(recipe: Recipe, data: bytes) -> SketchAccumulator:
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
            accumulator.add_contributions(Contributions(keys, weights))
        return accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        return SketchAccumulator.from_bytes, (self._recipe, self.to_bytes())

    def __repr__(self) -> str:
        return f"<SketchAccumulator of {self._recipe.spec}, contents hidden>"

    def _pending(self) -> Iterable[Contributions]:
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


def _check_values(**values_of: Any) -> None:
    """Refuses arrays among values of rows; asked where some are left out."""
    for argument, values in values_of.items():
        if isinstance(values, list):
            check_values(argument, values)


def _summed(chunks: list[Contributions]) -> Contributions:
    """One chunk with each key once and no weight 0, unless it is small."""
    chunks = [chunk for chunk in chunks if len(chunk.keys)] or chunks
    if len(chunks) == 1 and len(chunks[0].keys) < _SMALL:
        return chunks[0]
    keys, weights = summed(*in_order(*_joined(chunks)))
    return Contributions(keys[weights != 0], weights[weights != 0])


def _joined(chunks: list[Contributions]) -> Contributions:
    """All of them as one; a single one, such as a large batch, is not copied."""
    return chunks[0] if len(chunks) == 1 else Contributions(*map(np.concatenate, zip(*chunks, strict=True)))


def _pack(values: np.ndarray) -> bytes:
    """Integers as the narrowest type that holds them; which one is the last byte."""
    smallest, largest = int(values.min()), int(values.max())
    code = next(code for code, (low, high) in enumerate(_LIMITS) if low <= smallest and largest <= high)
    return values.astype(_DTYPES[code]).tobytes() + bytes([code])


def _unpack(data: bytes, size: int) -> np.ndarray:
    return np.frombuffer(data, _DTYPES[data[-1]], count=size).astype(np.int64)
