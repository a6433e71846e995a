"""Records per second on other runners beside Beam's in memory: ``python -m benchmarks.runners --prism=PATH``.

The sketch of `benchmarks.throughput`, up to and including the release, of text as elements, protected one by one, and
of record batches in memory. Workers are in this process on all runners (LOOPBACK), so items wait in memory. Times are
by the clock, because Prism is another process: slopes between two sizes, variants taking turns.
Takes about two minutes. `make engines` prints the path of Prism.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks import sources
from benchmarks.measuring import environment, print_rates, slopes
from benchmarks.throughput.pipelines import BATCH_ROWS, PRIVACY, SEED, SPEC, sketch

ELEMENTS = (50_000, 250_000)
ROWS = (500_000, 5_500_000)


def run(runner: str, options: Sequence[str], pool: str, kind: Any, rows: int, item: str | None, size: int) -> None:
    """One pipeline over `size` records in elements of so many rows."""
    with beam.Pipeline(runner=runner, options=PipelineOptions([*options])) as pipeline:
        _ = pipeline | sources.Elements(pool, size // rows, kind) | sketch(item)


def main() -> None:
    """Print one line per runner and kind of element."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prism", required=True, help="the binary")
    parser.add_argument("--repetitions", type=int, default=5, help="default: %(default)s")
    known = parser.parse_args()
    runners = {
        "FnApiRunner": ("FnApiRunner", ()),
        "PrismRunner": ("PrismRunner", (f"--prism_location={known.prism}", "--environment_type=LOOPBACK")),
    }
    _, text = sources.columns(ELEMENTS[1], 1, SEED)
    sources.keep("text", text)
    batches = [table.to_batches()[0] for table in sources.tables({"text": text}, BATCH_ROWS)]
    sources.keep("batches", batches * (ROWS[1] // len(text)))
    print(environment("apache-beam", "numpy", "pyarrow", "beam-dpsketch"))
    print(f"{SPEC.depth} x {SPEC.width} CountSketch, rho = {float(PRIVACY.rho):g}; text, Zipf(1.0), data seed {SEED};")
    print(f"{known.repetitions} repetitions: median (range). By the clock. Ratios are of times, to the first line.")
    print(f"  {'':<36}{'million records a second':<32}{'ns a record':<30}ratio")
    for title, sizes, shape in (
        ("Elements", ELEMENTS, ("text", str, 1, None)),
        (f"Record batches of {BATCH_ROWS:,} rows", ROWS, ("batches", pa.RecordBatch, BATCH_ROWS, "text")),
    ):
        variants = {name: partial(run, *runner, *shape) for name, runner in runners.items()}
        times = slopes(variants, sizes, known.repetitions, clock=time.perf_counter)
        print_rates(f"{title}; slope between {sizes[0]:,} and {sizes[1]:,}", times)


if __name__ == "__main__":
    main()
