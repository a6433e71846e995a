"""What bounding by a norm costs a record: net and scale on one shard, beside the selection of records."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import NormBound, RecordBounds, TreeSpec
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.items import SketchInput
from benchmarks.measuring import in_turns, ratios, seconds
from benchmarks.people.bounded import Counted
from benchmarks.people.data import People
from benchmarks.table import Bar, Table, spread

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
    title = (
        f"One shard of at most {SHARD:,} records, as transforms bound it; data seed {SEED}. Processor time,\n"
        f"nanoseconds a record: median (range) of {repetitions}, taking turns. The bars are for flat sketches; one\n"
        "of the two must be met."
    )
    table = Table(title, ("", "bound", "  RecordBounds", "NormBound", "ratio"), (50, -8, 24, 22, 20), bar=18)
    for people, spec, bound in data:
        numbers = shard(people, spec)
        for kind, records in (("ids int64", numbers), ("ids 36 bytes", with_text_ids(numbers))):
            norm = NormBound(bound)
            by_records = RecordRule(RecordBounds(bound), RandomPriorities())
            by_norm = NormRule(norm, SketchInput(spec, norm))
            rules = {"records": by_records.select, "norm": by_norm.select}
            runs = {name: partial(seconds, partial(select, records)) for name, select in rules.items()}
            in_turns(runs, 1)  # a warm-up
            times = in_turns(runs, repetitions)
            old, new = ([1e9 * each / len(records) for each in values] for values in times.values())
            of, levels = ratios(new, old), ""
            bars = [
                Bar(statistics.median(new), "<=", MOST_NANOSECONDS),
                Bar(statistics.median(of), "<=", MOST_TIMES, " x"),
            ]
            if isinstance(spec, TreeSpec):
                levels, bars = f", tree of {len(spec.levels)} levels", []
            name = f"{people.title.split(',')[0]}{levels}, {kind}, {len(records):,}"
            table.row(name, f"{bound}", f"  {spread(old)}", spread(new), spread(of, 1), bars=bars, either=True)
