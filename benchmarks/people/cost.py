"""What bounding by a norm costs a record: net and scale on one shard, beside the selection of records."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import NormBound, RecordBounds, TreeSpec
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.priorities import RandomPriorities
from beam_dpsketch.records.bounding.record_rule import RecordRule
from beam_dpsketch.records.bounding.rule import Rule
from beam_dpsketch.records.items import SketchInput
from benchmarks.measuring import ratios, spread
from benchmarks.people.bounded import Counted
from benchmarks.people.data import People

SHARD = 1 << 18
SEED = 1
MOST_NANOSECONDS, MOST_TIMES = 200, 6


def shard(people: People, spec: Any) -> pa.Table:
    """Return a shard's records: whole units, chosen at random, in random order."""
    generator = np.random.default_rng(SEED)
    records = Counted(people, spec).records
    sizes = np.bincount(people.units)
    order = generator.permutation(len(sizes))
    chosen = np.zeros(len(sizes), dtype=bool)
    chosen[order[: np.searchsorted(np.cumsum(sizes[order]), SHARD) + 1]] = True
    rows = np.flatnonzero(chosen[people.units])
    return records.take(pa.array(generator.permutation(rows)[:SHARD])).combine_chunks()


def with_text_ids(records: pa.Table) -> pa.Table:
    """Return the same records with privacy ids of 36 bytes."""
    ids = [b"%036d" % (number * 0x9E3779B97F4A7C15 % 10**36) for number in records["unit"].to_pylist()]
    return records.set_column(0, "unit", pa.array(ids, pa.large_binary()))


def measure(data: Sequence[tuple[People, Any, int]], repetitions: int) -> None:
    """Print one line for each shard and kind of id, of people, spec and max_norm."""
    print(f"\nOne shard of at most {SHARD:,} records, as transforms bound it; data seed {SEED}. Processor time,")
    print(f"nanoseconds a record: median (range) of {repetitions}, taking turns. The bars are for flat sketches; one")
    print("of the two must be met.")
    print(f"{'':<52}{'bound':>6}  {'RecordBounds':<22}{'NormBound':<22}{'ratio':<20}{'bars':<18}met")
    for people, spec, bound in data:
        numbers = shard(people, spec)
        for kind, records in (("ids int64", numbers), ("ids 36 bytes", with_text_ids(numbers))):
            norm, few = NormBound(bound), RecordBounds(bound)
            norm_rule = NormRule(norm, SketchInput(spec, norm))
            rules: dict[str, Rule] = {"old": RecordRule(few, RandomPriorities()), "new": norm_rule}
            times = _times({name: rule.select for name, rule in rules.items()}, records, repetitions)
            of = ratios(times["new"], times["old"])
            met = statistics.median(times["new"]) <= MOST_NANOSECONDS or statistics.median(of) <= MOST_TIMES
            bars, judged = f"<= {MOST_NANOSECONDS}, <= {MOST_TIMES} x", "yes" if met else "NO"
            levels = f", tree of {len(spec.levels)} levels" if isinstance(spec, TreeSpec) else ""
            if levels:
                bars, judged = "-", "-"
            name = f"{people.title.split(',')[0]}{levels}, {kind}, {len(records):,}"
            line = f"{name:<52}{bound:>6}  {spread(times['old']):<22}{spread(times['new']):<22}{spread(of, 1):<20}"
            print(f"{line}{bars:<18}{judged}", flush=True)


def _times(
    selections: dict[str, Callable[[pa.Table], pa.Table]], records: pa.Table, repetitions: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in selections}
    for repetition in range(repetitions + 1):
        for name, select in selections.items():
            start = time.process_time()
            select(records)
            if repetition:  # the first is a warm-up
                times[name].append(1e9 * (time.process_time() - start) / len(records))
    return times
