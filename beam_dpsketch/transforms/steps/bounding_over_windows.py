"""Bounding over several windows: select max_windows windows of each privacy id, among the windows in which it has data.

Guarantee: in each period a privacy id counts in at most max_windows windows, and within the bounds in each of them. On
bounded input they are chosen uniformly at random, in the shuffle that also bounds the records. A norm on bounded input
covers all windows of a period, and no window is dropped.

On unbounded input `FirstWindows` passes the elements of an id in the first max_windows windows of each period in which
it has data. The choice of windows depends on that id's elements and their order alone. The state of an id is its chosen
windows in a period. Beam drops the state when the period ends, so in the next period the id counts again. A late
element still uses up one of these windows, although it is dropped. Elements without a usable privacy id are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import TimestampCombiner, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.columns import plain_column
from beam_dpsketch.encodings import encode, encode_all
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.domains.timestamps import MILLISECOND
from beam_dpsketch.exact.reading.groups import Row, group_rows
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import check_values
from beam_dpsketch.exact.sums import vote_rounds
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.noise.norms import choice_table
from beam_dpsketch.transforms.steps.bounding import (
    BoundShard,
    ShardRecords,
    ShardWindowedRecords,
    group_by_shard,
    shards_for,
    unpack,
)
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, choose_priorities
from beam_dpsketch.transforms.steps.second_round import second_round
from beam_dpsketch.transforms.steps.stream_state import keep_keys_together
from beam_dpsketch.transforms.steps.whole_runs import NO_RUN, BoundByNorm, ChooseNorm, LostByRun
from beam_dpsketch.transforms.steps.windows import RestoreWindows, last_time, periods_as_windows


class Contributions(NamedTuple):
    """Elements after bounding.

    Attributes:
      values: values of `Bounded.contributions`, or unbounded elements of single records, in their windows.
      max_norm: the norm in units of 1/16 record, if it is chosen from the data, or `None`.
      lost: exact clipping histogram of the run, or `None` if each release has its own.
    """

    values: beam.PCollection
    max_norm: beam.PCollection | None = None
    lost: beam.PCollection | None = None


def bound_over_windows(
    elements: beam.PCollection,
    declared: ReleaseSpec,
    sketch_input: SketchInput,
    plan: WindowPlan,
    idempotent_noise: IdempotentNoise | None,
    run: Mapping[str, Any] = NO_RUN,
    choice: KeyChoice | None = None,
) -> Contributions:
    """Bound the records of each privacy id, in all windows covered by its bounds.

    `run` is a side input for steps that draw noise. `choice` is the key selection, if keys are chosen from the data.
    """
    reader, periods = declared.reader, None if plan.periods is None else periods_as_windows(plan.periods)
    if periods is not None and not elements.is_bounded:
        if idempotent_noise is not None:
            raise WindowingError(
                "",
                "with_idempotent_noise does not support max_windows or a Horizon on a stream: a replay may keep other "
                "windows of a privacy id. Use bounded input. $RecordBounds without max_windows works on a stream, but "
                "protects each privacy id only within one window",
                "E422",
            )
        elements = elements | "FirstWindows" >> FirstWindows(reader, plan.max_windows, periods)
        periods = None
    max_windows = None if periods is None else plan.max_windows
    rule = rule_of(sketch_input, choose_priorities(idempotent_noise), max_windows)
    if periods is None:
        grouped = group_by_shard(elements, reader, rule, sketch_input, plan.scale)
    else:
        shard = ShardWindowedRecords(reader, rule, sketch_input, True, shards=shards_for(plan.scale))
        grouped = _group_by_period(elements, shard, periods)
    if plan.terms.norm is not None:
        choice_table(plan.terms)  # raises if no norm can be chosen
        units = declared.resolved.under(plan.terms).calibrated.scaled_units
        assert units is not None
        choose = ChooseNorm(sketch_input, plan.terms, idempotent_noise, run, scaled_units=units)
        norm = grouped | "ChooseNorm" >> choose
        bound: beam.PTransform = beam.ParDo(BoundByNorm(sketch_input, plan.terms), beam.pvalue.AsSingleton(norm))
    else:
        norm, bound = None, beam.ParDo(BoundShard(rule))
    bounded, lost = grouped | "Bound" >> bound, None
    if (counter := sketch_input.lost) is not None and counter.of_run:
        lost = bounded | "LostByRun" >> LostByRun(counter.size)
    vote_twice = second_round(sketch_input, choice, plan.scale, idempotent_noise, run)
    votes = None if vote_twice is None else bounded | "VoteTwice" >> vote_twice
    if periods is not None:
        own_windows = RestoreWindows(elements.windowing)
        votes = None if votes is None else votes | "WindowsOfVotes" >> own_windows
        bounded = bounded | "SplitByWindow" >> beam.FlatMap(_by_window) | "OwnWindows" >> own_windows
    values = unpack(bounded, reader, sketch_input)
    if votes is not None:
        rows = beam.FlatMap(vote_rounds.as_rows).with_output_types(tuple[bytes, Row])
        votes = votes | "VotesOfPairs" >> rows if reader.by_item else votes
        values = (values, votes) | "WithVotes" >> beam.Flatten()
    return Contributions(values, norm, lost)


def _group_by_period(elements: beam.PCollection, shard: ShardRecords, periods: WindowFn) -> beam.PCollection:
    """Group (shard, records as bytes). A shard contains all records of a privacy id in a period."""
    # Outputs carry the earliest timestamp of their shard, and later steps only move time forward, so no output is late.
    into_periods = beam.WindowInto(periods, timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    return (
        elements
        | "Shard" >> beam.ParDo(shard).with_output_types(tuple[bytes, bytes])
        | "Periods" >> into_periods
        | "GroupByShard" >> beam.GroupByKey()
    )


def _by_window(bounded: Bounded) -> Iterator[TimestampedValue]:
    """Yield clipped records per window, at its last millisecond."""
    for end, kept in bounded.by_window():
        yield TimestampedValue(kept, Timestamp(micros=end * MILLISECOND))


class FirstWindows(beam.PTransform):
    """Pass elements in the first `max_windows` windows of each id and period, stamped with their window's end."""

    def __init__(self, reader: RecordReader, max_windows: int, periods: WindowFn) -> None:
        super().__init__()
        self._reader, self._max_windows, self._periods = reader, max_windows, periods

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        keep_keys_together(pcoll.pipeline)
        by_id = beam.typehints.Tuple[bytes, pcoll.element_type]
        return (
            pcoll
            | "ById" >> beam.ParDo(_ById(self._reader)).with_output_types(by_id)
            | "Periods" >> beam.WindowInto(self._periods)
            | "Take" >> beam.ParDo(_TakeFirst(self._max_windows)).with_output_types(pcoll.element_type)
            | "OwnWindows" >> RestoreWindows(pcoll.windowing)
        )


