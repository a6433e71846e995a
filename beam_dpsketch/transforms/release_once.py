"""The step that draws noise, once for each key and window."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds, PrivacyUnit
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.release.releasing import release
from beam_dpsketch.release.statement import Disclosure
from beam_dpsketch.transforms.idempotent_noise import IdempotentNoise, of_release
from beam_dpsketch.transforms.timestamps import check_window
from beam_dpsketch.transforms.windowing import check_first_firing


class ReleaseOnce(beam.DoFn):
    """Accumulators to releases; raises if a window fires a second time.

    Args:
      privacy, bounds, unit, windows, disclosed, period_micros: as for `release`.
      keyed: whether elements are (key, accumulator).
      level: of the nodes of a tree over time that these are; `None` if they are not nodes.
      idempotent_noise: makes the noise a function of a secret; `None` takes the system's entropy.
    """

    def __init__(
        self,
        privacy: PrivacySpec,
        *,
        bounds: ContributionBounds,
        unit: PrivacyUnit,
        windows: int,
        disclosed: Disclosure,
        keyed: bool,
        level: int | None = None,
        period_micros: int = 0,
        idempotent_noise: IdempotentNoise | None = None,
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
        self._level = level
        self._idempotent_noise = idempotent_noise
        self._randomness: KeyedRandomness | None = None

    def setup(self) -> None:
        if self._idempotent_noise is not None:
            self._randomness = self._idempotent_noise.on_worker()

    def teardown(self) -> None:
        self._randomness = None

    def process(
        self, element: Any, pane: Any = beam.DoFn.PaneInfoParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        # element: accumulator, or (key, accumulator)
        check_first_firing(pane)
        check_window(window)
        key, accumulator = element if self._keyed else (None, element)
        randomness = None
        if self._idempotent_noise is not None:
            assert self._randomness is not None
            randomness = of_release(self._randomness, self._part(key), window, pane.index)
        released = self._release(accumulator.to_sketch(), keyed=randomness)
        yield (key, released) if self._keyed else released

    def _part(self, key: Any) -> tuple[Any, ...]:
        """Which release of its window it is."""
        if self._level is not None:
            return "level", self._level
        return ("key", key) if self._keyed else ()
