"""Ranks by a square-root factor, next to a tree of exact levels: ``python -m benchmarks.accuracy.factors``.

Both releases have all of rho, no summary counts, one record a unit, and the usual layout. For each data set and rho it
prints the root mean square error of all ranks in units of 1 / sqrt(2 rho), that of the tree, the errors of ranges of 16
values and of single values over those of the tree, and which share of 95 % intervals of ranks and of quantiles hold the
truth. Ranks and quantiles are asked at all values, or at 4,096 of them, evenly spaced.
  dpbench   with --data FOLDER: the histograms of DPBench, files *.npy of 4,096 counts
  delays    arrival delays of 2013: ranks between -40 and 120 minutes at rho 0.01, and the largest error of all
  shapes    Zipf in order and shuffled, uniform, and log-normal: 100,000 records over 2**16 values
  latencies log-normal, 2,000 records: the p95 over 0 to 10,000 in steps of 0.1, over that of 0 to 2,000 in steps of 5
  wide      `TreeSpec.for_ranks` next to `TreeSpec.for_memory`, over 2**32 values, in the usual memory: made-up data,
            and with --trace FILE --column NAME slices of 100,000 rows of IPv4 addresses. The root mean square error at
            1,024 evenly spaced ranks, over that of the plain tree
Takes about 12 minutes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch import (
    DyadicCountSketch,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    PrivacySpec,
    ReleaseTerms,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from benchmarks import ordered_data
from benchmarks.command import Command
from benchmarks.table import Bar, Table
from pipelines import flights

RHOS = (0.01, 0.1, 1.0)
DPBENCH_BAR, DELAY_BARS, P95_BAR = 3.1, (21.0, 63.0), 1.3
SHAPES = {"zipf": 3.9, "zipf shuffled": 4.1, "uniform": 3.4, "lognormal": 2.9}
WIDE_BAR, WIDE_RELEASES = 0.93, 3
SIZE, RECORDS, ASKED, LENGTH = 1 << 16, 100_000, 4096, 16


class Measured(NamedTuple):
    """Errors of one release, in records, and which share of intervals hold."""

    ranks: float
    largest: float
    ranges: float
    values: float
    ranks_held: float
    quantiles_held: float


def terms(rho: float) -> ReleaseTerms:
    """Return what both spend."""
    return ReleaseTerms(PrivacySpec(rho=rho, summary_counts=None))


def measure(released: Any, counts: np.ndarray, among: np.ndarray | None = None) -> Measured:
    """Return the errors of a release of these counts of whole numbers from 0; ranks among some values alone."""
    true, items = np.cumsum(counts), np.arange(len(counts))
    errors = np.asarray(released.rank(items), dtype=np.float64) - true
    places = np.linspace(0, len(counts) - 1, min(ASKED, len(counts))).astype(int)
    found = released.rank_interval(items[places])
    shares = np.arange(1, 200) / 200
    wanted = shares * true[-1]
    bounds = released.quantile(shares)
    low, high = (np.asarray(each, dtype=np.int64) for each in (bounds.lower, bounds.upper))
    held = (true[high] >= wanted) & (np.where(low > 0, true[np.maximum(low - 1, 0)], 0) < wanted)
    starts = places[places + LENGTH < len(counts)]
    of_ranges = errors[starts + LENGTH] - errors[starts]
    of_values = np.asarray(released.estimate(items[places])) - counts[places]
    chosen = errors if among is None else errors[among]
    return Measured(
        float(np.sqrt(np.mean(chosen**2))),
        float(np.abs(errors).max()),
        float(np.sqrt(np.mean(of_ranges**2))) if len(starts) else 0.0,
        float(np.sqrt(np.mean(of_values**2))),
        float(np.mean((found.lower <= true[places] + 1e-6) & (true[places] <= found.upper + 1e-6))),
        float(np.mean(held)),
    )


def both(counts: np.ndarray, rho: float, releases: int, among: np.ndarray | None = None) -> tuple[Measured, Measured]:
    """Return the mean errors of factor and tree."""
    domain = IntegerDomain(0, len(counts) - 1)
    raws: list[Any] = [FactorHistogram(FactorizationSpec(domain)), DyadicCountSketch(TreeSpec.for_memory(domain))]
    found = []
    for raw in raws:
        raw.accumulate_keys(np.arange(len(counts), dtype=np.uint64), counts.astype(np.int64))
        runs = [measure(release(raw, terms(rho)), counts, among) for _ in range(releases)]
        found.append(Measured(*np.mean(runs, axis=0)))
    return found[0], found[1]


def print_both(name: str, data: Iterator[tuple[str, np.ndarray, float]], releases: int) -> None:
    """Print a line for each data set and rho."""
    heads = ("", "rms", "of tree", "ranges", "values", "ranks held", "quantiles held")
    printed = Table(f"{name}, {releases} releases", heads, (46, -8, -8, -8, -8, -11, -15))
    of_rho: dict[float, list[float]] = {}
    for words, counts, bar in data:
        for rho in RHOS if name == "dpbench" else (0.1,):
            unit = 1 / np.sqrt(2 * rho)
            factor, tree = both(counts, rho, releases)
            cells = [f"{words}, rho {rho:g}", f"{factor.ranks / unit:.2f}", f"{tree.ranks / unit:.2f}"]
            cells += [f"{factor.ranges / tree.ranges:.2f}", f"{factor.values / tree.values:.2f}"]
            cells += [f"{factor.ranks_held:.3f}", f"{factor.quantiles_held:.3f}"]
            printed.row(*cells, bars=[Bar(factor.ranks / unit, "<=", bar)] if bar else [])
            of_rho.setdefault(rho, []).append(factor.ranks / unit)
    for rho, found in of_rho.items() if name == "dpbench" else ():
        mean = float(np.mean(found))
        printed.row(
            f"mean of {len(found)} sets, rho {rho:g}", f"{mean:.2f}", *[""] * 5, bars=[Bar(mean, "<=", DPBENCH_BAR)]
        )


def dpbench(folder: str) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield the histograms of a folder, by name."""
    for path in sorted(pathlib.Path(folder).glob("*.npy")):
        yield path.stem.removesuffix(".n4096"), np.load(path).astype(np.int64), 0.0


