"""How accurate released frequencies are, beside the bars they must meet: ``python -m benchmarks.frequency_accuracy``.

Data: 100,000 items from a bounded Zipf distribution, rank r in 1..65,535 with probability proportional to 1/r. For
CountSketch (depth 5) and Count-Min (depth 6) of equal size, neighbouring relation REPLACE_ONE, it prints:
  ARE       mean over the items that occur of |estimate - f| / f; most of them occur once or twice
  F1@10     overlap of the ten largest estimates with the ten most frequent items
  coverage  share of the items whose true frequency is in the 95 % interval, and the interval's mean width
"exact" is the sketch before any noise, read from its raw counters: what collisions alone cost.
Takes a few seconds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from beam_dpsketch import REPLACE_ONE, CountMin, CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.estimators.row_mean import RowReader
from beam_dpsketch.sketches import LinearSketch
from benchmarks import ordered_data, readings
from benchmarks.measuring import environment

ITEMS = 100_000
KINDS: tuple[tuple[type[LinearSketch], int], ...] = ((CountSketch, 5), (CountMin, 6))
RHOS = (None, 1.0, 0.1)
COUNTERS = 36_864
CONFIDENCE = 0.95
# The largest mean ARE allowed with 36,864 counters: exact, rho = 1, rho = 0.1.
BARS = {"count_sketch": (1.3, 2.0, 4.2), "count_min": (1.6, 12.5, 34.0)}
LEAST_F1 = 0.98


class Accuracy(NamedTuple):
    """What one release achieved on one data set; coverage and width are nan without noise."""

    error: float
    f1: float
    coverage: float
    width: float


def zipf(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct items and how often each occurs."""
    return np.unique(ordered_data.zipf(np.random.default_rng(seed), ITEMS), return_counts=True)


def measured(sketch: LinearSketch, items: np.ndarray, counts: np.ndarray, rho: float | None) -> Accuracy:
    """One release, or the exact sketch if rho is None, against the truth."""
    if rho is None:
        estimates, covered, width = exact(sketch, items), np.nan, np.nan
    else:
        released = release(sketch, ReleaseTerms(PrivacySpec(rho=rho, relation=REPLACE_ONE)))
        estimates = released.estimate(items)  # Count-Min: guarantee="simultaneous", failure_probability=0.01
        found = released.interval(items, CONFIDENCE)
        covered = float(np.mean((found.lower <= counts) & (counts <= found.upper)))
        width = float(np.mean(found.upper - found.lower))
    error, f1 = readings.mean_relative_error(estimates, counts), readings.top_ten_f1(estimates, counts)
    return Accuracy(error, f1, covered, width)


def exact(sketch: LinearSketch, items: np.ndarray) -> np.ndarray:
    """What a release without noise would estimate."""
    if not sketch.has_signs:
        return readings.frequencies(sketch, items)
    return RowReader(sketch.spec, sketch.counters, sigma_squared=0).estimates(sketch.keys(sketch.spec, items))


def measurements(kind: type[LinearSketch], spec_shape: tuple[int, int], seeds: int) -> Iterator[list[Accuracy]]:
    """For each seed, the accuracy at each rho."""
    depth, width = spec_shape
    for seed in range(seeds):
        items, counts = zipf(seed)
        sketch = kind(SketchSpec(kind=kind.name, depth=depth, width=width, seed=seed)).accumulate(
            np.repeat(items, counts)
        )
        yield [measured(sketch, items, counts, rho) for rho in RHOS]


def mean(values: tuple[float, ...], decimals: int) -> str:
    """Mean and range."""
    if np.isnan(values[0]):
        return "-"
    parts = (statistics.fmean(values), min(values), max(values))
    return "{} ({} to {})".format(*(f"{part:,.{decimals}f}" for part in parts))


def main() -> None:
    """Print one line per sketch and rho."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counters", type=int, default=COUNTERS, help="size of each sketch (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=10, help="how many data sets (default: %(default)s)")
    arguments = parser.parse_args()
    print(environment("numpy", "beam-dpsketch"))
    print(f"N = {ITEMS:,}, Zipf(1.0) on 1..65,535, {arguments.counters:,} counters", end=" ")
    print(f"({arguments.counters * 4 / 1000:.1f} KB at 4 bytes a counter), REPLACE_ONE, unit: a record")
    print(f"Seeds: 0 to {arguments.seeds - 1} for data and hash; noise from the operating system. Mean (range).")
    print('Count-Min estimates: guarantee="simultaneous", failure_probability=0.01')
    print("The candidates of F1@10 are the items that occur. Such a list is not private: it serves to measure only.")
    print(f"Intervals: {CONFIDENCE:.0%}; those of Count-Min hold for noise on all items at once, so they cover more.")
    with_bars = arguments.counters == COUNTERS
    print(f"{'':<34} {'ARE':<22}{'bar':>8}  {'F1@10':<20}{'bar':>8}  {'coverage':<24}{'width':<25}met")
    for kind, depth in KINDS:
        width = arguments.counters // depth
        by_seed = list(measurements(kind, (depth, width), arguments.seeds))
        for place, rho in enumerate(RHOS):
            accuracy = Accuracy(*zip(*(run[place] for run in by_seed), strict=True))
            name = f"{kind.name} {depth} x {width}, " + ("exact" if rho is None else f"rho {rho:g}")
            bar = BARS[kind.name][place]
            met = statistics.fmean(accuracy.error) <= bar and statistics.fmean(accuracy.f1) >= LEAST_F1
            print(f"{name:<34} {mean(accuracy.error, 2):<22}{f'<= {bar}' if with_bars else '-':>8}", end="  ")
            print(f"{mean(accuracy.f1, 2):<20}{f'>= {LEAST_F1}' if with_bars else '-':>8}", end="  ")
            print(f"{mean(accuracy.coverage, 3):<24}{mean(accuracy.width, 1):<25}", end="")
            print(("yes" if met else "NO") if with_bars else "-")


if __name__ == "__main__":
    main()
