"""Parts of a Flink cluster are killed: jobs go on, streams from a checkpoint, and what leaves them is exact."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import ContributionBounds, PrivacySpec
from beam_dpsketch.transforms import PrivateFrequencies
from tests.engines.flink import FlinkCluster
from tests.engines.processes import wait_until
from tests.engines.test_batch import in_time
from tests.engines.test_failures import SECRET, Published, assert_second_values, frequencies, published
from tests.transforms.pipelines import FN_API, SPEC, ExactCounters
from tests.transforms.streams import WithStart, in_windows
from tests.transforms.test_streaming import CASES, outputs

pytestmark = pytest.mark.flink
PER_SECOND, SECONDS, LEAD, USERS, PAGES = 8, 40, 20, 4, 7
EVERY = 6.0  # seconds between checkpoints
# Without the last option, records that wait for a checkpoint may come late and be dropped.
CHECKPOINTED = (
    "--streaming",
    "--max_parallelism=16",
    f"--checkpointing_interval={EVERY * 1000:.0f}",
    "--finish_bundle_before_checkpointing",
)
BOUNDED = PrivateFrequencies.Globally(
    SPEC,
    PrivacySpec(rho=0.1),
    item="kind",
    privacy_id="user",
    bounds=ContributionBounds(max_contributions_per_partition=1),
)
TO_PUBLISH: dict[str, beam.PTransform] = {
    "exact": ExactCounters(CASES["ids, keyed"][1]()),
    "bounded": ExactCounters(BOUNDED),
    "idempotent": frequencies(idempotent=True),
    "fresh": frequencies(idempotent=False),
}


class Beat(NamedTuple):
    """What a source sends so many times a second."""

    user: str
    page: str
    kind: str = "beat"


def beat(seconds: float) -> Beat:
    number = round(seconds * PER_SECOND)
    return Beat(f"user {number % USERS}", f"page {number % PAGES}")


class WritesItsProcess(beam.DoFn):
    """Passes elements on; a file bears the number of the process that did so last."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def process(self, element: Any) -> Any:
        self._path.write_text(str(os.getpid()))
        yield element


class Waits(beam.DoFn):
    """Passes elements on, and holds its worker up when so many are published, until a file is there."""

    def __init__(self, folder: Path, published: int) -> None:
        self._folder = folder
        self._published = published

    def process(self, element: Any) -> Any:
        if len(list((self._folder / "sink").iterdir())) >= self._published:
            (self._folder / "waiting").touch()
            wait_until((self._folder / "go").exists)
        yield element


def publish(elements: beam.PCollection, folder: Path, branches: dict[str, beam.PTransform]) -> list[beam.PCollection]:
    """Each branch writes what it makes of the elements to a sink of its own, and gives it."""
    results = []
    for name, transform in branches.items():
        (folder / name / "sink").mkdir(parents=True, exist_ok=True)
        outputs = elements | name >> transform | f"Keyed {name}" >> beam.Map(keyed)
        started = outputs | f"Start {name}" >> beam.ParDo(WithStart())
        results.append(started | f"Publish {name}" >> beam.ParDo(Published(str(folder / name / "sink"))))
    return results


def keyed(output: Any) -> tuple[Any, Any]:
    return output if isinstance(output, tuple) else (None, output)


