"""A stream on a Flink cluster, from its start until the last window is published; what was seen goes to a folder."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.streams.soak.killer import Kill, hurts, kill
from benchmarks.streams.soak.monitors import WORKER, Monitors, processes
from benchmarks.streams.soak.pipelines import PRIVATE, SECRET, build
from benchmarks.streams.soak.records import PERIOD, Plan
from tests.engines.flink import FlinkCluster

LEAD, PATIENCE = 60, 300  # seconds until the first window, and after the last
OPTIONS = (
    "--streaming",
    "--max_parallelism=16",
    "--checkpointing_interval=10000",
    "--max_bundle_size=10000",
    "--finish_bundle_before_checkpointing",
    "--number_of_execution_retries=100",
)
PUBLISHED, SAMPLES, EVENTS, PLAN, SECRET_FILE = "published", "samples.jsonl", "events.jsonl", "plan.json", "secret"


def run(
    jar: Path,
    rates: tuple[int, ...],
    folder: Path,
    *,
    kills: Sequence[Kill] = (),
    planted: frozenset[str] = frozenset(),
    enough: Callable[[Plan], bool] = lambda plan: False,
) -> Plan:
    """Run a stream of these rates until all of it is published, or it is enough."""
    (folder / PUBLISHED).mkdir(parents=True)
    (folder / "flink").mkdir()
    (folder / SECRET_FILE).write_text(secrets.token_hex(32))
    os.environ[SECRET] = (folder / SECRET_FILE).read_text()
    with FlinkCluster(jar, folder / "flink", slots=1) as cluster:
        plan = Plan(PERIOD * (int(time.time() + LEAD) // PERIOD + 1), rates)
        (folder / PLAN).write_text(json.dumps(plan))
        options = PipelineOptions([*cluster.worker_processes(None, **{SECRET: os.environ[SECRET]}), *OPTIONS])
        pipeline = beam.Pipeline(runner="FlinkRunner", options=options)
        build(pipeline, plan, folder / PUBLISHED, planted)
        pipeline.run()
        monitors, waiting = Monitors(cluster, folder / SAMPLES), list(kills)
        while time.time() < plan.end + PATIENCE and not (_all_published(folder, plan) or enough(plan)):
            monitors.sample()
            due = waiting and time.time() > plan.start + waiting[0].share * (plan.end - plan.start)
            if due and hurts(cluster, folder / PUBLISHED):
                kill(waiting[0].what, cluster)
                _note(folder, time=time.time(), killed=waiting.pop(0).what)
            time.sleep(0.5)
        with contextlib.suppress(TimeoutError):
            cluster.cancel()
    deadline = time.monotonic() + 30
    while (left := [number for number, kind in processes() if kind == WORKER]) and time.monotonic() < deadline:
        time.sleep(0.5)
    _note(folder, time=time.time(), left=len(left))
    return plan


def _all_published(folder: Path, plan: Plan) -> bool:
    first = sum(path.name.endswith("first") for path in (folder / PUBLISHED).iterdir())
    return first == len(plan.rates) * (1 + len(PRIVATE))


def _note(folder: Path, **event: object) -> None:
    with (folder / EVENTS).open("a") as file:
        file.write(json.dumps(event) + "\n")
    print(event, file=sys.stderr, flush=True)
