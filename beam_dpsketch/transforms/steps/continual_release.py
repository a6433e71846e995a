"""The path of continual release: one exact sum for each window, summed up a tree, each node released once."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.sensitivity import tree_height
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import IDENTITY_SELECTORS
from beam_dpsketch.release.horizon import Horizon
from beam_dpsketch.release.release_id import RUN_BYTES
from beam_dpsketch.release.timeline import TimelineNode
from beam_dpsketch.transforms.steps.bounding import bound_contributions
from beam_dpsketch.transforms.steps.first_windows import FirstWindows, check_not_idempotent
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, application
from beam_dpsketch.transforms.steps.private_release import PrivateTransform
from beam_dpsketch.transforms.steps.raw_sketch_fn import SumFn
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from beam_dpsketch.transforms.steps.summing import sum_in_state
from beam_dpsketch.transforms.windows.guard import check_no_windowing
from beam_dpsketch.transforms.windows.horizon import (
    filter_to_horizon,
    horizon_window,
    key_by_window,
    level_windows,
    stamp_with_window_start,
    wrap_in_node,
)


class ContinualRelease(PrivateTransform):
    """Turn elements into the `TimelineNode`s of a horizon; the transforms for users say of which sketch."""

    def __init__(self, declaration: Declaration, horizon: Horizon) -> None:
        _validate.instance(Horizon, horizon=horizon)
        if declaration.privacy_id is not None and declaration.privacy_id.max_windows is not None:
            raise ValueError(
                "max_windows must be left out in continual release: bounds.max_partitions says in how many windows of "
                "the horizon a privacy id counts"
            )
        self._horizon = horizon
        super().__init__(declaration)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_no_windowing(pcoll)
        self._check_elements(pcoll)
        horizon, sum_fn = self._horizon, SumFn(self._declaration.sketch_input)
        sums = pcoll | "ExactSums" >> _WindowSums(self._declaration, horizon, self._idempotent_noise)
        self.check_release_id(pcoll)
        # The run is named while the pipeline is built. `SketchTimeline` refuses nodes of another run by it, but keeps
        # no rho for it: rho is that of the whole tree anyway.
        terms, run, nodes = self._terms().paying_for(application(pcoll)), os.urandom(RUN_BYTES), []
        for level in range(tree_height(horizon.windows)):
            if level:
                sums = (
                    sums
                    | f"Pair{level}" >> level_windows(horizon, level)
                    | f"Sum{level}" >> beam.CombineGlobally(sum_fn).without_defaults()
                )
            release_once = ReleaseOnce(terms, level=level, idempotent_noise=self._idempotent_noise, run=run)
            nodes.append(
                sums
                | f"Release{level}" >> beam.ParDo(release_once)
                | f"Node{level}" >> beam.Map(wrap_in_node, horizon, level).with_output_types(TimelineNode)
                | f"MakeFinal{level}" >> beam.Reshuffle().with_output_types(TimelineNode)
                | f"LastWindow{level}" >> level_windows(horizon, 0)
            )
        return nodes | "AllLevels" >> beam.Flatten()

    def display_data(self) -> dict[str, Any]:
        """Return the public settings."""
        return {**super().display_data(), "windows": self._horizon.windows}

    def _terms(self) -> ReleaseTerms:
        record = self._declaration.privacy_id is None
        return dataclasses.replace(
            self._declaration.terms(),
            unit=PrivacyUnit.RECORD_OVER_HORIZON if record else PrivacyUnit.PRIVACY_ID_OVER_HORIZON,
            window_count=self._horizon.windows,
        )


class _WindowSums(beam.PTransform):
    """Sum the elements of every window of a horizon into an exact accumulator."""

    def __init__(self, declaration: Declaration, horizon: Horizon, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._declaration, self._horizon, self._idempotent_noise = declaration, horizon, idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        sketch_input, selectors = self._declaration.sketch_input, self._declaration.selectors
        inside = pcoll
        if selectors.privacy_id is None or not pcoll.is_bounded:
            in_horizon = beam.FlatMap(filter_to_horizon, self._horizon).with_output_types(pcoll.element_type)
            inside = inside | "InHorizon" >> in_horizon
        if selectors.privacy_id is not None:
            inside, selectors = self._bound(inside), IDENTITY_SELECTORS
        every_window = [(index, sketch_input.empty()) for index in range(self._horizon.windows)]
        values = (
            inside | "Windows" >> level_windows(self._horizon, 0),
            pcoll.pipeline
            | "EveryWindow" >> beam.Create(every_window, reshuffle=False)
            | "TimeOfEmpty" >> beam.Map(stamp_with_window_start, self._horizon)
            | "WindowsOfEmpty" >> level_windows(self._horizon, 0),
        ) | "WithEmpty" >> beam.Flatten()
        values, fn = sum_in_state(values, sketch_input, selectors)
        return values | "Sum0" >> beam.CombineGlobally(fn).without_defaults()

    def _bound(self, elements: beam.PCollection) -> beam.PCollection:
        """Return bounded items at times of their windows; a partition of the bounds is a window."""
        sketch_input, selectors = self._declaration.sketch_input, self._declaration.selectors
        if elements.is_bounded:
            keyed = beam.FlatMap(key_by_window, self._horizon).with_output_types(tuple[int, Any])
            reader = RecordReader(selectors, per_key=True)
            bounded = bound_contributions(elements | "ByWindow" >> keyed, reader, sketch_input, self._idempotent_noise)
            return bounded | "TimeOfBounded" >> beam.Map(stamp_with_window_start, self._horizon)
        check_not_idempotent(self._idempotent_noise)
        reader, max_windows = RecordReader(selectors, per_key=False), sketch_input.bounds.max_partitions
        first_windows = FirstWindows(reader, max_windows, horizon_window(self._horizon))
        in_windows = elements | "WindowsToBound" >> level_windows(self._horizon, 0)
        return bound_contributions(in_windows | "FirstWindows" >> first_windows, reader, sketch_input, None)
