"""Combine exact sums of windows to exact timeline rows, in the order of windows, for each key.

Guarantee: rows equal the output of `RowEncoder`, in any order of arrival. Each window counts once: a second sum for a
window raises. On streams a row is emitted as soon as all windows up to its own have arrived. A window that never
arrives raises after the horizon's end. On bounded input a window without data counts as empty. No row is older than the
element that holds back the watermark for it, so no runner drops it as late.

On streams the name of a run is drawn with the first window of each key, and is state like the waiting windows.
Therefore, all rows of a key have the same name, even after a restart, and no two runs of a pipeline share a name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import TimestampCombiner, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch.exact.domains.timestamps import MILLISECOND
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums, next_rows
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.noise.run import Run, place_of_horizon
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.stream_state import keep_keys_together
from beam_dpsketch.transforms.steps.whole_runs import NO_RUN
from beam_dpsketch.transforms.steps.windows import fires_again_late

Window: TypeAlias = tuple[int, bytes]
"""Window number, and the bytes of its sum."""


class RowSettings(NamedTuple):
    """Parameters for computing rows from windows.

    Attributes:
      horizon: the declared windows.
      mechanism: the timeline rows.
      sketch_input: input definition for the sums.
    """

    horizon: Horizon
    mechanism: RowMechanism
    sketch_input: SketchInput

    def with_number(
        self, element: KeyedSums, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[tuple[bytes, Window]]:
        """Yield each encoded key of a window with the window's number and sum."""
        if fires_again_late(pane):
            return
        number = self.horizon.index(window.start.micros)
        yield from ((key, (number, sums.to_bytes())) for key, sums in element.each())

    def end(self, window: int) -> Timestamp:
        """Last millisecond of a window."""
        return Timestamp(micros=self.horizon.edges(window)[1] - MILLISECOND)

    def push(self, encoder: RowEncoder, key: bytes, payload: bytes | None) -> Iterator[TimestampedValue]:
        """Yield the sums of each row completed by the next window, at the window's end."""
        end, sums = self.end(encoder.next_window), None
        if payload is not None:
            sums = KeyedSums.from_bytes(self.sketch_input, payload)
        yield from (TimestampedValue(row, end) for row in next_rows(encoder, self.sketch_input, key, sums))


class RowsOverTime(beam.PTransform):
    """Combine sums of windows to sums of timeline rows, in a single window for the horizon.

    On streams the output is (run name, sum).

    Args:
      settings: parameters of the rows.
      horizon: window function with the horizon, and some time after it, as one window.
      all_rows: computes all rows of a key from its windows.
      shards: key shard count, if the data determine the keys, or `None`.
      run: a side input of the step that chooses keys.
    """

    def __init__(
        self,
        settings: RowSettings,
        horizon: WindowFn,
        all_rows: AllRows,
        *,
        shards: int | None,
        run: Mapping[str, Any] = NO_RUN,
    ) -> None:
        super().__init__()
        self._run = run
        self._settings, self._horizon, self._all_rows, self._shards = settings, horizon, all_rows, shards

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        index = beam.FlatMap(self._settings.with_number).with_output_types(tuple[bytes, tuple[int, bytes]])
        indexed = pcoll | "Index" >> index
        together = indexed | "Horizon" >> self._into_horizon()
        if not pcoll.is_bounded:
            # Also on runners that lose timer outputs, because the one timer here emits none.
            keep_keys_together(pcoll.pipeline)
            return together | "InOrder" >> beam.ParDo(RowsInOrder(self._settings))
        windows = together | "AllWindows" >> beam.GroupByKey()
        if self._shards is not None:
            windows = self._back_to_first_window(windows, self._shards)
        return windows | "AllRows" >> beam.ParDo(self._all_rows, **self._run)

    def _into_horizon(self) -> beam.WindowInto:
        """Assign the window of the horizon. Groups have the time of their first window."""
        return beam.WindowInto(self._horizon, timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)

    def _back_to_first_window(self, windows: beam.PCollection, count: int) -> beam.PCollection:
        """Move keys without data in the first window back to its time, for which the watermark is held back."""
        typed = tuple[int, Any]
        first = [TimestampedValue((shard, None), self._settings.end(0)) for shard in range(count)]
        waiting = (
            windows.pipeline
            | "Impulse" >> beam.Impulse()
            | "First" >> beam.FlatMap(lambda _: first).with_output_types(typed)
        )
        waiting = waiting | "FirstInHorizon" >> self._into_horizon()
        sharded = windows | "Shard" >> beam.Map(_with_shard, count).with_output_types(typed)
        shards = (sharded, waiting) | beam.Flatten() | "ByShard" >> beam.GroupByKey()
        return shards | "Keys" >> beam.FlatMapTuple(_keys_of_shard)