def shapes() -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield counts of made-up shapes."""
    generator = np.random.default_rng(11)
    zipf = 1 / np.arange(1, SIZE + 1)
    for name, bar in SHAPES.items():
        if name == "lognormal":
            drawn = np.clip(generator.lognormal(np.log(SIZE / 64), 1.2, RECORDS).astype(int), 0, SIZE - 1)
            yield name, np.bincount(drawn, minlength=SIZE), bar
            continue
        shares = np.ones(SIZE) if name == "uniform" else zipf
        shares = generator.permutation(shares) if name.endswith("shuffled") else shares
        yield name, generator.multinomial(RECORDS, shares / shares.sum()), bar


def delays(releases: int) -> None:
    """Print the errors of delays."""
    table = flights.read_table(flights.data_file("flights.csv.zip"))
    found = table["arr_delay"].drop_null().to_numpy()
    counts = np.bincount(np.clip(found, -120, 1500).astype(int) + 120, minlength=1621)
    among = np.arange(1621)
    among = among[(among > 80) & (among < 240)]
    printed = Table(f"delays, rho 0.01, {releases} releases", ("", "rms", "largest"), (12, -8, -8))
    for name, each, bars in zip(("factor", "tree"), both(counts, 0.01, releases, among), (DELAY_BARS, ()), strict=True):
        compared = [Bar(value, "<=", bar) for value, bar in zip(each[:2], bars, strict=False)]
        printed.row(name, f"{each.ranks:.1f}", f"{each.largest:.1f}", bars=compared)


def latencies(releases: int) -> None:
    """Print the errors of a p95 over a fine and over a coarse domain."""
    generator = np.random.default_rng(3)
    values = np.exp(generator.normal(np.log(100), 0.8, 2000))
    true, errors = float(np.quantile(values, 0.95)), []
    printed = Table(
        f"latencies, p95 of {true:.1f}, rho 0.1, {releases} releases", ("", "error", "  over coarse"), (30, -8, 20)
    )
    for words, domain in (
        ("0 to 2,000 by 5", FloatDomain(0, 2000, 5)),
        ("0 to 10,000 by 0.1", FloatDomain(0, 10_000, 0.1)),
    ):
        raw = FactorHistogram(FactorizationSpec(domain)).accumulate(values)
        found = []
        for _ in range(releases):
            released = release(raw, terms(0.1))
            assert isinstance(released, ReleasedFactorization)
            found.append(released.quantile(0.95).estimate - true)
        errors.append(float(np.sqrt(np.mean(np.square(found)))))
        ratio = errors[-1] / errors[0]
        bars = [Bar(ratio, "<=", P95_BAR)] if len(errors) > 1 else []
        printed.row(words, f"{errors[-1]:.2f}", f"  {ratio:.2f}", bars=bars)


def wide(releases: int, trace: str | None, column: str) -> None:
    """Print the errors of ranks over wide domains, the same number of data sets of each kind."""
    kinds: dict[str, tuple[Any, Iterable[np.ndarray]]] = {
        each.__name__: (ordered_data.domain(each), ordered_data.generated(each, releases, RECORDS))
        for each in (ordered_data.clustered, ordered_data.spikes)
    }
    if trace:
        kinds["trace"] = IPv4Domain(), ordered_data.trace_slices(trace, column, RECORDS, releases)
    printed = Table(
        f"2**32 values, {releases} data sets, {WIDE_RELEASES} releases of each",
        ("", "rms", "of tree", "ratio", "ranks held"),
        (30, -8, -8, -8, -11),
    )
    for name, (domain, data) in kinds.items():
        sets = list(data)
        for rho in RHOS[1:]:
            found = np.mean([wide_errors(domain, each, rho, seed) for seed, each in enumerate(sets)], axis=0)
            ratio = float(found[0, 0] / found[1, 0])
            cells = [f"{name}, rho {rho:g}", *(f"{error:.1f}" for error in found[:, 0]), f"{ratio:.2f}"]
            bars = [Bar(ratio, "<=", WIDE_BAR)] if name == "trace" else []
            printed.row(*cells, f"{found[0, 1]:.3f}", bars=bars)


def wide_errors(domain: Any, positions: np.ndarray, rho: float, seed: int) -> list[tuple[float, float]]:
    """Return the error of ranks and which share of intervals hold, of `for_ranks` and of `for_memory`."""
    truth, found = ordered_data.truth(positions), []
    for layout in (TreeSpec.for_ranks, TreeSpec.for_memory):
        raw, squares, held = DyadicCountSketch(layout(domain, seed=seed)).accumulate_keys(positions, None), [], []
        for _ in range(WIDE_RELEASES):
            released = release(raw, terms(rho))
            bounds = released.rank_interval(truth.items)
            held.append(np.mean((bounds.lower <= truth.ranks) & (truth.ranks <= bounds.upper)))
            squares.append(np.mean((released.rank(truth.items) - truth.ranks) ** 2))
        found.append((float(np.sqrt(np.mean(squares))), float(np.mean(held))))
    return found


def main() -> None:
    command = Command(__file__, __doc__, "numpy")
    command.number("--releases", 10, "releases of each line")
    command.add_argument("--data", help="a folder of the histograms of DPBench")
    command.trace()
    arguments = command.parse_args()
    with command.writing(arguments, "noise: operating system; data: fixed seeds."):
        if arguments.data:
            print_both("dpbench", dpbench(arguments.data), arguments.releases)
        delays(10 * arguments.releases)
        print_both("shapes", shapes(), arguments.releases)
        latencies(20 * arguments.releases)
        wide(4 * arguments.releases, arguments.trace, arguments.column)


if __name__ == "__main__":
    main()
