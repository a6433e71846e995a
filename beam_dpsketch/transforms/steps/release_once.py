"""The step that draws noise, once for each key and window, and names the run that it belongs to.

Keys of a bundle wait until there are `BUFFERED_COUNTERS`, or the bundle ends. Their noise is drawn together, and they
travel together. `MakeFinal` takes them apart again.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.answers.batch import Releases
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.engine.calibration import Calibration, DeclaredCalibration
from beam_dpsketch.engine.keys import find_chosen
from beam_dpsketch.engine.noising import Part, release_parts
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.statement.release_id import RUN_BYTES, name_run, part_name, release_randomness, timeline_of_run
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.windows.guard import check_timestamps, fires_again_late

BUFFERED_COUNTERS = 1 << 18


class _Waiting(NamedTuple):
    """An exact sum that waits for its noise, and where its release goes."""

    key: Any
    accumulator: SketchAccumulator
    window: Any
    timestamp: Any
    pane: Any
    run: bytes | None


class ReleaseOnce(DrawsNoise):
    """Turn accumulators into ([keys], `Releases`), or (`None`, `Releases`); let each window fire once.

    Args:
      calibration: the noise and the terms of each release, before the data have chosen a norm.
      per_key: whether elements are (key, accumulator).
      idempotent_noise: makes the noise and the run a function of a secret; `None` takes the entropy of the system.
      chooses: whether keys are chosen here; otherwise all of them are released.
      named: whether each element comes as (name of its run, element). Otherwise a side input names the run, or each
        release is a run of its own.
    """

    def __init__(
        self,
        calibration: DeclaredCalibration,
        *,
        per_key: bool = False,
        chooses: bool = True,
        idempotent_noise: IdempotentNoise | None = None,
        named: bool = False,
    ) -> None:
        super().__init__(idempotent_noise)
        self._calibration = calibration
        self._calibrations: dict[Fraction | None, Calibration] = {}  # by the norm that was chosen
        self._choice = calibration.choice if chooses and per_key else None
        self._per_key, self._named = per_key, named
        self.start_bundle()

    def start_bundle(self) -> None:
        self._waiting: list[_Waiting] = []
        self._buffered = 0

    def process(
        self,
        element: Any,
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        run: bytes | None = None,
    ) -> Iterable[WindowedValue] | None:
        # element: accumulator, or (key, accumulator)
        if fires_again_late(pane):
            return []
        if self._named:
            run, element = element
        check_timestamps(window)
        key, accumulator = element if self._per_key else (None, element)
        self._waiting.append(_Waiting(key, accumulator, window, timestamp, pane, run))
        self._buffered += accumulator.cells
        return None if self._buffered < BUFFERED_COUNTERS else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        waiting = self._chosen(self._waiting)
        self.start_bundle()
        # A norm that the data chose is part of the terms, and may be another one in each window.
        for sums in _grouped(waiting, [(each.accumulator.max_norm, each.accumulator.row) for each in waiting]):
            releases = self._release(sums)
            places = [(each.window, each.timestamp, each.pane) for each in sums]
            for numbers in _grouped(range(len(sums)), places):
                keys = [sums[number].key for number in numbers] if self._per_key else None
                window, timestamp, pane = places[numbers[0]]
                yield WindowedValue((keys, releases.take(numbers)), timestamp, (window,), pane)

    def _chosen(self, waiting: list[_Waiting]) -> list[_Waiting]:
        """Return the sums of the keys that are released; of the others nothing is left."""
        if self._choice is None or not waiting:
            return waiting
        votes = np.stack([each.accumulator.votes for each in waiting])
        chosen = find_chosen(self._choice, votes, self._secrets(waiting))
        return [each for each, is_chosen in zip(waiting, chosen.tolist(), strict=True) if is_chosen]

    def _release(self, sums: Sequence[_Waiting]) -> Releases:
        """Release sums that have the same terms, each with noise of its own."""
        calibration, row = self._under(sums[0].accumulator.max_norm), sums[0].accumulator.row
        sketches = SketchAccumulator.to_sketches([each.accumulator for each in sums])
        parts = [
            Part(sketch, each.accumulator.total_side[: len(calibration.side)], *self._place(each))
            for sketch, each in zip(sketches, sums, strict=True)
        ]
        return release_parts(parts, calibration, self._secrets(sums), row=row)

    def _place(self, each: _Waiting) -> tuple[bytes, bytes | None]:
        """Return which release it is, and the run that it is of, or the timeline."""
        run, row = each.run if self._randomness is None else name_run(self._randomness), each.accumulator.row
        if row is None:
            return _name(each, *self._which(each)), run
        assert run is not None
        return _name(each, "row", row), timeline_of_run(run, *([each.key] if self._per_key else []))

    def _secrets(self, sums: Sequence[_Waiting]) -> list[KeyedRandomness] | None:
        """Return the randomness of each under idempotent noise."""
        if self._idempotent_noise is None:
            return None
        keyed = self._randomness
        assert keyed is not None
        return [release_randomness(keyed, _name(each, *self._which(each)), each.pane.index) for each in sums]

    def _under(self, max_norm: Fraction | None) -> Calibration:
        """Return the noise; a norm that the data chose is the one that scaled what is in the accumulators."""
        if max_norm not in self._calibrations:
            self._calibrations[max_norm] = self._calibration.with_norm(max_norm)
        return self._calibrations[max_norm]

    def _which(self, each: _Waiting) -> tuple[Any, ...]:
        """Return which release of its window it is."""
        key, row = ("key", each.key) if self._per_key else (), each.accumulator.row
        return key if row is None else (*key, "row", row)


def _name(each: _Waiting, *which: Any) -> bytes:
    return part_name(which, each.window.start.micros, each.window.end.micros)


class MakeFinal(beam.PTransform):
    """Make what `ReleaseOnce` drew final: one `Reshuffle`, and then each release, or (key, release), for itself.

    `kind` is `ReleasedSketch` or `TimelineRow`.
    """

    def __init__(self, *, per_key: bool = False, kind: type = ReleasedSketch) -> None:
        super().__init__()
        self._output_type = tuple[Any, kind] if per_key else kind  # type: ignore[valid-type]

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        # As bytes: runners keep what a Reshuffle has decoded in memory.
        packed = pcoll | "Pack" >> beam.MapTuple(_pack).with_output_types(tuple[Any, bytes])
        final = packed | "Reshuffle" >> beam.Reshuffle().with_output_types(tuple[Any, bytes])
        return final | "Each" >> beam.FlatMapTuple(_unpack).with_output_types(self._output_type)


def _pack(keys: list[Any] | None, releases: Releases) -> tuple[Any, bytes]:
    return keys, releases.to_bytes()


def _unpack(keys: list[Any] | None, packed: bytes) -> Iterator[Any]:
    return each_release((keys, Releases.from_bytes(packed)))


def each_release(together: tuple[list[Any] | None, Releases]) -> Iterator[Any]:
    """Yield each release of what `ReleaseOnce` made, or (key, release)."""
    keys, releases = together
    return iter(releases) if keys is None else zip(keys, releases, strict=True)


def _grouped(values: Sequence[Any], names: Sequence[Any]) -> list[list[Any]]:
    """Return the values that have equal names together."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for value, name in zip(values, names, strict=True):
        groups[name].append(value)
    return list(groups.values())


def draw_run(pipeline: beam.Pipeline) -> beam.PCollection:
    """Draw a name for a run while it runs, as a side input of `ReleaseOnce`.

    Releases of one run keep one rho together, so no two runs may share a name: it cannot be drawn while the pipeline is
    built, because a template, or a pipeline object, can be run again on other data. The `Reshuffle` makes the name
    final before any step reads it. Where it is not durable, a name that is drawn again splits the run in two, whose rho
    adds.
    """
    draw = beam.Map(lambda _: os.urandom(RUN_BYTES)).with_output_types(bytes)
    drawn = pipeline | "Run" >> beam.Impulse() | "DrawRun" >> draw
    return drawn | "FinalRun" >> beam.Reshuffle().with_output_types(bytes)
