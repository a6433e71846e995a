"""CombineFns: many elements to one raw sketch, or, for direct use, to one release.

Guarantee: accumulators are exact and sum to the same counters in any order; noise is drawn only in the
`extract_output` of `CountMinFn`, `CountSketchFn` and `DyadicCountSketchFn`, exactly once a call, and no accumulator
is changed by it. These are for pipelines that need a CombineFn; they cannot guard against triggers that fire twice,
sliding windows, replays or `as_singleton_view`, each of which is one more release. `PrivateFrequencies` and its kind
do: prefer them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from beam_dpsketch import _validate
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import DEFAULT_BOUNDS, ContributionBounds, PrivacyUnit, check_unit_fits_bounds
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.selectors import Selector, Selectors
from beam_dpsketch.release.noising import calibrate, release
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.sketches import CountMin, CountSketch, RawSketch
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.transforms.steps.raw_sketch_fn import RawSketchFn


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
        elements = Selectors(item=item, weight=weight)
        elements.check_weight(bounds)
        super().__init__(SketchInput(self.kind, spec, bounds), elements)
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
