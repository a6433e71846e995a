"""The step that decides which keys are chosen, once for each key and window, where nothing else is released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np

from beam_dpsketch.engine.keys import KeyChoice, find_chosen
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.statement.release_id import part_name, release_randomness
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.windows.guard import check_timestamps, fires_again_late


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
    ) -> Iterator[Any]:
        if fires_again_late(pane):
            return
        check_timestamps(window)
        key, accumulator = element
        secrets = None
        if self._idempotent_noise is not None:
            assert self._randomness is not None
            part = part_name(("key", key), window.start.micros, window.end.micros)
            secrets = [release_randomness(self._randomness, part, pane.index)]
        votes = accumulator.votes[np.newaxis]
        if find_chosen(self._choice, votes, secrets)[0]:
            yield key
