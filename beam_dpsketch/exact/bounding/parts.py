"""Split large shards by privacy id, plan shard counts, and hash values to 64 bits.

Guarantee: all records of a privacy id are in a single part, and bounds enforced in each part apply to each id. The rule
selects the same records with or without parts. Encoded records need about a sixth of the memory that bounding needs.

Shard and worker counts follow from the approximate input size. They never change a result, because records of a privacy
id always meet and sums are the same in any grouping.

Guarantee: a hash is determined by its value alone, in any column, slice or batch, and is equal for a number and its
canonical bytes. Therefore, all records of a privacy id meet. Equal hashes do not imply equal values. No format contains
hashes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import NEGATIVE, NON_NEGATIVE
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.bounding.bounded import Rule
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.hashing.murmur import blocks
from beam_dpsketch.exact.reading.codec import concat_tables, from_payloads, parts_to_bytes, to_bytes
from beam_dpsketch.exact.reading.groups import group_rows
from beam_dpsketch.words import shown_plainly

KEY_SHARDS = 256
"""Default key shard count, unless more keys are expected."""
_ROWS_OF_A_SHARD, _MOST_SHARDS = 1 << 22, 1 << 14
_ROWS_OF_A_BUNDLE, _FEW_SUMS = 100_000, 1000
_BYTES_OF_A_ROW, _BYTES_TO_BOUND = 50, 300  # for ids of 36 characters, under a norm
_BYTES_OF_A_COUNTER = 8
_BYTES_OF_A_SHARD = 1 << 26
_FEW_BYTES, _MOST_BYTES = 4 * 10**9, 64 * 10**9  # memory of a worker for a shard
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Scale:
    """Approximate input size of a job, for the method `with_size_hint` of the private transforms.

    Args:
      rows: record count, 1 to 2**60. On a stream, the number in a window.
      keys: number of output keys with data. 1 without keys, or if most records share a key.
    """

    rows: int
    keys: int = 1

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "rows", "keys", low=1, high=1 << 60)

    @property
    def shards(self) -> int:
        """Number of privacy id shards. One worker bounds each."""
        return min(1 << (self.rows // _ROWS_OF_A_SHARD).bit_length(), _MOST_SHARDS)

    def key_shards(self, cells: int) -> int:
        """Choose the key shard count, given the counters in a release. Each shard is added up at once."""
        waiting = self.keys * cells * _BYTES_OF_A_COUNTER // _BYTES_OF_A_SHARD
        return max(KEY_SHARDS, min(1 << waiting.bit_length(), _MOST_SHARDS))

    def bytes_of_shard(self, shards: int) -> float:
        """Estimate the memory that a worker needs for a privacy id shard under a norm."""
        rows = math.ceil(self.rows / shards)
        return rows * _BYTES_TO_BOUND if rows <= BLOCK else rows * (_BYTES_OF_A_ROW + _BYTES_TO_BOUND / PARTS)

    def check_fits(self, shards: int) -> None:
        """Raise without `max_distinct_items` if a shard under a norm exceeds every worker's memory."""
        if self.bytes_of_shard(shards) > _MOST_BYTES:
            raise ArgumentError(
                "max_distinct_items",
                f"is required for about {self.rows:,} rows: without it, a worker would need "
                f"{_size(self.bytes_of_shard(shards))} of memory. Set the number of different items that count for "
                "each privacy id, such as 1000. An item counts separately in each key and window",
                "E228",
            )

    def sums(self, shards: int | None) -> int:
        """Estimate the number of sums per release: one per bundle, or one per privacy id shard if there are any."""
        of_bundles = math.ceil(min(self.rows / _ROWS_OF_A_BUNDLE, self.rows / self.keys))
        return of_bundles if shards is None else min(of_bundles, shards)

    def fanout(self, shards: int | None) -> int:
        """Choose how many workers add up sums of one release before the last worker does."""
        sums = self.sums(shards)
        return 1 if sums <= _FEW_SUMS else math.isqrt(sums)

    def lines(self, cells: int, shards: int | None, *, keeps_all: bool, windows: int = 1) -> Iterator[str]:
        """Yield sentences about the data that workers exchange and keep in memory.

        Args:
          cells: counters per release. 0 if items are counted separately.
          shards: privacy id shard count, if any.
          keeps_all: whether a norm includes all items of an id.
          windows: number of windows whose sums for a key are on one worker.
        """
        if shards is not None:
            rows, needed = math.ceil(self.rows / shards), self.bytes_of_shard(shards)
            parts = PARTS if rows > BLOCK else 1
            yield (
                f"Scale: about {_size(self.rows * _BYTES_OF_A_ROW)} of records travel to {shards:,} shards of privacy "
                f"ids. One worker bounds the {rows:,} records of a shard, in {parts} part(s); all of them wait, in "
                f"about {_size(needed)} of memory."
            )
            if keeps_all and needed > _FEW_BYTES:
                yield (
                    f"Scale: that is more than {_size(_FEW_BYTES)}. Where people have many different items, give the "
                    "norm a max_distinct_items: how many of each are kept."
                )
        if not cells:
            return
        first, sums = self.fanout(shards), self.sums(shards)
        size, last = _size(cells * _BYTES_OF_A_COUNTER), math.ceil(sums / first)
        before = f"{first:,} workers add up the sums of each release, and " if first > 1 else ""
        yield f"Scale: {before}the last worker adds up about {last:,} sum(s) of up to {size} for each release."
        if self.keys > 1:
            cells *= windows
            shards_of_keys = self.key_shards(cells)
            part = math.ceil(self.keys / shards_of_keys)
            yield (
                f"Scale: keys go to {shards_of_keys:,} shards. One worker adds up {part:,} keys of a shard at once, "
                f"in up to about {_size(part * cells * _BYTES_OF_A_COUNTER)} of memory."
            )


