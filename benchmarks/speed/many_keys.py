"""Time and memory of many keys with a small sketch each: ``python -m benchmarks.speed.many_keys``.

`PrivateFrequencies` over 100,000 keys with 1 to 3 records each, where each privacy id counts in at most 4 keys:
100,000 releases of 5 x 64 counters. Each pipeline runs in a process of its own, up to one of the steps. A part is the
difference to the step before, in the same repetition. Times are processor time, all threads, divided by the keys. For
the whole, wall time is shown too. Elements are made one by one while the pipeline runs, as a source would.
`release_frame` releases the same records as a table in memory.
Peak memory is that of a new process, with imports, which are more than a third of it. Takes about 4 minutes.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.command import Command
from benchmarks.measuring import in_new_process, in_turns, peak_megabytes
from benchmarks.table import Bar, Table, spread

if TYPE_CHECKING:
    import apache_beam as beam

DEPTH, WIDTH, MAX_KEYS_OF_ID, SEED = 5, 64, 4, 1
BAR, MEMORY_BAR = 0.15, 400
STEPS = {
    "bound": "make rows, read, bound",
    "sum": "sum each key",
    "release": "draw noise, release",
    "final": "make final, take apart",
}
FRAME = "frame"

WHOLE = (
    ("all, processor time", "processor", BAR, 3),
    ("all, wall time", "wall", BAR, 3),
    ("peak memory, megabytes", "peak", MEMORY_BAR, 0),
    ("peak memory above imports, megabytes", "above", None, 0),
)


def up_to(step: str, elements: beam.PCollection, transform: Any) -> beam.PCollection:
    """What the steps of the transform make of elements, up to one of `STEPS`."""
    import apache_beam as beam

    from beam_dpsketch.statement.noisy import NoisyReleases
    from beam_dpsketch.transforms.steps.bounding_over_windows import bound_over_windows
    from beam_dpsketch.transforms.steps.exact_sums import ExactSums
    from beam_dpsketch.transforms.steps.release_once import ReleaseOnce, draw_run
    from beam_dpsketch.transforms.steps.whole_runs import DrawLost
    from beam_dpsketch.transforms.steps.windows import plan_of

    declared = transform._declared
    plan = plan_of(elements, declared)
    if step == "final":
        return elements | transform
    if step == "bound":
        return bound_over_windows(elements, declared, declared.sketch_input, plan, None).values
    exact = elements | ExactSums(declared, plan, None, {})
    if step == "sum":
        return exact["sums"]
    calibration = declared.resolved.under(plan.terms).calibrated
    lost = beam.pvalue.AsSingleton(exact["lost"] | DrawLost(calibration, None, None))
    run = beam.pvalue.AsSingleton(draw_run(elements.pipeline))
    once = beam.ParDo(ReleaseOnce(calibration), run=run, lost=lost)
    return exact["sums"] | once.with_output_types(tuple[Any, NoisyReleases])


class Rows(Sequence[Any]):
    """Rows of text, made when they are asked for, of columns of numbers."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns

    def __getitem__(self, place: Any) -> Any:
        return {name: f"{name} {column[place]}" for name, column in self._columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))


def measure(step: str, keys: int) -> dict[str, float]:
    """Milliseconds of processor and wall time for each key, and megabytes, of one pipeline in this process."""
    import apache_beam as beam
    import numpy as np
    import pyarrow as pa

    from beam_dpsketch import AssumePublicKeys, PrivacyId, PrivacySpec, RecordBounds, SketchSpec, release_frame
    from beam_dpsketch.transforms import PrivateFrequencies
    from benchmarks import sources

    imported = peak_megabytes()
    generator = np.random.default_rng(SEED)
    shops = np.repeat(np.arange(keys), generator.integers(1, 4, keys))
    generator.shuffle(shops)
    users, items = (generator.integers(0, size, len(shops)) for size in (max(1, keys // 2), 10_000))
    rows = Rows(user=users, shop=shops, item=items)
    sources.keep("rows", rows)
    transform = PrivateFrequencies(
        SketchSpec(depth=DEPTH, width=WIDTH),
        PrivacySpec(rho=1.0),
        item="item",
        privacy_unit=PrivacyId("user", RecordBounds(1, max_keys=MAX_KEYS_OF_ID)),
        keys=AssumePublicKeys("shop"),
    )
    table = pa.Table.from_pylist(list(rows)) if step == FRAME else None
    processor, wall = time.process_time(), time.perf_counter()
    if table is None:
        with sources.pipeline() as pipeline:
            elements = pipeline | sources.Elements("rows", len(shops), dict)
            _ = up_to(step, elements, transform) | "Seen" >> beam.Map(lambda element: None)
    else:
        release_frame(table, transform._declared)
    return {
        "processor": 1e3 * (time.process_time() - processor) / keys,
        "wall": 1e3 * (time.perf_counter() - wall) / keys,
        "peak": peak_megabytes(),
        "above": peak_megabytes() - imported,
    }


def main() -> None:
    """Print one line for each part, and the whole with its bars."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "beam-dpsketch")
    command.number("--keys", 100_000, "each with a sketch")
    command.number("--repetitions", 3, "processes")
    command.add_argument("--step", choices=[*STEPS, FRAME], help="measure one step in this process, print JSON only")
    arguments = command.parse_args()
    keys, repetitions = arguments.keys, arguments.repetitions
    if arguments.step:
        print(json.dumps(measure(arguments.step, keys)))
        return
    with command.writing(
        arguments,
        f"Runner: FnApiRunner, in memory, one worker. N = {keys:,} keys with 1 to 3 records each.",
        f"{DEPTH} x {WIDTH} CountSketch for each key, rho = 1, at most {MAX_KEYS_OF_ID} keys of each privacy id.",
        f"Data seed {SEED}; noise from the operating system. Median (range) of {repetitions} processes.",
    ):
        steps = [*STEPS, FRAME]
        runs = {step: partial(in_new_process, "speed.many_keys", "--step", step, "--keys", keys) for step in steps}
        found = in_turns(runs, repetitions)
        table = Table(None, ("milliseconds of processor time a key", ""), (40, 26))
        before = [0.0] * repetitions
        for step, words in STEPS.items():
            so_far = [run["processor"] for run in found[step]]
            table.row(f"  {words}", spread([after - early for after, early in zip(so_far, before, strict=True)], 3))
            before = so_far
        for words, name, limit, decimals in WHOLE:
            values = [run[name] for run in found["final"]]
            bars = [] if limit is None else [Bar(statistics.median(values), "<=", limit)]
            table.row(words, spread(values, decimals), bars=bars)
        table.row("release_frame, processor time", spread([run["processor"] for run in found[FRAME]], 3))


if __name__ == "__main__":
    main()
