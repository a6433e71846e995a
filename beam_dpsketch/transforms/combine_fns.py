"""CombineFns: many elements to one raw sketch, or, for direct use, to one release.

Guarantee: accumulators are exact and sum to the same counters in any order; noise is drawn only in the
`extract_output` of `CountMinFn`, `CountSketchFn` and `DyadicCountSketchFn`, exactly once a call, and no accumulator
is changed by it. These are for pipelines that need a CombineFn; they cannot guard against triggers that fire twice,
sliding windows, replays or `as_singleton_view`, each of which is one more release. `PrivateFrequencies` and its kind
do: prefer them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders

from beam_dpsketch import _validate
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import DEFAULT_BOUNDS, ContributionBounds, PrivacyUnit, check_unit_fits_bounds
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.noising import calibrate, release
from beam_dpsketch.sketches import CountMin, CountSketch, RawSketch
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.records.accumulator import Contributions, Recipe, SketchAccumulator
from beam_dpsketch.transforms.steps.coders import AccumulatorCoder
from beam_dpsketch.records.columns import WEIGHTS, column, valid
from beam_dpsketch.records.selectors import Elements, Selector, reader

_SINGLE = frozenset({int, str, bytes})


class RawSketchFn(beam.CombineFn):
    """Elements to a raw accumulator, without noise: the step before `ReleaseOnce`."""

    def __init__(self, recipe: Recipe, elements: Elements) -> None:
        self._recipe = recipe
        self._elements = elements
        self._item = reader(elements.item)
        self._is_batch_type = elements.is_batch_type
        self._is_item = elements.item is None and elements.weight is None
        self._weight = None if elements.weight is None else reader(elements.weight)

    def create_accumulator(self) -> SketchAccumulator:
        return SketchAccumulator(self._recipe, self._elements)

    def add_input(self, mutable_accumulator: SketchAccumulator, element: Any) -> SketchAccumulator:
        if self._is_item and type(element) in _SINGLE:  # asked first: this is all that happens to most elements
            mutable_accumulator.add(element)
        elif type(element) is Contributions:
            mutable_accumulator.add_contributions(element)
        elif self._is_batch_type(type(element)):
            mutable_accumulator.add_contributions(self._of_batch(element))
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
        """The accumulator itself, still lazy."""
        return accumulator

    def get_accumulator_coder(self) -> coders.Coder:
        return AccumulatorCoder(self._recipe)

    def _of_batch(self, batch: Any) -> Contributions:
        items = column(batch, "item", self._elements.item, self._recipe.readable)
        if self._weight is None:
            weights = None
            contributions = self._recipe.contributions(
                items.drop_null() if isinstance(items, pa.Array) else items, None
            )
        else:
            weights = column(batch, "weight", self._elements.weight, WEIGHTS)
            if isinstance(items, pa.Array) and isinstance(weights, pa.Array):
                mask = valid(items, weights)
                contributions = self._recipe.contributions(items.filter(mask), weights.filter(mask))
            else:
                contributions = self._recipe.contributions(items, weights)
        if not len(contributions.keys):
            self._recipe.warn_if_unused(self._elements, items, weights)
        return contributions


class SumFn(RawSketchFn):
    """Raw accumulators to their sum, without noise."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe, Elements())

    def add_input(self, mutable_accumulator: SketchAccumulator, element: SketchAccumulator) -> SketchAccumulator:
        mutable_accumulator.absorb(element)
        return mutable_accumulator


class _ReleasingFn(RawSketchFn):
    """A CombineFn whose output is a release."""

    kind: ClassVar[type[RawSketch]]

    def __init__(
        self,
        spec: Any,
        privacy: PrivacySpec,
        *,
        item: Selector = None,
        weight: Selector = None,
        bounds: ContributionBounds = DEFAULT_BOUNDS,
    ) -> None:
        _validate.instance(self.kind.spec_type, spec=spec)
        check_unit_fits_bounds(PrivacyUnit.RECORD_IN_THIS_RELEASE, bounds)
        calibrate(self.kind, spec, privacy, bounds=bounds)
        elements = Elements(item=item, weight=weight)
        elements.check_weight(bounds)
        super().__init__(Recipe(self.kind, spec, bounds), elements)
        self._privacy = privacy.paying_for(object())

    def extract_output(self, accumulator: SketchAccumulator) -> ReleasedSketch:
        """A release of what was added, with noise of its own at each call."""
        return release(
            accumulator.to_sketch(),
            self._privacy,
            bounds=self._recipe.bounds,
            unit=PrivacyUnit.RECORD_IN_THIS_RELEASE,
        )


class CountMinFn(_ReleasingFn):
    """Elements to a `ReleasedCountMin`, protecting each record.

    Args:
      spec: the sketch.
      privacy: what each output spends.
      item, weight: what in an element is counted and how much; see `beam_dpsketch.records.selectors`.
      bounds: the largest weight of a record; weights outside are clamped.
    """

    kind = CountMin


class CountSketchFn(_ReleasingFn):
    """Elements to a `ReleasedCountSketch`, protecting each record.

    Args:
      spec: the sketch.
      privacy: what each output spends.
      item, weight: what in an element is counted and how much; see `beam_dpsketch.records.selectors`.
      bounds: the largest weight of a record; weights outside are clamped.
    """

    kind = CountSketch


class DyadicCountSketchFn(_ReleasingFn):
    """Elements to a `ReleasedDyadicCountSketch`, protecting each record.

    Its accumulator is one raw sketch for each level of the tree, behind one buffer of waiting items; all levels are
    released together, and their shares of rho sum to it exactly.

    Args:
      spec: the tree, such as `TreeSpec.for_memory(domain)`.
      privacy: what each output spends, over all levels.
      item, weight: what in an element is counted and how much; see `beam_dpsketch.records.selectors`.
      bounds: the largest weight of a record; weights outside are clamped.
    """

    kind = DyadicCountSketch
