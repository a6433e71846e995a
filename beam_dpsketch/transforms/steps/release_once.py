"""The step that draws noise, once for each key and window, and names the run that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np

from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.release.choosing.keys import KeyChoice, is_chosen
from beam_dpsketch.release.noising import release_part
from beam_dpsketch.release.release_id import RUN_BYTES, part_name
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, name_run, release_randomness
from beam_dpsketch.transforms.windows.guard import check_first_firing, check_timestamps


class ReleaseOnce(beam.DoFn):
    """Turn accumulators into releases; raise if a window fires a second time.

    Args:
      terms: of each release.
      per_key: whether elements are (key, accumulator).
      level: the level of these nodes in a tree over time; `None` if they are not nodes.
      idempotent_noise: makes the noise and the run a function of a secret; `None` takes the entropy of the system.
      choice: how keys are chosen; `None` releases all of them.
      run: names the run if the step is not given a name while it runs; `None` makes each release a run of its own.
    """

    def __init__(
        self,
        terms: ReleaseTerms,
        *,
        per_key: bool = False,
        level: int | None = None,
        choice: KeyChoice | None = None,
        idempotent_noise: IdempotentNoise | None = None,
        run: bytes | None = None,
    ) -> None:
        self._terms, self._idempotent_noise = terms, idempotent_noise
        self._per_key, self._level, self._choice, self._run = per_key, level, choice, run
        self._randomness: KeyedRandomness | None = None

    def setup(self) -> None:
        if self._idempotent_noise is not None:
            self._randomness = self._idempotent_noise.resolve_secret()

    def teardown(self) -> None:
        self._randomness = None

    def process(
        self,
        element: Any,
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
    ) -> Iterator[Any]:
        # element: accumulator, or (key, accumulator)
        check_first_firing(pane)
        check_timestamps(window)
        key, accumulator = element if self._per_key else (None, element)
        part = part_name(self._part(key), window.start.micros, window.end.micros)
        run, randomness = run or self._run, None
        if self._idempotent_noise is not None:
            assert self._randomness is not None
            run, randomness = name_run(self._randomness), release_randomness(self._randomness, part, pane.index)
        side = accumulator.total_side
        if self._choice is not None:
            side, votes = np.split(side, [-2])
            if not is_chosen(self._choice, votes, randomness):
                return
        sketch = accumulator.to_sketch()
        released = release_part(sketch, side, self._terms_of(accumulator), randomness, run=run, part=part)
        yield (key, released) if self._per_key else released

    def _terms_of(self, accumulator: SketchAccumulator) -> ReleaseTerms:
        """Return the terms; a norm that the data chose is the one that scaled what is in the accumulator."""
        if not isinstance(self._terms.bounds, AutoNorm):
            return self._terms
        assert accumulator.max_norm is not None
        return self._terms.with_norm(accumulator.max_norm)

    def _part(self, key: Any) -> tuple[Any, ...]:
        """Return which release of its window it is."""
        if self._level is not None:
            return "level", self._level
        return ("key", key) if self._per_key else ()


def draw_run(pipeline: beam.Pipeline) -> beam.PCollection:
    """Draw a name for a run while it runs, as a side input of `ReleaseOnce`.

    Releases of one run keep one rho together, so no two runs may share a name: it cannot be drawn while the pipeline is
    built, because a template, or a pipeline object, can be run again on other data. Drawing again after a failure
    splits the run in two, whose rho adds.
    """
    draw = beam.Map(lambda _: os.urandom(RUN_BYTES)).with_output_types(bytes)
    return pipeline | "Run" >> beam.Impulse() | "DrawRun" >> draw
