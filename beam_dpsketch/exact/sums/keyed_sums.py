"""Exact sums per key, in columns: raw sketches as they travel, merge and are released.

A key has entries (item keys with weights) until dense counters need less memory. Then it has a row of counters. Encoded
bytes travel between workers only. They are not a release format and change with the package. They become dense earlier,
because item keys hardly compress and the receiver must sort them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

from beam_dpsketch.exact.reading.codec import binary_buffers, column_of_sizes
from beam_dpsketch.exact.reading.groups import dictionary_codes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.norm.choice import GRID
from beam_dpsketch.privacy.over_time.lengths import RowEncoder

NO_KEY = b""
"""Key of the sum in a release without keys. No key is encoded like this."""
_CELLS_PER_KEY = 12  # with more than cells / 12 entries, dense bytes are fewer or faster to add up
_ENTRY_BYTES = 24
_OWN_BYTES = 4096  # array overhead in bytes
_SMALL = 256  # fewer bytes are sent uncompressed
_FEW = 16  # a list is faster for fewer integers
_PLAIN, _COMPRESSED = b"p", b"z"
_DTYPES = tuple(map(np.dtype, ("<i1", "<i2", "<i4", "<i8")))
_LIMITS = tuple((int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) for dtype in _DTYPES)
_NOWHERE = np.zeros(0, dtype=np.int64)


@dataclasses.dataclass(frozen=True, repr=False)
class KeyedSums:
    """Raw sketches under construction by key, without noise. `repr` shows no data.

    Attributes:
      sketch_input: input definition for the sketches.
      keys: distinct encoded keys. Only `NO_KEY` in releases without keys.
      side: summary counts per key, int64, shape (keys, side_size).
      places: key number per entry, int64.
      items: item key per entry.
      weights: entry weights, int64.
      dense_places: numbers of the keys that have counters, int64, ascending.
      dense: counters of these keys, int64, shape (dense_places, cells).
      max_norm: the clipping norm of all entries, if it is chosen from the data.
      row: number of the timeline row, if these are sums of one.
    """

    sketch_input: SketchInput
    keys: pa.LargeBinaryArray
    side: np.ndarray
    places: np.ndarray
    items: np.ndarray
    weights: np.ndarray
    dense_places: np.ndarray
    dense: np.ndarray
    max_norm: Fraction | None = None
    row: int | None = None

    @staticmethod
    def of_entries(
        sketch_input: SketchInput,
        keys: pa.LargeBinaryArray,
        side: np.ndarray,
        places: np.ndarray,
        items: np.ndarray,
        weights: np.ndarray,
        max_norm: Fraction | None = None,
    ) -> KeyedSums:
        dense = np.zeros((0, sketch_input.spec.cells), dtype=np.int64)
        return KeyedSums(sketch_input, keys, side, places, items, weights, _NOWHERE, dense, max_norm)

    @staticmethod
    def of_nothing(sketch_input: SketchInput, keys: Iterable[bytes], max_norm: Fraction | None = None) -> KeyedSums:
        """Create empty sums for distinct encoded keys."""
        column = pa.array(keys, pa.large_binary())
        side, empty = np.zeros((len(column), sketch_input.side_size), dtype=np.int64), sketch_input.empty()
        return KeyedSums.of_entries(sketch_input, column, side, _NOWHERE, *empty[:2], max_norm)

    @staticmethod
    def of_single(sketch_input: SketchInput, records: pa.Table) -> KeyedSums:
        """Sum records by key if each record is a unit. Columns: key, item and unclamped weight."""
        codes, keys = dictionary_codes(records["key"])
        places, weights = codes.astype(np.int64), records["weight"].to_numpy()
        side = sketch_input.side_of_single(weights, places, len(keys))
        items = sketch_input.column_keys(records["item"])
        return KeyedSums.of_entries(sketch_input, keys, side, places, items, sketch_input.clamp(weights))

    @staticmethod
    def of_row(sketch_input: SketchInput, key: bytes, row: int, numbers: np.ndarray) -> KeyedSums:
        """Create the exact sum for this timeline row from its `numbers`."""
        counters, side = np.split(numbers[np.newaxis], [sketch_input.spec.cells], axis=1)
        nothing = KeyedSums.of_nothing(sketch_input, [key])
        return dataclasses.replace(nothing, side=side, dense_places=np.arange(1), dense=counters, row=row)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"<KeyedSums of {self.sketch_input.spec}, contents hidden>"

    @property
    def nbytes(self) -> int:
        """Approximate memory use."""
        side = self.side.nbytes + self.dense.nbytes
        return int(_OWN_BYTES + self.keys.nbytes + side + _ENTRY_BYTES * len(self.places) + self.items.nbytes)

    @property
    def votes(self) -> np.ndarray:
        """Vote columns for key selection, int64, shape (keys, n), as in `SketchInput.vote_names`."""
        return self.sketch_input.votes_of(self.side)

    @property
    def released_side(self) -> np.ndarray:
        """Summary counts in the release of each key, int64: the summary counts, then the clipping histogram."""
        return self.sketch_input.released_of(self.side)

    @property
    def counters(self) -> np.ndarray:
        """Exact counters per key, int64, shape (keys, cells)."""
        counted = self._count(slice(None), self.places, len(self))
        counted[self.dense_places] += self.dense
        return counted

    @property
    def numbers(self) -> np.ndarray:
        """Exact counters and then summary counts per key, int64."""
        return np.concatenate([self.counters, self.side], axis=1)

    @staticmethod
    def joined(parts: Sequence[KeyedSums]) -> KeyedSums:
        """Concatenate one or more parts with equal norm and row. Keys may repeat."""
        if len(parts) == 1:
            return parts[0]
        return dataclasses.replace(
            parts[0],
            keys=pa.concat_arrays([each.keys for each in parts]),
            side=np.concatenate([each.side for each in parts]),
            places=_shifted(parts, [each.places for each in parts]),
            items=np.concatenate([each.items for each in parts]),
            weights=np.concatenate([each.weights for each in parts]),
            dense_places=_shifted(parts, [each.dense_places for each in parts]),
            dense=np.concatenate([each.dense for each in parts]),
        )

    @staticmethod
    def merged(parts: Sequence[KeyedSums]) -> KeyedSums:
        """Add up one or more parts."""
        if len(parts) == 1:
            return parts[0]
        sketch_input = parts[0].sketch_input
        codes, keys = dictionary_codes(pa.chunked_array([each.keys for each in parts]))
        side = np.zeros((len(keys), sketch_input.side_size), dtype=np.int64)
        np.add.at(side, codes, np.concatenate([each.side for each in parts]))
        rows = codes[_shifted(parts, [each.dense_places for each in parts])].astype(np.int64)
        dense_places, inverse = np.unique(rows, return_inverse=True)
        dense, done = np.zeros((len(dense_places), sketch_input.spec.cells), dtype=np.int64), 0
        for each in parts:  # sequentially, because they are large
            dense[inverse[done : done + len(each.dense)]] += each.dense
            done += len(each.dense)
        return KeyedSums(
            sketch_input,
            keys,
            side,
            codes[_shifted(parts, [each.places for each in parts])].astype(np.int64),
            np.concatenate([each.items for each in parts]),
            np.concatenate([each.weights for each in parts]),
            dense_places,
            dense,
            functools.reduce(one_norm, [each.max_norm for each in parts]),
        )._denser()

    def ordered(self, order: np.ndarray) -> KeyedSums:
        """Select keys by place, in this order, and sort entries and counters by key."""
        if len(order) == len(self) == 1:
            return self
        new = np.full(len(self), -1, dtype=np.int64)
        new[order] = np.arange(len(order))
        places, rows = new[self.places], new[self.dense_places]
        entries, dense = np.argsort(places, kind="stable"), np.argsort(rows)
        entries, dense = entries[np.count_nonzero(places < 0) :], dense[np.count_nonzero(rows < 0) :]
        return dataclasses.replace(
            self,
            keys=self.keys.take(pa.array(order)),
            side=self.side[order],
            places=places[entries],
            items=self.items[entries],
            weights=self.weights[entries],
            dense_places=rows[dense],
            dense=self.dense[dense],
        )

    def parts(self, slices: Iterable[slice]) -> Iterator[KeyedSums]:
        """Yield the keys in each slice. Requires `ordered` sums."""
        for part in slices:
            start, stop, _ = part.indices(len(self))
            if stop - start == len(self):
                yield self
                continue
            entries = slice(*np.searchsorted(self.places, (start, stop)).tolist())
            rows = slice(*np.searchsorted(self.dense_places, (start, stop)).tolist())
            yield dataclasses.replace(
                self,
                keys=self.keys[start:stop],
                side=self.side[start:stop],
                places=self.places[entries] - start,
                items=self.items[entries],
                weights=self.weights[entries],
                dense_places=self.dense_places[rows] - start,
                dense=self.dense[rows],
            )

    def blocks(self, size: int) -> Iterator[KeyedSums]:
        """Yield consecutive keys, up to `size` at a time. Requires `ordered` sums."""
        return self.parts(slice(start, start + size) for start in range(0, len(self), size))

    def each(self) -> Iterator[tuple[bytes, KeyedSums]]:
        yield from zip(self.keys.to_pylist(), self.ordered(np.arange(len(self))).blocks(1), strict=True)

    def to_bytes(self) -> bytes:
        """Encode for another worker: dense if faster to add up, narrow integers, compressed unless small."""
        sums = self._denser()
        offsets, keys = binary_buffers(sums.keys)
        norm, row = int((self.max_norm or 0) * GRID), 0 if self.row is None else self.row + 1
        columns = [
            np.array([norm, row, len(sums), len(sums.places), len(sums.dense)]),
            np.diff(offsets),
            sums.side,
            sums.places,
            sums.weights,
            sums.dense_places,
            sums.dense,
        ]
        encoded = b"".join(map(_pack_narrow, columns))
        payload = encoded + keys[int(offsets[0]) : int(offsets[-1])] + sums.items.tobytes()
        return _PLAIN + payload if len(payload) < _SMALL else _COMPRESSED + zstandard.compress(payload, 1)

    @staticmethod
    def from_bytes(sketch_input: SketchInput, data: bytes) -> KeyedSums:
        """Decode the output of `to_bytes`, with the same sketch input."""
        payload = memoryview(data[1:] if data[:1] == _PLAIN else zstandard.decompress(data[1:]))
        cells, side_size = sketch_input.spec.cells, sketch_input.side_size
        (norm, row, count, entries, rows), payload = _unpack_narrow(payload, 5)
        sizes, payload = _unpack_narrow(payload, count)
        side, payload = _unpack_narrow(payload, count * side_size)
        places, payload = _unpack_narrow(payload, entries)
        weights, payload = _unpack_narrow(payload, entries)
        dense_places, payload = _unpack_narrow(payload, rows)
        dense, payload = _unpack_narrow(payload, rows * cells)
        end = int(sizes.sum())
        return KeyedSums(
            sketch_input,
            column_of_sizes(sizes, payload[:end]),
            side.reshape(count, side_size),
            places,
            np.frombuffer(payload[end:], sketch_input.key_type.newbyteorder("<"), count=entries).copy(),
            weights,
            dense_places,
            dense.reshape(rows, cells),
            Fraction(int(norm), GRID) if norm else None,
            int(row) - 1 if row else None,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return KeyedSums.from_bytes, (self.sketch_input, self.to_bytes())

    def _denser(self) -> KeyedSums:
        """Convert to counters each key that has many entries, or already has counters."""
        if not len(self.places):
            return self
        is_dense = np.bincount(self.places, minlength=len(self)) * _CELLS_PER_KEY > self.sketch_input.spec.cells
        is_dense[self.dense_places] = True
        moved = is_dense[self.places]
        if not moved.any():
            return self
        row = np.cumsum(is_dense) - 1
        dense = self._count(moved, row[self.places[moved]], int(row[-1]) + 1)
        dense[row[self.dense_places]] += self.dense
        return dataclasses.replace(
            self,
            places=self.places[~moved],
            items=self.items[~moved],
            weights=self.weights[~moved],
            dense_places=np.flatnonzero(is_dense),
            dense=dense,
        )

    def _count(self, entries: slice | np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
        """Count some entries into `count` sketches, each entry at its place."""
        return self.sketch_input.kind.count_many(
            self.sketch_input.spec, self.items[entries], self.weights[entries], places, count
        )


class GatheredSums:
    """Sums of one or more windows, added up with few in memory at once.

    Attributes:
      size: approximate memory use.
      least: memory use after they were last added up.
    """

    def __init__(self, pending: int = 1 << 26) -> None:
        self._waiting: dict[Any, list[KeyedSums]] = defaultdict(list)
        self._pending, self.size, self.least = pending, 0, 0

    def add(self, window: Any, sums: KeyedSums) -> None:
        self._waiting[window].append(sums)
        self.size += sums.nbytes
        if self.size > max(self._pending, 2 * self.least):
            self._waiting |= {window: [each] for window, each in self.merged().items()}
            self.size = self.least = sum(each.nbytes for (each,) in self._waiting.values())

    def merged(self) -> dict[Any, KeyedSums]:
        return {window: KeyedSums.merged(waiting) for window, waiting in self._waiting.items()}


def _shifted(parts: Sequence[KeyedSums], places: Sequence[np.ndarray]) -> np.ndarray:
    """Convert places among the keys of each part to places among all keys, int64."""
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    return np.concatenate([each + start for each, start in zip(places, starts, strict=False)])


def next_rows(
    encoder: RowEncoder, sketch_input: SketchInput, key: bytes, window: KeyedSums | None
) -> Iterator[KeyedSums]:
    """Yield the timeline rows completed by the next window of a key. `None` is a window without data."""
    (numbers,) = (KeyedSums.of_nothing(sketch_input, [key]) if window is None else window).numbers
    for number, row in encoder.push(numbers):
        yield KeyedSums.of_row(sketch_input, key, number, row)


def one_norm(known: Fraction | None, other: Fraction | None) -> Fraction | None:
    """Combine the norms of added data. Raise if two norms differ, because the noise would be wrong."""
    if None not in (known, other) and known != other:
        raise RuntimeError(
            "The norm was chosen twice, and parts of a release were scaled by different norms. Use "
            "with_idempotent_noise, which makes a repeated step choose the same norm"
        )
    return other if known is None else known


def _pack_narrow(values: np.ndarray) -> bytes:
    """Encode integers in the narrowest sufficient type, after a type byte."""
    if values.size < _FEW:
        few = values.ravel().tolist()
        smallest, largest = min(few, default=0), max(few, default=0)
    else:
        smallest, largest = int(values.min()), int(values.max())
    code = next(code for code, (low, high) in enumerate(_LIMITS) if low <= smallest and largest <= high)
    return bytes([code]) + values.astype(_DTYPES[code]).tobytes()


def _unpack_narrow(data: memoryview, size: Any) -> tuple[np.ndarray, memoryview]:
    """Decode integers, int64, shape (size,), and return the remaining bytes."""
    dtype = _DTYPES[data[0]]
    end = 1 + int(size) * dtype.itemsize
    return np.frombuffer(data[1:end], dtype).astype(np.int64), data[end:]
