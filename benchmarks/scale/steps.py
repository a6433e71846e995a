"""The steps of one kind of release, as its transform has them, without Beam."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow

from beam_dpsketch.exact.bounding.parts import KEY_SHARDS
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.reading.selectors import IDENTITY_SELECTORS
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.run import WHOLE, Run, Sum
from beam_dpsketch.transforms.outputs import _unpack
from beam_dpsketch.transforms.steps.bounding import ShardRecords, gather_records
from beam_dpsketch.transforms.steps.exact_sums import KeyRecords
from beam_dpsketch.transforms.steps.sums import AccumulatorCoder, RawSketchFn, SumBundle, _add_up, by_shard
from benchmarks.scale.kinds import Kind

_RUN = bytes(16)
_WINDOW = GlobalWindow()


class Steps:
    """The steps of a kind, given how many keys there are."""

    def __init__(self, kind: Kind, keys: int) -> None:
        declared = kind.transform(keys)._declared
        self._reader, self._sketch_input = declared.reader, declared.summed(declared.resolved.terms)
        self._calibration = declared.resolved.noise(Calibration)
        selectors = IDENTITY_SELECTORS if kind.bounded or kind.keyed else declared.selectors
        self._sums = RawSketchFn(self._sketch_input, selectors)
        self._coder = AccumulatorCoder(self._sketch_input)
        if kind.bounded:
            self._rule = rule_of(self._sketch_input, RandomPriorities())

    def add_up(self, elements: list[Any]) -> SketchAccumulator:
        """Add up what a bundle has."""
        accumulator = self._sums.create_accumulator()
        for element in elements:
            self._sums.add_input(accumulator, element)
        return self._sums.compact(accumulator)

    def encode(self, accumulators: list[SketchAccumulator]) -> list[bytes]:
        return list(map(self._coder.encode, accumulators))

    def merge(self, payloads: list[bytes], into: SketchAccumulator | None = None) -> SketchAccumulator:
        """Add up sums that were sent."""
        made = self._sums.create_accumulator() if into is None else into
        for payload in payloads:
            made.absorb(KeyedSums.from_bytes(self._sketch_input, payload))
        return made

    def split(self, batches: list[pa.RecordBatch]) -> list[tuple[Any, Any]]:
        """Take batches apart by key."""
        keys = KeyRecords(self._reader, self._sketch_input)
        keys.start_bundle()
        return [pair for batch in batches for pair in keys.process(batch)]

    def add_up_keys(self, pairs: Iterable[tuple[Any, Any]]) -> SumBundle:
        """Add up what a bundle has of each key; it waits."""
        bundle = SumBundle(self._sums, per_key=True)
        bundle.start_bundle()
        for pair in pairs:
            if bundle.process(pair, _WINDOW):
                raise ValueError("the sums of these pairs do not wait all at once")
        return bundle

    def waiting_bytes(self, bundle: SumBundle) -> int:
        """Return how much memory the package takes the sums of a bundle to need."""
        return bundle._size

    def send_keys(self, bundle: SumBundle, shards: int = KEY_SHARDS) -> list[bytes]:
        """Return all parts that a bundle sends to shards of keys."""
        return [payload for each in bundle.finish_bundle() for _, payload in by_shard(each.value, shards)]

    def gather_keys(self, payloads: Iterable[bytes]) -> KeyedSums:
        """Add up what was sent to a shard of keys."""
        return _add_up((b"", payloads), self._sketch_input)

    def shard(self, batches: list[pa.RecordBatch], shards: int) -> list[bytes]:
        """Return all parts that a bundle sends to shards of privacy ids."""
        sharding = ShardRecords(self._reader, self._rule, self._sketch_input, shards=shards)
        sharding.start_bundle()
        sent = [sharding.process(batch) or () for batch in batches]
        return [each.value[1] for each in itertools.chain(*sent, sharding.finish_bundle())]

    def gather(self, payloads: Iterable[bytes]) -> list[pa.Table]:
        """Return the records of a shard, in one part or several."""
        return list(gather_records(self._rule, payloads))

    def bound(self, payloads: Iterable[bytes]) -> SketchAccumulator:
        """Bound the records of a shard, part by part, and add up what is kept."""
        accumulator = self._sums.create_accumulator()
        for part in gather_records(self._rule, payloads):
            for items in self._rule.bound(part).contributions(self._reader, self._sketch_input):
                self._sums.add_input(accumulator, items)
        return self._sums.compact(accumulator)

    def release(self, sums: KeyedSums) -> int:
        """Draw the noise of a sum, or of a shard of keys, send it, and make releases again; return how many."""
        sent = 0
        for places, releases in Run().release([Sum(WHOLE, sums, _RUN)], self._calibration):
            keys = [key for place, _ in places for key in place.key] or None
            sent += len(list(_unpack(keys, releases.to_bytes())))
        return sent
