"""Workers that die in the middle of a job: nothing is released that is not exact, and what is published again."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from beam_dpsketch import Horizon, KeySelection, PrivacyId, PrivacySpec, RecordBounds
from beam_dpsketch.encodings import decode
from beam_dpsketch.exact.reading.codec import from_bytes
from beam_dpsketch.exact.reading.items import NOISY
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps import second_round
from tests.engines.checks import (
    OF_TESTS,
    SECRET,
    TERMS,
    Published,
    Rows,
    assert_rows,
    assert_second_values,
    frequencies,
    published,
)
from tests.engines.conftest import Engine
from tests.engines.processes import free_port, wait_for
from tests.helpers.pipelines import FN_API, REPOSITORY, SPEC, ExactCounters
from tests.helpers.stream_cases import CASES, END, PAGES, VISITS, bounded, outputs
from tests.helpers.streams import WithStart, for_any_runner, in_windows, stepped, unbounded

SOURCES: dict[str, Callable[[beam.Pipeline], beam.PCollection]] = {
    "batch": bounded,
    "stream": for_any_runner(stepped(VISITS, 60, END)),
}
PUBLISHED = 5
ATTEMPTS = 3  # a worker that starts too late fails a job as well


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """A pool that starts a worker process for each job; the options that send jobs to it."""
    port, log = free_port(), tmp_path_factory.mktemp("workers") / "log.txt"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(REPOSITORY), SECRET: OF_TESTS}
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    with log.open("w") as output:
        pool = subprocess.Popen(command, env=environment, stderr=output, start_new_session=True)
    try:
        wait_for(port, pool, log)
        yield "--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"
    finally:
        os.killpg(pool.pid, signal.SIGKILL)
        pool.wait()


class DieAt(beam.DoFn):
    """Passes elements on, and kills its process at one of them, once in the life of a folder."""

    def __init__(self, number: int, folder: Path) -> None:
        self._number = number
        self._died = folder / "died"

    def setup(self) -> None:
        self._seen = 0

    def process(self, element: Any) -> Any:
        self._seen += 1
        if self._seen == self._number and not self._died.exists():
            self._died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield element


def saving(exact: Callable[..., Any], folder: Path, *, dies: bool) -> Callable[..., Any]:
    """Do as a step that reads the noisy votes of a shard of keys, and keep them in a file; may die, once."""

    def reads(drawn: Any, first: Any = None, second: Any = None) -> Iterator[Any]:
        table = from_bytes(drawn[0])
        found = dict(zip(table["key"].to_pylist(), table[NOISY].to_pylist(), strict=True))
        part = folder.parent / uuid.uuid4().hex
        part.write_bytes(pickle.dumps(found))
        part.rename(folder / f"{time.time_ns():020}-{part.name}")
        died = folder.parent / "died"
        if dies and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from exact(drawn, *(each for each in (first, second) if each is not None))

    return reads


def run_until_done(build: Callable[[beam.Pipeline], Any], engine: Engine, workers: tuple[str, ...]) -> int:
    """Runs a job in which a worker dies, and the same job again if that failed it; how often it was given."""
    options = PipelineOptions([*engine.streaming, *engine.options, *workers])
    for given in itertools.count(1):
        try:
            with beam.Pipeline(runner=engine.runner, options=options) as pipeline:
                build(pipeline)
            break
        except RuntimeError:
            if given == ATTEMPTS:
                raise
    return given


def publish(
    pipeline: beam.Pipeline, source: str, before: Any, transform: beam.PTransform, after: Any, folder: Path
) -> None:
    """A job that writes what the transform makes of a source to a sink, and goes on."""
    (folder / "sink").mkdir(exist_ok=True)
    elements = SOURCES[source](pipeline) | in_windows(60) | "Before" >> before
    outputs = elements | transform | beam.ParDo(WithStart())
    outputs | beam.ParDo(Published(str(folder / "sink"))) | "After" >> after


@pytest.mark.parametrize("source", SOURCES)
def test_counters_that_leave_are_exact_though_a_worker_died(
    source: str, engine: Engine, workers: tuple[str, ...], tmp_path: Path
) -> None:
    transform = ExactCounters(CASES["ids, keyed"][1]())
    die = beam.ParDo(DieAt(len(VISITS) // 2, tmp_path))
    run_until_done(lambda job: publish(job, source, die, transform, beam.Map(len), tmp_path), engine, workers)
    assert (tmp_path / "died").exists()
    exact = outputs(bounded, ExactCounters(CASES["ids, keyed"][1]()), 60, runner=FN_API)
    seen = published(tmp_path)
    assert seen.keys() == exact.keys()
    assert all(value == exact[place] for place, values in seen.items() for value in values)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("idempotent", [True, False])
def test_values_of_what_is_published_twice(
    idempotent: bool, source: str, engine: Engine, workers: tuple[str, ...], tmp_path: Path
) -> None:
    """A worker dies after it has published some windows; what runs again finds one value of them, or draws another."""
    die = beam.ParDo(DieAt(PUBLISHED + 1, tmp_path))
    runs = run_until_done(
        lambda job: publish(job, source, beam.Map(lambda it: it), frequencies(idempotent), die, tmp_path),
        engine,
        workers,
    )
    print(f"{engine.runner}, {source}: given {runs} time(s),", end=" ")
    assert_second_values(idempotent, tmp_path)


@pytest.mark.parametrize("source", SOURCES)
def test_continual_rows_have_one_value_though_a_worker_died(
    source: str, engine: Engine, workers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker dies after it has published some rows; what runs again finds all of them, with the same bytes."""
    horizon = Horizon(0, 15, END // 15)
    die, nothing = beam.ParDo(DieAt(PUBLISHED + 1, tmp_path)), beam.Map(lambda it: it)
    run_until_done(lambda job: publish(job, source, nothing, Rows(horizon), die, tmp_path), engine, workers)
    assert (tmp_path / "died").exists()
    assert_rows(tmp_path, bounded, horizon, monkeypatch)


CHOSEN = PrivateFrequencies(
    SPEC,
    PrivacySpec(rho=1.1, delta=0.5),
    item="user",
    privacy_unit=PrivacyId("user", RecordBounds(2, max_keys=7)),
    keys=KeySelection(0.2, "page"),
)


@pytest.mark.parametrize("source", SOURCES)
def test_keys_are_chosen_once_though_a_worker_died(
    source: str, engine: Engine, workers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs again chooses the same keys, and those of a run without failures."""
    monkeypatch.setenv(SECRET, OF_TESTS)
    transform = CHOSEN.with_idempotent_noise(**TERMS)
    die = beam.ParDo(DieAt(PUBLISHED + 1, tmp_path))
    run_until_done(lambda job: publish(job, source, beam.Map(lambda it: it), transform, die, tmp_path), engine, workers)
    assert (tmp_path / "died").exists()
    whole = unbounded(VISITS) if source == "stream" else bounded  # a stream tells losses in another way
    chosen = outputs(whole, CHOSEN.with_idempotent_noise(**TERMS), 60, runner=FN_API)
    found = {place: {each.to_bytes() for each in releases} for place, releases in published(tmp_path).items()}
    assert found == {place: {each.to_bytes()} for place, each in chosen.items()}
    assert PUBLISHED < len(found) < END // 60 * len(PAGES)


def saved(folder: Path) -> dict[bytes, int]:
    """The noisy votes of each key, as a step read them last."""
    found: dict[bytes, int] = {}
    for path in sorted(folder.iterdir()):
        found |= pickle.loads(path.read_bytes())
    return found


@pytest.mark.parametrize("idempotent", [True, False])
def test_one_noisy_vote_steers_and_decides_though_a_worker_died_between_the_rounds(
    idempotent: bool, engine: Engine, workers: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker dies when it reads the noisy votes of the first round; all that reads them afterwards reads the same."""
    monkeypatch.setenv(SECRET, OF_TESTS)
    transform = CHOSEN.with_idempotent_noise(**TERMS) if idempotent else CHOSEN
    in_memory = outputs(bounded, transform, END, runner=FN_API)
    for name, dies in (("_left", True), ("_noisy", False)):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(second_round, name, saving(getattr(second_round, name), tmp_path / name, dies=dies))
    (tmp_path / "sink").mkdir()

    def build(pipeline: beam.Pipeline) -> None:
        released = bounded(pipeline) | in_windows(END) | transform | beam.ParDo(WithStart())
        released | beam.ParDo(Published(str(tmp_path / "sink")))

    run_until_done(build, engine, workers)
    assert (tmp_path / "died").exists()
    assert saved(tmp_path / "_left") == saved(tmp_path / "_noisy")
    assert {key for _, key in published(tmp_path)} <= {decode(key) for key in saved(tmp_path / "_left")}
    if idempotent:
        found = {place: {each.to_bytes() for each in releases} for place, releases in published(tmp_path).items()}
        assert found == {place: {each.to_bytes()} for place, each in in_memory.items()}
