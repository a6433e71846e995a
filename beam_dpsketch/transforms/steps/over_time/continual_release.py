"""The path of continual release: sum each window exactly, make rows of windows, draw the noise of each row once."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.answers.batch import Releases
from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.engine.keys import choose_keys
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.over_time import check_over_time, row_terms
from beam_dpsketch.transforms.steps.exact_sums import ExactSums
from beam_dpsketch.transforms.steps.over_time.horizon_plan import horizon_plan, windows_of
from beam_dpsketch.transforms.steps.over_time.rows_over_time import AllRows, RowSettings, RowsOverTime
from beam_dpsketch.transforms.steps.private_release import PrivateTransform
from beam_dpsketch.transforms.steps.release_once import MakeFinal, ReleaseOnce, draw_run
from beam_dpsketch.transforms.windows.guard import check_no_windowing


class ContinualRelease(PrivateTransform):
    """Turn elements into the `TimelineRow`s of a horizon, or of each key; the transforms for users choose the sketch.

    Args:
      declaration: what is released.
      horizon: the windows.
    """

    def __init__(self, declaration: Declaration, horizon: Horizon) -> None:
        _validate.instance(Horizon, horizon=horizon)
        check_over_time(declaration, horizon.windows)
        declaration.check_max_partitions()
        self._horizon = horizon
        super().__init__(declaration)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_no_windowing(pcoll)
        self._check_elements(pcoll)
        horizon, per_key = self._horizon, self._declaration.is_keyed
        plan = horizon_plan(pcoll, self._declaration, horizon)
        windowed = pcoll | "Windows" >> beam.WindowInto(windows_of(horizon))
        noise = self._noise(pcoll, plan.terms, (horizon.start_micros, horizon.size_micros, horizon.windows))
        exact = ExactSums(self._declaration, plan, noise)
        sums = windowed | "ExactSums" >> exact
        self.check_release_id(pcoll)
        terms, run = self._pay(pcoll, plan.terms), {}
        if pcoll.is_bounded and noise is None:  # on streams `RowsInOrder` names the run
            run["run"] = beam.pvalue.AsSingleton(draw_run(pcoll.pipeline))
        settings = RowSettings(horizon, horizon.rows, exact.sketch_input, per_key)
        all_rows = AllRows(settings, choose_keys(self._declaration.spec, terms), noise)
        finds_keys = per_key and self._declaration.public_keys is None
        # One window longer than the horizon: Prism may fire a timer before elements of the same time.
        longer = windows_of(horizon, horizon.windows + 1)
        rows = RowsOverTime(settings, longer, all_rows, finds_keys=finds_keys)
        named = not pcoll.is_bounded
        release_once = ReleaseOnce(terms, per_key=per_key, idempotent_noise=noise, named=named)
        return (
            sums
            | "Rows" >> rows
            | "OwnWindow" >> beam.WindowInto(windows_of(horizon))
            | "ReleaseOnce" >> beam.ParDo(release_once, **run).with_output_types(tuple[Any, Releases])
            | "MakeFinal" >> MakeFinal(per_key=per_key, kind=TimelineRow)
        )

    def display_data(self) -> dict[str, Any]:
        return {**super().display_data(), "windows": self._horizon.windows, "mechanism": self._horizon.mechanism}

    def _terms(self) -> RowTerms:
        return row_terms(self._declaration, self._horizon.rows)
