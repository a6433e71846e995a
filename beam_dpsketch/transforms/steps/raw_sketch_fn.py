"""CombineFns without noise."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam import coders

from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput, WeightedItems
from beam_dpsketch.records.reading import RecordReader, read_single
from beam_dpsketch.records.selectors import Selectors, make_getter
from beam_dpsketch.transforms.steps.coders import AccumulatorCoder

_SINGLE = frozenset({int, str, bytes})


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
        columns = self._reader.read_batch(batch, self._sketch_input)
        contributions = read_single(columns, self._sketch_input)
        if not len(contributions.keys):
            self._sketch_input.warn_if_unused(self._selectors, columns.items, columns.weights)
        return contributions


class SumFn(RawSketchFn):
    """Sum raw accumulators, without noise."""

    def __init__(self, sketch_input: SketchInput) -> None:
        super().__init__(sketch_input, Selectors())

    def add_input(self, mutable_accumulator: SketchAccumulator, element: SketchAccumulator) -> SketchAccumulator:
        mutable_accumulator.absorb(element)
        return mutable_accumulator
