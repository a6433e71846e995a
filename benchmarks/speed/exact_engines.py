"""`release_frame` beside engines that count exactly: ``python -m benchmarks.speed.exact_engines``.

DuckDB and Polars have the same work but for the noise: to count each item, and to count five random records of each
person. Ours also bounds by a norm, which they cannot. One Parquet file; a tenth as many people as records, with ids of
text; one thread. Seconds of the processor from the file to the counts, in a process of its own, without imports.
Variants take turns. Takes about five minutes; needs `pip install -e '.[peers]'`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.command import Command
from benchmarks.measuring import in_turns, ratios
from benchmarks.table import Bar, Table, spread

SEED, ITEMS, BAR = 1, 1600, 1.0
OURS = """
import sys, time
import pyarrow.parquet as pq
from beam_dpsketch import release_frame
units = {{
    "all": "record",
    "five": {{"privacy_id": "person", "records": {{"max_records": 5}}}},
    "norm": {{"privacy_id": "person", "norm": {{"max_norm": 5}}}},
}}
settings = {{"kind": "frequencies", "item": "item", "privacy": {{"rho": 1}}, "privacy_unit": units[{kind!r}]}}
columns = ["item"] if {kind!r} == "all" else ["person", "item"]
start = time.process_time()
release_frame(pq.read_table(sys.argv[1], columns=columns), settings)
print(time.process_time() - start)
"""
DUCKDB = """
import sys, time
import duckdb
rows = {{
    "all": "SELECT item FROM read_parquet(?)",
    "five": "SELECT item FROM (SELECT item, row_number() OVER (PARTITION BY person ORDER BY chance) AS place "
    "FROM (SELECT item, person, random() AS chance FROM read_parquet(?))) WHERE place <= 5",
}}[{kind!r}]
duckdb.sql("SET threads = 1; SET enable_progress_bar = false")
start = time.process_time()
duckdb.execute(f"SELECT item, count(*) FROM ({{rows}}) GROUP BY item", [sys.argv[1]]).fetchall()
print(time.process_time() - start)
"""
POLARS = """
import os, sys, time
os.environ["POLARS_MAX_THREADS"] = "1"
import polars as pl
start = time.process_time()
rows = pl.scan_parquet(sys.argv[1])
if {kind!r} == "five":
    rows = rows.filter(pl.int_range(pl.len()).shuffle().over("person") < 5)
rows.group_by("item").len().collect()
print(time.process_time() - start)
"""
WORK = {
    "count each item": {"ours, without ids": (OURS, "all"), "DuckDB": (DUCKDB, "all"), "Polars": (POLARS, "all")},
    "count five records of each person": {
        "ours, RecordBounds(5)": (OURS, "five"),
        "ours, NormBound(5)": (OURS, "norm"),
        "DuckDB": (DUCKDB, "five"),
        "Polars": (POLARS, "five"),
    },
}


def write(file: Path, records: int) -> None:
    """A file of people and items."""
    random = np.random.default_rng(SEED)
    people = random.integers(0, max(records // 10, 1), records)
    named = pa.array([f"person-{number:08d}" for number in range(max(records // 10, 1))]).take(pa.array(people))
    items = np.minimum(random.zipf(1.2, records), ITEMS)
    pq.write_table(pa.table({"person": named, "item": items}), file, row_group_size=1 << 18)


def seconds(script: str, kind: str, file: Path) -> float:
    """Processor time of the work alone, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", script.format(kind=kind), str(file)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print a line for each engine and work."""
    command = Command(__file__, __doc__, "numpy", "pyarrow", "duckdb", "polars", "beam-dpsketch")
    command.number("--records", 10_000_000, "in the file")
    command.number("--repetitions", 5, "of each")
    given = command.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.parquet"
        write(file, given.records)
        measured = {
            work: in_turns({name: partial(seconds, *each, file) for name, each in variants.items()}, given.repetitions)
            for work, variants in WORK.items()
        }
    with command.writing(
        given, f"{given.records:,} records; data seed {SEED}; {given.repetitions} repetitions: median (range)"
    ):
        for work, times in measured.items():
            table = Table(work, ("", "seconds", "over DuckDB", "over Polars"), (24, 24, 24))
            for name, values in times.items():
                over = [ratios(values, times[engine]) for engine in ("DuckDB", "Polars")]
                is_ours = name.startswith("ours, Rec")
                bars = [Bar(max(map(statistics.median, over)), "<=", BAR)] if is_ours else []
                table.row(name, spread(values, 2), *(spread(each, 2) for each in over), bars=bars)


if __name__ == "__main__":
    main()
