"""How accurate released frequencies are, beside the bars they must meet: ``python -m benchmarks.accuracy.frequencies``.

Data: 100,000 items from a bounded Zipf distribution, rank r in 1..65,535 with probability proportional to 1/r. For
CountSketch (depth 5) and Count-Min (depth 6) of equal size, neighbouring relation REPLACE_ONE, it prints:
  ARE       mean over the items that occur of |estimate - f| / f; most of them occur once or twice
  F1@10     overlap of the ten largest estimates with the ten most frequent items
  coverage  share of the items whose true frequency is in the 95 % interval, and the interval's mean width
"exact" is the sketch before any noise, read from its raw counters: what collisions alone cost. An error of one noise
standard deviation weighs much where an item occurs once or twice. Takes a few seconds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from beam_dpsketch import REPLACE_ONE, CountMin, CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.estimators.row_mean import RowReader
from beam_dpsketch.answers.flat import ReleasedFrequencies
from beam_dpsketch.exact.sketches import LinearSketch
from benchmarks import ordered_data, readings
from benchmarks.command import Command
from benchmarks.table import Bar, Table, mean

ITEMS = 100_000
KINDS: tuple[tuple[type[LinearSketch], int], ...] = ((CountSketch, 5), (CountMin, 6))
RHOS = (None, 1.0, 0.1)
COUNTERS = 36_864
CONFIDENCE = 0.95
# The largest mean ARE allowed with 36,864 counters: exact, rho = 1, rho = 0.1.
BARS = {"count_sketch": (1.3, 2.0, 4.2), "count_min": (1.7, 2.0, 3.2)}
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
        assert isinstance(released, ReleasedFrequencies)
        estimates = released.estimate(items)
        found = released.interval(items, CONFIDENCE)
        covered = float(np.mean((found.lower <= counts) & (counts <= found.upper)))
        width = float(np.mean(found.upper - found.lower))
    error, f1 = readings.mean_relative_error(estimates, counts), readings.top_ten_f1(estimates, counts)
    return Accuracy(error, f1, covered, width)


def exact(sketch: LinearSketch, items: np.ndarray) -> np.ndarray:
    """What a release without noise would estimate."""
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


def main() -> None:
    """Print one line per sketch and rho."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--counters", COUNTERS, "size of each sketch")
    command.number("--seeds", 10, "how many data sets")
    arguments = command.parse_args()
    counters = arguments.counters
    with command.writing(
        arguments,
        f"N = {ITEMS:,}, Zipf(1.0) on 1..65,535, {counters:,} counters ({counters / 250:.1f} KB at 4 bytes a counter), "
        "REPLACE_ONE, unit: a record",
        f"Seeds: 0 to {arguments.seeds - 1} for data and hash; noise from the operating system. Mean (range).",
        "The candidates of F1@10 are the items that occur. Such a list is not private: it serves to measure only.",
        f"Intervals: {CONFIDENCE:.0%}",
    ):
        table = Table(None, ("", "ARE", "F1@10", "coverage", "width"), (35, 25), bar=17)
        for kind, depth in KINDS:
            by_seed = list(measurements(kind, (depth, counters // depth), arguments.seeds))
            for place, rho in enumerate(RHOS):
                errors, f1, coverage, width = map(list, zip(*(run[place] for run in by_seed), strict=True))
                name = f"{kind.name} {depth} x {counters // depth}, " + ("exact" if rho is None else f"rho {rho:g}")
                error = Bar(statistics.fmean(errors), "<=", BARS[kind.name][place])
                bars = (error, Bar(statistics.fmean(f1), ">=", LEAST_F1)) if counters == COUNTERS else ()
                released = ("-", "-") if rho is None else (mean(coverage, 3), mean(width, 1))
                table.row(name, mean(errors, 2), mean(f1, 2), *released, bars=bars)


if __name__ == "__main__":
    main()
