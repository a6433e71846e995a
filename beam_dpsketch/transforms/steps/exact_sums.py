"""The steps before the noise: read, bound, sum."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.items import WeightedItems
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import IDENTITY_SELECTORS
from beam_dpsketch.transforms.steps.bounding import Bounded
from beam_dpsketch.transforms.steps.bounding_over_windows import BoundedOverWindows
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.keying import KeyRecords
from beam_dpsketch.transforms.steps.summing import sum_in_state
from beam_dpsketch.transforms.windows.time_range import CreateInEveryWindow, FilterToTimeRange
from beam_dpsketch.transforms.windows.window_plan import WindowPlan


class ExactSums(beam.PTransform):
    """Sum the elements of each window, and of each key, into an exact accumulator; (key, accumulator) if keyed.

    Args:
      declaration: what is summed.
      plan: of the windows.
      idempotent_noise: makes the choice of records a function of a secret.
    """

    def __init__(self, declaration: Declaration, plan: WindowPlan, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._declaration = declaration
        self._plan = plan
        self._idempotent_noise = idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        starts, keyed, sketch_input = self._plan.starts, self._declaration.is_keyed, self._declaration.sketch_input
        elements, selectors = pcoll, self._declaration.selectors
        if starts is not None:
            in_range = beam.ParDo(FilterToTimeRange(starts)).with_output_types(pcoll.element_type)
            elements = elements | "InTimeRange" >> in_range
        reader = RecordReader(selectors, per_key=keyed, public_keys=self._declaration.public_keys)
        if selectors.privacy_id is not None:
            elements, selectors = elements | "BoundContributions" >> self._bounding(reader), IDENTITY_SELECTORS
        elif keyed:
            key_records = beam.ParDo(KeyRecords(reader, sketch_input)).with_output_types(tuple[Any, Any])
            elements = elements | "Key" >> key_records
        elements = self._with_empty(elements)
        in_state = self._declaration.privacy_id is None  # bounded records all come as a window ends
        elements, fn = sum_in_state(elements, sketch_input, selectors, keyed=keyed, in_state=in_state)
        if keyed:
            return elements | "Combine" >> beam.CombinePerKey(fn)
        combine = beam.CombineGlobally(fn)
        return elements | "Combine" >> (combine if self._plan.is_global else combine.without_defaults())

    def _bounding(self, reader: RecordReader) -> beam.PTransform:
        limit, sketch_input = self._declaration.privacy_id, self._declaration.sketch_input
        if self._plan.periods is None or limit is None or limit.max_windows is None:
            return Bounded(reader, sketch_input, self._idempotent_noise)
        return BoundedOverWindows(reader, sketch_input, limit.max_windows, self._plan.periods, self._idempotent_noise)

    def _with_empty(self, values: beam.PCollection) -> beam.PCollection:
        """Add no contributions to each release that is made with data or without."""
        starts, empty = self._plan.starts, self._empty()
        if starts is not None:
            every = values.pipeline | "EveryWindow" >> CreateInEveryWindow(starts, values.windowing, empty)
            return (values, every) | "WithEveryWindow" >> beam.Flatten()
        if self._declaration.public_keys is not None:
            every = values.pipeline | "PublicKeys" >> beam.Create(empty, reshuffle=False)
            return (values, every) | "WithEveryKey" >> beam.Flatten()
        return values

    def _empty(self) -> list[WeightedItems] | list[tuple[Any, WeightedItems]]:
        empty = self._declaration.sketch_input.empty()
        return [(key, empty) for key in self._declaration.public_keys or ()] if self._declaration.is_keyed else [empty]
