"""The step that draws noise, once for each key and window, and names the run that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.release.noising import release_part
from beam_dpsketch.release.release_id import RUN_BYTES, part_name
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, release_randomness, run_of
from beam_dpsketch.transforms.windows.guard import check_first_firing
from beam_dpsketch.transforms.windows.times import check_window


class ReleaseOnce(beam.DoFn):
    """Accumulators to releases; raises if a window fires a second time.

    Args:
      terms: of each release.
      keyed: whether elements are (key, accumulator).
      level: of the nodes of a tree over time that these are; `None` if they are not nodes.
      idempotent_noise: makes the noise and the run a function of a secret; `None` takes the entropy of the system.
      run: names the run if the step is not given a name while it runs; `None` makes each release a run of its own.
    """

    def __init__(
        self,
        terms: ReleaseTerms,
        *,
        keyed: bool = False,
        level: int | None = None,
        idempotent_noise: IdempotentNoise | None = None,
        run: bytes | None = None,
    ) -> None:
        self._terms = terms
        self._keyed = keyed
        self._level = level
        self._idempotent_noise = idempotent_noise
        self._run = run
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
        check_window(window)
        key, accumulator = element if self._keyed else (None, element)
        part = part_name(self._part(key), window.start.micros, window.end.micros)
        run, randomness = run or self._run, None
        if self._idempotent_noise is not None:
            assert self._randomness is not None
            run, randomness = run_of(self._randomness), release_randomness(self._randomness, part, pane.index)
        released = release_part(accumulator.to_sketch(), self._terms, randomness, run=run, part=part)
        yield (key, released) if self._keyed else released

    def _part(self, key: Any) -> tuple[Any, ...]:
        """Which release of its window it is."""
        if self._level is not None:
            return "level", self._level
        return ("key", key) if self._keyed else ()


class DrawRun(beam.PTransform):
    """A name for a run, drawn while it runs, as a side input of `ReleaseOnce`.

    Releases of one run keep one rho together, so no two runs may share a name: it cannot be drawn while the pipeline is
    built, because a template, or a pipeline object, can be run again on other data. Drawn again after a failure, it
    splits the run in two, whose rho adds.
    """

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        return pbegin | beam.Impulse() | "Draw" >> beam.Map(lambda _: os.urandom(RUN_BYTES)).with_output_types(bytes)
