"""Exact sums without noise: as a CombineFn, in the state of streams, and of many keys in columns.

Streaming runners do not sum before they group: without state, elements would wait until their window ends. So a stream
keeps an exact accumulator in state for each key, shard and window, instead of elements.

Sums of many keys travel and wait in columns: a shard of keys is one element. Steps add up what they have of all keys
until it takes `PENDING_BYTES`, or the bundle ends. A combiner of the runner would keep up to 100,000 keys, however
large each is.
"""

from __future__ import annotations

import dataclasses
import secrets
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import coders
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding.parts import KEY_SHARDS, Scale, shard_hash
from beam_dpsketch.exact.hashing.lookup import unpack
from beam_dpsketch.exact.reading.groups import group_rows
from beam_dpsketch.exact.reading.items import SketchInput, WeightedItems
from beam_dpsketch.exact.reading.reading import RecordReader, read_single
from beam_dpsketch.exact.reading.selectors import Selectors, make_getter
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator, sums_of
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.transforms.steps.stream_state import MergedInState
from beam_dpsketch.transforms.steps.whole_runs import norm_of

# A bundle makes one sum, or one for each key. Merging sums takes a worker a fraction of a millisecond, so a few shards
# keep up with all bundles of a release without keys. Keys spread the work themselves, so each is one shard.
SUM_SHARDS = 8
BUFFERED_ELEMENTS = 1 << 16
_SINGLE = frozenset({int, str, bytes})
PENDING_BYTES = 1 << 26
_PART = tuple[bytes, bytes]
Waiting = TypeVar("Waiting")


def sum_in_state(values: beam.PCollection, fn: RawSketchFn, *, per_key: bool) -> beam.PCollection:
    """Return `KeyedSums` in place of the values of a window: one of each key, or up to `SUM_SHARDS` without keys."""
    return (
        values
        | "SumBundle" >> beam.ParDo(SumBundle(fn, per_key=per_key)).with_output_types(tuple[bytes, bytes])
        | "SumInState" >> MergedInState(MergeSums(fn.sketch_input))
        | "Read" >> beam.Map(_read_sum, fn.sketch_input, per_key).with_output_types(KeyedSums)
    )


class SumBundle(beam.DoFn):
    """Sum elements to (shard or encoded key, bytes of the accumulator), for each bundle and window."""

    def __init__(self, sum_fn: RawSketchFn, *, per_key: bool) -> None:
        self._sum_fn = sum_fn
        self._per_key = per_key

    def start_bundle(self) -> None:
        self._sums: dict[tuple[Any, Any], SketchAccumulator] = {}
        self._buffered = 0

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue]:
        key, value = element if self._per_key else (None, element)
        accumulator = self._sums.get((window, key))
        if accumulator is None:
            accumulator = self._sums[window, key] = self._sum_fn.create_accumulator()
        self._sum_fn.add_input(accumulator, value)
        self._buffered += 1
        return () if self._buffered < BUFFERED_ELEMENTS else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        shard = bytes([secrets.randbelow(SUM_SHARDS)])
        for (window, key), accumulator in self._sums.items():
            payload = encode(key) if self._per_key else shard, accumulator.to_bytes()
            yield WindowedValue(payload, window.max_timestamp(), (window,))
        self.start_bundle()


class MergeSums:
    """Merges the bytes of accumulators to those of their sum."""

    def __init__(self, sketch_input: SketchInput) -> None:
        self._sketch_input = sketch_input

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        total = SketchAccumulator(self._sketch_input)
        for payload in payloads:
            total.absorb(KeyedSums.from_bytes(self._sketch_input, payload))
        return total.to_bytes()


def _read_sum(merged: tuple[bytes, bytes], sketch_input: SketchInput, per_key: bool) -> KeyedSums:
    key, payload = merged
    sums = KeyedSums.from_bytes(sketch_input, payload)
    return dataclasses.replace(sums, keys=pa.array([key], pa.large_binary())) if per_key else sums