def assert_exact(folder: Path, expected: dict[Any, Any]) -> None:
    """Every window and key is there, with the exact counters each time that it was published."""
    found = published(folder / "exact")
    assert found.keys() == expected.keys()
    assert all(value == expected[place] for place, values in found.items() for value in values)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_batch_goes_on_though_a_task_manager_was_killed(
    idempotent: bool, flink_cluster: FlinkCluster, tmp_path: Path
) -> None:
    """Two jobs in one: exact counters, and releases, of which some are published when the task manager is killed."""
    options = flink_cluster.worker_processes(**{SECRET: "planted-secret-4711-" * 3})
    branch = "idempotent" if idempotent else "fresh"
    pipeline = beam.Pipeline(runner="FlinkRunner", options=PipelineOptions(options))
    elements = in_time(pipeline) | in_windows(60)
    _, releases = publish(elements, tmp_path, {name: TO_PUBLISH[name] for name in ("exact", branch)})
    _ = releases | beam.ParDo(Waits(tmp_path / branch, published=5))
    result = pipeline.run()
    wait_until((tmp_path / branch / "waiting").exists)
    flink_cluster.kill_task_manager()
    (tmp_path / branch / "go").touch()
    assert result.wait_until_finish() == PipelineState.DONE
    assert_exact(tmp_path, outputs(in_time, TO_PUBLISH["exact"], 60, runner=FN_API))
    assert_second_values(idempotent, tmp_path / branch)


def a_task_manager(cluster: FlinkCluster, process: Path) -> None:
    cluster.kill_task_manager()


def a_worker(cluster: FlinkCluster, process: Path) -> None:
    os.kill(int(process.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("kill", [a_task_manager, a_worker])
def test_a_stream_goes_on_from_its_checkpoint(
    kill: Callable[[FlinkCluster, Path], None], flink_cluster: FlinkCluster, tmp_path: Path
) -> None:
    start, process = int(time.time()) + LEAD, tmp_path / "process"
    options = [*flink_cluster.worker_processes(**{SECRET: "planted-secret-4711-" * 3}), *CHECKPOINTED]
    pipeline = beam.Pipeline(runner="FlinkRunner", options=PipelineOptions(options))
    impulses = pipeline | PeriodicImpulse(start, start + SECONDS, fire_interval=1 / PER_SECOND)
    beats = impulses | beam.Map(beat) | beam.ParDo(WritesItsProcess(process)) | beam.WindowInto(FixedWindows(1))
    publish(beats, tmp_path, TO_PUBLISH)
    pipeline.run()
    try:
        wait_until(lambda: published_since_a_checkpoint(flink_cluster, tmp_path))
        kill(flink_cluster, process)
        places = {name: SECONDS * (1 if name == "bounded" else PAGES) for name in TO_PUBLISH}
        wait_until(lambda: all(len(published(tmp_path / name)) == places[name] for name in places))
        assert flink_cluster.checkpoints()["counts"]["restored"] >= 1
    finally:
        flink_cluster.cancel()
    assert_exact(tmp_path, exact_counters(start))
    for values in published(tmp_path / "bounded").values():
        assert (np.abs(values).sum(axis=-1) == USERS).all()
    for idempotent, name in ((True, "idempotent"), (False, "fresh")):
        print(f"{kill.__name__}, {name}:", end=" ")
        assert_second_values(idempotent, tmp_path / name)


def published_since_a_checkpoint(cluster: FlinkCluster, folder: Path) -> bool:
    """Whether windows are published that the last checkpoint does not know of, and the next one is some time off."""
    checkpoints = cluster.checkpoints()
    if not checkpoints or checkpoints["counts"]["completed"] < 2:
        return False
    latest = checkpoints["latest"]["completed"]
    begun, taken = (latest[name] / 1000 for name in ("trigger_timestamp", "latest_ack_timestamp"))
    sinks = [(folder / name / "sink").iterdir() for name in TO_PUBLISH]
    written = min(max((path.stat().st_mtime for path in sink), default=0) for sink in sinks)
    return written > taken and time.time() < begun + EVERY - 1


def exact_counters(start: int) -> dict[Any, Any]:
    """Of all that a stream sends, in memory."""
    times = start + np.arange(SECONDS * PER_SECOND) / PER_SECOND

    def source(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = [TimestampedValue(beat(seconds), seconds) for seconds in times.tolist()]
        return pipeline | beam.Create(timed) | beam.Map(lambda each: each)

    return outputs(source, TO_PUBLISH["exact"], 1, runner=FN_API)
