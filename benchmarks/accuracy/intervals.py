"""How often released intervals hold the truth: ``python -m benchmarks.accuracy.intervals``.

For N = 100,000 records it prints the share of 95 % intervals that hold the truth, and their mean width:
  rank      `rank_interval` at 1,024 items evenly spaced in rank; width in records
  range     `range_interval` between 1,024 random pairs of these items; width in records
  quantile  `quantile` at the items' shares; width in values. No upper limit is asked of these: their bounds
            are whole values, moved outwards, so that where ranks are certain enough they always hold the truth
The same follows for N = 10,000,000, with fewer seeds. Neighbouring relation REPLACE_ONE, total not known. Errors of
neighbouring ranks go together, so that coverage differs much from one release to the next; judge the means. The
last two distributions were first measured when the variances were settled. Takes one to two minutes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beam_dpsketch import REPLACE_ONE, DyadicCountSketch, PrivacySpec, ReleaseTerms, TreeSpec, release
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from benchmarks import ordered_data
from benchmarks.command import Command
from benchmarks.ordered_data import QUANTILES, Distribution
from benchmarks.table import Bar, Table, mean

ITEMS, MANY_ITEMS = 100_000, 10_000_000
RHOS = (0.1, 1.0)
NARROW_MEMORY, WIDE_MEMORY = 165_000, 490_000
LEAST, MOST = 0.90, 0.99
DISTRIBUTIONS = (*ordered_data.NARROW, ordered_data.clustered, *ordered_data.FRESH)
QUESTIONS = ("rank", "range", "quantile")


class Questions(NamedTuple):
    """What is asked of every release of one data set, and the true answers."""

    items: np.ndarray
    ranks: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    weights: np.ndarray


class Coverage(NamedTuple):
    """The share of intervals that hold the truth and their mean width."""

    share: float
    width: float


def questions(positions: np.ndarray, generator: np.random.Generator) -> Questions:
    """Ranks of evenly spaced items and weights between random pairs of them."""
    items, ranks = ordered_data.truth(positions)
    pairs = np.sort(generator.integers(0, QUANTILES, (2, QUANTILES)), axis=0)
    lows, highs = items[pairs]
    weights = ranks[pairs[1]] - np.searchsorted(np.sort(positions), lows, side="left")
    return Questions(items, ranks, lows, highs, weights)


def answered(released: ReleasedDyadicCountSketch, asked: Questions) -> dict[str, Coverage]:
    """The coverage of each kind of interval in one release."""
    shares = np.arange(1, QUANTILES + 1) / (QUANTILES + 1)
    answers = {
        "rank": (released.rank_interval(asked.items), asked.ranks),
        "range": (released.range_interval(asked.lows, asked.highs), asked.weights),
        "quantile": (released.quantile(shares), asked.items.astype(np.float64)),
    }
    found = {}
    for name, (rows, truth) in answers.items():
        lower, upper = (np.asarray(column, dtype=np.float64) for column in (rows.lower, rows.upper))
        covered = np.mean((lower <= truth) & (truth <= upper))
        found[name] = Coverage(float(covered), float(np.mean(upper - lower)))
    return found


def measurements(distribution: Distribution, seeds: int, size: int) -> dict[tuple[float, str], list[Coverage]]:
    """Coverages by rho and kind of interval, one for each seed."""
    memory = NARROW_MEMORY if distribution in ordered_data.NARROW else WIDE_MEMORY
    domain = ordered_data.domain(distribution)
    found: dict[tuple[float, str], list[Coverage]] = {(rho, name): [] for rho in RHOS for name in QUESTIONS}
    for seed, positions in enumerate(ordered_data.generated(distribution, seeds, size)):
        asked = questions(positions, np.random.default_rng(seed))
        sketch = DyadicCountSketch(TreeSpec.for_memory(domain, memory, seed=seed)).accumulate(positions)
        for rho in RHOS:
            for name, coverage in answered(
                release(sketch, ReleaseTerms(PrivacySpec(rho=rho, relation=REPLACE_ONE))), asked
            ).items():
                found[rho, name].append(coverage)
    return found


def print_table(seeds: int, size: int, *, with_bars: bool) -> None:
    """One line per distribution and rho."""
    title = f"N = {size:,}, {seeds} seeds: mean coverage (range), mean width"
    table = Table(title, ("", *QUESTIONS), (22, 38), bar=17 if with_bars else 0)
    for distribution in DISTRIBUTIONS:
        found = measurements(distribution, seeds, size)
        for rho in RHOS:
            cells, bars = [], list[Bar | None]()
            for name in QUESTIONS:
                shares, widths = zip(*found[rho, name], strict=True)
                cells.append(f"{mean(shares, 3)}  {np.mean(widths):,.0f}")
                bars.append(Bar(float(np.mean(shares)), ">=", LEAST))
                bars.append(None if name == "quantile" else Bar(float(np.mean(shares)), "<=", MOST))
            table.row(f"{distribution.__name__}, rho {rho:g}", *cells, bars=bars if with_bars else ())


def main() -> None:
    """Print both tables."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--seeds", 20, "data sets at N = 100,000")
    command.number("--many-seeds", 3, "data sets at N = 10,000,000")
    arguments = command.parse_args()
    with command.writing(
        arguments,
        f"95 % intervals, REPLACE_ONE, unit: a record; memory {NARROW_MEMORY:,} bytes for 16 bits, {WIDE_MEMORY:,} for "
        "the others",
        "(32 bits), at 4 bytes a counter. Seeds from 0 for data and hash; noise from the operating system.",
        f"Required at N = {ITEMS:,}: between {LEAST:.0%} and {MOST:.0%}; for quantiles at least {LEAST:.0%}.",
    ):
        print_table(arguments.seeds, ITEMS, with_bars=True)
        if arguments.many_seeds:
            print_table(arguments.many_seeds, MANY_ITEMS, with_bars=False)


if __name__ == "__main__":
    main()
