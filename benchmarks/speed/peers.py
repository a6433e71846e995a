"""Other programs at the same work: ``python -m benchmarks.speed.peers``.

Count each item, or count five random records of each person, in a Parquet file of text with ten records a person.
DuckDB, Polars, DataSketches and Beam draw no noise. PipelineDP does, for public items. Ours also bounds by a norm,
which they cannot. Programs that read tables have one thread, and pipelines FnApiRunner.

Each run is a process of its own, after a small run, and includes the start of a pipeline. Variants take turns. The
ratio is the time of the processor over ours in the first line.

Takes about ten minutes; needs `pip install -e '.[peers]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.command import Command
from benchmarks.measuring import in_new_process, in_turns, ratios
from benchmarks.table import Bar, Table, spread

SEED, ITEMS, KEPT, BAR = 1, 1600, 5, 1.4
FIVE, NORM = {"records": {"max_records": KEPT}}, {"norm": {"max_norm": KEPT}}
NAMES = [f"item-{number:04d}" for number in range(1, ITEMS + 1)]
SQL = "SELECT item, count(*) FROM ({}) GROUP BY item"
READ = "read_parquet('{file}')"
LEAST = f"SELECT unnest(arg_min(item, random(), {KEPT})) AS item FROM {READ} GROUP BY person"
WINDOW = (
    "SELECT item FROM (SELECT item, row_number() OVER (PARTITION BY person ORDER BY chance) AS place "
    f"FROM (SELECT item, person, random() AS chance FROM {READ})) WHERE place <= {KEPT}"
)
Run = Callable[[str], object]


def settings(bounds: dict[str, Any] | None) -> dict[str, Any]:
    """Settings without privacy ids, or with these bounds."""
    unit = "record" if bounds is None else {"privacy_id": "person", **bounds}
    return {"kind": "frequencies", "item": "item", "privacy": {"rho": 1}, "privacy_unit": unit}


def files(bounds: dict[str, Any] | None) -> Run:
    """Release a file as `dpsketch run` does."""
    from beam_dpsketch.config import read_release
    from beam_dpsketch.frames.releasing import release_table
    from beam_dpsketch.frames.steps.files import open_files

    pa.set_cpu_count(1)
    declared = read_release(settings(bounds))
    return lambda file: release_table(open_files([file], declared, lambda _: None, print).table, declared)


def frame() -> Run:
    """Release a table of plain text, without ids."""
    from beam_dpsketch import release_frame

    pa.set_cpu_count(1)
    return lambda file: release_frame(pq.read_table(file, columns=["item"]), settings(None))


def duckdb(rows: str) -> Run:
    """Count the items that a query selects."""
    import duckdb

    duckdb.sql("SET threads = 1; SET enable_progress_bar = false")
    return lambda file: duckdb.sql(SQL.format(rows.format(file=file))).fetchall()


def polars(bounded: bool) -> Run:
    """Count items, of all rows or of five of each person."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    def run(file: str) -> object:
        rows = pl.scan_parquet(file)
        if bounded:
            rows = rows.filter(pl.int_range(pl.len()).shuffle().over("person") < KEPT)
        return rows.group_by("item").len().collect()

    return run


def datasketches(kind: str, *sizes: int) -> Run:
    """Update a sketch item by item."""
    import datasketches

    def run(file: str) -> None:
        sketch = getattr(datasketches, kind)(*sizes)
        for item in pq.read_table(file, columns=["item"])["item"].to_pylist():
            sketch.update(item)

    return run


def pipeline(count: Callable[[Any], object], source: str = "ReadFromParquet") -> Run:
    """Count in a pipeline."""
    from apache_beam.io import parquetio

    from benchmarks import sources

    def run(file: str) -> None:
        with sources.pipeline() as started:
            count(started | getattr(parquetio, source)(file, columns=["person", "item"]))

    return run


def ours(bounds: dict[str, Any] | None, rows: Any) -> object:
    from beam_dpsketch import PrivacySpec, SketchSpec
    from beam_dpsketch.config import read_privacy_unit
    from beam_dpsketch.transforms import PrivateFrequencies

    unit = read_privacy_unit(settings(bounds)["privacy_unit"])
    return rows | PrivateFrequencies(SketchSpec(), PrivacySpec(rho=1), item="item", privacy_unit=unit)


def beam_count(rows: Any) -> object:
    import apache_beam as beam

    return rows | beam.Map(lambda row: row["item"]) | beam.combiners.Count.PerElement()


def beam_sample(rows: Any) -> object:
    import apache_beam as beam

    kept = rows | beam.Map(lambda row: (row["person"], row["item"])) | beam.combiners.Sample.FixedSizePerKey(KEPT)
    return kept | beam.FlatMap(lambda pair: pair[1]) | beam.combiners.Count.PerElement()


def pipeline_dp(rows: Any) -> None:
    import pipeline_dp

    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=7.77, total_delta=1e-6)  # what rho = 1 implies
    parameters = pipeline_dp.AggregateParams(metrics=[pipeline_dp.Metrics.COUNT], max_contributions=KEPT)
    extractors = pipeline_dp.DataExtractors(
        partition_extractor=lambda row: row["item"],
        privacy_id_extractor=lambda row: row["person"],
        value_extractor=lambda row: 0,
    )
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.BeamBackend())
    _ = engine.aggregate(rows, parameters, extractors, public_partitions=NAMES)
    accountant.compute_budgets()


