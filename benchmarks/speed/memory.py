"""Memory of many small sketches, before their release: ``python -m benchmarks.speed.memory``.

10,000 keys with one record each, in one bundle: the worst case for memory, because Beam keeps the accumulators of up
to 100,000 keys of a bundle at once. Peak memory of three processes that differ in the last step only: imports and
elements but no pipeline; Beam's `Count.PerKey`; and the combine step of `PrivateFrequencies`, up to its
accumulators. Releases are dense whatever the data, as privacy demands, and are made one by one.
Accumulators are lists of what was added until these take twice the memory of dense counters. Each peak is that of a new
process. Takes about half a minute.
"""

from __future__ import annotations

import statistics
from functools import partial

from benchmarks.command import Command
from benchmarks.measuring import in_new_process, in_turns, peak_megabytes
from benchmarks.table import Bar, Table, spread

DEPTH, WIDTH = 5, 2048
BAR = 250
STAGES = {"imports": "imports and elements", "count": "Count.PerKey", "sketch": "sketches (accumulate and merge)"}


def peak_after(stage: str, keys: int) -> float:
    """Peak memory of this process in megabytes, after one pipeline."""
    import apache_beam as beam

    from beam_dpsketch import RecordBounds, SketchSpec
    from beam_dpsketch.exact.reading.items import SketchInput
    from beam_dpsketch.exact.reading.selectors import Selectors
    from beam_dpsketch.transforms.steps.sums import RawSketchFn
    from benchmarks import sources

    recipe = SketchInput(SketchSpec(depth=DEPTH, width=WIDTH), RecordBounds(1, max_weight=1))
    combines = {"count": beam.combiners.Count.PerKey(), "sketch": beam.CombinePerKey(RawSketchFn(recipe, Selectors()))}
    sources.keep("pairs", [(f"key {key:05d}", f"/encyclopedia/article/{key:05d}") for key in range(keys)])
    if stage in combines:
        with sources.pipeline() as pipeline:
            per_key = pipeline | sources.Elements("pairs", keys, tuple[str, str]) | combines[stage]
            _ = per_key | "HowMany" >> beam.combiners.Count.Globally()
    return peak_megabytes()


def main() -> None:
    """Print one line per stage."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "beam-dpsketch")
    command.number("--keys", 10_000, "each with a sketch")
    command.number("--repetitions", 5, "processes")
    command.add_argument("--stage", choices=STAGES, help="measure one in this process and print megabytes only")
    arguments = command.parse_args()
    keys = arguments.keys
    if arguments.stage:
        print(peak_after(arguments.stage, keys))
        return
    with command.writing(
        arguments,
        f"Runner: FnApiRunner, in memory, one worker. N = {keys:,} keys with one record each.",
        f"{DEPTH} x {WIDTH:,} CountSketch for each key. Seeds: none, nothing is random before the release.",
        f"Megabytes of peak resident memory: median (range) of {arguments.repetitions} processes.",
    ):
        runs = {stage: partial(in_new_process, "speed.memory", "--stage", stage, "--keys", keys) for stage in STAGES}
        peaks = in_turns(runs, arguments.repetitions)
        base, count = (statistics.median(peaks[stage]) for stage in ("imports", "count"))
        table = Table(None, ("", "peak", "above imports", "above Count.PerKey"), (34, 24, -14, -20))
        for stage, values in peaks.items():
            median = statistics.median(values)
            bars = [Bar(median - base, "<", BAR)] if stage == "sketch" else []
            table.row(STAGES[stage], spread(values), f"{median - base:,.0f}", f"{median - count:,.0f}", bars=bars)
        dense = keys * DEPTH * WIDTH * 8 / 1e6
        print(f"For comparison, dense counters for every key at once would be {dense:,.0f} (computed, not measured).")


if __name__ == "__main__":
    main()
