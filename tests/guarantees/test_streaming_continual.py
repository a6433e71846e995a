"""Continual release of streams whose windows are summed in state: the same nodes as of a batch."""

from __future__ import annotations

import apache_beam as beam
import pytest

from tests.helpers.continual import VISITS, WINDOWS, expected, frequencies, same, sums
from tests.helpers.pipelines import FN_API, seen_by_sink
from tests.helpers.stream_cases import PORTABLE, stateful_steps
from tests.helpers.streams import state_everywhere, unbounded

pytestmark = pytest.mark.usefixtures(state_everywhere.__name__)
STREAM = unbounded([(visit, visit.time) for visit in VISITS])


@pytest.mark.slow
def test_every_node_is_the_exact_sum_of_its_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(sums(monkeypatch, lambda pipeline: STREAM(pipeline) | frequencies()), expected(VISITS))


def test_one_step_merges_in_state() -> None:
    pipeline = beam.Pipeline(runner=FN_API)
    _ = STREAM(pipeline) | frequencies()
    assert len(stateful_steps(pipeline)) == 1


@pytest.mark.engine
@pytest.mark.parametrize("runner", PORTABLE)
def test_each_node_is_released_once(runner: str, importable_in_workers: None) -> None:
    engine, options = PORTABLE[runner]
    nodes = seen_by_sink(lambda pipeline: STREAM(pipeline) | frequencies(), *options, runner=engine)
    assert len({(node.level, node.index) for node in nodes}) == len(nodes) == 2 * WINDOWS - 1
