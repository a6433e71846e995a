"""The engines, each started once for all tests, and stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engines import fetch

# As Beam's own tests of Flink have them, for Java 17.
JAVA = ["java", *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "nio", "util"))]
FLINK_CLASS_PATH = "FLINK_JOB_SERVER_CLASS_PATH"
ENGINES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("prism", "flink")]


class Engine(NamedTuple):
    """A job server that is running, with workers in the process of the tests."""

    runner: str
    options: tuple[str, ...]
    log: Path
    streaming: tuple[str, ...]


@pytest.fixture(scope="session")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    port, binary = free_port(), found(fetch.prism)
    command = [str(binary), f"--job_port={port}", "--serve_http=false"]
    yield from served("PrismRunner", command, port, tmp_path_factory.mktemp("prism"))


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A Flink in the process of the job server: the one fetched, or one of another Beam, on a class path that is given.

    Watermarks wait for the end of a bundle, so that what is late is certain only if bundles are small.
    """
    if FLINK_CLASS_PATH in os.environ:
        server = ["-cp", os.environ[FLINK_CLASS_PATH], "org.apache.beam.runners.flink.FlinkJobServerDriver"]
    else:
        server = ["-jar", str(found(fetch.flink_job_server))]
    port, folder = free_port(), tmp_path_factory.mktemp("flink")
    options = {"flink-master": "[local]", "job-port": port, "artifact-port": 0, "expansion-port": 0}
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [*JAVA, *server, *arguments, "--artifacts-dir", str(folder)]
    yield from served("FlinkRunner", command, port, folder, "--max_bundle_size=1")


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return request.getfixturevalue(request.param)


def found(find: Callable[[], Path]) -> Path:
    """A tool, or the reason why tests are skipped."""
    try:
        return find()
    except fetch.MissingError as missing:
        pytest.skip(f"SKIPPED: {missing}")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return int(free.getsockname()[1])


def served(runner: str, command: list[str], port: int, folder: Path, *streaming: str) -> Iterator[Engine]:
    """The engine, while its job server is running, with options of its own for streams."""
    log = folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(port, process, log)
        yield Engine(
            runner,
            (f"--job_endpoint=localhost:{port}", "--environment_type=LOOPBACK"),
            log,
            ("--streaming", *streaming),
        )
    finally:
        process.terminate()
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until something listens, for two minutes at most."""
    for _ in range(240):
        assert process.poll() is None, log.read_text()
        with socket.socket() as client:
            if client.connect_ex(("localhost", port)) == 0:
                return
        time.sleep(0.5)
    raise TimeoutError(log.read_text())
