"""What a stream on Flink keeps until its window ends: ``python -m benchmarks.streams.checkpoints``.

The size that Flink gives for a checkpoint, which is state and timers of all steps, of a job that has one long window
and has seen all elements: `PrivateFrequencies` of records, and `PrivateFrequencies` of privacy ids.
The size of a job that has seen next to nothing is what Flink and the source need. Beside it what the elements take,
encoded one by one. Then what Beam's own count of a stream loses while checkpoints are taken, by default and with
--finish_bundle_before_checkpointing. Takes about eight minutes; needs what `make engines` fetches.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows

from beam_dpsketch import AssumePublicKeys, PrivacyId, Record, RecordBounds
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks import sources
from benchmarks.command import Command
from benchmarks.speed.throughput.pipelines import PRIVACY, SMALL
from benchmarks.table import Table
from tests.engines import fetch
from tests.engines.flink import FlinkCluster
from tests.engines.processes import wait_until

BURSTS, LEAD, KEEP, PATIENCE = 10, 15, 5, 600
CASES = [("keys", 1, 10_000), ("keys", 1, 100_000), ("keys", 100, 100_000), ("keys", 1_000, 100_000)]
CASES += [("ids", 1_000, 10_000), ("ids", 1_000, 100_000), ("ids", 10_000, 100_000)]
OPTIONS = ("--streaming", "--max_parallelism=16", "--checkpointing_interval=1000")
WHOLE_BUNDLES = "--finish_bundle_before_checkpointing"
PER_SECOND, SECONDS, WINDOW = 8, 40, 4


def records(burst: int, names: int, size: int) -> Iterator[sources.Visit]:
    """As many of each name."""
    for number in range(burst * size, (burst + 1) * size):
        yield sources.Visit(f"name {number % names:05d}", f"/encyclopedia/article/{number * 7919 % 1000:05d}")


def per_key() -> beam.PTransform:
    return PrivateFrequencies(SMALL, PRIVACY, item="page", privacy_unit=Record(), keys=AssumePublicKeys("user"))


def globally() -> beam.PTransform:
    bounds = RecordBounds(max_records=KEEP)
    return PrivateFrequencies(SMALL, PRIVACY, item="page", privacy_unit=PrivacyId("user", bounds))


TRANSFORMS: dict[str, Callable[[], beam.PTransform]] = {"keys": per_key, "ids": globally}


class Burst(beam.DoFn):
    """A time to the records of its burst, if it has any; a file says when the last one is out."""

    def __init__(self, start: int, names: int, size: int, ended: Path) -> None:
        self._start, self._names, self._size, self._ended = start, names, size, ended

    def process(self, seconds: float) -> Iterator[sources.Visit]:
        burst = round(seconds) - self._start
        if burst < BURSTS:
            yield from records(burst, self._names, self._size)
        if burst == BURSTS - 1:
            self._ended.touch()


def checkpoint_bytes(cluster: FlinkCluster, kind: str, names: int, size: int, folder: Path) -> int:
    """Of the first checkpoint that was begun three seconds after the last element was out."""
    start, ended = int(time.time()) + LEAD, folder / f"{kind} {names} {size}"
    pipeline = beam.Pipeline(
        runner="FlinkRunner", options=PipelineOptions([*cluster.worker_processes(1), *OPTIONS, WHOLE_BUNDLES])
    )
    times = pipeline | PeriodicImpulse(start, start + PATIENCE, fire_interval=1)
    elements = times | beam.ParDo(Burst(start, names, size // BURSTS, ended)).with_output_types(sources.Visit)
    _ = elements | beam.WindowInto(FixedWindows(24 * 3600)) | TRANSFORMS[kind]()
    pipeline.run()
    wait_until(ended.exists)
    assign = 1000 * (time.time() + 3)

    def latest() -> dict[str, Any]:
        return (cluster.checkpoints().get("latest") or {}).get("completed") or {"trigger_timestamp": 0}

    wait_until(lambda: latest()["trigger_timestamp"] > assign)
    found = int(latest()["state_size"])
    cluster.cancel()
    return found


class Noted(beam.DoFn):
    """Writes each count to a file of its own, named by its window."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, count: int, window: beam.transforms.window.BoundedWindow = beam.DoFn.WindowParam) -> None:
        (self._folder / str(window.start.micros)).write_text(str(count))


def counted(cluster: FlinkCluster, folder: Path, *options: str) -> int:
    """How many elements of a stream Beam's own count finds in all windows, without any failure."""
    start = WINDOW * (int(time.time() + LEAD) // WINDOW)
    pipeline = beam.Pipeline(
        runner="FlinkRunner",
        options=PipelineOptions([*cluster.worker_processes(2), *OPTIONS, "--max_bundle_size=1", *options]),
    )
    times = pipeline | PeriodicImpulse(start, start + SECONDS, fire_interval=1 / PER_SECOND)
    counts = times | beam.WindowInto(FixedWindows(WINDOW)) | beam.combiners.Count.Globally().without_defaults()
    _ = counts | beam.ParDo(Noted(folder))
    pipeline.run()
    wait_until((folder / str((start + SECONDS - WINDOW) * 1_000_000)).exists)
    cluster.cancel()
    return sum(int(path.read_text()) for path in folder.iterdir())


def print_state(cluster: FlinkCluster, folder: Path) -> None:
    coder, measure = FastPrimitivesCoder(), partial(checkpoint_bytes, cluster, folder=folder)
    heads = ("", "elements", "as elements", "checkpoint", "more than of one element", "per name")
    table = Table(None, heads, (16, -12, -14, -14, -26, -12), bar=0)
    least = {kind: measure(kind, 1, BURSTS) for kind in TRANSFORMS}
    for kind, names, size in CASES:
        raw = sum(len(coder.encode(tuple(record))) for record in records(0, names, size))
        found = measure(kind, names, size)
        more = found - least[kind]
        table.row(f"{names:>6,} {kind}", *(f"{each:,.0f}" for each in (size, raw, found, more, more / names)))


def print_losses(cluster: FlinkCluster, folder: Path) -> None:
    table = Table(None, ("Count.Globally finds", "elements"), (50, -10), bar=0)
    for title, options in (("by default", ()), (f"with {WHOLE_BUNDLES}", (WHOLE_BUNDLES,))):
        with tempfile.TemporaryDirectory() as windows:
            table.row(title, str(counted(cluster, Path(windows), *options)))


def main() -> None:
    """Print one line per case."""
    parts: dict[str, tuple[Callable[[FlinkCluster, Path], None], tuple[str, ...]]] = {
        "state": (
            print_state,
            (
                f"{SMALL.depth} x {SMALL.width} CountSketch for each key "
                f"({8 * SMALL.cells:,} bytes as 64-bit counters),",
                f"or one for all ids, of each of which at most {KEEP} records are kept; one window. Bytes.",
            ),
        ),
        "losses": (
            print_losses,
            (f"A stream of {SECONDS * PER_SECOND} elements in {SECONDS} seconds, with a checkpoint each second",),
        ),
    }
    command = Command(__file__, __doc__, "apache-beam", "beam-dpsketch", parts=tuple(parts))
    arguments = command.parse_args()
    try:
        jar = fetch.flink_job_server()
    except fetch.MissingError as missing:
        sys.exit(str(missing))
    with tempfile.TemporaryDirectory() as folder, FlinkCluster(jar, Path(folder)) as cluster:
        for part in arguments.parts or parts:
            measure, lines = parts[part]
            with command.writing(arguments, *lines, part=part, more=(jar.stem,)):
                measure(cluster, Path(folder))


if __name__ == "__main__":
    main()
