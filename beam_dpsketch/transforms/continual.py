"""Continual release: the answers so far, at the end of every window, for the rho of one release.

Guarantee: all releases of one horizon together are rho-zCDP for the unit that their privacy statement names. The
windows of the horizon, declared before any data is seen, are the leaves of a binary tree over time; every node, empty
ones too, is summed exactly, noised once and released once, as soon as its last window closes. Records outside the
horizon, and records later than the watermark, are dropped. `SketchTimeline` answers any range of windows and every
prefix from the nodes. On unbounded input, a stream keeps the sketches of its open windows and two for each level above.
Source: Zhao et al., NeurIPS 2022, Appendix D.
"""

from __future__ import annotations

import math
import os
from typing import Any

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.domains import Domain
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds, PrivacyUnit
from beam_dpsketch.privacy.sensitivity import tree_height
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import Selector, Selectors
from beam_dpsketch.release.noising import calibrate
from beam_dpsketch.release.release_id import RUN_BYTES
from beam_dpsketch.release.statement import Disclosure
from beam_dpsketch.release.timeline import TimelineNode
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import DEFAULT_MEMORY, TreeSpec
from beam_dpsketch.transforms.frequencies import Sketch, frequency_recipe
from beam_dpsketch.transforms.quantiles import tree_recipe
from beam_dpsketch.transforms.steps.application import application
from beam_dpsketch.transforms.steps.copy_guard import check_no_copies
from beam_dpsketch.transforms.steps.declarations import Unit, declared_bounds
from beam_dpsketch.transforms.steps.first_windows import FirstWindows, check_not_idempotent
from beam_dpsketch.transforms.steps.private_release import IDENTITY_SELECTORS, Bounded, settings
from beam_dpsketch.transforms.steps.raw_sketch_fn import SumFn
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from beam_dpsketch.transforms.steps.runner_guard import check_runner
from beam_dpsketch.transforms.steps.sample_check import ReadsElements
from beam_dpsketch.transforms.steps.summing import summed_in_state
from beam_dpsketch.transforms.windows.guard import check_no_windowing
from beam_dpsketch.transforms.windows.horizon import (
    FilterToHorizon,
    Horizon,
    KeyByWindow,
    StampWithWindowStart,
    WrapInNode,
)


class _ContinualRelease(ReadsElements):
    """Elements to the `TimelineNode`s of a horizon; the transforms for users say which sketch."""

    def __init__(self, recipe: SketchInput, privacy: PrivacySpec, elements: Selectors, horizon: Horizon) -> None:
        super().__init__()
        _validate.instance(PrivacySpec, privacy=privacy)
        record = elements.privacy_id is None
        self._unit = PrivacyUnit.RECORD_OVER_HORIZON if record else PrivacyUnit.PRIVACY_ID_OVER_HORIZON
        self._noise = calibrate(
            recipe.kind, recipe.spec, privacy, bounds=recipe.bounds, unit=self._unit, windows=horizon.windows
        )
        self._recipe = recipe
        self._privacy = privacy
        self._elements = elements
        self._horizon = horizon

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_no_windowing(pcoll)
        if self._elements.privacy_id is None:
            check_no_copies(pcoll)
        check_runner(pcoll, self._idempotent_noise)
        self.check_types(pcoll)
        horizon, recipe = self._horizon, self._recipe
        sums = self._sums_of_windows(pcoll)
        self.check_release_id(pcoll)
        privacy, run = self._privacy.paying_for(application(pcoll)), os.urandom(RUN_BYTES)
        nodes = [sums | "Release0" >> self._nodes(0, privacy, run)]
        for level in range(1, tree_height(horizon.windows)):
            sums = (
                sums
                | f"Pair{level}" >> horizon.window_into(level)
                | f"Sum{level}" >> beam.CombineGlobally(SumFn(recipe)).without_defaults()
            )
            nodes.append(sums | f"Release{level}" >> self._nodes(level, privacy, run))
        return nodes | "AllLevels" >> beam.Flatten()

    def default_label(self) -> str:
        """The name for users, such as `PrivateContinualFrequencies.Globally`."""
        return type(self).__qualname__

    def explain(self) -> str:
        """What will be released, in words."""
        height = tree_height(self._horizon.windows)
        sigmas = [math.sqrt(value) for value in self._noise]
        return "\n".join(
            (
                f"{2 * self._horizon.windows - 1} releases of a {self._recipe.kind.name} of {self._recipe.spec.cells} "
                f"counters, over {self._horizon.windows} windows.",
                f"Noise: sigma = {min(sigmas):.4g} to {max(sigmas):.4g} on each counter of a release; up to {height} "
                f"of them add up in a prefix, up to {2 * (height - 1)} in another range of windows.",
                f"Privacy: rho = {float(self._privacy.rho):g}, {self._privacy.neighboring.name}, for all of them "
                f"together; protected: {self._unit.value}.",
            )
        )

    def display_data(self) -> dict[str, Any]:
        """The public settings."""
        horizon = {"windows": self._horizon.windows}
        return {**settings(self._recipe, self._privacy), **horizon, **self.display_of_noise()}

    def _sums_of_windows(self, elements: beam.PCollection) -> beam.PCollection:
        """The exact accumulator of every window of the horizon."""
        if self._elements.privacy_id is None:
            inside, selectors = elements | "InHorizon" >> beam.ParDo(FilterToHorizon(self._horizon)), self._elements
        else:
            inside, selectors = self._bounded(elements), IDENTITY_SELECTORS
        every_window = elements.pipeline | "EveryWindow" >> beam.Create(
            [(index, self._recipe.empty()) for index in range(self._horizon.windows)], reshuffle=False
        )
        values = (
            inside | "Windows" >> self._horizon.window_into(0),
            every_window
            | "TimeOfEmpty" >> beam.ParDo(StampWithWindowStart(self._horizon))
            | "WindowsOfEmpty" >> self._horizon.window_into(0),
        ) | "WithEveryWindow" >> beam.Flatten()
        values, fn = summed_in_state(values, self._recipe, selectors, keyed=False)
        return values | "Sum0" >> beam.CombineGlobally(fn).without_defaults()

    def _bounded(self, elements: beam.PCollection) -> beam.PCollection:
        """Bounded contributions in their windows; a partition of the bounds is a window."""
        if not elements.is_bounded:
            return self._bounded_as_they_come(elements)
        return (
            elements
            | "WithWindow" >> beam.ParDo(KeyByWindow(self._horizon)).with_output_types(tuple[int, Any])
            | "BoundContributions"
            >> Bounded(RecordReader(self._elements, per_key=True), self._recipe, self._idempotent_noise)
            | "TimeOfBounded" >> beam.ParDo(StampWithWindowStart(self._horizon))
        )

    def _bounded_as_they_come(self, elements: beam.PCollection) -> beam.PCollection:
        """The same on a stream: of each privacy id the first windows count in which it has data."""
        check_not_idempotent(self._idempotent_noise)
        records, bounds = RecordReader(self._elements, per_key=False), self._recipe.bounds
        return (
            elements
            | "InHorizon" >> beam.ParDo(FilterToHorizon(self._horizon)).with_output_types(elements.element_type)
            | "WindowsToBound" >> self._horizon.window_into(0)
            | "FirstWindows" >> FirstWindows(records, bounds.max_partitions, self._horizon.as_window())
            | "BoundContributions" >> Bounded(records, self._recipe, None)
        )

    def _nodes(self, level: int, privacy: PrivacySpec, run: bytes) -> beam.PTransform:
        """Releases of a level, in a run named while the pipeline is built.

        `SketchTimeline` refuses nodes of another run by it, but keeps no rho for it: that is of the whole tree anyway.
        """
        release_once = ReleaseOnce(
            privacy,
            bounds=self._recipe.bounds,
            unit=self._unit,
            windows=self._horizon.windows,
            disclosed=Disclosure.NONE,
            keyed=False,
            level=level,
            idempotent_noise=self._idempotent_noise,
            run=run,
        )
        return _ReleaseLevel(release_once, self._horizon, level)


