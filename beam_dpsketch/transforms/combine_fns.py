"""`PrivateSketchFn`: a CombineFn that turns elements into one release.

Guarantee: accumulators are exact and sum to the same counters in any order; noise is drawn only in `extract_output`,
exactly once a call, and no accumulator is changed by it. It is for pipelines that need a CombineFn. It cannot guard
against triggers that fire twice, sliding windows, replays or `as_singleton_view`: each of them is one more release.
`PrivateFrequencies` and its kind do: prefer them.
"""

from __future__ import annotations

import dataclasses
from typing import cast

from beam_dpsketch import _validate
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.released import Released
from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.engine.run import release_alone
from beam_dpsketch.kinds.ranks.histogram import FactorSpec
from beam_dpsketch.kinds.sketched import AnySketch
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.sums.accumulator import SketchAccumulator
from beam_dpsketch.records.units import Record
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.transforms.steps.sums import RawSketchFn


class PrivateSketchFn(RawSketchFn):
    """Turn elements into a release of the sketch that a spec describes, protecting each record.

    Args:
      spec: a `SketchSpec`, `ListedItems`, a `FactorSpec` or a `TreeSpec`; all levels of a tree are released together.
      privacy: what each output spends.
      unit: the largest weight of a record; weights outside are clamped.
      item: what is counted: a field name, a callable, or `None` for the element itself.
      weight: how much it counts, a whole number; `None` is 1.
    """

    def __init__(
        self,
        spec: SketchSpec | ListedItems | FactorSpec | TreeSpec,
        privacy: PrivacySpec,
        *,
        unit: Record = Record(),  # noqa: B008
        item: Selector = None,
        weight: Selector = None,
    ) -> None:
        _validate.instance(Record, unit=unit)
        declared = ReleaseSpec(AnySketch(spec), privacy, unit, item, weight)
        terms = dataclasses.replace(declared.terms.under(None), unit=PrivacyUnit.RECORD_IN_THIS_RELEASE)
        calibration = Calibration.of(spec, terms)
        super().__init__(declared.summed(terms), declared.selectors)
        self._calibration = calibration.with_terms(terms.paying_for(object()))

    def extract_output(self, accumulator: SketchAccumulator) -> Released:
        """Return a release of what was added, with noise of its own at each call."""
        (released,) = answers_of(release_alone(accumulator, self._calibration))
        return cast(Released, released)
