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
from beam_dpsketch.transforms.steps.application import application
from beam_dpsketch.transforms.steps.bounding import Bounded
from beam_dpsketch.transforms.steps.first_windows import FirstWindows, check_not_idempotent
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.private_release import PrivateTransform
from beam_dpsketch.transforms.steps.raw_sketch_fn import SumFn
from beam_dpsketch.transforms.steps.release_once import ReleaseOnce
from beam_dpsketch.transforms.steps.summing import sum_in_state
from beam_dpsketch.transforms.windows.guard import check_no_windowing
from beam_dpsketch.transforms.windows.horizon import (
    FilterToHorizon,
    KeyByWindow,
    StampWithWindowStart,
    WrapInNode,
    horizon_window,
    level_windows,
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
        sums = pcoll | "ExactSums" >> WindowSums(self._declaration, self._horizon, self._idempotent_noise)
        self.check_release_id(pcoll)
        # The run is named while the pipeline is built. `SketchTimeline` refuses nodes of another run by it, but keeps
        # no rho for it: rho is that of the whole tree anyway.
        terms, run, nodes = self._terms().paying_for(application(pcoll)), os.urandom(RUN_BYTES), []
        for level in range(tree_height(self._horizon.windows)):
            if level:
                sums = (
                    sums
                    | f"Pair{level}" >> level_windows(self._horizon, level)
                    | f"Sum{level}" >> beam.CombineGlobally(SumFn(self._declaration.sketch_input)).without_defaults()
                )
            release_once = ReleaseOnce(terms, level=level, idempotent_noise=self._idempotent_noise, run=run)
            nodes.append(sums | f"Release{level}" >> _ReleaseLevel(release_once, self._horizon, level))
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


class WindowSums(beam.PTransform):
    """Sum the elements of every window of a horizon into an exact accumulator."""

    def __init__(self, declaration: Declaration, horizon: Horizon, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._declaration = declaration
        self._horizon = horizon
        self._idempotent_noise = idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        sketch_input, selectors = self._declaration.sketch_input, self._declaration.selectors
        if selectors.privacy_id is None:
            inside = pcoll | "InHorizon" >> beam.ParDo(FilterToHorizon(self._horizon))
        else:
            inside, selectors = self._bounded(pcoll), IDENTITY_SELECTORS
        every_window = pcoll.pipeline | "EveryWindow" >> beam.Create(
            [(index, sketch_input.empty()) for index in range(self._horizon.windows)], reshuffle=False
        )
        values = (
            inside | "Windows" >> level_windows(self._horizon, 0),
            every_window
            | "TimeOfEmpty" >> beam.ParDo(StampWithWindowStart(self._horizon))
            | "WindowsOfEmpty" >> level_windows(self._horizon, 0),
        ) | "WithEveryWindow" >> beam.Flatten()
        values, fn = sum_in_state(values, sketch_input, selectors, keyed=False)
        return values | "Sum0" >> beam.CombineGlobally(fn).without_defaults()

    def _bounded(self, elements: beam.PCollection) -> beam.PCollection:
        """Return bounded contributions in their windows; a partition of the bounds is a window."""
        sketch_input, selectors = self._declaration.sketch_input, self._declaration.selectors
        if elements.is_bounded:
            reader = RecordReader(selectors, per_key=True)
            return (
                elements
                | "WithWindow" >> beam.ParDo(KeyByWindow(self._horizon)).with_output_types(tuple[int, Any])
                | "BoundContributions" >> Bounded(reader, sketch_input, self._idempotent_noise)
                | "TimeOfBounded" >> beam.ParDo(StampWithWindowStart(self._horizon))
            )
        check_not_idempotent(self._idempotent_noise)
        reader, bounds = RecordReader(selectors, per_key=False), sketch_input.bounds
        return (
            elements
            | "InHorizon" >> beam.ParDo(FilterToHorizon(self._horizon)).with_output_types(elements.element_type)
            | "WindowsToBound" >> level_windows(self._horizon, 0)
            | "FirstWindows" >> FirstWindows(reader, bounds.max_partitions, horizon_window(self._horizon))
            | "BoundContributions" >> Bounded(reader, sketch_input, None)
        )


class _ReleaseLevel(beam.PTransform):
    """Release the accumulators of the nodes of a level as `TimelineNode`s, in the last of their windows."""

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
            | "LastWindow" >> level_windows(self._horizon, 0)
        )
