"""The steps before the noise, in this process: read, bound, and sum exactly.

Guarantee: the counters are those of a pipeline on the same records, bit by bit, in any order and any split. Bounding
that samples takes equally probable records, and with the secret of a pipeline the same ones.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch.engine.norms import NORM_PART, choose_norm
from beam_dpsketch.frames.shards import into_shards
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.priorities import KeyedPriorities, RandomPriorities
from beam_dpsketch.records.bounding.rules import rule_of, rule_of_norm
from beam_dpsketch.records.groups import sum_by_pair, wrap_around
from beam_dpsketch.records.items import WeightedItems
from beam_dpsketch.records.reading import (
    Columns,
    note_use,
    read_counts,
    read_keyed_table,
    read_single,
    read_table,
    split_single,
)
from beam_dpsketch.records.release_spec import ResolvedRelease
from beam_dpsketch.records.unused import Unused

_Read = TypeVar("_Read")


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

    def by_key(self) -> dict[Any, SketchAccumulator]:
        """Return the sum of each key that is released or may be chosen; without keys, one of the key `None`."""
        declared, sketch_input, max_norm = self._declared, self._sketch_input, None
        if declared.privacy_id is None:
            contributions = self._single()
        else:
            shards = self._bounded()
            max_norm = shards[0].max_norm
            if declared.is_keyed:
                contributions = itertools.chain.from_iterable(each.by_key(sketch_input) for each in shards)
            else:
                contributions = ((None, each.to_items(sketch_input)) for each in shards)
        empty = sketch_input.empty()._replace(max_norm=max_norm)
        always = declared.public_keys or () if declared.is_keyed else (None,)
        sums = {key: SketchAccumulator(sketch_input) for key in always}
        for accumulator in sums.values():
            accumulator.add_contributions(empty)
        for key, items in contributions:
            sums.setdefault(key, SketchAccumulator(sketch_input)).add_contributions(items)
        return sums

    def by_pair(self) -> dict[bytes, int]:
        """Return the total weight of each pair of key and item, for grouped counts."""
        counts: dict[bytes, int] = defaultdict(int)
        for pair, count in self._pairs():
            counts[pair] = wrap_around(counts[pair] + count)
        return counts

    def _pairs(self) -> Iterator[tuple[bytes, int]]:
        if self._declared.privacy_id is not None:
            for shard in self._bounded():
                yield from shard.by_pair(self._sketch_input)
            return
        for records in self._read(lambda columns: read_counts(self._reader, columns, self._sketch_input), len):
            yield from sum_by_pair(records["key"], records["weight"].to_numpy())

    def _single(self) -> Iterator[tuple[Any, WeightedItems]]:
        """Yield keys and what their records add, each a unit of its own."""
        if not self._declared.is_keyed:
            read = self._read(lambda columns: read_single(columns, self._sketch_input), lambda items: len(items.keys))
            yield from zip(itertools.repeat(None), read, strict=False)
            return
        for records in self._read(lambda columns: read_keyed_table(self._reader, columns, self._sketch_input), len):
            yield from split_single(records, self._sketch_input)

    def _bounded(self) -> list[Bounded]:
        """Return what is kept of all records, in shards by privacy id, and scaled by a norm, if one bounds it."""
        sketch_input, terms, secret = self._sketch_input, self._terms, self._secret
        rule = rule_of(sketch_input, RandomPriorities() if secret is None else KeyedPriorities(lambda: secret))

        def read(columns: Columns) -> pa.Table:
            return read_table(self._reader, columns, rule.bounds, sketch_input)

        shards = into_shards(rule, self._read(read, len))
        if (choosing := terms.choosing) is None:
            return [*map(rule.bound, shards)]
        assert isinstance(rule, NormRule)
        keyed = None if secret is None else secret.derive(NORM_PART)
        lengths = np.sum([rule.length_histogram(shard) for shard in shards], axis=0)
        norm = choose_norm(lengths, sketch_input.spec, choosing, keyed)
        scaling = rule_of_norm(sketch_input, choosing, norm)
        return [scaling.bound(shard)._replace(max_norm=norm) for shard in shards]

    def _read(self, read: Callable[[Columns], _Read], size: Callable[[_Read], int]) -> Iterator[_Read]:
        """Yield what is read of each part, and note whether any of it counts."""
        for part in self._parts:
            columns = self._reader.read_batch(part, self._sketch_input)
            result = read(columns)
            note_use(self._unused, size(result), columns, self._reader, self._sketch_input)
            yield result
