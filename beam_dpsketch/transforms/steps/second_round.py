"""The second round of key votes: the noisy round 1 votes, drawn once, go back to the ids that cast them.

Guarantee: if `Reshuffle` is durable, or noise is idempotent, the noisy votes of a key and window are drawn in a single
step, and are final before any step reads them. The same draw steers the second round and decides on keys. An id votes
again only for keys that it voted for: the edges between voters and keys leave bounding together with the votes. The
input is bounded, because streams store no votes.

Round 1 votes travel to key shards once more. The remaining keys travel back to the id shards, where a row waits for
each id and key that it voted for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.parts import Scale
from beam_dpsketch.exact.domains.timestamps import MILLISECOND
from beam_dpsketch.exact.reading.codec import from_bytes, from_payloads, parts_to_bytes, to_bytes
from beam_dpsketch.exact.reading.groups import dictionary_codes, group_rows
from beam_dpsketch.exact.reading.items import NOISY, SECOND, VOTERS, VOTES, SketchInput
from beam_dpsketch.exact.sums import vote_rounds
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.sums import key_shards, key_shards_for
from beam_dpsketch.transforms.steps.whole_runs import NO_RUN
from beam_dpsketch.transforms.steps.windows import last_time, place_of

_COST = (
    "There are two rounds of votes. They need two more shuffles: of the votes of each shard of ids, and of a row for "
    "each id and {} that it votes for. {}Unbounded input has one round."
)
_ONE_ROUND = 'The method "gaussian" of KeySelection needs none, and releases fewer keys. '
COST_OF_ROUNDS = {False: _COST.format("key", _ONE_ROUND), True: _COST.format("item", "")}
"""Note in `explain` about two rounds, by whether items are voted for."""
_EDGES, _LEFT, _ASKER = "edges", "left", "asker"
_MOST_ROWS = 1 << 20  # waiting rows in a bundle
_PART: TypeAlias = tuple[bytes, bytes]


class SecondRound(beam.PTransform):
    """Turn `Bounded` into `KeyedSums` without counters.

    They contain the noisy round 1 votes, once for each key and window, and the round 2 votes. If the bounds cover
    several windows, each sum is emitted at the last millisecond of its own window.

    Args:
      sketch_input: input definition for the sums.
      choice: the key selection.
      shards: key shard count.
      run: a side input of the step that draws noise.
    """

    def __init__(
        self,
        sketch_input: SketchInput,
        choice: KeyChoice,
        shards: int,
        idempotent_noise: IdempotentNoise | None,
        run: Mapping[str, Any] = NO_RUN,
    ) -> None:
        super().__init__()
        self._input, self._choice, self._shards = sketch_input, choice, shards
        self._idempotent_noise, self._run = idempotent_noise, run

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        sketch_input, choice, shards = self._input, self._choice, self._shards
        once = sketch_input.over_time is not None
        edges = pcoll | "Edges" >> beam.FlatMap(_edges).with_output_types(_PART)
        draw = DrawFirst(choice, once, self._idempotent_noise)
        drawn = (
            pcoll
            | "Votes" >> beam.Map(_votes).with_output_types(pa.Table)
            | "ToKeys" >> beam.ParDo(InParts(shards)).with_output_types(_PART)
            | "GroupByKeys" >> beam.GroupByKey()
            | "DrawFirst" >> beam.ParDo(draw, **self._run).with_output_types(_PART)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(_PART)
        )
        left = (
            drawn
            | "Left" >> beam.FlatMap(_left, choice, once).with_output_types(pa.Table)
            | "ToIds" >> beam.ParDo(InParts()).with_output_types(_PART)
        )
        second = (
            {_EDGES: edges, _LEFT: left}
            | "GroupByIds" >> beam.CoGroupByKey()
            | "VoteAgain" >> beam.FlatMap(_vote_again, choice, once, sketch_input).with_output_types(KeyedSums)
        )
        first = drawn | "Noisy" >> beam.FlatMap(_noisy, sketch_input).with_output_types(KeyedSums)
        return (first, second) | "Rounds" >> beam.Flatten()


def second_round(
    sketch_input: SketchInput,
    choice: KeyChoice | None,
    scale: Scale | None,
    idempotent_noise: IdempotentNoise | None,
    run: Mapping[str, Any],
) -> SecondRound | None:
    """Create the second round of a key selection, if it has two rounds."""
    if choice is None or choice.rounds is None:
        return None
    shards = key_shards_for(scale, sketch_input.spec.cells)
    return SecondRound(sketch_input, choice, shards, idempotent_noise, run)


class InParts(beam.DoFn):
    """Split tables into (shard, bytes of its rows), for each bundle and window.

    Args:
      key_shards: key shard count. `None` uses the shards of the voting ids.
    """

    def __init__(self, key_shards: int | None = None) -> None:
        self._key_shards = key_shards

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[pa.Table]] = defaultdict(list)
        self._earliest: dict[Any, Timestamp] = {}
        self._rows = 0

    def process(
        self, element: pa.Table, window: Any = beam.DoFn.WindowParam, time: Any = beam.DoFn.TimestampParam
    ) -> Iterable[WindowedValue]:
        self._waiting[window].append(element)
        self._earliest[window] = min(time, self._earliest.get(window, time))
        self._rows += len(element)
        return () if self._rows < _MOST_ROWS else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for window, tables in self._waiting.items():
            table = pa.concat_tables(tables)
            order, parts = self._shards(table)
            for part in zip(parts, parts_to_bytes(table, order, parts.values()), strict=True):
                yield WindowedValue(part, self._earliest[window], (window,))
        self.start_bundle()

    def _shards(self, table: pa.Table) -> tuple[np.ndarray, dict[bytes, slice]]:
        """Sort rows by shard, and return the slice of that order for each shard."""
        if self._key_shards is not None:
            return key_shards(table["key"].combine_chunks(), self._key_shards)
        codes, names = dictionary_codes(table[_ASKER])
        order, slices = group_rows(codes, len(names))
        return order, dict(zip(names.to_pylist(), slices, strict=True))


def _sums(votes: pa.Table, name: str, sketch_input: SketchInput) -> Iterator[Any]:
    """Yield keyed sums with votes, at their window's end.

    The end of a window in a period is before the period's end. Time moves forward, and no sum is late.
    """
    for end, sums in vote_rounds.as_sums(votes, name, sketch_input):
        yield sums if end is None else TimestampedValue(sums, Timestamp(micros=end * MILLISECOND))


def _votes(bounded: Bounded) -> pa.Table:
    """Select the votes of an id shard, with the shard as their asker."""
    found = vote_rounds.cast(bounded.side)
    return found.append_column(_ASKER, pa.array([bounded.shard] * len(found), pa.large_binary()))


def _edges(bounded: Bounded) -> Iterator[_PART]:
    """Yield the edges between voters and keys of an id shard."""
    if bounded.edges is not None and len(bounded.edges):
        yield bounded.shard, to_bytes(bounded.edges)


class DrawFirst(DrawsNoise):
    """Draw the noisy votes of a key shard once, as (table with noisy votes, table of askers by key).

    Args:
      choice: the key selection.
      once: whether a key is chosen once for all windows.
    """

    def __init__(self, choice: KeyChoice, once: bool, idempotent_noise: IdempotentNoise | None = None) -> None:
        super().__init__(idempotent_noise)
        self._choice, self._once = choice, once

    def process(
        self,
        element: tuple[bytes, Iterable[bytes]],
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
    ) -> Iterator[_PART]:
        if place_of(window, pane) is None:
            return
        asked = from_payloads(element[1])
        first = vote_rounds.first_votes(asked, once=self._once)
        for_all = self._once or isinstance(window, GlobalWindow)
        end = 0 if for_all else last_time(window).micros // MILLISECOND
        noisy = self.run().with_first_votes(self._choice, first, end, once=self._once)
        yield to_bytes(noisy), to_bytes(asked.drop_columns([VOTES, VOTERS]))


def _left(drawn: _PART, choice: KeyChoice, once: bool) -> Iterator[pa.Table]:
    """Yield the keys in the second round, for each id shard that voted for them."""
    assert choice.rounds is not None
    first, asked = map(from_bytes, drawn)
    yield vote_rounds.those_in(asked, vote_rounds.considered(choice.rounds, first), once=once)


def _noisy(drawn: _PART, sketch_input: SketchInput) -> Iterator[Any]:
    """Yield keyed sums with the noisy votes of a key shard."""
    return _sums(from_bytes(drawn[0]), NOISY, sketch_input)


def _vote_again(
    waiting: tuple[bytes, Mapping[str, Iterable[bytes]]], choice: KeyChoice, once: bool, sketch_input: SketchInput
) -> Iterator[Any]:
    """Yield the votes of an id shard in the second round. Edges arrive in one or more parts."""
    assert choice.rounds is not None
    if not (payloads := [*waiting[1][_LEFT]]):
        return
    left = from_payloads(payloads)
    for edges in waiting[1][_EDGES]:
        votes = vote_rounds.second_votes(choice.rounds, from_bytes(edges), left, once=once)
        yield from _sums(votes, SECOND, sketch_input)
