"""The second round of votes for keys: noisy votes of the first, drawn once, go back to the ids that cast them.

Guarantee: the noisy votes of a key and window are drawn in one step, and final before any step reads them. What steers
the second round and what decides on a key is this one draw. An id votes again for keys alone that it voted for: who
voted for what leaves bounding together with the votes themselves. The input is bounded: a stream keeps no votes.

Votes of the first round travel to shards of keys once more. Back to the shards of ids travels which keys are left, and
a row for each id and key that it voted for waits there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.engine.keys import KeyChoice
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.shard_hash import shard_hash
from beam_dpsketch.records.codec import from_bytes, from_payloads, parts_to_bytes, to_bytes
from beam_dpsketch.records.groups import group_rows
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.sums import vote_rounds
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.sums.sums_of_keys import by_shard
from beam_dpsketch.transforms.steps.whole_runs import NO_RUN
from beam_dpsketch.transforms.windows import check_timestamps, fires_again_late, last_time

COST_OF_ROUNDS = (
    "Keys are chosen in two rounds of votes. They need two more shuffles: of the votes of each shard of ids, and of a "
    'row for each id and key that it votes for. The method "gaussian" of KeySelection needs none, and releases fewer '
    "keys. Unbounded input has one round."
)
"""What `explain` says of them."""
_EDGES, _LEFT = "edges", "left"
_PART: TypeAlias = tuple[bytes, bytes]


class SecondRound(beam.PTransform):
    """Turn `Bounded` into (shard of keys, bytes) of `KeyedSums` without counters.

    These have the noisy votes of the first round, once for each key and window, and the votes of the second. Where the
    bounds cover several windows, each comes at the last millisecond of its own.

    Args:
      sketch_input: what is summed.
      choice: how keys are chosen.
      shards: into how many parts keys go.
      idempotent_noise: makes the noise a function of a secret; `None` takes the entropy of the system.
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
        votes = pcoll | "Votes" >> beam.FlatMap(_votes, shards).with_output_types(tuple[bytes, _PART])
        edges = pcoll | "Edges" >> beam.FlatMap(_edges).with_output_types(_PART)
        draw = DrawFirst(choice, once, self._idempotent_noise)
        drawn = (
            votes
            | "GroupByKeys" >> beam.GroupByKey()
            | "DrawFirst" >> beam.ParDo(draw, **self._run).with_output_types(tuple[bytes, list[_PART]])
            | "MakeFinal" >> beam.Reshuffle().with_output_types(tuple[bytes, list[_PART]])
        )
        left = drawn | "Left" >> beam.FlatMap(_left, choice, once).with_output_types(_PART)
        second = (
            {_EDGES: edges, _LEFT: left}
            | "ToIds" >> beam.CoGroupByKey()
            | "VoteAgain" >> beam.FlatMap(_vote_again, sketch_input, choice, once, shards)
        )
        first = drawn | "Noisy" >> beam.FlatMap(_noisy, sketch_input, shards)
        return (first, second) | "Rounds" >> beam.Flatten()


def _votes(bounded: Bounded, shards: int) -> Iterator[tuple[bytes, tuple[bytes, bytes]]]:
    """Yield the votes of a shard of ids: (shard of keys, (shard of ids, a table))."""
    found = vote_rounds.cast(bounded.side)
    order, parts = group_rows((shard_hash(found["key"]) % np.uint64(shards)).astype(np.int64), shards)
    of_keys = {shard: part for shard, part in enumerate(parts) if part.stop > part.start}
    tables = parts_to_bytes(found, order, [*of_keys.values()])
    for shard, table in zip(of_keys, tables, strict=True):
        yield shard.to_bytes(2, "big"), (bounded.shard, table)


def _edges(bounded: Bounded) -> Iterator[tuple[bytes, bytes]]:
    """Yield who of a shard of ids voted for what."""
    if bounded.edges is not None and len(bounded.edges):
        yield bounded.shard, to_bytes(bounded.edges)


class DrawFirst(DrawsNoise):
    """Turn the votes of a shard of keys into (a table with noisy ones, who asked for which keys), once.

    Args:
      choice: how keys are chosen.
      once: whether a key is chosen once for all windows.
      idempotent_noise: makes the noise a function of a secret; `None` takes the entropy of the system.
    """

    def __init__(self, choice: KeyChoice, once: bool, idempotent_noise: IdempotentNoise | None = None) -> None:
        super().__init__(idempotent_noise)
        self._choice, self._once = choice, once

    def process(
        self,
        element: tuple[bytes, Iterable[tuple[bytes, bytes]]],
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
    ) -> Iterator[tuple[bytes, list[tuple[bytes, bytes]]]]:
        if fires_again_late(pane):
            return
        check_timestamps(window)
        asked = [*element[1]]
        first = vote_rounds.first_votes(from_payloads(table for _, table in asked), once=self._once)
        for_all = self._once or isinstance(window, GlobalWindow)
        end = 0 if for_all else last_time(window).micros // MILLISECOND
        yield to_bytes(self.run().with_first_votes(self._choice, first, end, once=self._once)), asked


def _left(drawn: tuple[bytes, list[_PART]], choice: KeyChoice, once: bool) -> Iterator[_PART]:
    """Yield to each shard of ids which of the keys that it asked for are in the second round."""
    assert choice.rounds is not None
    first, asked = drawn
    left = vote_rounds.considered(choice.rounds, from_bytes(first))
    for ids, table in asked:
        found = vote_rounds.those_in(from_bytes(table), left, once=once)
        if len(found):
            yield ids, to_bytes(found)


def _noisy(drawn: tuple[bytes, list[_PART]], sketch_input: SketchInput, shards: int) -> Iterator[Any]:
    """Yield the noisy votes of a shard of keys."""
    yield from _as_parts(from_bytes(drawn[0]), sketch_input, shards)


def _vote_again(
    waiting: tuple[bytes, Mapping[str, Iterable[bytes]]],
    sketch_input: SketchInput,
    choice: KeyChoice,
    once: bool,
    shards: int,
) -> Iterator[Any]:
    """Yield what the ids of a shard add to the second round; their edges come in one part or several."""
    assert choice.rounds is not None
    if not (payloads := [*waiting[1][_LEFT]]):
        return
    left = from_payloads(payloads)
    for edges in waiting[1][_EDGES]:
        votes = vote_rounds.second_votes(choice.rounds, from_bytes(edges), left, once=once)
        yield from _as_parts(votes, sketch_input, shards)


def _as_parts(table: pa.Table, sketch_input: SketchInput, shards: int) -> Iterator[Any]:
    for end, sums in vote_rounds.as_sums(table, sketch_input):
        for part in by_shard(sums, shards):
            yield part if end is None else TimestampedValue(part, Timestamp(micros=end * MILLISECOND))
