"""How accurate released ranks are, beside the bars they must meet: ``python -m benchmarks.accuracy.quantiles``.

It prints the mean rank error, in records, at 1,024 items evenly spaced in rank, for N = 100,000 records, neighbouring
relation REPLACE_ONE, the total not known to the release, memory counted at 4 bytes a counter:
  paper          the paper's DCS, arity 2, 3 rows on each level, with noise that is safe, `method="paper"`, same memory
  least_squares  `TreeSpec.for_memory`, `method="least_squares"`
  residual       the same releases, `method="residual"`; `benchmarks.accuracy.tree_fits` says which the default takes
"exact" is the sketch before any noise, read from its raw counters: what collisions alone cost. Then it compares the
methods on distributions for which no constant was chosen (the last two: never seen before). With --trace FILE --column
NAME it also measures slices of 100,000 consecutive rows (at equal steps, so they may overlap) of IPv4 addresses in a
Parquet or CSV file; the bars of that line are those of the public honeypot trace of Data-Driven Security (marx.csv;
Jacobs and Rudis). Takes one to two minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from beam_dpsketch import REPLACE_ONE, DyadicCountSketch, IPv4Domain, PrivacySpec, ReleaseTerms, TreeSpec, release
from beam_dpsketch.answers.tree import Method, ReleasedRanks
from beam_dpsketch.exact.domains import Domain
from benchmarks import ordered_data, readings
from benchmarks.command import Command
from benchmarks.ordered_data import Truth
from benchmarks.table import Bar, Table, mean

ITEMS = 100_000
RHOS = (0.1, 1.0, None)
PAPER_ROWS = 3
METHODS: tuple[Method, ...] = ("paper", "least_squares", "residual")
NARROW_MEMORY, EXACT_MEMORY, WIDE_MEMORY = 165_000, 350_000, 490_000
# The largest mean errors allowed: rho = 0.1, rho = 1, exact.
Bars = dict[str, tuple[float, float, float]]
ZIPF_BARS: Bars = {"least_squares": (15.0, 5.7, 2.3), "residual": (12.2, 4.3, 1.3)}
TRACE_BARS: Bars = {"least_squares": (37.0, 17.5, 13.0), "residual": (31.0, 12.1, 5.2)}
EXACT_TREE_BARS: Bars = {"least_squares": (16.0, 5.7, 0.0)}


class Case(NamedTuple):
    """Data sets of one kind, where they go and what is allowed."""

    name: str
    data: Iterable[np.ndarray]
    domain: Domain
    memory: int
    bars: Bars


def layout(method: str, case: Case, seed: int) -> TreeSpec:
    """The tree of a method in the memory of a case."""
    if method != "paper":
        return TreeSpec.for_memory(case.domain, case.memory, seed=seed)
    width = case.memory // (4 * case.domain.bits * PAPER_ROWS)
    return TreeSpec.paper_layout(case.domain, depth=PAPER_ROWS, width=width, seed=seed)


def errors(case: Case, methods: tuple[Method, ...]) -> dict[tuple[str, float | None], list[float]]:
    """The mean rank error of each data set, by method and rho; the methods but the paper's share releases."""
    found: dict[tuple[str, float | None], list[float]] = {(method, rho): [] for method in methods for rho in RHOS}
    for seed, positions in enumerate(case.data):
        truth = ordered_data.truth(positions)
        specs = {method: layout(method, case, seed) for method in methods}
        sketches = {spec: DyadicCountSketch(spec).accumulate(positions) for spec in set(specs.values())}
        for rho in RHOS:
            released = {
                spec: None if rho is None else release(sketch, ReleaseTerms(PrivacySpec(rho=rho, relation=REPLACE_ONE)))
                for spec, sketch in sketches.items()
            }
            for method in methods:
                found[method, rho].append(_error(truth, sketches[specs[method]], released[specs[method]], method))
    return found


def _error(truth: Truth, raw: DyadicCountSketch, released: ReleasedRanks | None, method: Method) -> float:
    if released is None:
        return truth.mean_error(readings.ranks(raw.spec, readings.all_counters(raw), truth.items, method))
    return truth.mean_error(released.rank(truth.items, method=method))


def print_case(case: Case, methods: tuple[Method, ...] = METHODS) -> None:
    """One line per method: for each rho the mean and range over data sets, and the bars."""
    found = errors(case, methods)
    title = f"{case.name}, {case.memory:,} bytes, {len(found[methods[0], RHOS[0]])} data sets"
    table = Table(title, ("", *map(heading, RHOS)), (17, 27), bar=26)
    for method in methods:
        values = [found[method, rho] for rho in RHOS]
        limits = zip(values, case.bars.get(method, ()), strict=False)
        bars = [Bar(round(statistics.fmean(each), 6), "<=", limit) for each, limit in limits]
        table.row(f"  {method}", *(mean(each, 2) for each in values), bars=bars)


def print_others(seeds: int) -> None:
    """Both fitted methods on distributions for which no constant was chosen."""
    title = (
        f"Other data, {WIDE_MEMORY:,} bytes, {seeds} seeds: mean error of least squares and of residual, their\n"
        "ratio, and the largest ratio on one data set (below 1: residual is better)"
    )
    table = Table(title, ("", *map(heading, RHOS)), (17, 36), bar=0)
    for distribution in (*ordered_data.UNTUNED, *ordered_data.FRESH):
        data = ordered_data.generated(distribution, seeds, ITEMS)
        name = distribution.__name__
        found = errors(Case(name, data, ordered_data.domain(distribution), WIDE_MEMORY, {}), METHODS[1:])
        cells = []
        for rho in RHOS:
            default, residual = (np.array(found[method, rho]) for method in METHODS[1:])
            ratio, worst = residual.mean() / default.mean(), np.max(residual / default)
            cells.append(f"{default.mean():.2f}  {residual.mean():.2f}  {ratio:.2f}  {worst:.2f}")
        table.row(f"  {name}", *cells)


def heading(rho: float | None) -> str:
    """The name of a column."""
    return "exact" if rho is None else f"rho {rho:g}"


def main() -> None:
    """Print all tables."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--seeds", 20, "data sets of each kind")
    command.trace()
    command.number("--slices", 48, "slices of the trace")
    arguments = command.parse_args()
    with command.writing(
        arguments,
        f"Mean rank error, mean (range) over data sets. N = {ITEMS:,}, REPLACE_ONE, unit: a record, total not known.",
        f"Seeds: 0 to {arguments.seeds - 1} for data and hash; noise from the operating system.",
    ):
        cases = [(ordered_data.zipf, NARROW_MEMORY, ZIPF_BARS)]
        cases += [(distribution, EXACT_MEMORY, EXACT_TREE_BARS) for distribution in ordered_data.NARROW]
        for distribution, memory, bars in cases:
            data = ordered_data.generated(distribution, arguments.seeds, ITEMS)
            name = f"{distribution.__name__}, U = 2^16"
            print_case(Case(name, data, ordered_data.domain(distribution), memory, bars))
        if arguments.trace:
            slices = ordered_data.trace_slices(arguments.trace, arguments.column, ITEMS, arguments.slices)
            print_case(Case("trace, U = 2^32", slices, IPv4Domain(), WIDE_MEMORY, TRACE_BARS))
        print_others(arguments.seeds)


if __name__ == "__main__":
    main()