class RawSketchFn(beam.CombineFn):
    """Sum elements, or sums of one key, to `KeyedSums` without keys, without noise: the step before `ReleaseOnce`."""

    def __init__(self, sketch_input: SketchInput, selectors: Selectors) -> None:
        self.sketch_input, self._selectors = sketch_input, selectors
        self._reader = RecordReader(selectors, per_key=False)
        self._item = make_getter(selectors.item)
        self._is_batch_type = selectors.is_batch_type
        self._is_item = selectors.item is None and selectors.weight is None
        self._weight = None if selectors.weight is None else make_getter(selectors.weight)

    def create_accumulator(self) -> SketchAccumulator:
        return SketchAccumulator(self.sketch_input, self._selectors)

    def add_input(self, mutable_accumulator: SketchAccumulator, element: Any) -> SketchAccumulator:
        if self._is_item and type(element) in _SINGLE:  # asked first: this is all that happens to most elements
            mutable_accumulator.add(element)
        elif type(element) is WeightedItems:
            mutable_accumulator.add_contributions(element)
        elif type(element) is KeyedSums:
            mutable_accumulator.absorb(element)
        elif self._is_batch_type(type(element)):
            mutable_accumulator.add_contributions(self._read_batch(element))
        elif self._weight is None:
            mutable_accumulator.add(self._item(element))
        else:
            mutable_accumulator.add_weighted(self._item(element), self._weight(element))
        return mutable_accumulator

    def add_inputs(self, mutable_accumulator: SketchAccumulator, elements: Iterable[Any]) -> SketchAccumulator:
        for element in elements:
            self.add_input(mutable_accumulator, element)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[SketchAccumulator]) -> SketchAccumulator:
        merged = self.create_accumulator()  # Beam may go on using all but the first, and there may be none
        for accumulator in accumulators:
            merged.absorb(accumulator.to_sums())
        return merged

    def compact(self, accumulator: SketchAccumulator) -> SketchAccumulator:
        accumulator.flush()
        return accumulator

    def extract_output(self, accumulator: SketchAccumulator) -> Any:
        return accumulator.to_sums()

    def get_accumulator_coder(self) -> coders.Coder:
        return AccumulatorCoder(self.sketch_input)

    def _read_batch(self, batch: Any) -> WeightedItems:
        tally = self._reader.tally(self.sketch_input, is_sampled=True)
        columns = self._reader.read_batch(batch, self.sketch_input, tally)
        tally.log()
        return read_single(columns, self.sketch_input)


class AccumulatorCoder(coders.Coder):
    """Encodes raw accumulators, between workers only."""

    def __init__(self, sketch_input: SketchInput) -> None:
        self._sketch_input = sketch_input

    def encode(self, value: SketchAccumulator) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> SketchAccumulator:
        return SketchAccumulator.from_bytes(self._sketch_input, encoded)

    def is_deterministic(self) -> bool:
        return False  # equal sums may differ in bytes, depending on how they were made


def key_shards_for(scale: Scale | None, cells: int) -> int:
    """Return into how many parts keys go that each have as many counters."""
    return KEY_SHARDS if scale is None else scale.key_shards(cells)


class AddUpKeys(beam.PTransform):
    """Turn values of keys into `KeyedSums` of shards of keys, one for each window.

    Args:
      sketch_input: what is summed.
      in_bundle: what adds up the values of a bundle.
      fanout: how many workers add up the sums of a shard of keys before the last one does.
      always: (shard of keys, bytes) of keys that must have sums in any case; `None` for none.
    """

    def __init__(
        self,
        sketch_input: SketchInput,
        in_bundle: SumsInBundle[Any],
        fanout: int = 1,
        always: beam.PCollection | None = None,
    ) -> None:
        super().__init__()
        self._input, self._in_bundle, self._fanout, self._always = sketch_input, in_bundle, fanout, always

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        parts = pcoll | "SumBundle" >> beam.ParDo(self._in_bundle).with_output_types(_PART)
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


