"""The engines, each started once for all tests, and stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tests.engines import fetch
from tests.engines.flink import FlinkCluster
from tests.engines.processes import free_port, running, wait_for

ENGINES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("prism", "flink")]


PREMATURE = "EmptySideInput"
"""Prism 2.77.0 sometimes starts a step before its side input exists, and the job fails: apache/beam#36563."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test on Prism once more if Prism started a step too early."""
    if item.get_closest_marker("prism") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(each.failed and PREMATURE in each.longreprtext for each in reports):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for each in reports:
        item.ihook.pytest_runtest_logreport(report=each)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class Engine(NamedTuple):
    """A job server that is running, with workers in the process of the tests."""

    runner: str
    options: tuple[str, ...]
    streaming: tuple[str, ...]
    in_order: tuple[str, ...]  # so that what is late is late for certain; after all other options
    logs: Callable[[], str]


@pytest.fixture(scope="session")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    port, binary, log = free_port(), found(fetch.prism), tmp_path_factory.mktemp("prism") / "log.txt"
    with running([str(binary), f"--job_port={port}", "--serve_http=false"], log) as process:
        wait_for(port, process, log)
        yield Engine("PrismRunner", served_at(f"localhost:{port}"), ("--streaming",), (), log.read_text)


@pytest.fixture(scope="session")
def flink_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """A job manager, two task managers and a job server."""
    with FlinkCluster(found(fetch.flink_job_server), tmp_path_factory.mktemp("flink")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def flink(flink_cluster: FlinkCluster) -> Engine:
    """Flink at parallelism 2.

    Watermarks wait for the end of a bundle and for the slowest task, so that what is late is certain only if bundles
    are small and tasks single.
    """
    return Engine(
        "FlinkRunner",
        (*served_at(flink_cluster.job_endpoint), "--parallelism=2"),
        ("--streaming", "--max_bundle_size=1", "--max_parallelism=16"),
        ("--parallelism=1",),
        flink_cluster.logs,
    )


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return request.getfixturevalue(request.param)


def served_at(job_endpoint: str) -> tuple[str, ...]:
    """The options that bring a job to a server, also on a machine where that takes more than Beam's minute."""
    return f"--job_endpoint={job_endpoint}", "--environment_type=LOOPBACK", "--job_server_timeout=300"


def found(find: Callable[[], Path]) -> Path:
    """A tool, or the reason why tests are skipped."""
    try:
        return find()
    except fetch.MissingError as missing:
        pytest.skip(f"SKIPPED: {missing}")
