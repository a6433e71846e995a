"""Bounding over several windows: keep max_windows windows of each privacy id, among those in which it has data.

Guarantee: in each period a privacy id counts in at most max_windows windows, and in each of them within the bounds. On
bounded input they are chosen uniformly at random, in the shuffle that bounds the records too. There, a norm covers all
windows of a period, and there is nothing to choose. For unbounded input see
`beam_dpsketch.transforms.steps.first_windows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import TimestampCombiner, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.engine.keys import KeyChoice
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.window_rule import rule_over_windows
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.windows import WindowPlan
from beam_dpsketch.transforms.steps.bounding import (
    BoundShard,
    ShardRecords,
    ShardWindowedRecords,
    group_by_shard,
    shards_for,
    unpack,
)
from beam_dpsketch.transforms.steps.first_windows import FirstWindows
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, choose_priorities
from beam_dpsketch.transforms.steps.sums.second_round import second_round
from beam_dpsketch.transforms.steps.whole_runs import NO_RUN, BoundByNorm, ChooseNorm, LostByRun
from beam_dpsketch.transforms.steps.windows import RestoreWindows, periods_as_windows


class Contributions(NamedTuple):
    """What bounding made of elements.

    Attributes:
      values: `WeightedItems` in their windows, or (pair, row) by item, or per key what is bounded, not added up.
      max_norm: the norm in sixteenths of a record, if the data chose it; else `None`.
      lost: what the whole run lost, exactly, if one histogram tells it; else `None`.
      rounds: what two rounds of votes add to the sums of keys, as `SecondRound` returns it; else `None`.
    """

    values: beam.PCollection
    max_norm: beam.PCollection | None = None
    lost: beam.PCollection | None = None
    rounds: beam.PCollection | None = None


def bound_over_windows(
    elements: beam.PCollection,
    declared: ReleaseSpec,
    plan: WindowPlan,
    idempotent_noise: IdempotentNoise | None,
    run: Mapping[str, Any] = NO_RUN,
    choice: KeyChoice | None = None,
) -> Contributions:
    """Bound the records of each privacy id, in all windows that its bounds cover.

    `run` is a side input of steps that draw noise, and `choice` says how keys are chosen, if the data choose them.
    """
    reader, sketch_input = declared.reader, declared.summed(plan.terms, plan.rows)
    periods = None if plan.periods is None else periods_as_windows(plan.periods)
    if periods is not None and not elements.is_bounded:
        if idempotent_noise is not None:
            raise WindowingError(
                "",
                "with_idempotent_noise with max_windows or a Horizon needs bounded input: on a stream the first "
                "windows of an id count, and a replay may see them in another order. $RecordBounds without max_windows "
                "can be replayed, but protect each id within each window alone, and not over its windows",
                "E422",
            )
        elements = elements | "FirstWindows" >> FirstWindows(reader, plan.max_windows, periods)
        periods = None
    max_windows = None if periods is None else plan.max_windows
    rule = rule_over_windows(sketch_input, choose_priorities(idempotent_noise), max_windows)
    if periods is None:
        grouped = group_by_shard(elements, reader, rule, sketch_input, plan.scale)
    else:
        shard = ShardWindowedRecords(reader, rule, sketch_input, True, shards=shards_for(plan.scale))
        grouped = _group_by_period(elements, shard, periods)
    if (choosing := plan.terms.choosing) is not None:
        units = declared.resolved.under(plan.terms).calibrated.scaled_units
        assert units is not None
        choose = ChooseNorm(sketch_input, choosing, idempotent_noise, run, scaled_units=units)
        norm = grouped | "ChooseNorm" >> choose
        bound: beam.PTransform = beam.ParDo(BoundByNorm(sketch_input, choosing), beam.pvalue.AsSingleton(norm))
    else:
        norm, bound = None, beam.ParDo(BoundShard(rule))
    bounded, lost = grouped | "Bound" >> bound, None
    if (counter := sketch_input.lost) is not None and counter.of_run:
        lost = bounded | "LostByRun" >> LostByRun(counter.size)
    vote_twice = second_round(sketch_input, choice, plan.scale, idempotent_noise, run)
    rounds = None if vote_twice is None else bounded | "VoteTwice" >> vote_twice
    if periods is not None:
        own_windows = RestoreWindows(elements.windowing)
        rounds = None if rounds is None else rounds | "WindowsOfVotes" >> own_windows
        bounded = bounded | "SplitByWindow" >> beam.FlatMap(_by_window) | "OwnWindows" >> own_windows
    if not reader.per_key or reader.by_item:
        bounded = unpack(bounded, reader, sketch_input)
    return Contributions(bounded, norm, lost, rounds)


def _group_by_period(elements: beam.PCollection, shard: ShardRecords, periods: WindowFn) -> beam.PCollection:
    """Return (shard, records as bytes), grouped; all records of a privacy id in a period are in one shard."""
    # Outputs carry the earliest timestamp of their shard; later steps only move time forward, so nothing is late.
    into_periods = beam.WindowInto(periods, timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    return (
        elements
        | "Shard" >> beam.ParDo(shard).with_output_types(tuple[bytes, bytes])
        | "Periods" >> into_periods
        | "GroupByShard" >> beam.GroupByKey()
    )


def _by_window(bounded: Bounded) -> Iterator[TimestampedValue]:
    """Yield what is kept in each window, at its last millisecond."""
    for end, kept in bounded.by_window():
        yield TimestampedValue(kept, Timestamp(micros=end * MILLISECOND))