def _with_shard(windows: tuple[bytes, Iterable[Window]], shards: int) -> tuple[int, tuple[bytes, list[Window]]]:
    key, each = windows
    return zlib.crc32(key) % shards, (key, list(each))


def _keys_of_shard(shard: int, keys: Iterable[Any]) -> Iterator[Any]:
    return (each for each in keys if each is not None)


class AllRows(DrawsNoise):
    """Compute all rows of a key from all its windows, or none if the key is not selected."""

    def __init__(
        self, settings: RowSettings, choice: KeyChoice | None, idempotent_noise: IdempotentNoise | None
    ) -> None:
        super().__init__(idempotent_noise)
        self._settings, self._choice = settings, choice

    def process(self, element: tuple[bytes, Iterable[Window]], run: bytes | None = None) -> Iterator[TimestampedValue]:
        key, windows = element[0], {}
        for number, accumulator in element[1]:
            _check_new(number in windows)
            windows[number] = accumulator
        if self._choice is not None and not self._is_chosen(self._choice, key, windows.values()):
            return
        encoder = RowEncoder(self._settings.mechanism)
        for number in range(self._settings.mechanism.windows):
            yield from self._settings.push(encoder, key, windows.pop(number, None))

    def _is_chosen(self, choice: KeyChoice, key: bytes, windows: Iterable[bytes]) -> bool:
        """Whether the votes in all windows together select the key."""
        settings = self._settings
        votes = KeyedSums.of_nothing(settings.sketch_input, [key])
        for each in windows:
            votes.side[:] += KeyedSums.from_bytes(settings.sketch_input, each).side
        return len(self.run().find_released(choice, votes, place_of_horizon(settings.horizon))[1]) > 0


class RowsInOrder(beam.DoFn):
    """Emit (run name, row) as soon as all earlier windows of a key have arrived, in any order."""

    ENCODER = ReadModifyWriteStateSpec("encoder", coders.BytesCoder())
    EARLY = BagStateSpec("early", coders.TupleCoder((coders.VarIntCoder(), coders.BytesCoder())))
    NEXT = ReadModifyWriteStateSpec("next", coders.TupleCoder((coders.VarIntCoder(), coders.VarIntCoder())))
    RUN = ReadModifyWriteStateSpec("run", coders.BytesCoder())
    END = TimerSpec("after horizon", TimeDomain.WATERMARK)
    _ENCODER, _EARLY = beam.DoFn.StateParam(ENCODER), beam.DoFn.StateParam(EARLY)
    _NEXT, _RUN, _END = beam.DoFn.StateParam(NEXT), beam.DoFn.StateParam(RUN), beam.DoFn.TimerParam(END)

    def __init__(self, settings: RowSettings) -> None:
        self._settings = settings

    def process(
        self,
        element: tuple[bytes, Window],
        window: Any = beam.DoFn.WindowParam,
        encoder: Any = _ENCODER,
        early: Any = _EARLY,
        place: Any = _NEXT,
        run: Any = _RUN,
        end: Any = _END,
    ) -> Iterator[TimestampedValue]:
        key, (number, accumulator) = element
        known = place.read()
        if known is None:
            run.write(Run().name())
            end.set(window.max_timestamp())
        expected, waiting = known or (0, 0)
        _check_new(number < expected)
        if number > expected:
            early.add((number, accumulator))
            place.write((expected, waiting + 1))
            return
        there = {number: accumulator}
        if waiting:
            for later, each in early.read():
                _check_new(later in there)
                there[later] = each
            early.clear()
        saved = encoder.read()
        mechanism = self._settings.mechanism
        rows = RowEncoder(mechanism) if saved is None else RowEncoder.from_bytes(mechanism, saved)
        while rows.next_window in there:
            for row in self._settings.push(rows, key, there.pop(rows.next_window)):
                yield TimestampedValue((run.read(), row.value), row.timestamp)
        for each in there.items():
            early.add(each)
        place.write((rows.next_window, len(there)))
        if rows.next_window < mechanism.windows:
            encoder.write(rows.to_bytes())
        else:
            encoder.clear()

    @on_timer(END)
    def at_end(self, place: Any = _NEXT) -> None:
        """Raise if a window is missing after the horizon's end."""
        expected, _ = place.read() or (0, 0)
        if expected < self._settings.mechanism.windows:
            raise RuntimeError(
                f"Window {expected} of the horizon never arrived, and no later row can be released. The runner lost "
                "the window"
            )


def _check_new(is_known: bool) -> None:
    if is_known:
        raise RuntimeError(
            "A window of the horizon arrived twice, and no more rows are released. The runner fired the window again"
        )
