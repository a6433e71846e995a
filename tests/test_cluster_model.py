"""The model of a cluster: rows and bytes are conserved, and what it says follows from what it is told."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.command import RESULTS
from benchmarks.scale import costs, fitting, flink_runs, made_rows, predicting, unit_costs
from benchmarks.scale.costs import Cost, Costs
from benchmarks.scale.flink_runs import FlinkRun
from benchmarks.scale.jobs import Engine, Job, Stage
from benchmarks.scale.kinds import KINDS
from benchmarks.scale.made_rows import Rows
from benchmarks.scale.running import makespan, run
from benchmarks.scale.scenarios import Input, Machines, Settings
from benchmarks.scale.steps import Steps

ENGINE = Engine(job=4.0, worker=1.0, byte=1e-8, element=2e-6)
USUAL, INPUT = Settings(), Input(10**8, 10**7, 10**5)
KNOWN = costs.read(RESULTS / "scale" / "costs.csv")


def stages(kind: str, given: Input = INPUT, settings: Settings = USUAL, seed: int = 0) -> list[Stage]:
    return list(Job(KINDS[kind], KNOWN[kind], ENGINE, given, settings).stages(seed))


def test_every_kind_has_its_costs() -> None:
    assert set(KNOWN) == set(KINDS)
    for kind in KINDS:
        assert all(np.isfinite(stage.work) and stage.work > 0 for stage in stages(kind))


@pytest.mark.parametrize("shards", [1, 256, 16384])
@pytest.mark.parametrize("given", [Input(10**6, 10), Input(10**9, 10**9), Input(10**12, 10**9), Input(5, 10**9)])
def test_every_row_is_in_one_bundle_and_one_shard(given: Input, shards: int) -> None:
    generator = np.random.default_rng(1)
    rows = given.of_shards(shards, generator)
    assert len(rows) == shards
    assert (rows.sum(), rows.min() >= 0) == (given.rows, True)
    bundles = Settings(bundle_rows=max(1, given.rows // 1000)).bundles(given.rows, generator)
    assert (bundles.sum(), bundles.min() >= 0) == (given.rows, True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_step_sends_comes_to_the_next_one(kind: str) -> None:
    for before, after in itertools.pairwise(stages(kind)):
        if after.received is not None:
            assert after.received.sum() == pytest.approx(before.sent, rel=0.05)


@pytest.mark.parametrize("kind", ["frequencies", "norm", "keyed"])
def test_a_seed_decides_everything(kind: str) -> None:
    one, same, other = (stages(kind, seed=seed) for seed in (3, 3, 4))
    for stage, again in zip(one, same, strict=True):
        assert (stage.seconds == again.seconds).all()
    assert any(
        len(a.seconds) != len(b.seconds) or (a.seconds != b.seconds).any() for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_more_rows_take_more(kind: str) -> None:
    sizes = (10**6, 10**7, 10**8, 10**9)
    work = [sum(stage.work for stage in stages(kind, dataclasses.replace(INPUT, rows=rows))) for rows in sizes]
    assert work == sorted(work)
    assert work[-1] > 5 * work[-2]


@pytest.mark.parametrize("kind", KINDS)
def test_more_workers_are_never_slower(kind: str) -> None:
    made = stages(kind)
    times = [sum(each.seconds for each in run(made, Machines(workers=workers))) for workers in (1, 3, 10, 50, 400)]
    assert times == sorted(times, reverse=True)


def test_tasks_run_when_a_slot_is_free() -> None:
    tasks = np.array([3.0, 1.0, 1.0, 2.0])
    assert [makespan(tasks, slots) for slots in (1, 2, 3, 4)] == [7.0, 4.0, 3.0, 3.0]
    generator = np.random.default_rng(0)
    many = generator.exponential(1.0, 1000)
    for slots in (2, 7, 100):
        least = max(many.max(), many.sum() / slots)
        assert least <= makespan(many, slots) <= many.sum() / slots + many.max()  # Graham 1966


def test_a_shard_that_is_too_large_does_not_fit_until_it_is_bounded_in_parts() -> None:
    given, small = Input(10**12, 10**9), Machines(workers=1000, memory=8e9)
    whole, parts = (run(stages("norm", given, Settings(sub_parts=count)), small)[1] for count in (1, 64))
    assert (whole.limit, whole.memory > 1) == ("does not fit", True)
    assert whole.stage.memory > 2 * parts.stage.memory
    assert parts.limit != "does not fit"


def test_two_steps_of_sums_relieve_the_last_worker() -> None:
    given = Input(10**11)
    alone, two = (stages("tree", given, Settings(expecting=told)) for told in (False, True))
    last = [next(stage.work for stage in made if stage.name == "last merge") for made in (alone, two)]
    assert last[0] > 50 * last[1]


def test_a_bundle_of_many_keys_sends_again_and_again() -> None:
    given = Input(10**9, keys=10**6)
    few, many = (stages("keyed", given, Settings(bundle_rows=rows))[0] for rows in (50_000, 10**7))
    assert few.sent >= many.sent > 0.9 * few.sent  # of a million keys, few are met again before 64 MB wait
    by_zipf = stages("keyed", dataclasses.replace(given, zipf_keys=True), Settings(bundle_rows=10**7))[0]
    assert by_zipf.sent < many.sent / 2


def test_sums_of_keys_come_to_shards_and_to_some_workers_first_where_they_are_many() -> None:
    few, many = (stages("keyed", Input(rows, keys=10**6)) for rows in (10**9, 10**12))
    assert [stage.name for stage in few] == ["sum", "last merge", "release"]
    assert [stage.name for stage in many] == ["sum", "merge", "last merge", "release"]
    assert [len(stage.rows) for stage in many[1:]] == [256_000, 256, 256]
    assert many[3].rows.sum() == 10**6
    assert few[1].rows.sum() > 0.9 * 10**9  # nearly each row has a sum of its own


def test_times_have_the_unit_that_suits_them() -> None:
    assert [predicting.shown_time(seconds) for seconds in (0.4949, 59.9, 60, 8940)] == [
        "0.495 s",
        "59.9 s",
        "1 min",
        "149 min",
    ]


def test_costs_are_read_between_sizes_and_beyond() -> None:
    known = Costs(
        [
            Cost("", "sum", 100, nanoseconds=1000),
            Cost("", "sum", 10_000, nanoseconds=100_000),
            Cost("", "merge", 1000, nanoseconds=1000),
            Cost("", "merge", 100_000, nanoseconds=2000),
            Cost("", "shard", 1000, 10, nanoseconds=2000, size=50_100),
            Cost("", "shard", 1000, 100, nanoseconds=11_000, size=51_000),
        ]
    )
    assert known.seconds("sum", 1000) == pytest.approx(1e-5)
    assert known.seconds("sum", 1_000_000) == pytest.approx(1e-2, rel=1e-6)
    assert known.seconds("sum", 1) == pytest.approx(1e-6)
    assert known.seconds("merge", 10**7) == pytest.approx(3e-6)  # a sum does not grow with its rows
    row, part = known.a_row_and_a_part("shard")
    assert (row.seconds, part.seconds) == (pytest.approx(1e-9), pytest.approx(1e-7))
    assert (row.size, part.size) == (pytest.approx(50), pytest.approx(10))


def test_files_hold_what_was_written(tmp_path) -> None:
    cost = Cost("tree", "sum", 10, 2, 3, 45.0, 6)
    costs.write(tmp_path / "costs.csv", [cost, dataclasses.replace(cost, kind="norm", rows=20)])
    assert costs.every(tmp_path / "costs.csv")[0] == cost
    assert costs.read(tmp_path / "costs.csv")["tree"].seconds("sum", 10, 3) == pytest.approx(45e-9)
    job = FlinkRun("tree", 10**7, 0, 0, 1, 2.5, 3.25)
    flink_runs.write(tmp_path / "runs.csv", [job])
    assert flink_runs.read(tmp_path / "runs.csv") == [job]


def test_a_fit_finds_the_engine_of_made_up_jobs() -> None:
    kinds, sizes = ("frequencies", "keyed", "norm"), (50_000, 10**7)
    jobs = [FlinkRun(kind, rows, rows // 10, 2000, 1) for kind in kinds for rows in sizes]

    def made(job: FlinkRun) -> FlinkRun:
        """Half of what bytes and elements take is Java's, and half Python's."""
        steps = fitting.predict(job, KNOWN, Engine())
        sent = fitting.predict(job, KNOWN, dataclasses.replace(ENGINE, job=0, worker=0)) - steps
        return dataclasses.replace(job, workers=ENGINE.worker + steps + sent / 2, engine=ENGINE.job + sent / 2)

    found = fitting.fit(list(map(made, jobs)), KNOWN)
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(ENGINE), rel=1e-3)
    larger = FlinkRun("norm", 10**8, 10**7, 0, 2)
    assert fitting.predict(larger, KNOWN, found) == pytest.approx(fitting.predict(larger, KNOWN, ENGINE), rel=1e-3)


def test_the_jobs_of_the_results_are_predicted() -> None:
    runs = flink_runs.read(RESULTS / "scale" / "runs.csv")
    assert {(each.rows, each.parallelism) for each in runs} >= {(10**7, 1), (10**7, 2), (10**8, 1)}
    engine = fitting.fit(runs, KNOWN)
    for each in runs:
        assert 1 / 1.3 <= fitting.predict(each, KNOWN, engine) / each.seconds <= 1.3 or fitting.is_fitted(each)


def test_rows_are_the_same_in_every_process_and_ids_are_told_apart() -> None:
    rows = Rows(people=10**9, keys=50)
    assert rows.batch(3).equals(rows.batch(3))
    assert not rows.batch(3).equals(rows.batch(4))
    ids = np.arange(100_000) * 9973
    texts = made_rows.as_text(ids)
    assert {len(text) for text in texts[:5].to_pylist()} == {36}
    assert len(texts.unique()) == len(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_unit_costs_run_the_steps_of_the_package(kind: str) -> None:
    steps, rows = Steps(KINDS[kind], 20), KINDS[kind].rows(100, 20)
    batches = unit_costs.batches(rows, 2000)
    assert sum(map(len, batches)) == 2000
    if KINDS[kind].keyed:
        pairs = steps.split(batches)
        assert steps.waiting_bytes(steps.add_up_keys(pairs)) > 20_000
        payloads = steps.send_keys(steps.add_up_keys(pairs), shards=4)
        assert len(payloads) == 4
        sums = steps.gather_keys(payloads + payloads)
        assert len(sums) == 20
        assert (sums.counters == 2 * steps.gather_keys(payloads).counters).all()
        assert steps.release(sums) == 20
        return
    if KINDS[kind].bounded:
        payloads = list(unit_costs.payloads_of(KINDS[kind], steps, 2000, 10, 500))
        assert len(payloads) == 4
        people = pa.Table.from_batches(unit_costs.batches(KINDS[kind].rows(200, 0), 2000))["person"].unique()
        assert len({person for table in steps.gather(payloads) for person in table["unit"].to_pylist()}) == len(people)
        total = steps.bound(payloads)
    else:
        total = steps.add_up(batches)
    assert steps.release(steps.merge(steps.encode([total]), total).to_sums()) == 1


def test_scenarios_say_what_saturates_first(capsys: pytest.CaptureFixture[str]) -> None:
    found = dict(predicting.print_scenario("10^9 rows", KNOWN, ENGINE))
    predicting.print_stages(found)
    printed = capsys.readouterr().out
    assert len(found) == len(predicting.CASES)
    for words, made in found.items():
        assert made.slowest.seconds == max(each.seconds for each in made.stages)
        (line,) = (line for line in printed.split("Its steps")[0].splitlines() if line.startswith(words))
        assert made.saturates in line
