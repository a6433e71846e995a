"""Batches on real engines: exact counters are those of the runner in memory, and releases are what they should be."""

from __future__ import annotations

import collections
import functools
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    IntegerDomain,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
)
from beam_dpsketch.cli.stored import read_all
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.transforms import (
    BoundContributions,
    EnvironmentSecret,
    PrivateFrequencies,
    PrivateQuantiles,
    PrivateTopK,
    WriteReleases,
)
from tests.engines import fetch
from tests.engines.checks import assert_greedy_id_is_bounded
from tests.engines.conftest import Engine, found, served_at
from tests.engines.flink import JAVA, job_server_arguments
from tests.engines.processes import free_port, running, wait_for
from tests.helpers import continual, stream_cases
from tests.helpers.every_kind import KINDS, VISITS, branches, expected
from tests.helpers.max_windows import GREEDY
from tests.helpers.norm_reference import UNIT, Counted
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters, run, seen_by_sink
from tests.helpers.side_releases import under_norm
from tests.helpers.stream_cases import CASES, RANGE, bounded, globally, outputs, stated
from tests.helpers.tree_pipelines import ExactVectors

PRIVACY = PrivacySpec(rho=0.1)
BOUNDS = RecordBounds(max_records=3, max_keys=2)
KEYS = AssumePublicKeys("user")
TREES = {
    "quantiles": PrivateQuantiles(
        IntegerDomain(-1, 3), PRIVACY, item="seconds", privacy_unit=PrivacyId("user", RecordBounds(max_records=40))
    ),
    "quantiles under a norm": PrivateQuantiles(
        IntegerDomain(-1, 3), PRIVACY, item="seconds", privacy_unit=PrivacyId("user", NormBound(5))
    ),
    "quantiles per key": PrivateQuantiles(
        IntegerDomain(-1, 3), PRIVACY, item="seconds", privacy_unit=Record(), keys=KEYS
    ),
    "top-k": PrivateTopK(IntegerDomain(-1, 3), PRIVACY, k=3, item="seconds", privacy_unit=Record()),
}


def test_exact_counters_of_every_kind_of_element(engine: Engine) -> None:
    seen = seen_by_sink(functools.partial(branches, KINDS), *engine.options, runner=engine.runner)
    assert dict(seen) == expected(KINDS)
    assert len(seen) == len(expected(KINDS))


@pytest.mark.parametrize("name", CASES)
def test_exact_counters_in_windows(name: str, engine: Engine) -> None:
    """Fixed, sliding and declared windows, with keys and without, bounded by privacy id and not."""
    windows, make = CASES[name]
    found = outputs(bounded, ExactCounters(make()), windows, *engine.options, runner=engine.runner)
    assert found == outputs(bounded, ExactCounters(make()), windows, runner=FN_API)


def test_one_norm_covers_all_windows(engine: Engine) -> None:
    transform = globally(privacy_unit=PrivacyId("user", NormBound(9)))
    found = outputs(bounded, ExactCounters(transform), 60, *engine.options, runner=engine.runner)
    assert found == outputs(bounded, ExactCounters(transform), 60, runner=FN_API)


CHOSEN = PrivateFrequencies(
    SPEC,
    PrivacySpec(rho=2),
    item="page",
    privacy_unit=PrivacyId("user", AutoNorm()),
    keys=PublicKeys(["a", "absent"], "page"),
    windows=RANGE,
)


