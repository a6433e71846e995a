"""Sums of streams: keep an exact accumulator in state for each key, shard and window, instead of elements.

Streaming runners do not sum before they group: without this, elements would wait until their window ends.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.hashing.encodings import decode, encode
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.selectors import Selectors
from beam_dpsketch.transforms.steps.raw_sketch_fn import RawSketchFn, SumFn
from beam_dpsketch.transforms.steps.stream_state import MergedInState, keeps_state

# A bundle makes one sum, or one for each key. Merging sums takes a worker a fraction of a millisecond, so a few shards
# keep up with all bundles of a release without keys. Keys spread the work themselves, so each is one shard.
SHARDS = 8
BUFFERED_ELEMENTS = 1 << 16


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
