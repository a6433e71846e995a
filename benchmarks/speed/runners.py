"""Records per second on other runners beside Beam's in memory: ``python -m benchmarks.speed.runners``.

The sketch of `benchmarks.speed.throughput`, with the release, of text read from files: lines one by one, and
Parquet in batches. The worker is in this process (LOOPBACK), but for Flink, whose task managers start processes of
their own, as many as its parallelism. Times are by the clock: slopes between two sizes, variants taking turns.
Prism carries elements between workers and keeps state in another process. On Flink all processes share the cores, so
parallelism has little to gain on two; starting a pipeline takes some seconds there, which the slope leaves out.
Takes about six minutes. Runners that `make engines` does not find are left out, and that is said.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.parquetio import ReadFromParquetBatched
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks import sources
from benchmarks.command import Command
from benchmarks.measuring import ratios, slopes
from benchmarks.speed.throughput.pipelines import BATCH_ROWS, PRIVACY, SEED, SPEC, sketch
from benchmarks.table import Table, spread
from tests.engines import fetch
from tests.engines.flink import FlinkCluster

LINES = (200_000, 1_200_000)
ROWS = (2_000_000, 42_000_000)
FILES = 4
Runners = dict[str, tuple[str, ...]]


def run(options: tuple[str, ...], read: Callable[[int], beam.PTransform], item: str | None, size: int) -> None:
    """One pipeline over `size` records."""
    with beam.Pipeline(options=PipelineOptions([*options])) as pipeline:
        _ = pipeline | "Read" >> read(size) | sketch(item)


def read_lines(folder: str, size: int) -> beam.PTransform:
    return beam.io.ReadFromText(f"{folder}/{size}-*.txt")


def read_batches(folder: str, size: int) -> beam.PTransform:
    return ReadFromParquetBatched(f"{folder}/{size}-*.parquet")


def write(folder: Path) -> None:
    """The files of all sizes; those of Parquet repeat what the lines have."""
    _, text = sources.columns(LINES[1] // FILES, 1, SEED)
    for file in range(FILES):
        for size in LINES:
            (folder / f"{size}-{file}.txt").write_text("\n".join(text[: size // FILES]) + "\n")
        for size in ROWS:
            repeated = pa.table({"text": (text * (size // FILES // len(text) + 1))[: size // FILES]})
            pq.write_table(repeated, folder / f"{size}-{file}.parquet", row_group_size=BATCH_ROWS)


def prism() -> Runners:
    location = f"--prism_location={fetch.prism()}"
    return {"PrismRunner": ("--runner=PrismRunner", location, "--environment_type=LOOPBACK")}


def flink(stack: contextlib.ExitStack, folder: Path) -> Runners:
    cluster = stack.enter_context(FlinkCluster(fetch.flink_job_server(), folder))
    return {
        f"FlinkRunner, parallelism {parallelism}": (
            "--runner=FlinkRunner",
            *cluster.worker_processes(parallelism),
            f"--sdk_worker_parallelism={parallelism}",
        )
        for parallelism in (1, 2)
    }


def main() -> None:
    """Print one line per runner and kind of element."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch")
    command.number("--repetitions", 5, "of each pipeline")
    arguments = command.parse_args()
    runners: Runners = {"FnApiRunner": ("--runner=FnApiRunner",)}
    with (
        contextlib.ExitStack() as stack,
        command.writing(
            arguments,
            f"{SPEC.depth} x {SPEC.width} CountSketch, rho = {float(PRIVACY.rho):g}; text, Zipf(1.0); seed {SEED};",
            f"by the clock; {arguments.repetitions} repetitions: median (range). Ratios are of times, to the first.",
        ),
    ):
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2)]
        for find in (prism, partial(flink, stack, Path(folders[1]))):
            try:
                runners |= find()
            except fetch.MissingError as missing:
                print(f"Skipped: {missing}")
        write(Path(folders[0]))
        for title, sizes, read, item in (
            ("Lines of text", LINES, read_lines, None),
            (f"Parquet in batches of {BATCH_ROWS:,}", ROWS, read_batches, "text"),
        ):
            runs = {name: partial(run, options, partial(read, folders[0]), item) for name, options in runners.items()}
            times = slopes(runs, sizes, arguments.repetitions, clock=time.perf_counter)
            heads = ("", "million records a second", "ns a record", "ratio")
            table = Table(f"{title}; slope between {sizes[0]:,} and {sizes[1]:,}", heads, (38, 32, 30), bar=0)
            for name, values in times.items():
                rates, of = [1e3 / value for value in values], ratios(values, times["FnApiRunner"])
                table.row(f"  {name}", spread(rates, 2), spread(values, 1), spread(of, 2))


if __name__ == "__main__":
    main()
