"""The step that decides which keys are released, once for each key and window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np

from beam_dpsketch.engine.keys import KeyChoice
from beam_dpsketch.engine.run import Place
from beam_dpsketch.records.sums.accumulator import SketchAccumulator
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.windows import check_timestamps, fires_again_late


class ChooseOnce(DrawsNoise):
    """Turn (key, accumulator) into the key, if it is chosen; let each window fire once.

    Args:
      choice: how keys are chosen.
      idempotent_noise: makes the decision a function of a secret; `None` takes the entropy of the system.
    """

    def __init__(self, choice: KeyChoice, idempotent_noise: IdempotentNoise | None = None) -> None:
        super().__init__(idempotent_noise)
        self._choice = choice

    def process(
        self,
        element: tuple[Any, SketchAccumulator],
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
    ) -> Iterator[Any]:
        if fires_again_late(pane):
            return
        check_timestamps(window)
        key, accumulator = element
        place = Place((key,), window.start.micros, window.end.micros, pane.index)
        if self.run().choose(self._choice, accumulator.votes[np.newaxis], [place])[0]:
            yield key
