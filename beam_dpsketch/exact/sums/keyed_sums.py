"""Exact sums of many keys in columns: what a `SketchAccumulator` is for one.

A key has entries, which are keys of items with weights, until dense counters take less; then it has a row of counters.
The bytes travel between workers only. They are not a release format and change with the package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import zstandard

from beam_dpsketch.encodings import decode, is_unicode, join_parts, split_parts
from beam_dpsketch.exact.reading.codec import from_bytes, parts_to_bytes
from beam_dpsketch.exact.reading.groups import dictionary_codes
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator, pack_narrow, unpack_narrow
from beam_dpsketch.privacy.norm.choice import GRID

_CELLS_PER_KEY = 12  # dense bytes are fewer, or are added up faster, if entries are more than cells by this
_PENDING_BYTES = 1 << 26
_ENTRY_BYTES = 24
_OWN_BYTES = 4096  # of the arrays themselves, however short
_NOWHERE = np.zeros(0, dtype=np.int64)


@dataclasses.dataclass(frozen=True, repr=False)
class KeyedSums:
    """Raw sketches in the making of several keys, without noise; `repr` shows no data.

    Attributes:
      sketch_input: what is summed.
      keys: encoded, each once.
      side: what is counted aside for each, int64 of shape (keys, side_size).
      places: which key each entry is of, int64.
      items: what a sketch knows of the item of each entry.
      weights: of each entry, int64.
      dense_places: which keys have counters too, int64, in order.
      dense: these counters, int64 of shape (dense_places, cells).
      max_norm: the norm that scaled all of them, if the data chose it.
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
        """Return the sums of entries."""
        dense = np.zeros((0, sketch_input.spec.cells), dtype=np.int64)
        return KeyedSums(sketch_input, keys, side, places, items, weights, _NOWHERE, dense, max_norm)

    @staticmethod
    def of_nothing(sketch_input: SketchInput, keys: Iterable[bytes], max_norm: Fraction | None = None) -> KeyedSums:
        """Return sums of nothing for each of some different encoded keys."""
        column = pa.array(keys, pa.large_binary())
        side, empty = np.zeros((len(column), sketch_input.side_size), dtype=np.int64), sketch_input.empty()
        return KeyedSums.of_entries(sketch_input, column, side, _NOWHERE, *empty[:2], max_norm)

    @staticmethod
    def of_accumulators(sketch_input: SketchInput, sums: dict[bytes, SketchAccumulator]) -> KeyedSums:
        """Return the sums of one or more encoded keys."""
        found = [each.in_columns() for each in sums.values()]
        counters, waiting = zip(*found, strict=True)
        dense = [each for each in counters if each is not None]
        (norm,) = {each.max_norm for each in waiting}
        return KeyedSums(
            sketch_input,
            pa.array([*sums], pa.large_binary()),
            np.stack([each.side for each in waiting]),
            np.repeat(np.arange(len(waiting)), [len(each.keys) for each in waiting]),
            np.concatenate([each.keys for each in waiting]),
            np.concatenate([each.weights for each in waiting]),
            np.array([place for place, each in enumerate(counters) if each is not None], dtype=np.int64),
            np.stack(dense) if dense else np.zeros((0, sketch_input.spec.cells), dtype=np.int64),
            norm,
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"<KeyedSums of {self.sketch_input.spec}, contents hidden>"

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        side = self.side.nbytes + self.dense.nbytes
        return int(_OWN_BYTES + self.keys.nbytes + side + _ENTRY_BYTES * len(self.places) + self.items.nbytes)

    @property
    def votes(self) -> np.ndarray:
        """What decides on each key, int64 of shape (keys, n), as `SketchInput.vote_names` has it."""
        return self.sketch_input.votes_of(self.side)

    def with_votes(self, votes: np.ndarray) -> KeyedSums:
        """Return the same with other numbers of what decides on each key."""
        side = self.side.copy()
        for name, column in zip(self.sketch_input.vote_names, votes.T, strict=True):
            side[:, self.sketch_input.side_columns[name]] = column[:, np.newaxis]
        return dataclasses.replace(self, side=side)

    @property
    def counters(self) -> np.ndarray:
        """The exact counters of each key, int64 of shape (keys, cells)."""
        counted = self._count(slice(None), self.places, len(self))
        counted[self.dense_places] += self.dense
        return counted

    @staticmethod
    def merged(parts: Sequence[KeyedSums]) -> KeyedSums:
        """Return the sums of one or more parts."""
        if len(parts) == 1:
            return parts[0]
        sketch_input, norms = parts[0].sketch_input, {each.max_norm for each in parts if each.max_norm is not None}
        if len(norms) > 1:
            raise RuntimeError(
                "the norm was chosen twice, and parts of one release were scaled by two norms: use "
                "with_idempotent_noise, so that a repeated step chooses the same norm"
            )
        codes, keys = dictionary_codes(pa.chunked_array([each.keys for each in parts]))
        starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        side = np.zeros((len(keys), sketch_input.side_size), dtype=np.int64)
        np.add.at(side, codes, np.concatenate([each.side for each in parts]))
        both = [*zip(parts, starts, strict=True)]
        rows = codes[np.concatenate([each.dense_places + start for each, start in both])].astype(np.int64)
        dense_places, inverse = np.unique(rows, return_inverse=True)
        dense, done = np.zeros((len(dense_places), sketch_input.spec.cells), dtype=np.int64), 0
        for each in parts:
            dense[inverse[done : done + len(each.dense)]] += each.dense
            done += len(each.dense)
        return KeyedSums(
            sketch_input,
            keys,
            side,
            codes[np.concatenate([each.places + start for each, start in both])].astype(np.int64),
            np.concatenate([each.items for each in parts]),
            np.concatenate([each.weights for each in parts]),
            dense_places,
            dense,
            next(iter(norms), None),
        )._denser()

    @staticmethod
    def gathered(parts: Iterable[KeyedSums]) -> KeyedSums:
        """Return the sums of one or more parts; few are in memory at once."""
        waiting, size, least = [], 0, 0
        for each in parts:
            waiting.append(each)
            size += each.nbytes
            if size > max(_PENDING_BYTES, 2 * least):
                waiting = [KeyedSums.merged(waiting)]
                size = least = waiting[0].nbytes
        return KeyedSums.merged(waiting)

    def ordered(self, order: np.ndarray) -> KeyedSums:
        """Return the sums of the keys at some places, in this order; entries and counters follow their keys."""
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

    def blocks(self, size: int) -> Iterator[KeyedSums]:
        """Yield keys after each other, up to `size` at a time, of sums that are `ordered`."""
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
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

    def accumulators(self) -> Iterator[tuple[object, SketchAccumulator]]:
        """Yield each key with its sum; without keys that Beam cannot hold."""
        for each, encoded in zip(self.ordered(np.arange(len(self))).blocks(1), self.keys.to_pylist(), strict=True):
            key = decode(encoded)
            if not is_unicode(key):
                continue
            made = SketchAccumulator(self.sketch_input)
            if len(each.dense):
                made = SketchAccumulator.of_counters(self.sketch_input, each.dense[0])
            made.add_contributions(WeightedItems(each.items, each.weights, each.side[0], self.max_norm))
            yield key, made

    def parts_to_bytes(self, parts: Sequence[slice]) -> Iterator[bytes]:
        """Encode the keys of each slice, of sums that are `ordered`."""
        sums = self._denser()
        sizes = np.bincount(sums.places, minlength=len(sums))
        dense = np.bincount(sums.dense_places, minlength=len(sums))
        ends, rows = (np.concatenate([[0], np.cumsum(each)]) for each in (sizes, dense))
        side = {f"side {number}": pa.array(each) for number, each in enumerate(sums.side.T)}
        keys = pa.table({"key": sums.keys, "size": pa.array(sizes), "dense": pa.array(dense), **side})
        items = sums.sketch_input.as_column(sums.items)
        entries = pa.table({"item": items, "weight": pa.array(sums.weights)})
        of_parts = [slice(ends[part.start], ends[part.stop]) for part in parts]
        norm = int((sums.max_norm or 0) * GRID).to_bytes(8, "little")
        for part, *encoded in zip(
            parts, parts_to_bytes(keys, None, parts), parts_to_bytes(entries, None, of_parts), strict=True
        ):
            counters = sums.dense[rows[part.start] : rows[part.stop]]
            packed = pack_narrow(counters.ravel()) if len(counters) else b""
            yield zstandard.compress(join_parts([norm, *encoded, packed]), 1)

    def to_bytes(self) -> bytes:
        """Encode all of them."""
        return next(self.ordered(np.arange(len(self))).parts_to_bytes([slice(0, len(self))]))

    @staticmethod
    def from_bytes(sketch_input: SketchInput, data: bytes) -> KeyedSums:
        """Decode what `parts_to_bytes` wrote, under the same sketch input."""
        packed_norm, packed_keys, packed_entries, packed = split_parts(zstandard.decompress(data))
        keys, entries, cells = from_bytes(packed_keys), from_bytes(packed_entries), sketch_input.spec.cells
        side = [keys[f"side {number}"].to_numpy() for number in range(sketch_input.side_size)]
        dense_places = np.flatnonzero(keys["dense"].to_numpy())
        dense = unpack_narrow(packed, len(dense_places) * cells) if packed else _NOWHERE
        norm = int.from_bytes(packed_norm, "little")
        return KeyedSums(
            sketch_input,
            keys["key"].combine_chunks(),
            np.stack(side, axis=1) if side else np.zeros((len(keys), 0), dtype=np.int64),
            np.repeat(np.arange(len(keys)), keys["size"].to_numpy()),
            sketch_input.column_keys(entries["item"]),
            entries["weight"].to_numpy(),
            dense_places,
            dense.reshape(len(dense_places), cells),
            Fraction(norm, GRID) if norm else None,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return KeyedSums.from_bytes, (self.sketch_input, self.to_bytes())

    def _denser(self) -> KeyedSums:
        """Return the same with counters for each key that has many entries, or has counters already."""
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
        """Return the counters of some entries, each at its place among as many."""
        return self.sketch_input.kind.count_many(
            self.sketch_input.spec, self.items[entries], self.weights[entries], places, count
        )
