"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import apache_beam as beam
import pytest
from hypothesis import settings

from tests.helpers import quick_beam

# A busy machine is not a failure. The fast profile tries the same examples in each run, the full one others.
for name, max_examples in (("project", 10), ("full", 100)):
    settings.register_profile(name, deadline=None, max_examples=max_examples, derandomize=name == "project")
settings.load_profile("project")

MANY_CASES = 3
collect_ignore = ["typed_user.py"]  # for mypy: some of its lines are wrong on purpose


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--plain-beam", action="store_true", help="leave Beam as it is; see tests/helpers/quick_beam.py")
    words = f"of slow tests with over {MANY_CASES} cases, run a third, drawn at random, the same in every run"
    parser.addoption("--third-of-cases", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("plain_beam"):
        quick_beam.remember()


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of the garbage collections of all tests."""
    gc.collect()
    gc.freeze()


_PIPELINES = (
    "tests/guarantees/",
    "tests/rows/",
    "tests/transforms/",
    "tests/engines/",
    "tests/test_changed_destinations.py",
    "tests/test_delays_by_destination.py",
    "tests/test_documentation.py",
    "tests/test_frequent_phrases.py",
    "tests/test_mean_delays.py",
    "tests/test_pipelines.py",
    "tests/test_quantile_pipelines.py",
    "tests/test_streaming_pipelines.py",
    "tests/test_three_teams.py",
    "tests/test_throughput.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the folders whose tests run pipelines, and as slow all but one case of long tables of cases."""
    seen = set()
    for item in items:
        if item.nodeid.startswith(_PIPELINES):
            item.add_marker(pytest.mark.pipeline)
        if item.get_closest_marker("one_fast_case") is not None:
            test = item.nodeid.split("[")[0]
            if test in seen:
                item.add_marker(pytest.mark.slow)
            seen.add(test)
    if config.getoption("third_of_cases"):
        _leave_out_two_thirds(items)


def _leave_out_two_thirds(items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is not None:
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    left_out = set()
    for test, each in cases.items():
        if len(each) > MANY_CASES:
            left_out |= {*random.Random(test).sample(each, 2 * len(each) // 3)}
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _says_that_it_runs_pipelines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `make test-fast` fast: a test without the marker cannot run a pipeline."""
    if request.node.get_closest_marker("pipeline") is None:

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("this test runs a pipeline: mark it with pytest.mark.pipeline")

        monkeypatch.setattr(beam.Pipeline, "run", refuse)


@pytest.fixture
def importable_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets worker processes import these tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
