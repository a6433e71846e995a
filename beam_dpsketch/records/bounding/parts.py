"""Records of a shard that gather, in parts by privacy id where they are many, so that each part is bounded alone.

Guarantee: all records of a privacy id are in one part, so bounds that hold in each part hold for each id; and the rule
keeps the same records as of all at once. Records wait encoded, in about a sixth of the memory that bounding them takes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from beam_dpsketch.records.bounding.bounded import Rule
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.codec import concat_tables, from_payloads, parts_to_bytes, to_bytes
from beam_dpsketch.records.groups import group_rows

BLOCK = 1 << 20
"""More records than these are parted: those of each part fit the cache, and take little memory."""
PARTS = 64
_SHIFT = np.uint64(64 - (PARTS - 1).bit_length())  # shards are numbered by the lowest bits
_MANY_BLOCKS = 16  # wait before any of them is pruned: that sorts, and does not always drop much
_MUCH, _LATER = 4, 3  # where less than a fourth of the records was dropped, three times as many come before the next
_MANY_TABLES = 256  # a table takes kilobytes, however few records it has


class Parts:
    """Gather tables of records. Iterate to read them part by part, any number of times."""

    def __init__(self, rule: Rule, tables: Iterable[pa.Table] = ()) -> None:
        self._rule, self._size = rule, 0
        self._waiting: dict[tuple[str, ...], list[pa.Table]] = defaultdict(list)  # without nulls: by their columns
        self._parts: list[Gathered] = []
        for table in tables:
            self.add(table)

    def add(self, table: pa.Table) -> None:
        if self._size >= BLOCK:
            self._part()
        alike = self._waiting[tuple(table.column_names)]
        alike.append(table)
        self._size += len(table)
        if len(alike) >= _MANY_TABLES:
            alike[:] = [concat_tables(alike).combine_chunks()]

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield one or more tables."""
        if not self._parts:
            yield concat_tables(itertools.chain(*self._waiting.values()))
            return
        self._part()
        yield from (part.table() for part in self._parts if part)

    def _part(self) -> None:
        """Give what waits to the parts."""
        self._parts = self._parts or [Gathered(self._rule, _MANY_BLOCKS * BLOCK // PARTS) for _ in range(PARTS)]
        for tables in self._waiting.values():
            block = concat_tables(tables).combine_chunks()
            order, places = group_rows((shard_hash(block["unit"]) >> _SHIFT).astype(np.uint8), PARTS)
            for part, place, payload in zip(self._parts, places, parts_to_bytes(block, order, places), strict=True):
                part.add(payload, place.stop - place.start)
        self._waiting.clear()
        self._size = 0


class Gathered:
    """Records that grow, encoded, and pruned where more than `most` have come: the rule keeps the same of them."""

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
            # What must be kept anyway is not sorted again and again.
            self._wait = max(self._most, len(kept) * (1 if dropped * _MUCH >= len(records) else _LATER))

    def table(self) -> pa.Table:
        return from_payloads(self._payloads)