class PrivateContinualFrequencies:
    """How often each item occurs, in every range of windows of a horizon."""

    class Globally(_ContinualRelease):
        """Elements with timestamps to `TimelineNode`s of `ReleasedSketch`es, for a `SketchTimeline`.

        Input has no windows of its own. A node comes out in the last of its windows, when that closes.

        Args:
          spec: the sketch of each node.
          privacy: what all releases of the horizon spend together.
          start: when the first window opens: a Beam `Timestamp`, or seconds since the epoch.
          window_size: the length of a window: a Beam `Duration`, or seconds.
          windows: how many windows there are, a power of two.
          item, weight, sketch: as in `PrivateFrequencies.Globally`.
          privacy_id: who is protected: all records of one id, over the whole horizon.
          unit: "record" to protect only single records. Exactly one of this and privacy_id must be given.
          bounds: what one unit may contribute: a partition is a window, so `max_contributions_per_partition` records
            in each of at most `max_partitions` windows of the horizon; more is dropped. Which windows count of an id is
            random on bounded input; on unbounded input it is the first ones with data of the id.
        """

        def __init__(
            self,
            spec: SketchSpec,
            privacy: PrivacySpec,
            *,
            start: Any,
            window_size: Any,
            windows: int,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            sketch: Sketch = "count_sketch",
        ) -> None:
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id)
            horizon = Horizon.declared(start, window_size, windows)
            bounds = declared_bounds(bounds, elements, unit)
            super().__init__(frequency_recipe(sketch, spec, bounds), privacy, elements, horizon)


class PrivateContinualQuantiles:
    """Distributions of ordered values, in every range of windows of a horizon."""

    class Globally(_ContinualRelease):
        """Elements with timestamps to `TimelineNode`s of `ReleasedDyadicCountSketch`es, for a `SketchTimeline`.

        Args:
          domain, item, weight, memory, spec: as in `PrivateQuantiles.Globally`; memory is that of one node.
          privacy, start, window_size, windows, privacy_id, unit, bounds: as in `PrivateContinualFrequencies.Globally`.
        """

        def __init__(
            self,
            domain: Domain,
            privacy: PrivacySpec,
            *,
            start: Any,
            window_size: Any,
            windows: int,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            memory: int = DEFAULT_MEMORY,
            spec: TreeSpec | None = None,
        ) -> None:
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id)
            horizon = Horizon.declared(start, window_size, windows)
            bounds = declared_bounds(bounds, elements, unit)
            super().__init__(tree_recipe(domain, bounds, memory, spec), privacy, elements, horizon)


class _ReleaseLevel(beam.PTransform):
    """Accumulators of the nodes of a level to `TimelineNode`s, in the last of their windows."""

    def __init__(self, release_once: ReleaseOnce, horizon: Horizon, level: int) -> None:
        super().__init__()
        self._release_once = release_once
        self._horizon = horizon
        self._level = level

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return (
            pcoll
            | "ReleaseOnce" >> beam.ParDo(self._release_once)
            | "Node" >> beam.ParDo(WrapInNode(self._horizon, self._level)).with_output_types(TimelineNode)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(TimelineNode)
            | "LastWindow" >> self._horizon.window_into(0)
        )