ELEMENTS = 0.04
"""Share of the records for programs that read them one by one, which are slow."""
COUNT, SAMPLE = "Count each item", "Count five random records of each person"
WORK: dict[str, dict[str, dict[str, tuple[float, Callable[[], Run]]]]] = {
    "tables": {
        COUNT: {
            "ours, without ids": (1, partial(files, None)),
            "ours, a table of plain text": (1, frame),
            "DuckDB": (1, partial(duckdb, f"SELECT item FROM {READ}")),
            "Polars": (1, partial(polars, False)),
            "DataSketches, frequent items": (ELEMENTS, partial(datasketches, "frequent_strings_sketch", 12)),
            "DataSketches, Count-Min": (ELEMENTS, partial(datasketches, "count_min_sketch", 5, 4096)),
        },
        SAMPLE: {
            "ours, RecordBounds(5)": (1, partial(files, FIVE)),
            "ours, NormBound(5)": (1, partial(files, NORM)),
            "DuckDB, arg_min": (1, partial(duckdb, LEAST)),
            "DuckDB, window": (1, partial(duckdb, WINDOW)),
            "Polars": (1, partial(polars, True)),
        },
    },
    "pipelines": {
        COUNT: {
            "ours, elements": (ELEMENTS, partial(pipeline, partial(ours, None))),
            "ours, batches": (0.2, partial(pipeline, partial(ours, None), "ReadFromParquetBatched")),
            "Count.PerElement": (ELEMENTS, partial(pipeline, beam_count)),
        },
        SAMPLE: {
            "ours, elements": (ELEMENTS, partial(pipeline, partial(ours, FIVE))),
            "ours, batches": (0.2, partial(pipeline, partial(ours, FIVE), "ReadFromParquetBatched")),
            "Sample.FixedSizePerKey": (ELEMENTS, partial(pipeline, beam_sample)),
            "PipelineDP": (ELEMENTS / 10, partial(pipeline, pipeline_dp)),
        },
    },
}
"""Programs of each part and work, with their share of the records."""


def write(file: Path, records: int) -> None:
    """A file of people and items."""
    random = np.random.default_rng(SEED)
    people = [f"person-{number:08d}" for number in range(max(records // 10, 1))]
    persons = pa.array(people).take(pa.array(random.integers(0, len(people), records)))
    items = pa.array(NAMES).take(pa.array(np.minimum(random.zipf(1.2, records), ITEMS) - 1))
    pq.write_table(pa.table({"person": persons, "item": items}), file, row_group_size=1 << 18)


def measure(part: str, work: str, name: str, small: str, file: str) -> None:
    """Print the seconds of the processor and of the clock, after a small run."""
    run = WORK[part][work][name][1]()
    run(small)
    start, worked = time.perf_counter(), time.process_time()
    run(file)
    print(json.dumps([time.process_time() - worked, time.perf_counter() - start]))


def main() -> None:
    """Print a line for each program and work."""
    packages = ("apache-beam", "numpy", "pyarrow", "duckdb", "polars", "datasketches", "pipeline-dp", "beam-dpsketch")
    command = Command(__file__, __doc__, *packages, parts=[*WORK])
    command.number("--records", 10_000_000, "in the largest file")
    command.number("--repetitions", 5, "of each")
    command.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    given = command.parse_args()
    if given.measure:
        return measure(*given.measure)
    lines = f"At most {given.records:,} records; data seed {SEED}; {given.repetitions} repetitions: median (range)"
    for part in given.parts or WORK:
        with tempfile.TemporaryDirectory() as folder, command.writing(given, lines, part=part):
            for work in WORK[part]:
                compare(part, work, given, Path(folder))


def compare(part: str, work: str, given: argparse.Namespace, folder: Path) -> None:
    """Print a line for each program, and the programs that are faster than ours."""
    sizes = {name: int(given.records * share) for name, (share, _) in WORK[part][work].items()}
    written = {size: folder / f"{size}.parquet" for size in {1000, *sizes.values()}}
    for size, file in written.items():
        if not file.exists():
            write(file, size)
    runs = {
        name: partial(in_new_process, "speed.peers", "--measure", part, work, name, written[1000], written[size])
        for name, size in sizes.items()
    }
    found = {
        name: [[1e9 * each / sizes[name] for each in seconds] for seconds in values]
        for name, values in in_turns(runs, given.repetitions).items()
    }
    table = Table(work, ("", "records", "ns a record", "of the clock", "over ours"), (30, 12, 26, 26, 22), bar=16)
    base = [worked for worked, _ in next(iter(found.values()))]
    losses, notes = list[str](), list[str]()
    for name, values in found.items():
        worked, waited = zip(*values, strict=True)
        over, bars = ratios(worked, base), []
        if name == "ours, RecordBounds(5)":
            best = ratios(worked, [each for each, _ in found["DuckDB, arg_min"]])
            bars = [Bar(statistics.median(best), "<=", BAR, " DuckDB")]
            notes.append(f"Five random records of each person, over DuckDB's best formulation: {spread(best, 2)}")
        elif statistics.median(over) < 1 and not name.startswith("ours"):
            losses.append(f"{name} ({statistics.median(over):.2f})")
        table.row(name, f"{sizes[name]:,}", spread(worked), spread(waited), spread(over, 2), bars=bars)
    print(f"Faster than ours: {'; '.join(losses) or 'nothing'}", *notes, sep="\n")


if __name__ == "__main__":
    main()
