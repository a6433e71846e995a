"""The steps before the noise: read, bound, sum."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.hashing.encodings import decode
from beam_dpsketch.hashing.lookup import in_parts, unpack
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.keyed_sums import KeyedSums
from beam_dpsketch.records.reading import MISSING_KEY, RecordReader, note_use, read_units
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.selectors import IDENTITY_SELECTORS, check_values
from beam_dpsketch.records.unused import Unused
from beam_dpsketch.records.windows import WindowPlan
from beam_dpsketch.transforms.steps.bounding import shards_for
from beam_dpsketch.transforms.steps.bounding_over_windows import Contributions, bound_over_windows
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.summing import sum_in_state
from beam_dpsketch.transforms.steps.sums_of_keys import SHARDS, AddUpKeys, sums_of_nothing
from beam_dpsketch.transforms.steps.whole_runs import stamp
from beam_dpsketch.transforms.windows import create_always, in_time_range


class ExactSums(beam.PTransform):
    """Sum the elements of each window into an exact accumulator, or (key, accumulator) per key.

    Returns a dict: "sums", and "lost", of what bounding makes of the run, with "max_norm", as `Contributions` has them.

    Args:
      declared: what is released.
      plan: which windows are released.
      idempotent_noise: decides what is kept, under a secret; `None` takes the entropy of the system.
      in_columns: whether to return `KeyedSums` instead, where `sums_in_columns`.
    """

    def __init__(
        self,
        declared: ReleaseSpec,
        plan: WindowPlan,
        idempotent_noise: IdempotentNoise | None,
        *,
        in_columns: bool = False,
    ) -> None:
        super().__init__()
        self._declared, self._plan, self._idempotent_noise = declared, plan, idempotent_noise
        self._in_columns = in_columns
        self._sketch_input = declared.summed(plan.terms, plan.rows)

    @property
    def sketch_input(self) -> SketchInput:
        """What is summed."""
        return self._sketch_input

    def expand(self, pcoll: beam.PCollection) -> dict[str, beam.PCollection]:
        per_key, sketch_input, selectors = self._declared.is_keyed, self._sketch_input, self._declared.selectors
        elements = in_time_range(pcoll, self._plan.starts)
        reader = self._declared.reader
        bounded = selectors.privacy_id is not None  # bounded records all come as a window ends
        found = Contributions(elements)
        if bounded:
            noise, selectors = self._idempotent_noise, IDENTITY_SELECTORS
            found = bound_over_windows(elements, reader, sketch_input, self._plan, noise)
            if per_key:
                return self._of_keys(found, pcoll.is_bounded)
        elif per_key:
            key_records = beam.ParDo(KeyRecords(reader, sketch_input)).with_output_types(tuple[Any, Any])
            found = Contributions(elements | "Key" >> key_records)
        elements = self._with_empty(found.values, found.max_norm)
        elements, fn = sum_in_state(elements, sketch_input, selectors, per_key=per_key, in_state=not bounded)
        scale = self._plan.scale
        shards = shards_for(scale) if bounded else None
        fanout = scale.fanout(shards) if scale is not None and pcoll.is_bounded else 1
        if per_key:
            of_keys = beam.CombinePerKey(fn)
            sums = elements | "Combine" >> (of_keys.with_hot_key_fanout(fanout) if fanout > 1 else of_keys)
        else:
            combine = beam.CombineGlobally(fn)
            combine = combine.with_fanout(fanout) if fanout > 1 else combine
            sums = elements | "Combine" >> (combine if self._plan.is_global else combine.without_defaults())
        return _with_others(sums, found)

    def _of_keys(self, found: Contributions, is_bounded: bool) -> dict[str, beam.PCollection]:
        """Add up what bounding made, in columns."""
        scale, sketch_input, always = self._plan.scale, self._sketch_input, None
        shards = SHARDS if scale is None else max(SHARDS, scale.key_shards(sketch_input.spec.cells))
        fanout = scale.fanout(shards_for(scale)) if scale is not None and is_bounded else 1
        if (keys := self._declared.public_keys) is not None:
            norm = [] if found.max_norm is None else [beam.pvalue.AsSingleton(found.max_norm)]
            packed = create_always(found.values, self._plan.starts, in_parts(keys), _alone)
            always = packed | "Empty" >> beam.FlatMap(sums_of_nothing, sketch_input, shards, *norm)
        sums = found.values | "Combine" >> AddUpKeys(sketch_input, shards, fanout, always)
        if not self._in_columns:
            each = beam.FlatMap(KeyedSums.accumulators).with_output_types(tuple[Any, SketchAccumulator])
            sums = sums | "EachKey" >> each
        return _with_others(sums, found)

    def _with_empty(self, values: beam.PCollection, norm: beam.PCollection | None) -> beam.PCollection:
        """Add one empty contribution for every release that must exist regardless of the data.

        A norm that the data chose goes with it: the noise of a release without data must not be another one.
        """
        starts, keys, empty = self._plan.starts, self._declared.public_keys, self._sketch_input.empty()
        always = norm is not None and self._plan.is_global and not self._declared.is_keyed
        if keys is None and not always and (starts is None or self._declared.is_keyed):
            return values
        parts = in_parts(keys or ()) if self._declared.is_keyed else [None]
        created = create_always(values, starts, parts, functools.partial(_empty_sums, empty))
        if norm is not None:
            created = created | "StampNorm" >> beam.Map(stamp, beam.pvalue.AsSingleton(norm))
        return (values, created) | "WithEmpty" >> beam.Flatten()


def sums_in_columns(declared: ReleaseSpec) -> bool:
    """Return whether the sums of keys come in columns: those of what was bounded do."""
    return declared.is_keyed and declared.privacy_id is not None


def _with_others(sums: beam.PCollection, found: Contributions) -> dict[str, beam.PCollection]:
    others = {} if found.lost is None else {"lost": found.lost, "max_norm": found.max_norm}
    return {"sums": sums, **{name: each for name, each in others.items() if each is not None}}


def _alone(packed_keys: bytes) -> list[bytes]:
    return [packed_keys]


def _empty_sums(empty: WeightedItems, packed_keys: bytes | None) -> list[Any]:
    """Return an empty contribution for each key, or one, without keys."""
    return [empty] if packed_keys is None else [(decode(key), empty) for key in unpack(packed_keys)]


class KeyRecords(beam.DoFn):
    """Pair elements with their keys, and sums of batches with each of theirs; drop those whose key does not count."""

    def __init__(self, reader: RecordReader, sketch_input: SketchInput) -> None:
        self._reader, self._sketch_input = reader, sketch_input
        self._unused = Unused(reader.selectors, sketch_input.readables)

    def start_bundle(self) -> None:
        self._unused.start_bundle()

    def finish_bundle(self) -> None:
        self._unused.finish_bundle()

    def process(self, element: Any) -> Iterator[tuple[Any, Any]]:
        if self._reader.is_batch_type(type(element)):
            yield from self._split_batch(element)
            return
        key, value = self._reader.split_pair(element)
        known = self._reader.normalize_key(key)
        if known is not MISSING_KEY:
            self._unused.anything_counts = True
            yield known, value
        else:
            check_values("key", [key])
            self._unused.note_dropped(1, {"key": False})

    def _split_batch(self, batch: Any) -> Iterator[tuple[Any, WeightedItems]]:
        columns = self._reader.read_batch(batch, self._sketch_input)
        size, contributions = read_units(self._reader, columns, self._sketch_input)
        note_use(self._unused, size, columns, self._reader, self._sketch_input)
        yield from contributions
