"""Real jobs on a Flink cluster of this machine, and the processor time that they take."""

from __future__ import annotations

import csv
import dataclasses
import os
import time
from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.scale.kinds import KINDS
from benchmarks.scale.made_rows import Source
from benchmarks.scale.scenarios import Input
from tests.engines.flink import FlinkCluster

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE_SECONDS = 20


@dataclasses.dataclass(frozen=True)
class FlinkRun:
    """What a job took.

    Attributes:
      kind: of the release, as in `kinds.KINDS`.
      rows: that workers made.
      people: how many there were of them, if records are bounded.
      keys: how many keys there were, if each has a release.
      parallelism: of the job, and how many worker processes it had.
      workers: seconds of processor time of the Python workers.
      engine: of the job manager, the task managers and the job server, less what they take when idle.
    """

    kind: str
    rows: int
    people: int
    keys: int
    parallelism: int
    workers: float = 0.0
    engine: float = 0.0

    @property
    def given(self) -> Input:
        return Input(self.rows, max(1, self.people), max(1, self.keys))

    @property
    def seconds(self) -> float:
        return self.workers + self.engine


def processor_time() -> tuple[float, float]:
    """Return seconds of processor time of all processes below this one: of Python workers, and of Java.

    Workers are children of task managers, who wait for them: those that ended are counted with them.
    """
    parents, times = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, numbers = (folder / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
        except OSError:  # no process, or it has just ended
            continue
        fields = numbers.split()
        parents[int(folder.name)] = int(fields[1])
        own, waited = ((int(fields[place]) + int(fields[place + 1])) / _TICKS for place in (11, 13))
        times[int(folder.name)] = (waited, own) if name == "java" else (own + waited, 0.0)
    ours = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= more
    ours.discard(os.getpid())
    workers, engine = (sum(times[process][which] for process in ours) for which in (0, 1))
    return workers, engine


def run_job(cluster: FlinkCluster, planned: FlinkRun) -> None:
    """Run a job until it is done."""
    options = (
        "--runner=FlinkRunner",
        *cluster.worker_processes(planned.parallelism),
        f"--sdk_worker_parallelism={planned.parallelism}",
    )
    kind = KINDS[planned.kind]
    with beam.Pipeline(options=PipelineOptions([*options])) as pipeline:
        _ = pipeline | Source(kind.rows(planned.people, planned.keys), planned.rows) | kind.transform(planned.keys)


def idle_share(cluster: FlinkCluster) -> float:
    """Return seconds of processor time that the cluster takes in a second without a job."""
    before, start = processor_time()[1], time.monotonic()
    time.sleep(_IDLE_SECONDS)
    return (processor_time()[1] - before) / (time.monotonic() - start)


def measure(cluster: FlinkCluster, planned: FlinkRun, idle: float) -> FlinkRun:
    """Return a job with what it took."""
    (workers, engine), start = processor_time(), time.monotonic()
    run_job(cluster, planned)
    after = processor_time()
    at_rest = idle * (time.monotonic() - start)
    return dataclasses.replace(planned, workers=after[0] - workers, engine=max(0.0, after[1] - engine - at_rest))


def write(file: Path, runs: Iterable[FlinkRun]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened, lineterminator="\n")
        rows.writerow([field.name for field in dataclasses.fields(FlinkRun)])
        rows.writerows([*dataclasses.astuple(each)[:5], f"{each.workers:.2f}", f"{each.engine:.2f}"] for each in runs)


def read(file: Path) -> list[FlinkRun]:
    with file.open(newline="", encoding="utf-8") as opened:
        return [
            FlinkRun(
                row["kind"],
                int(row["rows"]),
                int(row["people"]),
                int(row["keys"]),
                int(row["parallelism"]),
                float(row["workers"]),
                float(row["engine"]),
            )
            for row in csv.DictReader(opened)
        ]
