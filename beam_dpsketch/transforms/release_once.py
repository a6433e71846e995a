"""The step that draws noise, once for each key and window, and the Reshuffle that makes the draw final."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import PaneInfoTiming

from beam_dpsketch.errors import WindowingError
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds, PrivacyUnit
from beam_dpsketch.release.releasing import release
from beam_dpsketch.release.statement import Disclosure


class ReleaseOnce(beam.DoFn):
    """Accumulators to releases; raises if a window fires a second time."""

    def __init__(
        self,
        privacy: PrivacySpec,
        *,
        bounds: ContributionBounds,
        unit: PrivacyUnit,
        windows: int,
        disclosed: Disclosure,
        keyed: bool,
        period_micros: int = 0,
    ) -> None:
        self._release = functools.partial(
            release,
            privacy=privacy,
            bounds=bounds,
            unit=unit,
            windows=windows,
            disclosed=disclosed,
            period_micros=period_micros,
        )
        self._keyed = keyed

    def process(self, element: Any, pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[Any]:
        # element: accumulator, or (key, accumulator)
        if pane.index > 0 or pane.timing == PaneInfoTiming.EARLY:
            raise WindowingError(
                "a window fired more than once; remove trigger and allowed_lateness from the WindowInto before it"
            )
        if self._keyed:
            key, accumulator = element
            yield key, self._release(accumulator.to_sketch())
        else:
            yield self._release(element.to_sketch())
