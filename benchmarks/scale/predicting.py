"""What jobs of two scenarios take: where time and bytes go, what saturates first, and which settings help."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.scale.costs import Costs
from benchmarks.scale.jobs import Engine, Job
from benchmarks.scale.kinds import KINDS
from benchmarks.scale.running import Ran, run
from benchmarks.scale.scenarios import Input, Machines, Settings
from benchmarks.table import Bar, Table

SCENARIOS = {
    "10^9 rows": (Input(10**9, 10**9, 10**6), Machines(workers=100)),
    "10^12 rows": (Input(10**12, 10**9, 10**6), Machines(workers=1000)),
}
SEED = 1
MEMORY_BAR = 4e9


class Case(NamedTuple):
    """One line of a table: a kind of release, and what is set otherwise."""

    words: str
    kind: str
    settings: Settings = Settings()
    given: Mapping[str, object] = {}


CASES = (
    *(Case(KINDS[kind].words, kind) for kind in ("frequencies", "tree", "records", "norm", "keyed")),
    Case("the same, keys by Zipf(1.0)", "keyed", given={"zipf_keys": True}),
)
_SMALL, _PLAIN = Settings(bundle_rows=100_000), Settings(expecting=False)
_PLAIN_SMALL = Settings(bundle_rows=100_000, expecting=False)
CHANGES = (
    (Case("quantiles, without `with_size_hint`", "tree", _PLAIN), Case("with it", "tree")),
    (Case("quantiles, bundles of 100,000 rows, without it", "tree", _PLAIN_SMALL), Case("with it", "tree", _SMALL)),
    (Case("quantiles, bundles of 100,000 rows", "tree", _SMALL), Case("of 1,000,000", "tree")),
    (Case("quantiles, `for_memory`", "tree"), Case("levels of 16 children", "fewer")),
    (Case("quantiles, `for_memory`", "tree"), Case("`for_ranks`", "factor")),
    (Case("RecordBounds(5), without `with_size_hint`", "records", _PLAIN), Case("with it", "records")),
    (Case("RecordBounds(5), text ids", "records"), Case("ids are numbers", "numbers")),
    (Case("RecordBounds(5), bundles of 100,000 rows", "records", _SMALL), Case("of 1,000,000", "records")),
    (Case("NormBound(5), without `with_size_hint`", "norm", _PLAIN), Case("with it", "norm")),
    (
        Case("RecordBounds(5), bundles of 8,000,000 rows", "records", Settings(bundle_rows=8_000_000)),
        Case("and buffers of 262,144", "records", Settings(bundle_rows=8_000_000, buffered=1 << 18)),
    ),
    (Case("NormBound(5), a shard at once", "norm", Settings(sub_parts=1)), Case("in parts, as it is", "norm")),
    (Case("NormBound(5)", "norm"), Case("max_distinct_items=100", "limited")),
    (Case("NormBound(5), L2", "norm"), Case("L1", "order_1")),
    (Case("keys, bundles of 100,000 rows", "keyed", _SMALL), Case("of 1,000,000", "keyed")),
    (Case("keys, AssumePublicKeys", "keyed"), Case("PublicKeys", "listed")),
)


class Result(NamedTuple):
    """What a job took.

    Attributes:
      stages: its steps.
      started: seconds of processor time of the engine, and to start workers.
    """

    stages: list[Ran]
    started: float

    @property
    def seconds(self) -> float:
        """How long it took by the clock."""
        return sum(each.seconds for each in self.stages)

    @property
    def work(self) -> float:
        """Seconds of processor time of its steps."""
        return sum(each.stage.work for each in self.stages)

    @property
    def core_hours(self) -> float:
        return (self.started + self.work) / 3600

    @property
    def sent(self) -> float:
        return sum(each.stage.sent for each in self.stages)

    @property
    def memory(self) -> float:
        """Bytes that the largest task holds of its input."""
        return max(each.stage.memory for each in self.stages)

    @property
    def slowest(self) -> Ran:
        """The step that does not fit, or else takes longest."""
        return max(self.stages, key=lambda each: (each.memory > 1, each.seconds))

    @property
    def saturates(self) -> str:
        return f"{self.slowest.stage.name}: {self.slowest.limit}"


def job_result(case: Case, scenario: str, costs: Mapping[str, Costs], engine: Engine) -> Result:
    """Run the job of a case."""
    given, machines = SCENARIOS[scenario]
    given = dataclasses.replace(given, **dict[str, Any](case.given))
    kind = KINDS[case.kind]
    keys = given.keys if kind.keyed else 1
    job = Job(kind, costs[case.kind], engine, dataclasses.replace(given, keys=keys), case.settings)
    return Result(run(job.stages(SEED), machines), engine.job + engine.worker * machines.slots)


def shown_bytes(size: float) -> str:
    """Return bytes with a unit, three digits."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000 or unit == "PB":
            break
        size /= 1000
    return f"{size:,.3g} {unit}"


