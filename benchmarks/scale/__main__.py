"""A model of a cluster, from unit costs: ``python -m benchmarks.scale [part ...]``.

Where the time and the bytes of a large job go, what saturates first, and which settings help. Parts:
  measure  the unit costs: what each step of a release takes of a worker, by the package's own steps, without Beam
  check    jobs on a Flink cluster of this machine. What the engine takes is fitted on jobs of up to 10^7 rows at
           parallelism 1. Larger jobs, and others at parallelism 2, are predicted. All processes of the cluster count
  predict  two scenarios of 10^9 and 10^12 rows, with a picture

The model takes each job apart into bundles, shards of privacy ids, merges and releases. Each takes what its unit costs
say, and they run on the slots of workers. Sizes of bundles are log-normal, and the first people have most rows; a seed
draws both. `measure` takes some minutes; `check` takes forty, and needs what `make engines` finds. `predict` reads
what they have written and takes some seconds. Times are processor time, on two cores with other work on them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.command import RESULTS, Command
from benchmarks.scale import costs, fitting, flink_runs, picture, predicting, unit_costs
from benchmarks.scale.costs import Cost, Costs
from benchmarks.scale.flink_runs import FlinkRun
from benchmarks.scale.jobs import Engine
from benchmarks.scale.kinds import KINDS
from benchmarks.table import Bar, Table
from tests.engines import fetch
from tests.engines.flink import FlinkCluster

FEW, WARMING, MANY, TENTH = 50_000, 10**6, 10**8, 10
CHECKED = ("frequencies", "tree", "numbers", "keyed", "records", "norm")
FEW_KEYS = 2000
BAR, HEAP = 0.3, 3072


def planned(rows: int, largest: int) -> list[FlinkRun]:
    """Return the jobs of a check: small ones, those of the fit, and those that are predicted."""

    def most(name: str) -> int:
        return largest * 3 // 10 if KINDS[name].bounded or KINDS[name].keyed else largest

    small = [job(name, FEW, 1) for name in CHECKED]
    fitted, others = ([job(name, rows, parallelism) for name in CHECKED] for parallelism in (1, 2))
    return [*small, *fitted, *others, *(job(name, most(name), each) for each in (1, 2) for name in CHECKED)]


def job(name: str, rows: int, parallelism: int) -> FlinkRun:
    """Return a job of a kind, before it has run."""
    kind = KINDS[name]
    return FlinkRun(name, rows, rows // TENTH if kind.bounded else 0, FEW_KEYS if kind.keyed else 0, parallelism)


def cost_cells(cost: Cost) -> tuple[str, ...]:
    """Return the line of a unit cost."""
    rates = f"{cost.nanoseconds / cost.rows:,.1f}", f"{cost.nanoseconds / 1e6:,.2f}"
    return (
        cost.kind,
        cost.step,
        f"{cost.rows:,}",
        f"{cost.parts:,}" if cost.parts else "-",
        f"{cost.per_id:,}" if cost.per_id else "-",
        *(rates if cost.nanoseconds else "--"),
        f"{cost.size:,}" if cost.size else "-",
    )


def cluster_in(folder: Path) -> FlinkCluster:
    """Return a cluster with a heap for what a bundle sends: with less, one of 10^8 rows filled it and stood still."""
    return FlinkCluster(fetch.flink_job_server(), folder, heap=HEAP)


def run_jobs(file: Path, jobs: list[FlinkRun]) -> None:
    """Run jobs on a cluster that is warm, and write what each took when it is done."""
    done: list[FlinkRun] = []
    with tempfile.TemporaryDirectory() as folder, cluster_in(Path(folder)) as cluster:
        for parallelism in (1, 2):
            for name in ("frequencies", "keyed", "records"):
                flink_runs.run_job(cluster, job(name, WARMING, parallelism))
        idle = flink_runs.idle_share(cluster)
        for each in jobs:
            done.append(flink_runs.measure(cluster, each, idle))
            flink_runs.write(file, done)


def print_check(runs: list[FlinkRun], known: Mapping[str, Costs]) -> Engine:
    """Print what was predicted and measured, and return what the engine takes."""
    engine = fitting.fit(runs, known)
    print(
        f"Fitted: a job {engine.job:.2f} s, a worker {engine.worker:.2f} s, a byte {1e9 * engine.byte:.2f} ns, "
        f"an element {1e6 * engine.element:.2f} us"
    )
    heads = ("", "rows", "parallelism", "workers", "engine", "measured", "predicted", "ratio")
    table = Table("Seconds of processor time", heads, (42, -13, -13, -10, -10, -10, -11, -8))
    for run in runs:
        predicted = fitting.predict(run, known, engine)
        ratio = predicted / run.seconds
        bars = [] if fitting.is_fitted(run) else [Bar(max(ratio, 1 / ratio), "<=", 1 + BAR)]
        words = KINDS[run.kind].words
        numbers = (run.workers, run.engine, run.seconds, predicted)
        table.row(
            words,
            f"{run.rows:,}",
            f"{run.parallelism}",
            *(f"{each:,.1f}" for each in numbers),
            f"{ratio:.2f}",
            bars=bars,
        )
    return engine


def measure(command: Command, arguments: Any) -> None:
    """Measure the unit costs."""
    file = folder_of(arguments) / "costs.csv"
    with command.writing(arguments, "Processor time, the least of three; rows of seed 1", part="measure"):
        heads = ("kind", "step", "rows", "parts", "rows an id", "ns a row", "milliseconds", "bytes")
        table, measured = Table(None, heads, (14, 10, -11, -11, -12, -13, -14, -15), bar=0), []
        for cost in costs.every(file) if arguments.again else _costs(file, arguments.kinds.split(",")):
            table.row(*cost_cells(cost))
            measured.append(cost)
    costs.write(file, measured)


def _costs(file: Path, kinds: list[str]) -> Iterator[Cost]:
    """Yield the costs of all kinds: measured of some, and as they were of the others."""
    stored = [] if set(kinds) >= set(KINDS) else costs.every(file)
    for name in KINDS:
        yield from unit_costs.measured([name]) if name in kinds else (each for each in stored if each.kind == name)


def check(command: Command, arguments: Any) -> None:
    """Run jobs on a cluster, and compare them with what is predicted."""
    try:
        jar = fetch.flink_job_server()
    except fetch.MissingError as missing:
        sys.exit(str(missing))
    file = folder_of(arguments) / "runs.csv"
    if not arguments.again:
        run_jobs(file, planned(arguments.rows, arguments.largest))
    words = f"Ids have {TENTH} rows on average, keys {FEW_KEYS:,}; two task managers; the bar is a ratio, either way"
    with command.writing(arguments, words, part="check", more=(jar.stem,)):
        print_check(flink_runs.read(file), costs.read(folder_of(arguments) / "costs.csv"))


def predict(command: Command, arguments: Any) -> None:
    """Print what the scenarios take, and draw it."""
    known = costs.read(folder_of(arguments) / "costs.csv")
    engine = fitting.fit(flink_runs.read(folder_of(arguments) / "runs.csv"), known)
    with command.writing(arguments, f"Unit costs and engine as measured; seed {predicting.SEED}", part="predict"):
        drawn = {}
        for scenario in predicting.SCENARIOS:
            drawn[scenario] = dict(predicting.print_scenario(scenario, known, engine))
            predicting.print_stages(drawn[scenario])
            predicting.print_changes(scenario, known, engine)
    picture.draw(folder_of(arguments) / "predict.png", drawn)


PARTS = {"measure": measure, "check": check, "predict": predict}


def folder_of(arguments: Any) -> Path:
    return arguments.output or RESULTS / "scale"


def main() -> None:
    """Measure, check or predict."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch", parts=tuple(PARTS))
    command.number("--rows", fitting.FITTED_ROWS, "of the jobs of the fit")
    command.number("--largest", MANY, "rows of the largest jobs; three tenths of it with ids or keys")
    command.number("--kinds", ",".join(KINDS), "that `measure` measures; costs of the others stay as they are")
    command.add_argument(
        "--again", action="store_true", help="print what was measured the last time; measure and run nothing"
    )
    arguments = command.parse_args()
    for part in arguments.parts or PARTS:
        PARTS[part](command, arguments)


if __name__ == "__main__":
    main()
