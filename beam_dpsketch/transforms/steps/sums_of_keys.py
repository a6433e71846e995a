"""Exact sums of many keys, which travel and wait in columns: a shard of keys is one element.

Steps add up what they have of all keys until it takes `PENDING_BYTES`, or the bundle ends. A combiner of the runner
would keep up to 100,000 keys, whatever bytes each takes.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.hashing.lookup import unpack
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.groups import group_rows
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.keyed_sums import KeyedSums
from beam_dpsketch.transforms.steps.whole_runs import norm_of

SHARDS = 256
"""Into how many parts keys go, unless more of them are expected."""
PENDING_BYTES = 1 << 26
_PART = tuple[bytes, bytes]


class AddUpKeys(beam.PTransform):
    """Turn `Bounded` shards of privacy ids into `KeyedSums` of shards of keys, one for each window.

    Args:
      sketch_input: what is summed.
      shards: into how many parts keys go.
      fanout: how many workers add up the sums of a shard of keys before the last one does.
      always: of further encoded keys, packed, which must have sums in any case; `None` for none.
    """

    def __init__(
        self, sketch_input: SketchInput, shards: int, fanout: int = 1, always: beam.PCollection | None = None
    ) -> None:
        super().__init__()
        self._input, self._shards, self._fanout, self._always = sketch_input, shards, fanout, always

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        parts = pcoll | "SumBundle" >> beam.ParDo(SumKeys(self._input, self._shards)).with_output_types(_PART)
        if self._always is not None:
            parts = (parts, self._always) | "WithEmpty" >> beam.Flatten()
        if self._fanout > 1:
            parts = (
                parts
                | "Spread" >> beam.Map(_spread, self._fanout).with_output_types(_PART)
                | "GroupFirst" >> beam.GroupByKey()
                | "AddUpFirst" >> beam.Map(_add_up_first, self._input).with_output_types(_PART)
            )
        return (
            parts
            | "GroupKeys" >> beam.GroupByKey()
            | "AddUp" >> beam.Map(_add_up, self._input).with_output_types(KeyedSums)
        )


class SumKeys(beam.DoFn):
    """Add up `Bounded` to (shard of keys, bytes of `KeyedSums`), for each bundle and window."""

    def __init__(self, sketch_input: SketchInput, shards: int) -> None:
        self._input, self._shards = sketch_input, shards

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[KeyedSums]] = defaultdict(list)
        self._size = 0

    def process(self, element: Bounded, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue]:
        sums = element.to_keyed(self._input)
        self._waiting[window].append(sums)
        self._size += sums.nbytes
        if self._size < PENDING_BYTES:
            return ()
        for each, parts in self._waiting.items():
            self._waiting[each] = [KeyedSums.merged(parts)]
        self._size = sum(parts[0].nbytes for parts in self._waiting.values())
        return () if self._size < PENDING_BYTES // 2 else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, parts in self._waiting.items():
            for part in by_shard(KeyedSums.merged(parts), self._shards):
                yield WindowedValue(part, window.max_timestamp(), (window,))
        self.start_bundle()


def by_shard(sums: KeyedSums, shards: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (shard of keys, bytes) for each shard that has a key."""
    order, parts = group_rows((shard_hash(sums.keys) % np.uint64(shards)).astype(np.int64), shards)
    of_keys = {shard: part for shard, part in enumerate(parts) if part.stop > part.start}
    encoded = sums.ordered(order).parts_to_bytes([*of_keys.values()])
    yield from zip((shard.to_bytes(2, "big") for shard in of_keys), encoded, strict=True)


def sums_of_nothing(
    packed_keys: bytes, sketch_input: SketchInput, shards: int, norm: int | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (shard of keys, bytes) of sums of nothing for each of some keys; a norm that the data chose goes along."""
    return by_shard(KeyedSums.of_nothing(sketch_input, unpack(packed_keys), norm_of(norm)), shards)


def _spread(part: tuple[bytes, bytes], fanout: int) -> tuple[bytes, bytes]:
    shard, payload = part
    return shard + secrets.randbelow(fanout).to_bytes(4, "big"), payload


def _add_up(shard: tuple[bytes, Iterable[bytes]], sketch_input: SketchInput) -> KeyedSums:
    return KeyedSums.gathered(KeyedSums.from_bytes(sketch_input, payload) for payload in shard[1])


def _add_up_first(shard: tuple[bytes, Iterable[bytes]], sketch_input: SketchInput) -> tuple[bytes, bytes]:
    return shard[0][:2], _add_up(shard, sketch_input).to_bytes()
