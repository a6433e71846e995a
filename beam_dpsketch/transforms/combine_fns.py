"""`PrivateSketchFn`, a CombineFn with one release, and `BoundContributions`, which clips records to their bounds.

Guarantee: accumulators are exact and sum to the same counters in any order. Noise is drawn only in `extract_output`,
once per call, without changing an accumulator. Use `PrivateSketchFn` if a pipeline needs a CombineFn. It cannot guard
against triggers that fire twice, sliding windows, replays or `as_singleton_view`: each of them is another release.
Prefer `PrivateFrequencies` and the other private transforms, which guard against them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import apache_beam as beam
import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.released import Released
from beam_dpsketch.encodings import decode
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.units import PrivacyId, Record, check_max_keys, check_max_weight
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selector, Selectors
from beam_dpsketch.exact.sketches.factor import FactorizationSpec
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.run import release_alone
from beam_dpsketch.planning.kinds.sketched import AnySketch
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import PrivacyUnit, RecordBounds
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.transforms.steps.bounding import BoundShard, group_by_shard
from beam_dpsketch.transforms.steps.checks.elements import open_questions
from beam_dpsketch.transforms.steps.sums import RawSketchFn
from beam_dpsketch.transforms.steps.windows import check_windowing


class PrivateSketchFn(RawSketchFn):
    """Combine elements into a release of the sketch described by a spec, protecting each record.

    Args:
      spec: a `SketchSpec`, `ListedItems`, a `FactorizationSpec` or a `TreeSpec`. All levels of a tree are released
        together.
      privacy: privacy loss per output.
      unit: the largest weight of a record. Weights outside are clamped.
      item: the counted value: a field name, a callable, or `None` for the element itself.
      weight: whole number that a record counts. `None` is 1.
    """

    def __init__(
        self,
        spec: SketchSpec | ListedItems | FactorizationSpec | TreeSpec,
        privacy: PrivacySpec,
        *,
        privacy_unit: Record = Record(),  # noqa: B008
        item: Selector = None,
        weight: Selector = None,
    ) -> None:
        _validate.instance(Record, privacy_unit=privacy_unit)
        declared = ReleaseSpec(AnySketch(spec), privacy, privacy_unit, item, weight)
        terms = dataclasses.replace(declared.terms.under(None), privacy_unit=PrivacyUnit.RECORD_IN_THIS_RELEASE)
        calibration = Calibration.of(spec, terms)
        super().__init__(declared.summed(terms), declared.selectors)
        self._provenance = Provenance.of(declared, terms, ())
        self._calibration = calibration.with_terms(terms.paying_for(object()))

    def extract_output(self, accumulator: SketchAccumulator) -> Released:
        """Release the accumulated data, with new noise at each call."""
        noisy = release_alone(super().extract_output(accumulator), self._calibration)
        (released,) = answers_of(noisy.stamped(self._provenance))
        return cast(Released, released)


class BoundedRecord(NamedTuple):
    """Record within its bounds: key (`None` without keys), item and weight."""

    key: Any
    item: Any
    weight: int


class BoundContributions(beam.PTransform):
    """Clip the records of each privacy id to its bounds in each window, as `BoundedRecord` elements.

    The private transforms include this step. Use it to inspect clipped records, or before other aggregations.

    Args:
      privacy_unit: the privacy id and its bounds, without `max_windows`.
      item: the counted value: a field name, a callable, or `None` for the element itself.
      weight: whole number that a record counts. `None` is 1.
      key: a field name or a callable. `None` without keys.
    """

    def __init__(
        self, privacy_unit: PrivacyId, *, item: Selector = None, weight: Selector = None, key: Selector = None
    ) -> None:
        super().__init__()
        _validate.instance(PrivacyId, privacy_unit=privacy_unit)
        if privacy_unit.max_windows is not None:
            raise ArgumentError(
                "max_windows", "must be left out. BoundContributions bounds each window separately", "E224"
            )
        if not isinstance(privacy_unit.bounds, RecordBounds):
            raise ArgumentError(
                "bounds",
                "must be $RecordBounds. BoundContributions has no counters that a $NormBound could scale",
                "E225",
            )
        check_max_keys(privacy_unit, is_keyed=key is not None)
        if weight is not None:
            check_max_weight(privacy_unit.bounds)
        self._bounds = privacy_unit.bounds
        self._selectors = Selectors(
            item, weight, privacy_unit.field, key, ("privacy_id", "key") if privacy_unit.opaque_bytes else ()
        )

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_windowing(pcoll)
        reader = RecordReader(self._selectors, per_key=self._selectors.key is not None)
        open_questions(reader, None, pcoll.element_type)
        rule = RecordRule(self._bounds, RandomPriorities())
        return (
            group_by_shard(pcoll, reader, rule, None)
            | "Bound" >> beam.ParDo(BoundShard(rule))
            | "Unpack" >> beam.FlatMap(_contributions, self._bounds).with_output_types(BoundedRecord)
        )


def _contributions(kept: Bounded, bounds: RecordBounds) -> Iterator[BoundedRecord]:
    bounded = kept.kept
    keys = bounded["key"].to_pylist() if "key" in bounded.column_names else itertools.repeat(None)
    copies = bounded["copies"].to_pylist() if "copies" in bounded.column_names else itertools.repeat(1)
    weights = np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight).tolist()
    for key, item, weight, times in zip(keys, bounded["item"].to_pylist(), weights, copies, strict=False):
        yield from itertools.repeat(BoundedRecord(None if key is None else decode(key), decode(item), weight), times)
