"""The steps before the noise, in this process: read, bound, and sum exactly.

Guarantee: the counters are those of a pipeline on the same records, bit by bit, in any order and any split. Bounding
that samples takes equally probable records, and with the secret of a pipeline the same ones. All records of a privacy
id are in one shard, so bounds that hold in each shard hold for each id.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.engine.run import Run
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.bounding.bounded import Bounded, Rule
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.priorities import KeyedPriorities, RandomPriorities
from beam_dpsketch.records.bounding.rules import Gathered, rule_of, rule_of_norm
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.codec import concat_tables
from beam_dpsketch.records.columns import any_negative
from beam_dpsketch.records.groups import group_rows, wrap_around
from beam_dpsketch.records.reading import Columns, note_use, read_table, read_units
from beam_dpsketch.records.release_spec import ResolvedRelease
from beam_dpsketch.records.unused import Unused

SHARDS = 64
BLOCK = 1 << 20
"""From how many records on there are shards, so that each is bounded alone, in less time and memory."""


class ExactLost(NamedTuple):
    """What a run lost, exactly, as `Run.draw_lost` takes it; and the norm, if the data chose it."""

    exact: np.ndarray
    max_norm: Fraction | None


class Contributed(NamedTuple):
    """What the records of a table add up to, before it is added up.

    Attributes:
      parts: what `Bounded.contributions` yields, of all shards; to be read once.
      max_norm: the norm, if the data chose it.
      lost: the exact histogram of what the run lost, if one tells it.
    """

    parts: Iterable[Any]
    max_norm: Fraction | None = None
    lost: np.ndarray | None = None


class ExactSums:
    """Exact sums of the parts of a table.

    Args:
      resolved: what is released.
      parts: batches, one or more; they may be empty.
      unused: notes the arguments that drop all records.
      secret: decides what is kept of a privacy id, and which norm is chosen; `None` takes the entropy of the system.
    """

    def __init__(
        self, resolved: ResolvedRelease, parts: Iterable[Any], unused: Unused, secret: KeyedRandomness | None = None
    ) -> None:
        self._declared, self._terms, self._secret = resolved.declared, resolved.terms, secret
        self._reader, self._sketch_input = self._declared.reader, self._declared.summed(self._terms)
        self._parts, self._unused = parts, unused
        self.drops_negative = False
        """Whether a weight was below 0, where no record may delete."""

    def by_key(self, contributed: Contributed) -> tuple[dict[Any, SketchAccumulator], ExactLost | None]:
        """Return the sum of each key that is released or may be chosen; without keys, one of the key `None`.

        Also what the run lost, if one histogram tells it.
        """
        declared, sketch_input = self._declared, self._sketch_input
        contributions, max_norm, lost = contributed
        sums: dict[Any, SketchAccumulator] = defaultdict(lambda: SketchAccumulator(sketch_input))
        for key in declared.public_keys or () if declared.is_keyed else (None,):
            sums[key].add_contributions(sketch_input.empty()._replace(max_norm=max_norm))
        for each in contributions:
            key, items = each if declared.is_keyed else (None, each)
            sums[key].add_contributions(items)
        return dict(sums), None if lost is None else ExactLost(lost, max_norm)

    def by_pair(self, contributed: Contributed) -> tuple[dict[bytes, int], Fraction | None]:
        """Return the total weight of each pair of key and item, for grouped counts, and the norm that data chose."""
        counts: dict[bytes, int] = defaultdict(int)
        for pair, count in contributed.parts:
            counts[pair] = wrap_around(counts[pair] + count)
        return counts, contributed.max_norm

    def contributed(self) -> Contributed:
        """Read and bound all records, once."""
        if self._declared.privacy_id is None:
            return Contributed(self._read(lambda columns: read_units(self._reader, columns, self._sketch_input)))
        shards, counter = self._bounded(), self._sketch_input.lost
        of_shards = (each.contributions(self._reader, self._sketch_input) for each in shards)
        lost = None
        if counter is not None and counter.of_run:
            lost = np.sum([each.lost for each in shards if each.lost is not None], axis=0)
        return Contributed(itertools.chain.from_iterable(of_shards), shards[0].max_norm, lost)

    def _bounded(self) -> list[Bounded]:
        """Return what is kept of all records, in shards by privacy id, and scaled by a norm, if one bounds it."""
        sketch_input, terms, secret = self._sketch_input, self._terms, self._secret
        rule = rule_of(sketch_input, RandomPriorities() if secret is None else KeyedPriorities(lambda: secret))

        def read(columns: Columns) -> tuple[int, list[pa.Table]]:
            table = read_table(self._reader, columns, rule.bounds, sketch_input)
            return len(table), [table]

        shards = into_shards(rule, self._read(read))
        if (choosing := terms.choosing) is None:
            return [*map(rule.bound, shards)]
        assert isinstance(rule, NormRule)
        lengths = np.sum([rule.length_histogram(shard) for shard in shards], axis=0)
        norm = Run(secret).choose_norm(lengths, sketch_input.spec, choosing)
        scaling = rule_of_norm(sketch_input, choosing, norm)
        return [scaling.bound(shard)._replace(max_norm=norm) for shard in shards]

    def _read(self, read: Callable[[Columns], tuple[int, Iterable[Any]]]) -> Iterator[Any]:
        """Yield what is read of all parts, given how to read one and count its records; note whether any counts."""
        for part in self._parts:
            columns = self._reader.read_batch(part, self._sketch_input)
            size, found = read(columns)
            note_use(self._unused, size, columns, self._reader, self._sketch_input)
            if columns.weights is not None and not self._sketch_input.bounds.signed:
                self.drops_negative |= any_negative(columns.weights)
            yield from found


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
