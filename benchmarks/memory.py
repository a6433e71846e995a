"""Memory of many small sketches, before their release: ``python -m benchmarks.memory``.

10,000 keys with one record each, in one bundle: the worst case for memory, because Beam keeps the accumulators of up
to 100,000 keys of a bundle at once. Peak memory of three processes that differ in the last step only: imports and
elements but no pipeline; Beam's `Count.PerKey`; and the combine step of `PrivateFrequencies.PerKey`, up to its
accumulators. Releases are dense whatever the data, as privacy demands, and are made one by one.
Peak memory is ru_maxrss of a new process. Python lets it inherit its parent's peak, so this one imports nothing big.
Takes about half a minute.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

from benchmarks.measuring import environment, spread

DEPTH, WIDTH = 5, 2048
BAR = 250
MEGABYTE = 1e6
STAGES = {"imports": "imports and elements", "count": "Count.PerKey", "sketch": "sketches (accumulate and merge)"}


def peak_after(stage: str, keys: int) -> float:
    """Peak memory of this process in megabytes, after one pipeline."""
    import apache_beam as beam

    from beam_dpsketch import RecordBounds, SketchSpec
    from beam_dpsketch.records.items import SketchInput
    from beam_dpsketch.records.selectors import Selectors
    from beam_dpsketch.transforms.steps.raw_sketch_fn import RawSketchFn
    from benchmarks import sources

    recipe = SketchInput(SketchSpec(depth=DEPTH, width=WIDTH), RecordBounds(1, max_weight=1))
    combines = {"count": beam.combiners.Count.PerKey(), "sketch": beam.CombinePerKey(RawSketchFn(recipe, Selectors()))}
    sources.keep("pairs", [(f"key {key:05d}", f"/encyclopedia/article/{key:05d}") for key in range(keys)])
    if stage in combines:
        with sources.pipeline() as pipeline:
            per_key = pipeline | sources.Elements("pairs", keys, tuple[str, str]) | combines[stage]
            _ = per_key | "HowMany" >> beam.combiners.Count.Globally()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE


def measured(stage: str, keys: int) -> float:
    """The same, in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", "--stage", stage, "--keys", str(keys)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print one line per stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--repetitions", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--stage", choices=STAGES, help="measure one in this process and print megabytes only")
    arguments = parser.parse_args()
    if arguments.stage:
        print(peak_after(arguments.stage, arguments.keys))
        return
    print(environment("apache-beam", "numpy", "beam-dpsketch"))
    print(f"Runner: FnApiRunner, in memory, one worker. N = {arguments.keys:,} keys with one record each.")
    print(f"{DEPTH} x {WIDTH:,} CountSketch for each key. Seeds: none, nothing is random before the release.")
    print(f"Megabytes of peak resident memory: median (range) of {arguments.repetitions} processes.")
    peaks: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for _ in range(arguments.repetitions):
        for stage, values in peaks.items():
            values.append(measured(stage, arguments.keys))
    base, count = (statistics.median(peaks[stage]) for stage in ("imports", "count"))
    print(f"{'':<34}{'peak':<24}{'above imports':>14}{'above Count.PerKey':>20}{'bar':>8}  met")
    for stage, values in peaks.items():
        median = statistics.median(values)
        bar, met = ("-", "-") if stage != "sketch" else (f"< {BAR}", "yes" if median - base < BAR else "NO")
        print(f"{STAGES[stage]:<34}{spread(values):<24}{median - base:>14,.0f}{median - count:>20,.0f}{bar:>8}  {met}")
    dense = arguments.keys * DEPTH * WIDTH * 8 / MEGABYTE
    print(f"For comparison, dense counters for every key at once would be {dense:,.0f} (computed, not measured).")


if __name__ == "__main__":
    main()
