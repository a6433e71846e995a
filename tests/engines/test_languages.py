"""The programs in Java and Go on Prism: the counters of their releases are those of Python, and rows come back.

Workers of the expansion service draw no noise here (`exact_expansion.py`), and neither does Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import read_releases
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.rows import PrivateFrequencies
from tests.engines.conftest import Engine
from tests.engines.processes import free_port, running, wait_for
from tests.helpers import noise
from tests.helpers.pipelines import FN_API, REPOSITORY, seen_by_sink

pytestmark = pytest.mark.prism

START, HOUR = datetime(2024, 5, 1, tzinfo=UTC), 3600
HOURS = {
    "item": "page",
    "listed_items": ["home", "news", "help"],
    "keys": {"public": [["NL", "web"], ["NL", "app"], ["NO", "app"]], "field": ["country", "device"]},
    "windows": {"start": "2024-05-01T00:00:00Z", "end": "2024-05-01T03:00:00Z"},
    "privacy": {"epsilon": 2, "delta": 1e-6},
    "privacy_unit": {"privacy_id": "person", "records": {"max_records": 4, "max_keys": 2}},
}
DAY = {"time": "at", "bucket": "day", "start": "2024-05-01", "end": "2024-05-04"}
DAYS = {
    **{name: HOURS[name] for name in ("item", "listed_items", "privacy")},
    "keys": {"public": HOURS["keys"]["public"], "field": ["country", "device", DAY]},
    "privacy_unit": {"privacy_id": "person", "records": {"max_records": 12, "max_keys": 6}},
}
FLAW_OF_PRISM = "error decoding metrics"  # of two SDKs at once, about once in ten runs; Prism ends the job


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, log = free_port(), tmp_path_factory.mktemp("service") / "log.txt"
    command = [sys.executable, "-m", "tests.engines.exact_expansion", f"--port={port}"]
    with running(command, log, cwd=REPOSITORY) as process:
        wait_for(port, process, log)
        yield f"localhost:{port}"


def build(command: list[str], folder: str) -> None:
    """Builds a program, or skips the test where its parts cannot be had."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"SKIPPED: needs {command[0]}")
    done = subprocess.run(command, cwd=REPOSITORY / "pipelines" / folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    missing = re.search(r"(?:Could not (?:find|transfer)|dial tcp|i/o timeout)[^\n]*", said)
    if done.returncode and missing:
        pytest.skip(f"SKIPPED: {command[0]} fetches parts, and cannot: {missing[0][:200]}")
    assert done.returncode == 0, said


def printed_by(command: list[str], tmp_path: Path) -> tuple[list[str], Path]:
    """The lines on stdout of a program, and the folder of its releases."""
    for attempt in range(4):
        folder = tmp_path / f"out {attempt}"
        done = subprocess.run([*command, f"--output={folder}/x"], capture_output=True, text=True, timeout=240)
        if FLAW_OF_PRISM not in done.stdout + done.stderr:
            break
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.splitlines(), folder


def released_in_python(elements: Any, transform: beam.PTransform, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    noise.without_noise(monkeypatch)
    return seen_by_sink(lambda pipeline: pipeline | elements | transform | beam.Map(as_tuple), runner=FN_API)


def as_tuple(row: Any) -> Any:
    """The window, the key and the counters."""
    opens = datetime.fromisoformat(row.window_start.replace("Z", "+00:00")) if hasattr(row, "window_start") else None
    key = (row.country, row.device, *([row.day] if hasattr(row, "day") else []))
    return opens, key, ReleasedSketch.from_bytes(row.release).counters.tolist()


def visit(n: int, people: int, **when: str) -> beam.Row:
    """A record of a program."""
    device, page = ["web", "app", "app"][n % 3], HOURS["listed_items"][n * n % 7 % 3]
    return beam.Row(person=f"p{n % people}", country=["NL", "NO"][n % 2], device=device, **when, page=page)


def test_go(prism: Engine, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys with several columns and a calendar go to Go and back, as columns."""
    build(["go", "build", "-o", f"{tmp_path}/days", "."], "go")
    endpoint = prism.options[0].removeprefix("--job_endpoint=")
    command = [f"{tmp_path}/days", "--runner=universal", f"--endpoint={endpoint}", "--environment_type=LOOPBACK"]
    lines, folder = printed_by([*command, f"--expansion_service={service}"], tmp_path)
    visits = [visit(n, 2000, at=f"2024-05-0{1 + n // 8000}T12:00:00Z") for n in range(24_000)]
    expected = released_in_python(beam.Create(visits), PrivateFrequencies(**DAYS), monkeypatch)
    found = read_releases(f"{folder}/x*", ReleasedSketch, keyed=True)
    assert sorted((None, key, each.counters.tolist()) for key, each in found) == sorted(expected)
    keys = [(row.at[:10], row.country, row.device) for row in visits]
    counts = Counter(
        (*key, row.page) for key, row in zip(keys, visits, strict=True) if [*key[1:]] in HOURS["keys"]["public"]
    )
    answers = re.findall(r"^(2024-05-0\d) (\w+) (\w+) (\w+) ([\d.]+) .* at epsilon = 2$", "\n".join(lines), re.M)
    assert len(answers) == 3 * 3 * 3
    assert Counter({(*key,): int(float(count)) for *key, count in answers}) == counts
    assert [line for line in lines if line.startswith("wrote ")] == [f"wrote {folder}/x-00000-of-00001.dpsketch"]


def test_java(prism: Engine, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows and keys go to Java and back, as columns."""
    build(["mvn", "-B", "-q", "package", f"-Dbuild={tmp_path}/built"], "java")
    endpoint = prism.options[0].removeprefix("--job_endpoint=")
    jars = f"{tmp_path}/built/hours-1.jar:{tmp_path}/built/jars/*"
    command = ["java", "-cp", jars, "org.example.Hours", "--runner=PortableRunner", f"--jobEndpoint={endpoint}"]
    lines, folder = printed_by([*command, f"--expansionService={service}"], tmp_path)
    visits = [(HOUR * n / 800, visit(n, 200)) for n in range(2400)]
    source = beam.Create([beam.window.TimestampedValue(row, START.timestamp() + time) for time, row in visits])
    elements = Windowed(source)
    expected = released_in_python(elements, PrivateFrequencies(**HOURS), monkeypatch)
    found = []
    for hour in range(3):
        opens = START + timedelta(hours=hour)
        name = f"{folder}/x-{opens:%Y%m%dT%H%M%SZ}-{opens + timedelta(hours=1):%Y%m%dT%H%M%SZ}.dpsketch"
        found += [(opens, key, each.counters.tolist()) for key, each in read_releases(name, ReleasedSketch, keyed=True)]
    assert sorted(found) == sorted(expected)
    keys = [(row.country, row.device) for _, row in visits]
    counts = Counter(
        (int(time // HOUR), *key, row.page)
        for key, (time, row) in zip(keys, visits, strict=True)
        if [*key] in HOURS["keys"]["public"]
    )
    answers = re.findall(
        r"^2024-05-01T0(\d):00:00Z to 2024-05-01T0(\d):00:00Z (\w+) (\w+) (\w+) ([\d.]+) ", "\n".join(lines), re.M
    )
    assert len(answers) == 3 * 3 * 3
    assert all(int(closes) == int(opens) + 1 for opens, closes, *_ in answers)
    assert Counter({(int(opens), *key): int(float(count)) for opens, _, *key, count in answers}) == counts
    assert len([line for line in lines if line.startswith("wrote ")]) == 3


class Windowed(beam.PTransform):
    """Elements of a source in windows of an hour."""

    def __init__(self, source: beam.PTransform) -> None:
        super().__init__()
        self._source = source

    def expand(self, pipeline: Any) -> beam.PCollection:
        return pipeline | self._source | beam.WindowInto(beam.window.FixedWindows(HOUR))
