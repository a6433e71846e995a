"""Compare the cost of three metrics in one release with that of one metric: ``python -m benchmarks.speed.metrics``.

The data are the flights of 2013 that arrived. The three metrics are the arrival delays as quantiles, the same delays as
sums, and the destinations. Destinations are counted in a sketch or in a list: with a sketch, keys are bytes, and with a
list they are one number. Each repetition gives two ratios. The first compares with a job that has the quantiles alone,
and the bar applies to it. The second compares with three jobs that have one metric each.
  frames     processor time of `release_frame`
  pipelines  processor time of a pipeline that reads tables of 20,000 rows
It takes about 3 minutes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from beam_dpsketch import (
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    Statistics,
    release_frame,
)
from beam_dpsketch.exact.declared.count import Count
from beam_dpsketch.transforms.private_release import PrivateRelease
from benchmarks import sources
from benchmarks.command import Command
from benchmarks.measuring import in_turns, ratios, seconds
from benchmarks.table import Bar, Table, spread
from pipelines import flights

BAR, ROWS = 1.3, 20_000
DELAYS = IntegerDomain(-60, 240)
UNITS: dict[str, Any] = {
    "Record": Record(),
    "RecordBounds(20)": PrivacyId("tailnum", RecordBounds(20)),
    "NormBound(20)": PrivacyId("tailnum", NormBound(20)),
}
ONE: dict[str, tuple[Count, str]] = {
    "quantiles": (Quantiles(DELAYS), "arr_delay"),
    "sums": (Statistics(DELAYS), "arr_delay"),
    "sketch": (ItemFrequencies(SketchSpec()), "dest"),
}


def declared(table: pa.Table, privacy_unit: Any) -> dict[str, ReleaseSpec]:
    """Return the releases of each metric alone, then of three together."""
    privacy = PrivacySpec(rho=1)
    listed = ItemFrequencies(ListedItems(sorted(set(table["dest"].to_pylist()))))
    alone = {**ONE, "listed": (listed, "dest")}
    found = {name: ReleaseSpec(count, privacy, privacy_unit, item) for name, (count, item) in alone.items()}
    for name in ("sketch", "listed"):
        three = {each: Metric(*alone[each]) for each in ("quantiles", "sums", name)}
        found[f"three, {name}"] = ReleaseSpec(Metrics(three), privacy, privacy_unit)
    return found


def of_frame(table: pa.Table, release: ReleaseSpec) -> None:
    """Release the table."""
    release_frame(table, release)


def of_pipeline(table: pa.Table, release: ReleaseSpec) -> None:
    """Release what a pipeline reads of it."""
    with sources.pipeline() as pipeline:
        read = pipeline | sources.Elements("flights", -(-len(table) // ROWS), pa.Table)
        read | PrivateRelease.of(release)


def measure(words: str, run: Callable[[pa.Table, ReleaseSpec], None], table: pa.Table, repetitions: int) -> None:
    """Print the times of all jobs."""
    heads = ("", "milliseconds", "over one job", "over three jobs")
    printed = Table(f"{words}, {len(table):,} rows", heads, (36, -24, -22, -22))
    for name, privacy_unit in UNITS.items():
        jobs = {
            each: partial(seconds, partial(run, table, release))
            for each, release in declared(table, privacy_unit).items()
        }
        in_turns(jobs, 1)
        times = in_turns(jobs, repetitions)
        for each, found in times.items():
            cells, bars = [f"{name}, {each}", spread([1000 * time for time in found])], []
            of_one = ratios(found, times["quantiles"])
            cells.append(spread(of_one, 2))
            if each.startswith("three"):
                three = map(sum, zip(*(times[one] for one in ("quantiles", "sums", each.split()[-1])), strict=True))
                cells.append(spread(ratios(found, [*three]), 2))
                bars = [Bar(sorted(of_one)[len(of_one) // 2], "<=", BAR)]
            printed.row(*cells, bars=bars)


def main() -> None:
    command = Command(__file__, __doc__, "apache-beam", "pyarrow", "numpy")
    command.number("--repetitions", 9, "repetitions, in each of which all jobs run once")
    arguments = command.parse_args()
    warnings.simplefilter("ignore")
    columns = flights.read_table(flights.data_file("flights.csv.zip")).select(["dest", "tailnum", "arr_delay"])
    table = columns.filter(columns["arr_delay"].is_valid()).combine_chunks()
    sources.keep("flights", [*sources.tables({name: table[name] for name in table.column_names}, ROWS)])
    with command.writing(arguments, f"{arguments.repetitions} repetitions; median (range); tables of {ROWS:,} rows."):
        measure("frames", of_frame, table, arguments.repetitions)
        measure("pipelines", of_pipeline, table, arguments.repetitions)


if __name__ == "__main__":
    main()
