"""The steps before the noise: read, bound, sum."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.selectors import IDENTITY_SELECTORS
from beam_dpsketch.transforms.steps.bounding_over_windows import bound_over_windows
from beam_dpsketch.transforms.steps.choosing.norms import stamp
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.keying import KeyRecords
from beam_dpsketch.transforms.steps.summing import sum_in_state
from beam_dpsketch.transforms.windows.time_range import create_in_every_window, filter_to_time_range
from beam_dpsketch.transforms.windows.window_plan import WindowPlan


class ExactSums(beam.PTransform):
    """Sum the elements of each window into an exact accumulator, or (key, accumulator) per key."""

    def __init__(self, declared: ReleaseSpec, plan: WindowPlan, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._declared, self._plan, self._idempotent_noise = declared, plan, idempotent_noise
        self._sketch_input = declared.summed(plan.terms, plan.rows)

    @property
    def sketch_input(self) -> SketchInput:
        """What is summed."""
        return self._sketch_input

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        starts, per_key, sketch_input = self._plan.starts, self._declared.is_keyed, self._sketch_input
        elements, selectors = pcoll, self._declared.selectors
        if starts is not None:
            in_range = beam.FlatMap(filter_to_time_range, starts).with_output_types(pcoll.element_type)
            elements = elements | "InTimeRange" >> in_range
        reader = self._declared.reader
        bounded, norm = selectors.privacy_id is not None, None  # bounded records all come as a window ends
        if bounded:
            noise, selectors = self._idempotent_noise, IDENTITY_SELECTORS
            elements, norm = bound_over_windows(elements, reader, sketch_input, self._plan, noise)
        elif per_key:
            key_records = beam.ParDo(KeyRecords(reader, sketch_input)).with_output_types(tuple[Any, Any])
            elements = elements | "Key" >> key_records
        elements = self._with_empty(elements, norm)
        elements, fn = sum_in_state(elements, sketch_input, selectors, per_key=per_key, in_state=not bounded)
        if per_key:
            return elements | "Combine" >> beam.CombinePerKey(fn)
        combine = beam.CombineGlobally(fn)
        return elements | "Combine" >> (combine if self._plan.is_global else combine.without_defaults())

    def _with_empty(self, values: beam.PCollection, norm: beam.PCollection | None) -> beam.PCollection:
        """Add one empty contribution for every release that must exist regardless of the data.

        A norm that the data chose goes with it: the noise of a release without data must not be another one.
        """
        starts, keys, empty = self._plan.starts, self._declared.public_keys, self._sketch_input.empty()
        always = norm is not None and self._plan.is_global and not self._declared.is_keyed
        if keys is None and not always and (starts is None or self._declared.is_keyed):
            return values
        every = [(key, empty) for key in keys or ()] if self._declared.is_keyed else [empty]
        if starts is not None:
            created = create_in_every_window(values.pipeline, starts, values.windowing, every)
        else:
            created = values.pipeline | "PublicKeys" >> beam.Create(every, reshuffle=False)
        if norm is not None:
            created = created | "StampNorm" >> beam.Map(stamp, beam.pvalue.AsSingleton(norm))
        return (values, created) | "WithEmpty" >> beam.Flatten()