class SumsInBundle(beam.DoFn, Generic[Waiting]):
    """Add up values to (shard of keys, bytes of `KeyedSums`), for each bundle and window.

    Args:
      sketch_input: what is summed.
      shards: into how many parts keys go.
    """

    def __init__(self, sketch_input: SketchInput, shards: int) -> None:
        self._input, self._shards = sketch_input, shards

    def start_bundle(self) -> None:
        self._waiting: dict[Any, Waiting] = defaultdict(self._nothing)
        self._size = 0

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue]:
        self._size += self._add(self._waiting[window], element)
        if self._size < PENDING_BYTES:
            return ()
        self._size = sum(map(self._shrink, self._waiting.values()))
        return () if self._size < PENDING_BYTES // 2 else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, waiting in self._waiting.items():
            for part in by_shard(self._sum(waiting), self._shards):
                yield WindowedValue(part, window.max_timestamp(), (window,))
        self.start_bundle()

    @abstractmethod
    def _nothing(self) -> Waiting:
        """Return what waits in a window before its first value."""

    @abstractmethod
    def _add(self, waiting: Waiting, element: Any) -> int:
        """Let a value wait too, and return about how many bytes more that takes."""

    @abstractmethod
    def _shrink(self, waiting: Waiting) -> int:
        """Add up what waits, if it does not come so, and return how many bytes it takes."""

    @abstractmethod
    def _sum(self, waiting: Waiting) -> KeyedSums:
        """Return the sums of what waits."""


class SumKeys(SumsInBundle[list[KeyedSums]]):
    """Add up `KeyedSums`."""

    def _nothing(self) -> list[KeyedSums]:
        return []

    def _add(self, waiting: list[KeyedSums], element: KeyedSums) -> int:
        waiting.append(element)
        return element.nbytes

    def _shrink(self, waiting: list[KeyedSums]) -> int:
        waiting[:] = [self._sum(waiting)]
        return waiting[0].nbytes

    def _sum(self, waiting: list[KeyedSums]) -> KeyedSums:
        return KeyedSums.merged(waiting)


class SumPairs(SumsInBundle[dict[Any, SketchAccumulator]]):
    """Add up (key, value), with a `RawSketchFn` for the values."""

    def __init__(self, sketch_input: SketchInput, shards: int, fn: RawSketchFn) -> None:
        super().__init__(sketch_input, shards)
        self._fn = fn

    def _nothing(self) -> dict[Any, SketchAccumulator]:
        return {}

    def _add(self, waiting: dict[Any, SketchAccumulator], element: tuple[Any, Any]) -> int:
        key, value = element
        before, accumulator = 0, waiting.get(key)
        if accumulator is None:
            accumulator = waiting[key] = self._fn.create_accumulator()
        else:
            before = accumulator.nbytes
        self._fn.add_input(accumulator, value)
        return accumulator.nbytes - before

    def _shrink(self, waiting: dict[Any, SketchAccumulator]) -> int:
        return sum(each.nbytes for each in waiting.values())

    def _sum(self, waiting: dict[Any, SketchAccumulator]) -> KeyedSums:
        return sums_of(self._input, {encode(key): each for key, each in waiting.items()})


def by_shard(sums: KeyedSums, shards: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (shard of keys, bytes) for each shard that has a key."""
    order, parts = key_shards(sums.keys, shards)
    for shard, part in zip(parts, sums.ordered(order).parts(parts.values()), strict=True):
        yield shard, part.to_bytes()


def key_shards(keys: pa.Array, shards: int) -> tuple[np.ndarray, dict[bytes, slice]]:
    """Return an order of rows by the shard of their key, and the slice of that order for each shard that has rows."""
    order, parts = group_rows((shard_hash(keys) % np.uint64(shards)).astype(np.int64), shards)
    return order, {shard.to_bytes(2, "big"): part for shard, part in enumerate(parts) if part.stop > part.start}


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
