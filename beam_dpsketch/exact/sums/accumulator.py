"""Accumulate a sketch before its release: exact, lazy, and small while it holds few items.

Items wait in a list and are hashed together. Hashed items wait as (key, weight) arrays, added up where they repeat,
until they take twice the memory of dense counters. The bytes travel between workers only. They are not a release format
and change with the package. They are dense earlier: keys hardly compress, and whoever adds them up must sort them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import zstandard

from beam_dpsketch.exact.hashing.lookup import sort_by_key, sum_by_key
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sketches import RawSketch
from beam_dpsketch.privacy.norm.choice import GRID

_DTYPES = tuple(map(np.dtype, ("<i1", "<i2", "<i4", "<i8")))
_LIMITS = tuple((int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for dtype in _DTYPES)
_DENSE, _SPARSE = b"d", b"s"
_CELLS_PER_KEY = 12  # with fewer, dense bytes are added up faster, though under a norm they can be 3 times as many
_SMALL = 256  # fewer bytes are not compressed, fewer records of one chunk not added up
_FEW = 16  # fewer records are not added up
_OWN_BYTES, _ITEM_BYTES, _CHUNK_BYTES, _HASHED_BYTES = 1000, 100, 400, 24
_PLAIN, _COMPRESSED = b"p", b"z"


class SketchAccumulator:
    """A raw sketch in the making, without noise; `repr` shows no data."""

    __slots__ = (
        "_chunks",
        "_hashed",
        "_limit",
        "_selectors",
        "_sketch",
        "_sketch_input",
        "items",
        "max_norm",
        "row",
        "side",
        "weights",
    )

    def __init__(self, sketch_input: SketchInput, selectors: Selectors | None = None) -> None:
        self._sketch_input = sketch_input
        self._selectors = selectors  # to name an argument that gave nothing usable
        self._limit = sketch_input.pending_limit
        self.items: list[Any] = []
        self.weights: list[Any] | None = None
        self._chunks: list[WeightedItems] = []
        self._hashed = 0
        self._sketch: RawSketch | None = None
        self.side = np.zeros(sketch_input.side_size, dtype=np.int64)
        self.max_norm: Fraction | None = None
        self.row: int | None = None

    @staticmethod
    def of_row(sketch_input: SketchInput, row: int, counters: np.ndarray) -> SketchAccumulator:
        """Return the exact row over time of this number: counters of the sketch, and then what is counted aside."""
        cells = sketch_input.spec.cells
        accumulator = SketchAccumulator.of_counters(sketch_input, counters[:cells])
        accumulator.side, accumulator.row = counters[cells:], row
        return accumulator

    @staticmethod
    def of_counters(sketch_input: SketchInput, counters: np.ndarray) -> SketchAccumulator:
        """Return the sum with these counters of the sketch, and nothing aside."""
        accumulator = SketchAccumulator(sketch_input)
        sketch = sketch_input.kind.from_vector(sketch_input.spec, counters)
        accumulator._sketch = sketch.in_units_of(sketch_input.scale_bits)
        return accumulator

    def to_vector(self) -> np.ndarray:
        """Return the counters of the sketch, and then what is counted aside, int64."""
        return np.append(self.to_sketch().to_vector(), self.total_side)

    @property
    def cells(self) -> int:
        return int(self._sketch_input.spec.cells)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        waiting = _ITEM_BYTES * len(self.items) + _CHUNK_BYTES * len(self._chunks) + _HASHED_BYTES * self._hashed
        return _OWN_BYTES + waiting + (0 if self._sketch is None else 8 * self.cells)

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
        self._take_norm(contributions.max_norm)
        self._chunks.append(WeightedItems(contributions.keys, contributions.weights))
        self._hashed += len(contributions.keys)
        if self._hashed > self._sketch_input.spec.cells:
            self._compact()

    def flush(self) -> None:
        if self.items:
            items, weights = self.items, self.weights
            self.items, self.weights = [], None
            self.add_contributions(self._sketch_input.contributions(items, weights, self._selectors))

    def absorb(self, other: SketchAccumulator) -> None:
        """Add another accumulator of the same sketch input, without changing that one."""
        self.flush()
        self.side = self.side + other.side
        self._take_norm(other.max_norm)
        if other._sketch is not None:
            self._make_dense()
            assert self._sketch is not None
            self._sketch.merge(other._sketch)
        for chunk in other._pending():
            self.add_contributions(chunk)

    def to_sketch(self) -> RawSketch:
        """Return the raw sketch of everything added, without changing the accumulator."""
        sketch = self._sketch_input.raw_sketch()
        if self._sketch is not None:
            sketch.merge(self._sketch)
        if pending := list(self._pending()):
            sketch.accumulate_keys(*_concat_chunks(pending)[:2])
        return sketch

    @staticmethod
    def to_sketches(accumulators: Sequence[SketchAccumulator]) -> list[RawSketch]:
        """Do what `to_sketch` does, for one or more of the same sketch input; sparse ones are hashed together."""
        sketch_input = accumulators[0]._sketch_input
        kind, spec = sketch_input.kind, sketch_input.spec
        sparse = {number: [*each._pending()] for number, each in enumerate(accumulators) if each._sketch is None}
        chunks = [sketch_input.empty(), *itertools.chain(*sparse.values())]
        sizes = [sum(len(chunk.keys) for chunk in pending) for pending in sparse.values()]
        places = np.repeat(np.arange(len(sizes)), sizes)
        counters = kind.count_many(spec, *_concat_chunks(chunks)[:2], places, len(sizes))
        hashed = dict(zip(sparse, counters, strict=True))
        return [
            kind.from_vector(spec, hashed[number]).in_units_of(sketch_input.scale_bits)
            if number in hashed
            else each.to_sketch()
            for number, each in enumerate(accumulators)
        ]

    def in_columns(self) -> tuple[np.ndarray | None, WeightedItems]:
        """Return dense counters, if there are any, and what waits besides, with all that is counted aside."""
        self.flush()
        dense = None if self._sketch is None else self._sketch.to_vector()
        waiting = _concat_chunks(self._chunks) if self._chunks else self._sketch_input.empty()
        return dense, WeightedItems(waiting.keys, waiting.weights, self.side, self.max_norm)

    def to_bytes(self) -> bytes:
        """Encode for another worker: what is faster to add up, in narrow integers, compressed."""
        self.flush()
        if self._sketch is not None or _CELLS_PER_KEY * self._hashed > self._sketch_input.spec.cells:
            payload = _DENSE + pack_narrow(self.to_sketch().to_vector())
        else:
            keys, weights, *_ = _sum_chunks(self._chunks) if self._hashed else self._sketch_input.empty()
            payload = _SPARSE + keys.tobytes() + pack_narrow(weights) if len(keys) else b""
        place = 0 if self.row is None else self.row + 1
        numbers = [int((self.max_norm or 0) * GRID), place, *self.side.tolist()]
        if payload or any(numbers):
            packed = pack_narrow(np.array(numbers))
            payload = packed[-1:] + packed[:-1] + payload
        return _PLAIN + payload if len(payload) < _SMALL else _COMPRESSED + zstandard.compress(payload, 1)

    @staticmethod
    def from_bytes(sketch_input: SketchInput, data: bytes) -> SketchAccumulator:
        """Decode what `to_bytes` wrote, under the same sketch input."""
        accumulator = SketchAccumulator(sketch_input)
        payload = data[1:] if data[:1] == _PLAIN else zstandard.decompress(data[1:])
        if not payload:
            return accumulator
        size = 2 + sketch_input.side_size
        end = 1 + size * _DTYPES[payload[0]].itemsize
        numbers = unpack_narrow(payload[1:end] + payload[:1], size)
        norm, place, accumulator.side = int(numbers[0]), int(numbers[1]), numbers[2:]
        accumulator.max_norm = Fraction(norm, GRID) if norm else None
        accumulator.row = place - 1 if place else None
        payload = payload[end:]
        if payload[:1] == _DENSE:
            counters = unpack_narrow(payload[1:], sketch_input.spec.cells)
            accumulator._sketch = SketchAccumulator.of_counters(sketch_input, counters)._sketch
        elif payload:
            key_type = sketch_input.key_type.newbyteorder("<")
            size = (len(payload) - 2) // (key_type.itemsize + _DTYPES[payload[-1]].itemsize)
            keys = np.frombuffer(payload, key_type, count=size, offset=1)
            weights = unpack_narrow(payload[1 + keys.nbytes :], size)
            accumulator.add_contributions(WeightedItems(keys, weights))
        return accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        return SketchAccumulator.from_bytes, (self._sketch_input, self.to_bytes())

    def __repr__(self) -> str:
        return f"<SketchAccumulator of {self._sketch_input.spec}, contents hidden>"

    @property
    def total_side(self) -> np.ndarray:
        """What everything added adds to what is counted aside, int64 of shape (side_size,)."""
        if not self.items:
            return self.side
        waiting = self._sketch_input.contributions(self.items, self.weights)
        return self.side if waiting.side is None else self.side + waiting.side

    @property
    def votes(self) -> np.ndarray:
        """What decides on its key, int64: the numbers of `SketchInput.vote_names`, at least two."""
        return self._sketch_input.votes_of(self.total_side)

    @property
    def released_side(self) -> np.ndarray:
        """What its release counts aside itself, int64: the side counters, then lost weight."""
        return self._sketch_input.released_of(self.total_side)

    def _take_norm(self, max_norm: Fraction | None) -> None:
        """Note the norm that scaled what is added; refuse a second one, for which the noise would be wrong."""
        if max_norm is not None and self.max_norm not in (None, max_norm):
            raise RuntimeError(
                "the norm was chosen twice, and parts of one release were scaled by two norms: use "
                "with_idempotent_noise, so that a repeated step chooses the same norm"
            )
        self.max_norm = max_norm if self.max_norm is None else self.max_norm

    def _pending(self) -> Iterable[WeightedItems]:
        yield from self._chunks
        if self.items:
            yield self._sketch_input.contributions(self.items, self.weights)

    def _compact(self) -> None:
        """Add up waiting items, into dense counters unless they are the first, are numbers and repeat often."""
        if self._sketch is None and len(self._chunks) > 1 and self._sketch_input.key_type == np.uint64:
            self._chunks = [_sum_chunks(self._chunks)]
            self._hashed = len(self._chunks[0].keys)
        if self._sketch is not None or 4 * self._hashed > 3 * self._sketch_input.spec.cells:
            self._make_dense()

    def _make_dense(self) -> None:
        if self._sketch is None:
            self._sketch = self._sketch_input.raw_sketch()
        if self._chunks:
            self._sketch.accumulate_keys(*_concat_chunks(self._chunks)[:2])
        self._chunks, self._hashed = [], 0


def _sum_chunks(chunks: list[WeightedItems]) -> WeightedItems:
    """Merge chunks into one; unless it is small, each key occurs once and no weight is 0."""
    chunks = [chunk for chunk in chunks if len(chunk.keys)] or chunks
    merged = _concat_chunks(chunks)
    if len(merged.keys) < (_SMALL if len(chunks) == 1 else _FEW):
        return merged
    keys, weights = sum_by_key(*sort_by_key(*merged[:2]))
    return WeightedItems(keys[weights != 0], weights[weights != 0])


def _concat_chunks(chunks: list[WeightedItems]) -> WeightedItems:
    if len(chunks) == 1:
        return chunks[0]
    keys, weights = (np.concatenate([chunk[column] for chunk in chunks]) for column in (0, 1))
    return WeightedItems(keys, weights)


def pack_narrow(values: np.ndarray) -> bytes:
    """Encode integers in the narrowest type that holds them; the last byte says which."""
    if values.size < _FEW:
        few = values.tolist()
        smallest, largest = min(few), max(few)
    else:
        smallest, largest = int(values.min()), int(values.max())
    code = next(code for code, (low, high) in enumerate(_LIMITS) if low <= smallest and largest <= high)
    return values.astype(_DTYPES[code]).tobytes() + bytes([code])


def unpack_narrow(data: bytes, size: int) -> np.ndarray:
    """Return what `pack_narrow` was given, int64 of shape (size,)."""
    return np.frombuffer(data, _DTYPES[data[-1]], count=size).astype(np.int64)
