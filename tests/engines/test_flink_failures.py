"""Parts of a Flink cluster are killed: jobs go on, streams from a checkpoint, and what leaves them is exact."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch import Horizon, PrivacyId, PrivacySpec, RecordBounds
from beam_dpsketch.transforms import PrivateFrequencies
from tests.engines.checks import (
    OF_TESTS,
    SECRET,
    Published,
    Rows,
    assert_rows,
    assert_second_values,
    frequencies,
    published,
)
from tests.engines.flink import FlinkCluster
from tests.engines.processes import wait_until
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters
from tests.helpers.stream_cases import CASES, bounded, outputs
from tests.helpers.streams import WithStart, in_windows

pytestmark = pytest.mark.flink
PER_SECOND, SECONDS, START, USERS, PAGES = 8, 40, 1_000_000, 4, 7
BEATS, PARTS = SECONDS * PER_SECOND, 3
# The test takes checkpoints itself. Without the last option, records that wait for one may come late and be dropped.
CHECKPOINTED = (
    "--streaming",
    "--max_parallelism=16",
    "--checkpointing_interval=1000000000",
    "--finish_bundle_before_checkpointing",
)
BOUNDED = PrivateFrequencies(
    SPEC, PrivacySpec(rho=0.1), item="kind", privacy_unit=PrivacyId("user", RecordBounds(max_records=1))
)
HORIZON = Horizon(START, 1, SECONDS)
TO_PUBLISH: dict[str, beam.PTransform] = {
    "exact": ExactCounters(CASES["ids, keyed"][1]()),
    "bounded": ExactCounters(BOUNDED),
    "idempotent": frequencies(idempotent=True),
    "fresh": frequencies(idempotent=False),
    "rows": Rows(HORIZON),
}


class Beat(NamedTuple):
    """What a source sends some times in each second."""

    user: str
    page: str
    kind: str = "beat"


def beat(seconds: float) -> Beat:
    number = round(seconds * PER_SECOND)
    return Beat(f"user {number % USERS}", f"page {number % PAGES}")


class AllBeats(RestrictionProvider):
    """Their numbers."""

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, BEATS)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return restriction.size()


NUMBERS, FROM_SOURCE = AllBeats(), ManualWatermarkEstimator.default_provider()
TRACKER, WATERMARK = beam.DoFn.RestrictionParam(NUMBERS), beam.DoFn.WatermarkEstimatorParam(FROM_SOURCE)


class Beats(beam.DoFn):
    """A source of all beats, at their times; each part of them when there is a file that asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(self, element: Any, tracker: Any = TRACKER, watermark: Any = WATERMARK) -> Any:
        for number in range(tracker.current_restriction().start, BEATS + 1):
            seconds = START + number / PER_SECOND
            watermark.set_watermark(Timestamp(seconds))
            if number < BEATS and not part(self._folder, number * PARTS // BEATS).exists():
                tracker.defer_remainder(Duration(1))
                return
            if not tracker.try_claim(number):
                return
            yield TimestampedValue(beat(seconds), seconds)


def part(folder: Path, number: int) -> Path:
    """The file that asks for a part of the beats."""
    return folder / f"part {number}"


class WritesItsProcess(beam.DoFn):
    """Passes elements on; a file bears the number of a process that did so."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def process(self, element: Any) -> Any:
        whole = self._path.with_name(uuid.uuid4().hex)
        whole.write_text(str(os.getpid()))
        whole.rename(self._path)
        yield element


class Waits(beam.DoFn):
    """Passes elements on, and when enough are published holds its worker up until a file is there."""

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
    options = flink_cluster.worker_processes(**{SECRET: OF_TESTS})
    branch = "idempotent" if idempotent else "fresh"
    pipeline = beam.Pipeline(runner="FlinkRunner", options=PipelineOptions(options))
    elements = bounded(pipeline) | in_windows(60)
    _, releases = publish(elements, tmp_path, {name: TO_PUBLISH[name] for name in ("exact", branch)})
    _ = releases | beam.ParDo(Waits(tmp_path / branch, published=5))
    result = pipeline.run()
    wait_until((tmp_path / branch / "waiting").exists)
    flink_cluster.kill_task_manager()
    (tmp_path / branch / "go").touch()
    assert result.wait_until_finish() == PipelineState.DONE
    assert_exact(tmp_path, outputs(bounded, TO_PUBLISH["exact"], 60, runner=FN_API))
    assert_second_values(idempotent, tmp_path / branch)


def a_task_manager(cluster: FlinkCluster, process: Path) -> None:
    cluster.kill_task_manager()


def a_worker(cluster: FlinkCluster, process: Path) -> None:
    os.kill(int(process.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("kill", [a_task_manager, a_worker])
def test_a_stream_goes_on_from_its_checkpoint(
    kill: Callable[[FlinkCluster, Path], None],
    flink_cluster: FlinkCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows are published, then a checkpoint is taken, then others are published, then something is killed."""
    process = tmp_path / "process"
    options = [*flink_cluster.worker_processes(**{SECRET: OF_TESTS}), *CHECKPOINTED]
    pipeline = beam.Pipeline(runner="FlinkRunner", options=PipelineOptions(options))
    beats = pipeline | beam.Impulse() | beam.ParDo(Beats(tmp_path)) | beam.ParDo(WritesItsProcess(process))
    publish(beats | beam.WindowInto(FixedWindows(1)), tmp_path, TO_PUBLISH)
    pipeline.run()
    try:
        part(tmp_path, 0).touch()
        wait_until(lambda: last_published(tmp_path) > START)
        flink_cluster.take_checkpoint()
        part(tmp_path, 1).touch()
        wait_until(lambda: last_published(tmp_path) > START + SECONDS / PARTS)
        kill(flink_cluster, process)
        part(tmp_path, 2).touch()
        places = {name: SECONDS * (1 if name in ("bounded", "rows") else PAGES) for name in TO_PUBLISH}
        wait_until(lambda: all(len(published(tmp_path / name)) == places[name] for name in places))
        assert flink_cluster.checkpoints()["counts"]["restored"] >= 1
    finally:
        flink_cluster.cancel()
    assert_exact(tmp_path, exact_counters())
    for values in published(tmp_path / "bounded").values():
        assert (np.abs(values).sum(axis=-1) == USERS).all()
    assert_rows(tmp_path / "rows", beats_in_time, HORIZON, monkeypatch)
    for idempotent, name in ((True, "idempotent"), (False, "fresh"), (True, "rows")):
        print(f"{kill.__name__}, {name}:", end=" ")
        assert_second_values(idempotent, tmp_path / name)


def last_published(folder: Path) -> float:
    """When the last window begins that all sinks have something of."""
    return min(max((start for start, _ in published(folder / name)), default=0.0) for name in TO_PUBLISH)


def beats_in_time(pipeline: beam.Pipeline) -> beam.PCollection:
    """All that the source sends, in memory."""
    times = START + np.arange(BEATS) / PER_SECOND
    timed = [TimestampedValue(beat(seconds), seconds) for seconds in times.tolist()]
    return pipeline | beam.Create(timed) | beam.Map(lambda each: each)


def exact_counters() -> dict[Any, Any]:
    """Of all that the source sends, in memory."""
    return outputs(beats_in_time, TO_PUBLISH["exact"], 1, runner=FN_API)
