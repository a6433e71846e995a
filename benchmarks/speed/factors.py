"""What a square-root factor costs in time: ``python -m benchmarks.speed.factors``.

Reading: processor time to count a column of whole numbers of 1,621 values, next to listed items and to a tree, through
`release_frame` with one record a unit. Releasing: seconds from exact counters over 2**17 values to a release, in a new
process (first) and again (cached); then to its first median, and to an interval of 100 ranks. Takes about a minute.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    FactorizationSpec,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    PrivacySpec,
    Quantiles,
    Record,
    ReleaseSpec,
    ReleaseTerms,
    TreeSpec,
    release,
    release_frame,
)
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from benchmarks.command import Command
from benchmarks.measuring import in_new_process, in_turns, ratios, seconds
from benchmarks.table import Bar, Table, spread

DELAYS, ROWS = IntegerDomain(-120, 1500), 5_000_000
WIDE, RECORDS = IntegerDomain(0, (1 << 17) - 1), 1_000_000
READING_BAR, FIRST_BAR, CACHED_BAR = 1.5, 2.0, 1.0


def measure_reading(repetitions: int) -> None:
    """Print the times of reading a column."""
    values = np.clip(np.random.default_rng(1).normal(7, 40, ROWS), -120, 1500).astype(np.int64)
    table = pa.table({"delay": values})
    counts: dict[str, Any] = {
        "listed items": ItemFrequencies(ListedItems(range(-120, 1501))),
        "factor": Quantiles(FactorizationSpec(DELAYS)),
        "tree": Quantiles(TreeSpec.for_memory(DELAYS)),
    }
    jobs = {
        name: partial(seconds, partial(release_frame, table, ReleaseSpec(count, PrivacySpec(rho=1), Record(), "delay")))
        for name, count in counts.items()
    }
    in_turns(jobs, 1)
    times = in_turns(jobs, repetitions)
    printed = Table(f"reading {ROWS:,} rows", ("", "milliseconds", "over listed"), (16, -24, -24))
    for name, found in times.items():
        of_listed = ratios(found, times["listed items"])
        bars = [Bar(sorted(of_listed)[len(of_listed) // 2], "<=", READING_BAR)] if name == "factor" else []
        printed.row(name, spread([1000 * each for each in found]), spread(of_listed, 2), bars=bars)


def release_twice() -> list[float]:
    """Return the seconds of two releases over a wide domain, and of first answers."""
    raw = FactorHistogram(FactorizationSpec(WIDE))
    values = np.random.default_rng(2).lognormal(8, 1, RECORDS)
    raw.accumulate(np.minimum(values, WIDE.size - 1).astype(np.int64))
    terms, found, released = ReleaseTerms(PrivacySpec(rho=0.1)), [], []
    for _ in range(2):
        found.append(seconds(lambda: released.append(release(raw, terms)), time.perf_counter))
    first = released[0]
    assert isinstance(first, ReleasedFactorization)
    found.append(seconds(lambda: first.quantile(0.5), time.perf_counter))
    found.append(seconds(lambda: first.rank_interval(range(0, 100_000, 1000)), time.perf_counter))
    return found


def measure_release(repetitions: int) -> None:
    """Print the times of releases over a wide domain, each repetition in a new process."""
    runs = [in_new_process("speed.factors", "--once") for _ in range(repetitions)]
    printed = Table(f"a release of {WIDE.size:,} values", ("", "seconds"), (28, -24))
    names = {"first": FIRST_BAR, "cached": CACHED_BAR, "first median": None, "intervals of 100 ranks": None}
    for (name, bar), times in zip(names.items(), zip(*runs, strict=True), strict=True):
        middle = sorted(times)[len(times) // 2]
        printed.row(name, spread([*times], 2), bars=[] if bar is None else [Bar(middle, "<=", bar)])


def main() -> None:
    command = Command(__file__, __doc__, "numpy", "pyarrow")
    command.number("--repetitions", 5, "repetitions of each")
    command.add_argument("--once", action="store_true", help="print the times of one process, as JSON")
    arguments = command.parse_args()
    if arguments.once:
        print(json.dumps(release_twice()))
        return
    with command.writing(arguments, f"{arguments.repetitions} repetitions; median (range)."):
        measure_reading(arguments.repetitions)
        measure_release(arguments.repetitions)


if __name__ == "__main__":
    main()