def shown_time(seconds: float) -> str:
    """Return a time with a unit, three digits: minutes from one minute on."""
    return f"{seconds:,.3g} s" if seconds < 60 else f"{seconds / 60:,.3g} min"


def print_scenario(scenario: str, costs: Mapping[str, Costs], engine: Engine) -> Iterator[tuple[str, Result]]:
    """Print a line for each case, and yield what it took."""
    given, machines = SCENARIOS[scenario]
    title = (
        f"{given.rows:,} rows of {given.people:,} people, {given.keys:,} keys; {machines.workers:,} workers of "
        f"{machines.cores} cores, {machines.memory / 1e9:.0f} GB and {8e-9 * machines.network:.0f} Gbit/s"
    )
    heads = ("", "core hours", "time", "cores busy", "sent", "longest task", "holds", "  saturates first")
    table = Table(title, heads, (42, -11, -10, -11, -10, -16, -10, 28), bar=9)
    for case in CASES:
        made = job_result(case, scenario, costs, engine)
        longest = max(each.longest for each in made.stages)
        bars = [Bar(made.memory, "<", MEMORY_BAR)] if case.kind == "norm" else []
        table.row(
            case.words,
            f"{made.core_hours:,.3g}",
            shown_time(made.seconds),
            f"{made.work / (machines.slots * made.seconds):.0%}",
            shown_bytes(made.sent),
            shown_time(longest),
            shown_bytes(made.memory) if made.memory else "-",
            f"  {made.saturates}",
            bars=bars,
        )
        yield case.words, made


def print_stages(results: Mapping[str, Result]) -> None:
    """Print what each step of each case takes."""
    heads = ("", "step", "tasks", "core hours", "time", "longest", "network", "sent", "  waits for")
    table = Table("Its steps", heads, (42, 12, -12, -11, -10, -11, -11, -10, 16), bar=0)
    for words, made in results.items():
        for each in made.stages:
            table.row(
                words,
                each.stage.name,
                f"{len(each.stage.seconds):,}",
                f"{each.stage.work / 3600:,.3g}",
                *map(shown_time, (each.seconds, each.longest, each.network)),
                shown_bytes(each.stage.sent),
                f"  {each.limit}",
            )


def print_changes(scenario: str, costs: Mapping[str, Costs], engine: Engine) -> None:
    """Print how much settings help."""
    heads = ("", "", "time", "core hours", "sent", "holds")
    table = Table(f"Settings, {scenario}: before and after", heads, (48, 28, -20, -20, -22, -22), bar=0)
    for pair in CHANGES:
        before, after = (job_result(case, scenario, costs, engine) for case in pair)
        table.row(
            *(case.words for case in pair),
            f"{shown_time(before.seconds)} > {shown_time(after.seconds)}",
            f"{before.core_hours:,.3g} > {after.core_hours:,.3g}",
            *(
                f"{shown_bytes(old)} > {shown_bytes(new)}"
                for old, new in ((before.sent, after.sent), (before.memory, after.memory))
            ),
        )
