"""Exact sums without noise, as a CombineFn, and in the state of streams.

Streaming runners do not sum before they group: without state, elements would wait until their window ends. So a stream
keeps an exact accumulator in state for each key, shard and window, instead of elements.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.hashing.encodings import decode, encode
from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.reading import RecordReader, read_single
from beam_dpsketch.records.selectors import Selectors, make_getter
from beam_dpsketch.records.sums.accumulator import SketchAccumulator
from beam_dpsketch.transforms.steps.stream_state import MergedInState, keeps_state

# A bundle makes one sum, or one for each key. Merging sums takes a worker a fraction of a millisecond, so a few shards
# keep up with all bundles of a release without keys. Keys spread the work themselves, so each is one shard.
SHARDS = 8
BUFFERED_ELEMENTS = 1 << 16
_SINGLE = frozenset({int, str, bytes})


def sum_in_state(
    values: beam.PCollection, sketch_input: SketchInput, selectors: Selectors, *, per_key: bool, in_state: bool
) -> tuple[beam.PCollection, RawSketchFn]:
    """Return what a window combines, and the CombineFn that does.

    Streams combine up to `SHARDS` sums for each window and key where their runner keeps state; others the values.
    """
    if not (in_state and keeps_state(values)):
        return values, RawSketchFn(sketch_input, selectors)
    sum_bundle = SumBundle(RawSketchFn(sketch_input, selectors), per_key=per_key)
    sums = (
        values
        | "SumBundle" >> beam.ParDo(sum_bundle).with_output_types(tuple[bytes, bytes])
        | "SumInState" >> MergedInState(MergeSums(sketch_input))
        | "Read" >> beam.Map(_read_sum, sketch_input, per_key)
    )
    return sums, SumFn(sketch_input)


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
        shard = bytes([secrets.randbelow(SHARDS)])
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
            total.absorb(SketchAccumulator.from_bytes(self._sketch_input, payload))
        return total.to_bytes()


def _read_sum(merged: tuple[bytes, bytes], sketch_input: SketchInput, per_key: bool) -> Any:
    key, payload = merged
    accumulator = SketchAccumulator.from_bytes(sketch_input, payload)
    return (decode(key), accumulator) if per_key else accumulator


class RawSketchFn(beam.CombineFn):
    """Sum elements in a raw accumulator, without noise: the step before `ReleaseOnce`."""

    def __init__(self, sketch_input: SketchInput, selectors: Selectors) -> None:
        self._sketch_input, self._selectors = sketch_input, selectors
        self._reader = RecordReader(selectors, per_key=False)
        self._item = make_getter(selectors.item)
        self._is_batch_type = selectors.is_batch_type
        self._is_item = selectors.item is None and selectors.weight is None
        self._weight = None if selectors.weight is None else make_getter(selectors.weight)

    def create_accumulator(self) -> SketchAccumulator:
        return SketchAccumulator(self._sketch_input, self._selectors)

    def add_input(self, mutable_accumulator: SketchAccumulator, element: Any) -> SketchAccumulator:
        if self._is_item and type(element) in _SINGLE:  # asked first: this is all that happens to most elements
            mutable_accumulator.add(element)
        elif type(element) is WeightedItems:
            mutable_accumulator.add_contributions(element)
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
            merged.absorb(accumulator)
        return merged

    def compact(self, accumulator: SketchAccumulator) -> SketchAccumulator:
        accumulator.flush()
        return accumulator

    def extract_output(self, accumulator: SketchAccumulator) -> Any:
        return accumulator  # still lazy

    def get_accumulator_coder(self) -> coders.Coder:
        return AccumulatorCoder(self._sketch_input)

    def _read_batch(self, batch: Any) -> WeightedItems:
        tally = self._reader.tally(self._sketch_input, is_sampled=True)
        columns = self._reader.read_batch(batch, self._sketch_input, tally)
        tally.log()
        return read_single(columns, self._sketch_input)


class SumFn(RawSketchFn):
    """Sum raw accumulators, without noise."""

    def __init__(self, sketch_input: SketchInput) -> None:
        super().__init__(sketch_input, Selectors())

    def add_input(self, mutable_accumulator: SketchAccumulator, element: SketchAccumulator) -> SketchAccumulator:
        mutable_accumulator.absorb(element)
        return mutable_accumulator


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