def _size(count: float) -> str:
    power = min(int(math.log(max(count, 1), 1000)), len(_UNITS) - 1)
    return f"{float(f'{count / 1000**power:.2g}'):g} {_UNITS[power]}"


_MAX_SHORT = 64  # bytes; longer values are hashed individually
_CHUNK = 1 << 14  # values per batch, which fit into the cache


def shard_hash(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Hash each value, uint64, shape (n,). The column must contain canonical bytes or int64 without nulls."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not len(values):
        return np.zeros(0, dtype=np.uint64)
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy()
        return np.concatenate([_hash_numbers(numbers[i : i + _CHUNK]) for i in range(0, len(numbers), _CHUNK)])
    values = values.cast(pa.large_binary())
    hashes = np.empty(len(values), dtype=np.uint64)
    for places, data in blocks(values, most=_MAX_SHORT):
        hashes[places] = fingerprints(values.take(pa.array(places))) if data is None else _hash_one_size(data)
    return hashes


def _hash_numbers(numbers: np.ndarray) -> np.ndarray:
    """Hash int64 numbers like their canonical bytes under `_hash_one_size`."""
    bits = numbers.view(np.uint64)
    tags = np.where(numbers < 0, np.uint64(NEGATIVE[0]), np.uint64(NON_NEGATIVE[0]))
    hashes = cells.mix(_initial_hash(9) ^ tags ^ (bits << np.uint64(8)), seed=0, row=0)
    return cells.mix(hashes ^ (bits >> np.uint64(56)), seed=0, row=0)


def _initial_hash(size: int) -> np.ndarray:
    return cells.mix(np.array([size], dtype=np.uint64), seed=0, row=0)


def _hash_one_size(data_bytes: np.ndarray) -> np.ndarray:
    count, size = data_bytes.shape
    padded = np.zeros((count, -(-size // 8) * 8), dtype=np.uint8)
    padded[:, :size] = data_bytes
    hashes = np.repeat(_initial_hash(size), count)
    for part in padded.view("<u8").T:
        hashes = cells.mix(hashes ^ part.astype(np.uint64), seed=0, row=0)
    return hashes


BLOCK = 1 << 20
"""Larger sets of records are split, because a part fits the cache and needs little memory."""
PARTS = 64
_SHIFT = np.uint64(64 - (PARTS - 1).bit_length())  # shards are numbered by the lowest bits
_MANY_BLOCKS = 16  # blocks before the first pruning, which sorts and may drop few records
_MUCH, _LATER = 4, 3  # if pruning drops less than a fourth, the next one waits for three times as many records
_MANY_TABLES = 256  # a table needs kilobytes, even with few records


Task: TypeAlias = Callable[[], object]


class Parts:
    """Collection of record tables. Iterate to read them part by part, any number of times.

    `run` runs the tasks that split tables, one after the other. They must have ended before the iteration.
    """

    def __init__(
        self, rule: Rule, tables: Iterable[pa.Table] = (), run: Callable[[Task], object] = operator.call
    ) -> None:
        self._rule, self._run, self._size = rule, run, 0
        self._waiting: dict[tuple[str, ...], list[pa.Table]] = defaultdict(list)  # by column names: no nulls arise
        self._parts: list[Gathered] = []
        for table in tables:
            self.add(table)

    def add(self, table: pa.Table) -> None:
        if self._size >= BLOCK:
            self._run(functools.partial(self._split, self._waiting))
            self._waiting, self._size = defaultdict(list), 0
        alike = self._waiting[tuple(table.column_names)]
        alike.append(table)
        self._size += len(table)
        if len(alike) >= _MANY_TABLES:
            alike[:] = [concat_tables(alike).combine_chunks()]

    def __iter__(self) -> Iterator[pa.Table]:
        if not self._parts:
            yield concat_tables(itertools.chain(*self._waiting.values()))
            return
        self._split(self._waiting)
        self._waiting, self._size = defaultdict(list), 0
        yield from (part.table() for part in self._parts if part)

    def _split(self, waiting: dict[tuple[str, ...], list[pa.Table]]) -> None:
        self._parts = self._parts or [Gathered(self._rule, _MANY_BLOCKS * BLOCK // PARTS) for _ in range(PARTS)]
        for tables in waiting.values():
            block = concat_tables(tables).combine_chunks()
            order, places = group_rows((shard_hash(block["unit"]) >> _SHIFT).astype(np.uint8), PARTS)
            for part, place, payload in zip(self._parts, places, parts_to_bytes(block, order, places), strict=True):
                part.add(payload, place.stop - place.start)


class Gathered:
    """Encoded records that grow, pruned when more than `most` are new. The rule's final choice does not change."""

    def __init__(self, rule: Rule, most: int) -> None:
        self._rule, self._most, self._wait, self._new = rule, most, most, 0
        self._payloads: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._payloads)

    def add(self, payload: bytes, rows: int) -> None:
        if not rows:
            return
        self._payloads.append(payload)
        self._new += rows
        if self._new > self._wait:
            records = self.table()
            kept = self._rule.prune(records)
            dropped = len(records) - len(kept)
            self._payloads, self._new = [to_bytes(kept)], 0
            # Avoid sorting the remaining records again and again.
            self._wait = max(self._most, len(kept) * (1 if dropped * _MUCH >= len(records) else _LATER))

    def table(self) -> pa.Table:
        return from_payloads(self._payloads)
