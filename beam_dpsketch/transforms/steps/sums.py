"""Exact sums without noise: as a CombineFn, in the state of streams, and for many keys in columns.

Streaming runners do not sum before they group. Without state, elements would wait until their window ends, so a stream
has an exact sum in state for each key or shard and window, instead of elements.

Sums of many keys travel and wait in columns: a shard of keys is one element. Steps add up their sums of all keys until
these need `PENDING_BYTES`, or the bundle ends. A combiner of the runner would store up to 100,000 keys, however large
each is.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

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
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, GatheredSums, KeyedSums
from beam_dpsketch.transforms.steps.stream_state import MergedInState
from beam_dpsketch.transforms.steps.whole_runs import norm_of

# A bundle emits a sum, or a sum per key. A merge costs a worker a fraction of a millisecond, so a few shards suffice
# for all bundles of a release without keys. Keys spread the work themselves, so each is one shard.
SUM_SHARDS = 8
_SINGLE = frozenset({int, str, bytes})
PENDING_BYTES = 1 << 26
_PART = tuple[bytes, bytes]


class SumBundle(beam.DoFn):
    """Sum values, or (key, value), to `KeyedSums`, for each bundle and window.

    Args:
      fn: sums values.
      per_key: whether values have keys.
    """

    def __init__(self, fn: RawSketchFn, *, per_key: bool) -> None:
        self._fn, self._per_key = fn, per_key

    def start_bundle(self) -> None:
        self._waiting: dict[Any, dict[Any, SketchAccumulator]] = defaultdict(dict)
        self._size = 0

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue]:
        key, value = element if self._per_key else (None, element)
        accumulators, before = self._waiting[window], 0
        accumulator = accumulators.get(key)
        if accumulator is None:
            accumulator = accumulators[key] = self._fn.create_accumulator()
        else:
            before = accumulator.nbytes
        self._fn.add_input(accumulator, value)
        self._size += accumulator.nbytes - before
        return () if self._size < PENDING_BYTES else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, accumulators in self._waiting.items():
            if self._per_key:  # ignored records must not make a key
                encoded = {encode(key): each for key, each in accumulators.items() if each.has_records}
            else:
                encoded = {NO_KEY: accumulators[None]}
            yield WindowedValue(sums_of(self._fn.sketch_input, encoded), window.max_timestamp(), (window,))
        self.start_bundle()


def sum_in_state(sums: beam.PCollection, sketch_input: SketchInput) -> beam.PCollection:
    """Sum over whole windows: a sum per key, or up to `SUM_SHARDS` without keys."""
    return (
        sums
        | "ToState" >> beam.FlatMap(to_state).with_output_types(tuple[bytes, bytes])
        | "SumInState" >> MergedInState(MergeSums(sketch_input))
        | "Read" >> beam.MapTuple(lambda _, payload: KeyedSums.from_bytes(sketch_input, payload))
    )


def to_state(sums: KeyedSums) -> Iterator[tuple[bytes, bytes]]:
    """Yield (encoded key, bytes of its sum), with a random shard instead of the key without keys."""
    for key, each in sums.each():
        yield (bytes([secrets.randbelow(SUM_SHARDS)]) if key == NO_KEY else key), each.to_bytes()


class MergeSums:
    """Merger of a key's encoded sums."""

    def __init__(self, sketch_input: SketchInput) -> None:
        self._sketch_input = sketch_input

    def __call__(self, payloads: Iterable[bytes]) -> bytes:
        total, key = SketchAccumulator(self._sketch_input), NO_KEY
        for payload in payloads:
            sums = KeyedSums.from_bytes(self._sketch_input, payload)
            total.absorb(sums)
            (key,) = sums.keys.to_pylist()
        return total.to_sums(key).to_bytes()


class RawSketchFn(beam.CombineFn):
    """Sum elements, or sums of a key, to `KeyedSums` without keys and noise, as input of `ReleaseOnce`."""

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
        if self._is_item and type(element) in _SINGLE:  # tested first, because most elements need only this
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
        merged = self.create_accumulator()  # a copy: Beam may still use all but the first; may be empty
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
    """Coder for raw accumulators. The bytes travel between workers only."""

    def __init__(self, sketch_input: SketchInput) -> None:
        self._sketch_input = sketch_input

    def encode(self, value: SketchAccumulator) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> SketchAccumulator:
        return SketchAccumulator.from_bytes(self._sketch_input, encoded)

    def is_deterministic(self) -> bool:
        return False  # equal sums may differ in bytes, depending on their history


def key_shards_for(scale: Scale | None, cells: int) -> int:
    """Choose the key shard count, given the counters per key."""
    return KEY_SHARDS if scale is None else scale.key_shards(cells)


class AddUpKeys(beam.PTransform):
    """Add up `KeyedSums` by key shard, with one element per shard and window.

    Args:
      sketch_input: input definition for the sums.
      shards: key shard count.
      fanout: number of workers that add up the sums of a key shard before the last worker does.
    """

    def __init__(self, sketch_input: SketchInput, shards: int, fanout: int = 1) -> None:
        super().__init__()
        self._input, self._shards, self._fanout = sketch_input, shards, fanout

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        parts = pcoll | "SumBundle" >> beam.ParDo(SumKeys(self._shards)).with_output_types(_PART)
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
    """Add up `KeyedSums` to (key shard, bytes), for each bundle and window.

    Args:
      shards: key shard count.
    """

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def start_bundle(self) -> None:
        self._sums = GatheredSums(PENDING_BYTES)

    def process(self, element: KeyedSums, window: Any = beam.DoFn.WindowParam) -> Iterable[WindowedValue]:
        self._sums.add(window, element)
        return () if self._sums.least < PENDING_BYTES // 2 else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, sums in self._sums.merged().items():
            for part in by_shard(sums, self._shards):
                yield WindowedValue(part, window.max_timestamp(), (window,))
        self.start_bundle()


def by_shard(sums: KeyedSums, shards: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key shard, bytes) for each shard with a key."""
    order, parts = key_shards(sums.keys, shards)
    for shard, part in zip(parts, sums.ordered(order).parts(parts.values()), strict=True):
        yield shard, part.to_bytes()


def key_shards(keys: pa.Array, shards: int) -> tuple[np.ndarray, dict[bytes, slice]]:
    """Sort rows by key shard, and return the slice of that order for each shard with rows."""
    order, parts = group_rows((shard_hash(keys) % np.uint64(shards)).astype(np.int64), shards)
    return order, {shard.to_bytes(2, "big"): part for shard, part in enumerate(parts) if part.stop > part.start}


def sums_of_nothing(packed_keys: bytes, sketch_input: SketchInput, norm: int | None = None) -> KeyedSums:
    """Create empty sums for some keys, with the norm chosen from the data, if any."""
    return KeyedSums.of_nothing(sketch_input, unpack(packed_keys), norm_of(norm))


def _spread(part: tuple[bytes, bytes], fanout: int) -> tuple[bytes, bytes]:
    shard, payload = part
    return shard + secrets.randbelow(fanout).to_bytes(4, "big"), payload


def _add_up(shard: tuple[bytes, Iterable[bytes]], sketch_input: SketchInput) -> KeyedSums:
    sums = GatheredSums()
    for payload in shard[1]:
        sums.add(shard[0], KeyedSums.from_bytes(sketch_input, payload))
    return sums.merged()[shard[0]]


def _add_up_first(shard: tuple[bytes, Iterable[bytes]], sketch_input: SketchInput) -> tuple[bytes, bytes]:
    return shard[0][:2], _add_up(shard, sketch_input).to_bytes()
