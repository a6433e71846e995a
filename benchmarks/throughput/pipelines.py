"""Records per second of the sketch beside Beam's own aggregations: ``python -m benchmarks.throughput``.

The sketch is the step that `PrivateFrequencies` runs for each record (unit="record"), up to and including the
release. Beside it: `Count.Globally`, the least that any combiner can cost; `Count.PerElement`, the exact frequencies;
and, on pyarrow record batches, the sum of an integer column in numpy, combined with `sum`. Batches come from memory,
where that sum costs next to nothing, and from a Parquet file, as they do in practice.
Items are integers (their own hash) or text of 27 characters (hashed one by one, or once for each distinct item in a
batch). Items are made before the clock starts. Times are processor time, as the slope between two sizes, so that what
a pipeline costs whatever its size cancels; variants take turns.
Takes about a minute and a half.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.parquetio import ReadFromParquetBatched

from beam_dpsketch import PrivacySpec, SketchSpec
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks import sources
from benchmarks.measuring import environment, print_rates, slopes

SPEC = SketchSpec(depth=5, width=2048)
PRIVACY = PrivacySpec(rho=1.0)
ELEMENTS = (100_000, 500_000)
BATCH_ROWS = 50_000
ROWS = (1_000_000, 11_000_000)
PARQUET_ROWS = (1_000_000, 5_000_000)
SEED = 1

Aggregate = Callable[[], beam.PTransform]


def sketch(item: str | None = None) -> beam.PTransform:
    """The sketch, with its release."""
    return PrivateFrequencies.Globally(SPEC, PRIVACY, item=item, unit="record")


def column_sum() -> beam.PTransform:
    """The sum of the column `number`."""
    return beam.Map(lambda batch: int(batch["number"].to_numpy().sum())) | beam.CombineGlobally(sum)


def row_count() -> beam.PTransform:
    """How many rows, whatever is in them."""
    return beam.Map(len) | beam.CombineGlobally(sum)


def run(pool: str, element_type: Any, rows: int, aggregate: Aggregate, size: int) -> None:
    """One pipeline over `size` records in elements of so many rows."""
    with sources.pipeline() as pipeline:
        _ = pipeline | sources.Elements(pool, size // rows, element_type) | aggregate()


def run_parquet(folder: str, column: str, aggregate: Aggregate, size: int) -> None:
    """One pipeline over one column of a file with `size` rows."""
    with sources.pipeline() as pipeline:
        _ = pipeline | ReadFromParquetBatched(f"{folder}/{size}.parquet", columns=[column]) | aggregate()


def fill(folder: str) -> None:
    """Makes the items: integers, text, and record batches and Parquet files of both, repeated up to the sizes."""
    _, text = sources.columns(ELEMENTS[1], 1, SEED)
    numbers = [int(item[-5:]) for item in text]
    sources.keep("integers", numbers)
    sources.keep("text", text)
    tables = sources.tables({"number": numbers, "text": text}, BATCH_ROWS)
    sources.keep("batches", [table.to_batches()[0] for table in tables] * (ROWS[1] // len(text)))
    for size in PARQUET_ROWS:
        many = pa.concat_tables(tables * (size // len(text)))
        pq.write_table(many, f"{folder}/{size}.parquet", row_group_size=BATCH_ROWS)


def report(title: str, variants: dict[str, Callable[[int], None]], sizes: tuple[int, int], repetitions: int) -> None:
    """Prints one line per variant; ratios are to the first."""
    print_rates(f"{title}; slope between {sizes[0]:,} and {sizes[1]:,}", slopes(variants, sizes, repetitions))


def main() -> None:
    """Print one line per aggregation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5, help="default: %(default)s")
    repetitions = parser.parse_args().repetitions
    print(environment("apache-beam", "numpy", "pyarrow", "beam-dpsketch"))
    print(f"Runner: FnApiRunner, in memory, one worker. {SPEC.depth} x {SPEC.width} CountSketch, rho = 1.")
    print(f"Data seed {SEED}, Zipf(1.0) over 65,535 items; {repetitions} repetitions: median (range).")
    print("Processor time. Ratios are of times, in each repetition, to the first line of each block.")
    print(f"  {'':<36}{'million records a second':<32}{'ns a record':<30}ratio")
    with tempfile.TemporaryDirectory() as folder:
        fill(folder)
        measure(folder, repetitions)


def measure(folder: str, repetitions: int) -> None:
    """Prints all blocks."""
    aggregates: dict[str, Aggregate] = {
        "Count.Globally": beam.combiners.Count.Globally,
        "Count.PerElement": beam.combiners.Count.PerElement,
        "PrivateFrequencies.Globally": sketch,
    }
    for pool, kind in (("integers", int), ("text", str)):
        variants = {name: partial(run, pool, kind, 1, step) for name, step in aggregates.items()}
        report(f"Elements: {pool}", variants, ELEMENTS, repetitions)
    of_columns: dict[str, tuple[str, Aggregate]] = {
        "sum of an integer column": ("number", column_sum),
        "PrivateFrequencies, integer column": ("number", partial(sketch, "number")),
        "number of rows, text column": ("text", row_count),
        "PrivateFrequencies, text column": ("text", partial(sketch, "text")),
    }
    batches = {
        name: partial(run, "batches", pa.RecordBatch, BATCH_ROWS, step)
        for name, (_, step) in of_columns.items()
        if step is not row_count
    }
    report(f"Record batches of {BATCH_ROWS:,} rows in memory", batches, ROWS, repetitions)
    files = {name: partial(run_parquet, folder, *read) for name, read in of_columns.items()}
    report(f"One column of a Parquet file, row groups of {BATCH_ROWS:,}", files, PARQUET_ROWS, repetitions)


if __name__ == "__main__":
    main()
