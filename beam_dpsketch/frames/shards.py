"""Records of a large table in shards by privacy id, so that each is bounded alone, in less time and memory.

Guarantee: all records of a privacy id are in one shard, so bounds that hold in each shard hold for each id.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from beam_dpsketch.records.bounding.bounded import Rule
from beam_dpsketch.records.bounding.rules import Gathered
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.codec import concat_tables
from beam_dpsketch.records.groups import group_rows

SHARDS = 64
BLOCK = 1 << 20
"""From how many records on there are shards."""


def into_shards(rule: Rule, tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return one or more tables of records as one, or as shards if they are large, without what the rule drops."""
    blocks = _blocks(tables)
    first = next(blocks)
    second = next(blocks, None)
    if second is None:
        return [first]
    shards = [Gathered(rule, BLOCK // SHARDS) for _ in range(SHARDS)]
    for block in itertools.chain((first, second), blocks):
        codes = (shard_hash(block["unit"]) % np.uint64(SHARDS)).astype(np.uint8)
        order, rows = group_rows(codes, SHARDS)
        ordered = block.take(pa.array(order)).combine_chunks()
        for shard, each in zip(shards, rows, strict=True):
            shard.add(ordered.slice(each.start, each.stop - each.start))
    return [shard.table() for shard in shards]


def _blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of about `BLOCK` records, one at least."""
    gathered, size, is_first = [], 0, True
    for table in tables:
        gathered.append(table)
        size += len(table)
        if size >= BLOCK:
            yield concat_tables(gathered)
            gathered, size, is_first = [], 0, False
    if is_first or size:
        yield concat_tables(gathered)