def test_a_chosen_norm_is_one_in_all_releases(engine: Engine) -> None:
    """Intervals of the summary counts cover the sums over the records, but for a probability below 1e-9.

    Noise may hide so few users, and the norm is 1 then: most of them are scaled.
    """
    found = outputs(bounded, CHOSEN, 60, *engine.options, runner=engine.runner)
    assert len(found) == 2 * 5
    (bounds,) = {released.privacy.bounds for released in found.values()}
    visits = [(each, time // 60 * 60) for each, time in stream_cases.VISITS if each.page == "a"]
    wanted = under_norm(SPEC, bounds, 10, (Counted(each.user, (start, "a"), "a") for each, start in visits))
    for place, released in found.items():
        for note in released.privacy.side:
            _, lower, upper = note.interval(1 - 1e-10)
            least, largest = wanted[place][note.names[0]]
            assert lower * UNIT <= least <= largest <= upper * UNIT


def test_an_idempotent_norm_is_that_of_the_runner_in_memory(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TESTS", "a secret of the tests, of 32 bytes or more")
    transform = CHOSEN.with_idempotent_noise(release_id="visits", secret=EnvironmentSecret("OF_TESTS"))
    here, there = (
        {
            place: released.to_bytes()
            for place, released in outputs(bounded, transform, 60, *options, runner=runner).items()
        }
        for runner, options in ((engine.runner, engine.options), (FN_API, ()))
    )
    assert here == there


def test_a_run_that_chose_no_key_leaves_what_it_spent(engine: Engine, tmp_path: Path) -> None:
    """A key of one person is chosen with less than 1e-10."""
    people, keys = PrivacyId("user", RecordBounds(1, max_keys=1)), KeySelection(1e-10, "key")
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=people, item="item", keys=keys)
    row = {"user": "u", "key": "k", "item": 1}
    transform.check([row])
    with beam.Pipeline(runner=engine.runner, options=PipelineOptions([*engine.options])) as pipeline:
        pipeline | beam.Create([row]) | transform | WriteReleases(str(tmp_path / "part"))
    stored, (nothing,), _ = read_all([str(tmp_path)])
    assert (stored, nothing.spent.privacy.rho) == ([], PRIVACY.rho)


@pytest.mark.flink
def test_flink_in_one_process(tmp_path: Path) -> None:
    """Without a cluster: the job server runs the tasks too."""
    jar, port, log = found(fetch.flink_job_server), free_port(), tmp_path / "log.txt"
    with running([*JAVA, "-jar", str(jar), *job_server_arguments("[local]", port, tmp_path)], log) as process:
        wait_for(port, process, log)
        windows, make = CASES["ids, keyed, declared"]
        options = served_at(f"localhost:{port}")
        here = outputs(bounded, ExactCounters(make()), windows, *options, runner="FlinkRunner")
    assert here == outputs(bounded, ExactCounters(make()), windows, runner=FN_API)


@pytest.mark.parametrize("name", TREES)
def test_exact_counters_of_trees(name: str, engine: Engine) -> None:
    here = run(VISITS, ExactVectors(TREES[name]), *engine.options, runner=engine.runner)
    assert sorted(here) == sorted(run(VISITS, ExactVectors(TREES[name]), runner=FN_API))


def test_bounds_hold(engine: Engine) -> None:
    """Each user keeps 2 pages, and of each of them 3 records, or all where the page has fewer."""
    bound = BoundContributions(PrivacyId("user", BOUNDS), key="page", item="user")
    kept = run(VISITS, bound, *engine.options, runner=engine.runner)
    records = collections.Counter((contribution.item, contribution.key) for contribution in kept)
    given = collections.Counter((visit.user, visit.page) for visit in VISITS)
    assert records == {place: min(3, given[place]) for place in records}
    pages = collections.Counter(user for user, _ in records)
    assert set(pages.values()) == {2}
    assert len(pages) == 7


def test_an_id_has_so_many_windows_of_a_period(engine: Engine) -> None:
    assert_greedy_id_is_bounded(stamped_greedy, engine)


def stamped_greedy(pipeline: beam.Pipeline) -> beam.PCollection:
    return pipeline | beam.Create(GREEDY) | beam.MapTuple(TimestampedValue)


@pytest.mark.parametrize("name", ["global", "declared", "keyed, declared", "ids"])
def test_one_release_of_each_key_and_window_says_the_same(name: str, engine: Engine) -> None:
    windows, make = CASES[name]
    here = outputs(bounded, make(), windows, *engine.options, runner=engine.runner)
    there = outputs(bounded, make(), windows, runner=FN_API)
    assert stated(here) == stated(there)
    assert not {released.to_bytes() for released in here.values()} & {each.to_bytes() for each in there.values()}


@pytest.mark.parametrize("which", MECHANISMS)
def test_continual_rows_are_exact(which: Mechanism, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    build = continual.bounded(continual.frequencies(mechanism=which))
    rows = continual.sums(monkeypatch, build, *engine.options, runner=engine.runner)
    assert continual.same(rows, continual.expected(continual.VISITS, mechanism=which))


@pytest.mark.parametrize("keys", [PublicKeys(["ann", "bob"], "who"), AssumePublicKeys("who")], ids=["public", "found"])
def test_no_continual_row_is_late(keys: PublicKeys | AssumePublicKeys, engine: Engine) -> None:
    """All data are in the last windows; what groups rows by their window has all of them."""
    visits = [continual.Visit("ann", "a", continual.START + 81.0), continual.Visit("bob", "b", continual.START + 101.0)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = continual.bounded(continual.per_key(keys), visits)(pipeline)
        numbers = rows | beam.MapTuple(lambda key, row: (key, row.number)).with_output_types(tuple[str, int])
        return numbers | beam.GroupByKey() | beam.MapTuple(lambda key, together: (key, list(together)))

    seen = seen_by_sink(build, *engine.options, runner=engine.runner)
    assert sorted(seen) == [(key, [number]) for key in ("ann", "bob") for number in range(continual.WINDOWS)]


@pytest.mark.parametrize("max_keys", [1, 2], ids=["one round", "two rounds"])
def test_continual_rows_of_chosen_keys_are_those_of_the_runner_in_memory(
    max_keys: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same keys, and the same bytes of each row, by a secret."""
    monkeypatch.setenv("OF_TESTS", "a secret of the tests, of 32 bytes or more")
    transform = continual.per_key(
        KeySelection(0.2, "who"),
        privacy=PrivacySpec(rho=0.4, delta=0.5),
        privacy_unit=PrivacyId("item", NormBound(5, max_keys=max_keys)),
    ).with_idempotent_noise(release_id="crowd", secret=EnvironmentSecret("OF_TESTS"))
    crowd = [
        continual.Visit(f"key {key}", f"voter {voter} of {key}", continual.START + 90.0 - key - voter)
        for key in range(12)
        for voter in range(1 + 2 * key)
    ]
    here, there = (
        {(key, row.number): row.to_bytes() for key, row in seen_by_sink(build, *options, runner=runner)}
        for build in [continual.bounded(transform, crowd)]
        for runner, options in ((engine.runner, engine.options), (FN_API, ()))
    )
    assert here == there
    assert 0 < len({key for key, _ in here}) < 12


@pytest.mark.parametrize("name", ["global", "keyed, declared", "ids"])
def test_idempotent_noise_is_that_of_the_runner_in_memory(
    name: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_TESTS", "a secret of the tests, of 32 bytes or more")
    windows, make = CASES[name]
    releases = [
        outputs(
            bounded,
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
    count = PrivateFrequencies(SPEC, PRIVACY, item=str, privacy_unit=PrivacyId(str, RecordBounds(1)))

    def fails(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(planted) | count | beam.Map(len)

    run(planted, count, *engine.options, runner=engine.runner)
    with pytest.raises(RuntimeError, match="has no len") as caught:
        seen_by_sink(fails, *engine.options, runner=engine.runner)
    assert "has no len" in engine.logs()
    assert "planted" not in engine.logs() + str(caught.value) + "".join(capfd.readouterr())
