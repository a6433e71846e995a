"""Steps before the noise, in this process: read, bound, and sum exactly.

Guarantee: the counters equal a pipeline's counters on the same records, bit by bit, in any order and any split.
Bounding by sampling selects records with equal probabilities, and with the secret of a pipeline the same records. All
records of a privacy id are in a single part, and bounds enforced in each part apply to each id.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding.bounded import Bounded, Rule
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.parts import Parts
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of, rule_of_norm
from beam_dpsketch.exact.declared.release_spec import ResolvedRelease
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.reading.groups import Row, add_wrapping, sum_by_pair
from beam_dpsketch.exact.reading.items import NOISY, SECOND
from beam_dpsketch.exact.reading.reading import Columns, read_single, read_table, read_units
from beam_dpsketch.exact.reading.unreadable import Tally
from beam_dpsketch.exact.sums import vote_rounds
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, GatheredSums, KeyedSums
from beam_dpsketch.frames.steps.cores import Cores
from beam_dpsketch.frames.steps.windows import Windows
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.noise.run import Place, Run
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness


class Contributed(NamedTuple):
    """Contributions of a table's records, before they are added up.

    Attributes:
      parts: windows with the values of `Bounded.contributions`, readable once.
      max_norm: the norm, if it is chosen from the data.
      lost: exact clipping histogram of the run, as input for `Run.draw_lost`, if there is one per run.
      voted: bounded records of each period, with its first window, if votes are cast twice.
    """

    parts: Iterable[tuple[Place, Any]]
    max_norm: Fraction | None = None
    lost: np.ndarray | None = None
    voted: Sequence[tuple[Place, Bounded]] = ()


class ExactSums:
    """Exact sums of a table in parts.

    Args:
      resolved: the release.
      plan: the released windows.
      windows: assigns rows to windows.
      parts: one or more batches, possibly empty.
      tally: counts readable values.
      on_read: called after reading all data, before any noise is drawn. May raise.
      secret: source of sampling and the chosen norm. `None` uses system entropy.
    """

    def __init__(
        self,
        resolved: ResolvedRelease,
        plan: WindowPlan,
        windows: Windows,
        parts: Iterable[Any],
        tally: Tally,
        on_read: Callable[[], None],
        secret: KeyedRandomness | None = None,
    ) -> None:
        self._declared, self._terms, self._secret = resolved.declared, resolved.terms, secret
        self._reader, self.sketch_input = self._declared.reader, self._declared.summed(self._terms, plan.rows)
        self._plan, self._windows, self._parts = plan, windows, parts
        self._scaled_units = resolved.calibrated.scaled_units
        self._tally, self._on_read = tally, on_read

    def by_window(self, contributed: Contributed) -> dict[Place, KeyedSums]:
        """Sum each window, for keys that are released or may be selected."""
        declared, sketch_input, sums = self._declared, self.sketch_input, GatheredSums()
        single = {window: SketchAccumulator(sketch_input) for window in self._windows.every}
        for window, each in contributed.parts:
            if declared.is_keyed:
                sums.add(window, each)
            else:
                single[window].add_contributions(each)
        always = [*map(encode, declared.public_keys or ())] if declared.is_keyed else [NO_KEY]
        for window, accumulator in single.items():
            sums.add(window, KeyedSums.of_nothing(sketch_input, always, contributed.max_norm))
            if not declared.is_keyed:
                sums.add(window, accumulator.to_sums())
        return sums.merged()

    def by_pair(self, contributed: Contributed) -> dict[Place, dict[bytes, Row]]:
        """Sum the rows per pair of key and item in each window."""
        nothing = (0,) * (1 + len(self.sketch_input.vote_names))
        counts: dict[Place, dict[bytes, Row]] = {window: defaultdict(lambda: nothing) for window in self._windows.every}
        for window, (pair, row) in contributed.parts:
            counts[window][pair] = add_wrapping(counts[window][pair], row)
        return counts

    def contributed(self) -> Contributed:
        """Read and bound all records, once. Single records are read lazily."""
        if self._declared.privacy_id is None:
            return Contributed(self._read(self._read_units))
        bounded, counter = self._bounded(), self.sketch_input.lost
        lost = None
        if counter is not None and counter.of_run:
            lost = np.sum([each.lost for _, each in bounded if each.lost is not None], axis=0)
        voted = bounded if bounded[0][1].edges is not None else ()
        return Contributed(self._unpacked(bounded), bounded[0][1].max_norm, lost, voted)

    def vote_twice(
        self, contributed: Contributed, choice: KeyChoice | None, run: Run
    ) -> Iterator[tuple[Place, KeyedSums]]:
        """Draw the noisy round 1 votes, and yield sums with these and with the round 2 votes, per window.

        Yields nothing unless votes are cast twice.
        """
        if choice is None or (rounds := choice.rounds) is None:
            return
        once, by_end = self._declared.horizon is not None, self._by_end()
        for window, parts in itertools.groupby(contributed.voted, key=operator.itemgetter(0)):
            bounded = [each for _, each in parts]
            first = vote_rounds.first_votes(
                pa.concat_tables(vote_rounds.cast(each.side) for each in bounded), once=once
            )
            end = 0 if once else self._windows.last_millisecond(window)
            first = run.with_first_votes(choice, first, end, once=once)
            left = vote_rounds.considered(rounds, first)
            second = (vote_rounds.second_votes(rounds, each.edges, left, once=once) for each in bounded)
            found: dict[Place, list[KeyedSums]] = defaultdict(list)
            for name, votes in [(NOISY, first), *((SECOND, each) for each in second)]:
                for own_end, added in vote_rounds.as_sums(votes, name, self.sketch_input):
                    found[window if own_end is None else by_end[own_end]].append(added)
            yield from ((place, KeyedSums.merged(each)) for place, each in found.items())

    def _read_units(self, columns: Columns, _: Place) -> Iterable[Any]:
        """Read the values of `Bounded.contributions` if each record is a unit."""
        reader, sketch_input = self._reader, self.sketch_input
        if not reader.by_item and not reader.per_key:
            return [read_single(columns, sketch_input)]
        records = read_units(reader, columns, sketch_input)
        if reader.by_item:
            return sum_by_pair(records["key"], records["weight"].to_numpy()[:, np.newaxis])
        return [KeyedSums.of_single(sketch_input, records)]

    def _by_end(self) -> dict[int, Place]:
        return {self._windows.last_millisecond(window): window for window in self._windows.every}

    def _unpacked(self, bounded: list[tuple[Place, Bounded]]) -> Iterator[tuple[Place, Any]]:
        by_end = self._by_end()
        for first, part in bounded:
            each_window: Iterable[tuple[Place, Bounded]] = [(first, part)]
            if self._plan.periods is not None:
                each_window = ((by_end[end], each) for end, each in part.by_window())
            for window, each in each_window:
                for found in each.contributions(self._reader, self.sketch_input):
                    yield window, found

    def _bounded(self) -> list[tuple[Place, Bounded]]:
        """Bound all records, in parts by period and privacy id, scaled by a norm, if any.

        Each part is paired with the first window of its period.
        """
        sketch_input, terms, secret, periods = self.sketch_input, self._terms, self._secret, self._plan.periods
        priorities = RandomPriorities() if secret is None else KeyedPriorities(lambda: secret)
        rule = rule_of(sketch_input, priorities, None if periods is None else self._plan.max_windows)

        def read(columns: Columns, window: Place) -> list[pa.Table]:
            table = read_table(self._reader, columns, rule.bounds, sketch_input)
            if periods is not None:
                ends = np.full(len(table), self._windows.last_millisecond(window), dtype=np.int64)
                table = table.append_column("window", pa.array(ends))
            return [table]

        with Cores() as cores:
            gathered = self._gathered(rule, self._read(read), cores)
            if terms.norm is None:
                return [(window, each) for window, parts in gathered for each in cores.in_order(rule.bound, parts)]
            self._on_read()
            assert isinstance(rule, NormRule)
            every = (part for _, parts in gathered for part in parts)
            lengths = np.sum([*cores.in_order(rule.length_histogram, every)], axis=0)
            units = self._scaled_units
            assert units is not None
            norm = Run(secret).choose_norm(lengths, sketch_input.spec, terms, scaled_units=units)
            scaling = rule_of_norm(sketch_input, terms, norm)
            bounded = ((window, each) for window, parts in gathered for each in cores.in_order(scaling.bound, parts))
            return [(window, each._replace(max_norm=norm)) for window, each in bounded]

    def _gathered(
        self, rule: Rule, tables: Iterator[tuple[Place, pa.Table]], cores: Cores
    ) -> list[tuple[Place, Parts]]:
        """Collect the records of each period, with its first window."""
        firsts: dict[Any, Place] = {}
        for window in self._windows.every:
            firsts.setdefault(self._windows.period(window), window)
        gathered: dict[Any, Parts] = defaultdict(lambda: Parts(rule, run=cores.run_behind))
        for window, table in tables:
            gathered[self._windows.period(window)].add(table)
        cores.wait()
        return [(firsts[period], parts) for period, parts in gathered.items()]

    def _read(self, read: Callable[[Columns, Place], Iterable[Any]]) -> Iterator[tuple[Place, Any]]:
        """Yield the results of reading each window in all parts, given a function for columns."""
        for part in self._parts:
            columns = self._reader.read_batch(part, self.sketch_input, self._tally)
            for window, rows in self._windows.rows(part, self._tally):
                yield from ((window, each) for each in read(columns if rows is None else columns.take(rows), window))
