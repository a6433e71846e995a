"""Steps before the noise: read, bound, sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam

from beam_dpsketch.encodings import decode, is_unicode
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.hashing.lookup import in_parts, pack
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import MISSING_KEY, RecordReader, read_units
from beam_dpsketch.exact.reading.selectors import IDENTITY_SELECTORS, check_values
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.transforms.steps.bounding import shards_for
from beam_dpsketch.transforms.steps.bounding_over_windows import Contributions, bound_over_windows
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.stream_state import keeps_state
from beam_dpsketch.transforms.steps.sums import (
    AddUpKeys,
    RawSketchFn,
    SumBundle,
    key_shards_for,
    sum_in_state,
    sums_of_nothing,
)
from beam_dpsketch.transforms.steps.whole_runs import NO_RUN
from beam_dpsketch.transforms.steps.windows import create_always, in_time_range


class ExactStep(beam.PTransform):
    """Base of steps that sum or count exactly, before the noise.

    Args:
      declared: the declared release.
      plan: the released windows.
      idempotent_noise: source of sampling randomness, under a secret. `None` uses system entropy.
      run: a side input of the steps that draw noise.
      choice: the key selection. `None` if keys are not chosen from the data.
    """

    def __init__(
        self,
        declared: ReleaseSpec,
        plan: WindowPlan,
        idempotent_noise: IdempotentNoise | None,
        run: Mapping[str, Any] = NO_RUN,
        *,
        choice: KeyChoice | None = None,
    ) -> None:
        super().__init__()
        self._declared, self._plan, self._idempotent_noise, self._run = declared, plan, idempotent_noise, run
        self._choice = choice
        self.sketch_input = declared.summed(plan.terms, plan.rows)

    def _bounded(self, elements: beam.PCollection) -> Contributions:
        declared, noise = self._declared, self._idempotent_noise
        return bound_over_windows(elements, declared, self.sketch_input, self._plan, noise, self._run, self._choice)


class ExactSums(ExactStep):
    """Sum the elements of each window to `KeyedSums`, one per shard of keys, or without keys.

    Returns a dict: "sums", and the run's "lost" and "max_norm" from `Contributions`, if any.
    """

    def expand(self, pcoll: beam.PCollection) -> dict[str, beam.PCollection]:
        per_key, sketch_input, selectors = self._declared.is_keyed, self.sketch_input, self._declared.selectors
        elements = in_time_range(pcoll, self._plan.starts)
        bounded = selectors.privacy_id is not None  # all bounded records arrive when a window ends
        found = Contributions(elements)
        if bounded:
            selectors, found = IDENTITY_SELECTORS, self._bounded(elements)
        elif per_key:
            key_records = beam.ParDo(KeyRecords(self._declared.reader, sketch_input)).with_output_types(tuple[Any, Any])
            found = Contributions(elements | "Key" >> key_records)
        scale = self._plan.scale
        fanout = scale.fanout(shards_for(scale) if bounded else None) if scale is not None and pcoll.is_bounded else 1
        waits = not bounded and keeps_state(found.values)  # then all sums of a window must wait together
        values, fn = found.values, RawSketchFn(sketch_input, selectors)
        if waits or (per_key and not bounded):
            values = values | "SumBundle" >> beam.ParDo(SumBundle(fn, per_key=per_key)).with_output_types(KeyedSums)
        values = self._with_empty(values, found.max_norm)
        if waits:
            values = sum_in_state(values, sketch_input)
        if per_key:
            shards = key_shards_for(self._plan.scale, sketch_input.spec.cells)
            sums = values | "Combine" >> AddUpKeys(sketch_input, shards, fanout)
        else:
            combine = beam.CombineGlobally(fn)
            combine = combine.with_fanout(fanout) if fanout > 1 else combine
            sums = values | "Combine" >> (combine if self._plan.is_global else combine.without_defaults())
        others = {} if found.lost is None else {"lost": found.lost, "max_norm": found.max_norm}
        return {"sums": sums, **{name: each for name, each in others.items() if each is not None}}

    def _with_empty(self, values: beam.PCollection, norm: beam.PCollection | None) -> beam.PCollection:
        """Add empty sums for every release that must exist regardless of the data.

        They carry the norm chosen from the data, because releases without data must have the same noise.
        """
        starts, parts = self._plan.starts, in_parts(self._declared.public_keys or ())
        if not self._declared.is_keyed and (starts is not None or (norm is not None and self._plan.is_global)):
            parts = [pack([NO_KEY])]
        if not parts:
            return values
        chosen = [] if norm is None else [beam.pvalue.AsSingleton(norm)]
        packed = create_always(values, starts, parts, lambda part: [part], bytes)
        nothing = packed | "Empty" >> beam.Map(sums_of_nothing, self.sketch_input, *chosen).with_output_types(KeyedSums)
        return (values, nothing) | "WithEmpty" >> beam.Flatten()


class KeyRecords(beam.DoFn):
    """Pair elements with their keys, split batches into sums per key, and drop elements with unusable keys."""

    def __init__(self, reader: RecordReader, sketch_input: SketchInput) -> None:
        self._reader, self.sketch_input = reader, sketch_input

    def start_bundle(self) -> None:
        self._tally = self._reader.tally(self.sketch_input, is_sampled=True)

    def finish_bundle(self) -> None:
        self._tally.log()

    def process(self, element: Any) -> Iterator[tuple[Any, Any]]:
        if self._reader.is_batch_type(type(element)):
            yield from self._split_batch(element)
            return
        key, value = self._reader.split_pair(element)
        known = self._reader.normalize_key(key)
        if known is not MISSING_KEY:
            self._tally.use("key")
            yield known, value
        else:
            check_values("key", [key])
            self._tally.note("key", [key], [key])

    def _split_batch(self, batch: Any) -> Iterator[tuple[Any, KeyedSums]]:
        columns = self._reader.read_batch(batch, self.sketch_input, self._tally)
        records = read_units(self._reader, columns, self.sketch_input)
        for encoded, each in KeyedSums.of_single(self.sketch_input, records).each():
            if is_unicode(key := decode(encoded)):
                yield key, each