class _ById(beam.DoFn):
    """Pair elements with their privacy id, at the last time of their window, and split batches by privacy id."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader

    def start_bundle(self) -> None:
        self._tally = self._reader.tally(None, is_sampled=True)

    def finish_bundle(self) -> None:
        self._tally.log()

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        time = last_time(window)
        split = self._split_batch if self._reader.is_batch_type(type(element)) else self._pair_record
        for pair in split(element):
            yield WindowedValue(pair, time, (window,))

    def _pair_record(self, element: Any) -> Iterator[tuple[bytes, Any]]:
        privacy_id = self._reader.read_privacy_id(element)
        try:
            encoded = encode(privacy_id)
        except (TypeError, ValueError):
            self._tally.note("privacy_id", [privacy_id], [privacy_id])
            check_values("privacy_id", [privacy_id])
            return
        self._tally.use("privacy_id")
        yield encoded, element

    def _split_batch(self, batch: Any) -> Iterator[tuple[bytes, Any]]:
        ids = encode_all(self._reader.read_batch_privacy_ids(batch, self._tally)).dictionary_encode()
        codes = ids.indices.fill_null(len(ids.dictionary)).to_numpy()
        order, groups = group_rows(codes, len(ids.dictionary))
        take = self._plain(batch).take if isinstance(batch, (pa.Table, pa.RecordBatch)) else batch.iloc.__getitem__
        for privacy_id, group in zip(ids.dictionary.to_pylist(), groups, strict=True):
            yield privacy_id, take(order[group])

    def _plain(self, batch: Any) -> Any:
        """Select the columns that are read, in a form whose rows Arrow can select."""
        names = batch.schema.names
        read = [place for place, name in enumerate(names) if name in self._reader.selectors.columns.values()]
        columns = [plain_column(batch.column(place)) for place in read]
        return type(batch).from_arrays(columns, names=[names[place] for place in read])


_WINDOWS_TAKEN = beam.DoFn.StateParam(BagStateSpec("windows taken", VarIntCoder()))


class _TakeFirst(beam.DoFn):
    """Pass elements of (privacy id, element) in the first windows of the id."""

    def __init__(self, max_windows: int) -> None:
        self._max_windows = max_windows

    def process(
        self, element: tuple[bytes, Any], timestamp: Any = beam.DoFn.TimestampParam, taken: Any = _WINDOWS_TAKEN
    ) -> Iterator[Any]:
        end = timestamp.micros // MILLISECOND
        windows = list(taken.read())
        if end not in windows:
            if len(windows) >= self._max_windows:
                return
            taken.add(end)
        yield element[1]
