"""The path of continual release: sum each window exactly, sum windows up a tree, release each node once."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import PrivacyUnit, RecordBounds
from beam_dpsketch.privacy.sensitivity import tree_height
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.release.format.batch import Releases
from beam_dpsketch.release.horizon import Horizon
from beam_dpsketch.release.release_id import RUN_BYTES
from beam_dpsketch.release.timeline import TimelineNode
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.idempotent_noise import application
from beam_dpsketch.transforms.steps.private_release import PrivateTransform
from beam_dpsketch.transforms.steps.raw_sketch_fn import SumFn
from beam_dpsketch.transforms.steps.release_once import MakeFinal, ReleaseOnce
from beam_dpsketch.transforms.windows.guard import check_no_windowing
from beam_dpsketch.transforms.windows.window_plan import WindowPlan


class ContinualRelease(PrivateTransform):
    """Turn elements into the `TimelineNode`s of a horizon; the transforms for users choose the sketch."""

    def __init__(self, declaration: Declaration, horizon: Horizon) -> None:
        _validate.instance(Horizon, horizon=horizon)
        if declaration.privacy_id is not None and declaration.privacy_id.max_windows is not None:
            raise ValueError(
                "max_windows must be left out in continual release: bounds.max_partitions says in how many windows of "
                "the horizon a privacy id counts"
            )
        if not isinstance(declaration.unit.bounds, RecordBounds):
            raise ValueError(
                "bounds must be RecordBounds in continual release, as in PrivacyId('user', RecordBounds(10, "
                "max_partitions=30)): a NormBound would need all windows of an id before the first release"
            )
        self._horizon, self._max_windows = horizon, declaration.unit.bounds.max_partitions
        super().__init__(declaration)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_no_windowing(pcoll)
        self._check_elements(pcoll)
        horizon, sum_fn = self._horizon, SumFn(self._declaration.sketch_input)
        windowed = pcoll | "Windows" >> beam.WindowInto(_windows(horizon, 1))
        sums = windowed | "ExactSums" >> ExactSums(self._declaration, self._plan(), self._idempotent_noise)
        self.check_release_id(pcoll)
        # The run is named while the pipeline is built. `SketchTimeline` refuses nodes of another run by it, but keeps
        # no rho for it: rho is that of the whole tree anyway.
        terms, run, nodes = self._terms().paying_for(application(pcoll)), os.urandom(RUN_BYTES), []
        for level in range(tree_height(horizon.windows)):
            if level:
                sums = (
                    sums
                    | f"Pair{level}" >> beam.WindowInto(_windows(horizon, 1 << level))
                    | f"Sum{level}" >> beam.CombineGlobally(sum_fn).without_defaults()
                )
            release_once = ReleaseOnce(terms, level=level, idempotent_noise=self._idempotent_noise, run=run)
            nodes.append(
                sums
                | f"Release{level}" >> beam.ParDo(release_once).with_output_types(tuple[Any, Releases])
                | f"MakeFinal{level}" >> MakeFinal()
                | f"Node{level}" >> beam.Map(_wrap_in_node, horizon, level).with_output_types(TimelineNode)
                | f"LastWindow{level}" >> beam.WindowInto(_windows(horizon, 1))
            )
        return nodes | "AllLevels" >> beam.Flatten()

    def display_data(self) -> dict[str, Any]:
        return {**super().display_data(), "windows": self._horizon.windows}

    def _terms(self) -> ReleaseTerms:
        record = self._declaration.privacy_id is None
        unit = PrivacyUnit.RECORD_OVER_HORIZON if record else PrivacyUnit.PRIVACY_ID_OVER_HORIZON
        return dataclasses.replace(self._declaration.terms(), unit=unit, window_count=self._horizon.windows)

    def _plan(self) -> WindowPlan:
        """Return the plan of the windows: their one period is the horizon; a partition of the bounds is a window."""
        horizon = self._horizon
        starts = range(horizon.start_micros, horizon.end_micros, horizon.size_micros)
        return WindowPlan(self._terms(), starts, _windows(horizon, horizon.windows), False, self._max_windows)


def _windows(horizon: Horizon, size: int) -> FixedWindows:
    """Return windows as long as `size` windows of the horizon, from its start on."""
    return FixedWindows(Duration(micros=horizon.size_micros * size), Timestamp(micros=horizon.start_micros))


def _wrap_in_node(release: Any, horizon: Horizon, level: int, window: Any = beam.DoFn.WindowParam) -> TimelineNode:
    """Wrap a release with its place in the tree over time."""
    return TimelineNode(level, horizon.index(window.start.micros, level), release)
