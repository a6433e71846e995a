"""The steps that draw the noise of grouped counts and gather what is released.

Noise is drawn once for each pair of key and item in a window, and the decision is made with it, in one step. The
`GroupByKey` after it makes both final, as a `Reshuffle` does, before the rows of a key and window become one release.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.engine.counting import Counting, draw_of
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.records.groups import split_pair
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.statement.release_id import (
    DRAW_BYTES,
    RUN_BYTES,
    name_run,
    part_name,
    part_of_run,
    release_randomness,
)
from beam_dpsketch.transforms.steps.choosing.spent import RecordSpent, may_release_nothing
from beam_dpsketch.transforms.steps.groups.counting_pairs import CountPairs
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.release_once import draw_run
from beam_dpsketch.transforms.windows.guard import check_timestamps, fires_again_late
from beam_dpsketch.transforms.windows.time_range import create_in_every_window
from beam_dpsketch.transforms.windows.window_plan import WindowPlan

_BUFFERED = 1 << 16
_NO_ITEM = (b"", 0)
"""A row that only says that there is a release."""
_ROWS = tuple[bytes, tuple[bytes, int]]


class ReleaseGroups(beam.PTransform):
    """Turn elements into one release of grouped counts, or into (key, release); one for each window."""

    def __init__(
        self, declared: ReleaseSpec, plan: WindowPlan, counting: Counting, idempotent_noise: IdempotentNoise | None
    ) -> None:
        super().__init__()
        self._declared, self._plan, self._counting = declared, plan, counting
        self._idempotent_noise = idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        noise, per_key, run = self._idempotent_noise, self._declared.is_keyed, {}
        if pcoll.is_bounded:  # a stream would wait for a side input
            names = draw_run(pcoll.pipeline)
            if noise is None:
                run["run"] = beam.pvalue.AsSingleton(names)
            if self._plan.is_global and may_release_nothing(self._declared, self._counting.terms):
                names | "Spent" >> RecordSpent(self._counting, noise)
        add_noise = beam.ParDo(NoiseOnce(self._counting, per_key=per_key, idempotent_noise=noise))
        gather = beam.ParDo(GatherRows(self._counting, per_key=per_key, idempotent_noise=noise), **run)
        output_type = tuple[Any, ReleasedSketch] if per_key else ReleasedSketch
        rows = (
            pcoll
            | "ExactCounts" >> CountPairs(self._declared, self._plan, noise)
            | "NoiseOnce" >> add_noise.with_output_types(_ROWS)
        )
        return (
            self._with_empty(rows)
            | "RowsFinal" >> beam.GroupByKey()
            | "GatherRows" >> gather.with_output_types(output_type)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(output_type)
        )

    def _with_empty(self, rows: beam.PCollection) -> beam.PCollection:
        """Add a row without an item for every release that must exist regardless of the data."""
        starts, keys = self._plan.starts, self._declared.public_keys
        every = [(encode(key), _NO_ITEM) for key in keys or ()] if self._declared.is_keyed else [(b"", _NO_ITEM)]
        if not every or (starts is None and not self._plan.is_global):
            return rows
        if starts is not None:
            created = create_in_every_window(rows.pipeline, starts, rows.windowing, every)
        else:
            created = rows.pipeline | "EveryRelease" >> beam.Create(every, reshuffle=False)
        return (rows, created | "Typed" >> beam.Map(_as_it_is).with_output_types(_ROWS)) | "WithEmpty" >> beam.Flatten()


class NoiseOnce(DrawsNoise):
    """Turn (pair, exact count) into (encoded key, (item, noisy count)), or into nothing below the threshold.

    Args:
      counting: how counts are released.
      per_key: whether pairs have keys.
      idempotent_noise: makes the noise a function of a secret; `None` takes the entropy of the system.
    """

    def __init__(self, counting: Counting, *, per_key: bool, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__(idempotent_noise)
        self._counting, self._per_key = counting, per_key

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[tuple[bytes, int]]] = defaultdict(list)
        self._size = 0

    def process(
        self, element: tuple[bytes, int], pane: Any = beam.DoFn.PaneInfoParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterable[Any] | None:
        if fires_again_late(pane):
            return []
        check_timestamps(window)
        if self._randomness is None:
            self._waiting[window].append(element)
            self._size += 1
            return None if self._size < _BUFFERED else list(self.finish_bundle())
        pair, count = element
        part = part_name(("item", pair), window.start.micros, window.end.micros)
        noisy = self._counting.add_keyed_noise(count, release_randomness(self._randomness, part, pane.index))
        return [] if noisy is None else [self._row(pair, noisy)]

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, counted in self._waiting.items():
            noisy, released = self._counting.add_noise(np.array([count for _, count in counted], dtype=np.int64))
            for place in np.flatnonzero(released).tolist():
                row = self._row(counted[place][0], int(noisy[place]))
                yield WindowedValue(row, window.max_timestamp(), (window,))
        self.start_bundle()

    def _row(self, pair: bytes, noisy: int) -> tuple[bytes, tuple[bytes, int]]:
        key, item = split_pair(pair, per_key=self._per_key)
        return key, (item, noisy)


class GatherRows(DrawsNoise):
    """Turn (encoded key, rows) into a release, or (key, release)."""

    def __init__(self, counting: Counting, *, per_key: bool, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__(idempotent_noise)
        self._counting, self._per_key = counting, per_key

    def process(
        self,
        element: tuple[bytes, Iterable[tuple[bytes, int]]],
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
    ) -> Iterator[Any]:
        if fires_again_late(pane):
            return
        key = decode(element[0]) if self._per_key else None
        if key is not None and not is_unicode(key):
            return
        rows = [row for row in element[1] if row != _NO_ITEM]
        name = part_name(("key", key) if self._per_key else (), window.start.micros, window.end.micros)
        source, draw = Randomness.SYSTEM, os.urandom(DRAW_BYTES)
        if self._randomness is not None:
            run, source = name_run(self._randomness), Randomness.KEYED
            draw = draw_of(rows, release_randomness(self._randomness, name, pane.index))
        part = part_of_run(run or os.urandom(RUN_BYTES), name)
        released = self._counting.gather(rows, part, draw, source)
        yield (key, released) if self._per_key else released


def _as_it_is(row: Any) -> Any:
    return row
