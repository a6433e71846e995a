"""What the extra `fast` is worth, in whole calls of `release_frame`: ``python -m benchmarks.speed.compiled``.

Each table is released by numpy and by compiled code, which take turns in one process. Times are processor time,
nanoseconds a row, without starting compiled code, which is printed before. Columns are 32-bit numbers: 8 % or 28 %
of a batch differ, or nearly all. Ids have 36 characters and ten records each.
Takes about five minutes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import release_frame
from beam_dpsketch.compiled import loading
from benchmarks import sources
from benchmarks.command import Command
from benchmarks.measuring import in_turns, ratios, seconds
from benchmarks.table import Bar, Table, spread

SEED, BATCH = 1, 65_536
SKEWS = {"8 % distinct": 1.35, "28 % distinct": 1.1, "uniform": 0.0}
SKETCH = {"kind": "frequencies", "spec": {"depth": 5, "width": 4096}}
TREE = {"kind": "quantiles", "domain": "ipv4"}
TWICE = 2.0


def column(skew: float, rows: int) -> np.ndarray:
    """Numbers of 32 bits: uniform, or a million of them with Zipf's weights."""
    generator = np.random.default_rng(SEED)
    if not skew:
        return generator.integers(0, 1 << 32, rows, dtype=np.uint32)
    sums = np.cumsum(1 / np.arange(1, (1 << 20) + 1) ** skew)
    numbers = generator.integers(0, 1 << 32, len(sums), dtype=np.uint32)
    return numbers[np.searchsorted(sums, generator.random(rows) * sums[-1])]


def release(table: pa.Table, settings: dict[str, Any]) -> None:
    """A release of a table that comes in batches."""
    batches = table.to_batches(max_chunksize=BATCH)
    release_frame(pa.RecordBatchReader.from_batches(table.schema, batches), {"privacy": {"rho": 1}, **settings})


def cases(rows: int, people: int) -> dict[str, tuple[int, Callable[[], None]]]:
    """What is released, with how many rows."""
    found: dict[str, tuple[int, Callable[[], None]]] = {}
    for name, skew in SKEWS.items():
        table = pa.table({"value": column(skew, rows)})
        for count in (SKETCH, TREE):
            settings = {**count, "item": "value", "unit": "record"}
            found[f"{count['kind']}, {name}"] = rows, partial(release, table, settings)
    ids, pages = sources.columns(10 * people, 10, SEED)
    table = pa.table({"user": ids, "page": pages})
    found["frequencies, text"] = len(table), partial(release, table, {**SKETCH, "item": "page", "unit": "record"})
    for unit in ({"records": {"max_per_key": 5}}, {"norm": {"max_norm": 5}}):
        settings = {**SKETCH, "item": "page", "unit": {"privacy_id": "user", **unit}}
        found[f"frequencies, text ids, {next(iter(unit))}"] = len(table), partial(release, table, settings)
    return found


def nanoseconds(wanted: str, rows: int, run: Callable[[], None]) -> float:
    """Processor time of a row, with compiled code or without."""
    loading.use(KERNELS[wanted])
    return 1e9 * seconds(run) / rows


KERNELS = {wanted: loading.Kernels(wanted) for wanted in ("0", "1")}


def main() -> None:
    """Print one line per table."""
    command = Command(__file__, __doc__, "numba", "numpy", "pyarrow", "beam-dpsketch")
    command.number("--repetitions", 5, "of each release")
    command.number("--rows", 2_000_000, "of each column of numbers")
    command.number("--people", 400_000, "ids, of ten records each")
    given = command.parse_args()
    started = time.process_time()
    if KERNELS["1"].find(1) is None:
        raise SystemExit("numba is not installed: pip install -e '.[fast]'")
    started = time.process_time() - started
    with command.writing(
        given,
        f"Data seed {SEED}; batches of {BATCH:,} rows; {given.repetitions} repetitions: median (range).",
        f"Starting compiled code took {started:.1f} s here. At least twice as fast is the bar.",
    ):
        table = Table(None, ("", "numpy, ns a row", "compiled", "  times faster"), (40, 24, 24, 24))
        for name, (rows, run) in cases(given.rows, given.people).items():
            variants = {wanted: partial(nanoseconds, wanted, rows, run) for wanted in KERNELS}
            in_turns(variants, 1)
            times = in_turns(variants, given.repetitions)
            faster = ratios(times["0"], times["1"])
            bars = [Bar(statistics.median(faster), ">=", TWICE)]
            table.row(name, spread(times["0"], 1), spread(times["1"], 1), f"  {spread(faster, 2)}", bars=bars)


if __name__ == "__main__":
    main()
