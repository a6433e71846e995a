"""Batches on real engines: exact counters are those of the runner in memory, and releases are what they should be."""

from __future__ import annotations

import collections
import functools
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import IntegerDomain, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.domains import TextDomain
from beam_dpsketch.transforms import (
    BoundContributions,
    EnvironmentSecret,
    PrivateFrequencies,
    PrivateQuantiles,
    PrivateTopK,
)
from tests.engines import fetch
from tests.engines.conftest import Engine, found, served_at
from tests.engines.flink import JAVA, job_server_arguments
from tests.engines.processes import free_port, running, wait_for
from tests.guarantees import test_streaming
from tests.guarantees.test_runners import KINDS, VISITS, branches, expected
from tests.guarantees.test_streaming import CASES, outputs
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters, run, seen_by_sink
from tests.helpers.tree_pipelines import ExactVectors
from tests.transforms import test_continual
from tests.transforms.steps import test_bounding_over_windows

PRIVACY = PrivacySpec(rho=0.1)
BOUNDS = RecordBounds(max_contributions_per_partition=3, max_partitions=2)
KEYED = {"key": "user", "keys_are_public": True, "unit": "record"}
TREES = {
    "quantiles": PrivateQuantiles.Globally(
        IntegerDomain(-1, 3),
        PRIVACY,
        item="seconds",
        unit=PrivacyId("user", RecordBounds(max_contributions_per_partition=40)),
    ),
    "quantiles per key": PrivateQuantiles.PerKey(IntegerDomain(-1, 3), PRIVACY, item="seconds", **KEYED),
    "top-k": PrivateTopK.Globally(TextDomain(8), PRIVACY, k=3, item="page", unit=Record()),
}


def in_time(pipeline: beam.Pipeline) -> beam.PCollection:
    """A bounded input with times."""
    return pipeline | beam.Create(test_streaming.VISITS) | beam.MapTuple(TimestampedValue)


def test_exact_counters_of_every_kind_of_element(engine: Engine) -> None:
    seen = seen_by_sink(functools.partial(branches, KINDS), *engine.options, runner=engine.runner)
    assert dict(seen) == expected(KINDS)
    assert len(seen) == len(expected(KINDS))


@pytest.mark.parametrize("name", CASES)
def test_exact_counters_in_windows(name: str, engine: Engine) -> None:
    """Fixed, sliding and declared windows, with keys and without, bounded by privacy id and not."""
    windows, make = CASES[name]
    found = outputs(in_time, ExactCounters(make()), windows, *engine.options, runner=engine.runner)
    assert found == outputs(in_time, ExactCounters(make()), windows, runner=FN_API)


@pytest.mark.flink
def test_flink_in_one_process(tmp_path: Path) -> None:
    """Without a cluster: the job server runs the tasks too."""
    jar, port, log = found(fetch.flink_job_server), free_port(), tmp_path / "log.txt"
    with running([*JAVA, "-jar", str(jar), *job_server_arguments("[local]", port, tmp_path)], log) as process:
        wait_for(port, process, log)
        windows, make = CASES["ids, keyed, declared"]
        options = served_at(f"localhost:{port}")
        here = outputs(in_time, ExactCounters(make()), windows, *options, runner="FlinkRunner")
    assert here == outputs(in_time, ExactCounters(make()), windows, runner=FN_API)


@pytest.mark.parametrize("name", TREES)
def test_exact_counters_of_trees(name: str, engine: Engine) -> None:
    here = run(VISITS, ExactVectors(TREES[name]), *engine.options, runner=engine.runner)
    assert sorted(here) == sorted(run(VISITS, ExactVectors(TREES[name]), runner=FN_API))


def test_bounds_hold(engine: Engine) -> None:
    """Of each user's records 3 of a page are kept, and 2 pages at most."""
    bound = BoundContributions(BOUNDS, key="page", item="user", unit=PrivacyId("user", RecordBounds(1)))
    kept = run(VISITS, bound, *engine.options, runner=engine.runner)
    records = collections.Counter((contribution.item, contribution.key) for contribution in kept)
    pages = collections.Counter(user for user, _ in records)
    assert max(records.values()) == 3
    assert set(pages.values()) == {2}
    assert len(pages) == 7


def test_an_id_has_so_many_windows_of_a_period(engine: Engine) -> None:
    assert_greedy_id_is_bounded(stamped_greedy, engine)


def stamped_greedy(pipeline: beam.Pipeline) -> beam.PCollection:
    return pipeline | beam.Create(test_bounding_over_windows.GREEDY) | beam.MapTuple(TimestampedValue)


def assert_greedy_id_is_bounded(source: Any, engine: Engine) -> None:
    """One id with too many records everywhere: two windows of each period count, and the bounds hold in each."""
    transform = ExactCounters(test_bounding_over_windows.per_key(weight="weight", period=300))
    found = outputs(source, transform, 60, *engine.options, runner=engine.runner)
    totals = {place: counters[0][0] for place, counters in found.items()}
    test_bounding_over_windows.assert_within(
        totals, test_bounding_over_windows.FIXED, test_bounding_over_windows.BOUNDS, 2, 300
    )


@pytest.mark.parametrize("name", ["global", "declared", "keyed, declared", "ids"])
def test_one_release_of_each_key_and_window_says_the_same(name: str, engine: Engine) -> None:
    windows, make = CASES[name]
    here = outputs(in_time, make(), windows, *engine.options, runner=engine.runner)
    there = outputs(in_time, make(), windows, runner=FN_API)
    assert {place: str(released.privacy) for place, released in here.items()} == {
        place: str(released.privacy) for place, released in there.items()
    }
    assert not {released.to_bytes() for released in here.values()} & {each.to_bytes() for each in there.values()}


def test_every_node_of_a_horizon_is_the_exact_sum_of_its_windows(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = test_continual.bounded(test_continual.frequencies())
    nodes = test_continual.sums(monkeypatch, build, *engine.options, runner=engine.runner)
    assert test_continual.same(nodes, test_continual.expected(test_continual.VISITS))


@pytest.mark.parametrize("name", ["global", "keyed, declared", "ids"])
def test_idempotent_noise_is_that_of_the_runner_in_memory(
    name: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_TESTS", "a secret of the tests, of 32 bytes or more")
    windows, make = CASES[name]
    releases = [
        outputs(
            in_time,
            make().with_idempotent_noise(release_id="visits", secret=EnvironmentSecret("OF_TESTS")),
            windows,
            *options,
            runner=runner,
        )
        for runner, options in ((engine.runner, engine.options), (FN_API, ()))
    ]
    here, there = ({place: each.to_bytes() for place, each in run.items()} for run in releases)
    assert here == there


def test_neither_log_nor_error_has_elements(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    """Of a job that succeeds, and of one that fails after the release."""
    planted = [(f"planted-{number}", "planted") for number in range(4711, 4731)]
    count = PrivateFrequencies.Globally(SPEC, PRIVACY, item=str, unit=PrivacyId(str, RecordBounds(1)))

    def fails(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(planted) | count | beam.Map(len)

    run(planted, count, *engine.options, runner=engine.runner)
    with pytest.raises(RuntimeError, match="has no len") as caught:
        seen_by_sink(fails, *engine.options, runner=engine.runner)
    assert "has no len" in engine.logs()
    assert "planted" not in engine.logs() + str(caught.value) + "".join(capfd.readouterr())
