"""The paper's figures, theorems and privacy, with this package: `make figures`, or ``python -m benchmarks.paper``.

It writes CSV files and figures into results/, and the page README.md, and prints what is demanded beside what was
measured. Full size takes about three minutes. The page is always made from all CSV files that are there, so a
part that is not run again, such as the trace or the peers, keeps its last measurement.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from beam_dpsketch import IPv4Domain
from benchmarks import ordered_data
from benchmarks.command import environment
from benchmarks.paper import comparing, decoding, demands, frequency, page, quantiles, records, spent, theorems
from benchmarks.paper.records import OWN, TRACE, Row, published

HERE = Path(__file__).parent
PARTS = ("frequency", "decoding", "comparing", "quantiles", "theorems", "privacy")
FIGURES = ("frequency", "quantiles")
TABLES = (
    *(f"{figure}_{data}" for figure in FIGURES for data in ("zipf", TRACE)),
    *(
        "decoding",
        "comparing",
        "uniform_bound",
        "lower_bound",
        "size_independence",
        "accuracy_guarantee",
        "privacy",
        "peers",
    ),
)
ITEMS = 100_000
ARE = {"x": "space, KB of 1,024 bytes", "y": "ARE (log scale)", "ticks": ".0f", "scale": "log"}
F1 = {"x": "space, KB of 1,024 bytes", "y": "F1 of the ten largest", "ticks": ".0f", "low": 0.5, "high": 1.03}
RANKS = {"x": "number of quantiles", "y": "average rank error, records", "ticks": ".0f", "low": 0}


class Size(NamedTuple):
    """How much is measured."""

    seeds: int
    slices: int
    pairs: int
    items: int
    gammas: tuple[float, ...]
    counts: tuple[int, ...]
    sketches: int
    releases: int
    sizes: tuple[int, ...]
    size_seeds: int
    guarantee_seeds: int
    searched: int
    bits: tuple[int, ...]
    rhos: tuple[str, ...]


FULL = Size(
    20,
    48,
    100,
    ITEMS,
    frequency.GAMMAS,
    quantiles.COUNTS,
    1000,
    2000,
    theorems.SIZES,
    5,
    2000,
    1 << 24,
    (16, 24, 32),
    ("0.1", "1", "10"),
)
TOY = Size(1, 2, 2, 2000, frequency.GAMMAS[::4], (32, 64), 3, 20, (1000, 2000), 1, 5, 1 << 12, (16,), ("1",))


def measurements(
    size: Size, parts: list[str], trace: str | None, column: str, name: str = OWN
) -> dict[str, tuple[Callable[[], list[Row]], str]]:
    """A function for each table that is to be measured, and its seeds."""
    seeds = f"data and hash 0 to {size.seeds - 1}; noise from the operating system"
    slices = f"slices and hash 0 to {size.slices - 1}; noise from the operating system"

    def zipf() -> Iterator[np.ndarray]:
        return ordered_data.generated(ordered_data.zipf, size.seeds, size.items)

    def traced() -> Iterator[np.ndarray]:
        assert trace is not None
        return ordered_data.trace_slices(trace, column, size.items, size.slices)

    narrow, found = ordered_data.domain(ordered_data.zipf), {}
    if "frequency" in parts:
        found["frequency_zipf"] = lambda: frequency.measure("zipf", zipf(), size.gammas), seeds
        if trace:
            found["frequency_trace"] = lambda: frequency.measure(name, traced(), size.gammas), slices
    if "quantiles" in parts:
        found["quantiles_zipf"] = lambda: quantiles.measure("zipf", zipf(), narrow, size.counts), seeds
        if trace:
            found["quantiles_trace"] = lambda: quantiles.measure(name, traced(), IPv4Domain(), size.counts), slices
    if "theorems" in parts:
        found["uniform_bound"] = lambda: theorems.uniform_bound(size.sketches), f"data 0, hash 0 to {size.sketches - 1}"
        found["lower_bound"] = lambda: theorems.lower_bound(size.releases), "hash: the depth"
        found["size_independence"] = (
            lambda: theorems.size_independence(size.sizes, size.size_seeds),
            f"data and hash 0 to {size.size_seeds - 1}",
        )
        found["accuracy_guarantee"] = (
            lambda: theorems.accuracy_guarantee(size.guarantee_seeds),
            f"hash 0 to {size.guarantee_seeds - 1}",
        )
    of_one_table = {
        "decoding": (lambda: decoding.measure(zipf()), seeds),
        "comparing": (lambda: comparing.measure(size.pairs), f"data and hash 0 to {size.pairs - 1}"),
        "privacy": (lambda: spent.measure(size.searched), "hash: column seed"),
    }
    found |= {name: measured for name, measured in of_one_table.items() if name in parts}
    if "peers" in parts:
        from benchmarks.paper import peers

        few = min(size.seeds, 2)
        found["peers"] = lambda: peers.measure(size.bits, size.rhos, few), f"data and hash 0 to {few - 1}"
    return found


def draw(results: Path, tables: dict[str, list[Row]]) -> None:
    """All figures for which there are measurements."""
    from benchmarks.paper import plots  # needs matplotlib

    titles = {"zipf": "Zipf(1.0), U = 2^16", TRACE: "IPv4 trace, U = 2^32"}
    for data in titles:
        name = next((row["data"] for figure in FIGURES for row in tables[f"{figure}_{data}"]), data)
        title = f"{titles.get(name, name)}, N = 100,000"
        style = {"published": plots.PUBLISHED[data]}
        rows = tables[f"frequency_{data}"]
        for metric, axes in (("ARE", ARE), ("F1", F1)) if rows else ():
            points = [row for row in (*published(metric, data), *rows) if row["metric"] == metric]
            plots.curves(results / f"frequency_{data}_{metric}.png", points, style | plots.FREQUENCY, axes, title)
        if rows := tables[f"quantiles_{data}"]:
            points = [*published("rank error", data), *rows]
            plots.curves(results / f"quantiles_{data}.png", points, style | plots.QUANTILES, RANKS, title)
    four = [tables[name] for name in ("uniform_bound", "lower_bound", "size_independence", "accuracy_guarantee")]
    if all(four):
        plots.theorems(results / "theorems.png", *four)
    if tables["peers"]:
        plots.peers(results / "peers.png", tables["peers"])


def main() -> None:
    """Measures, draws, writes the page and prints the demands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    named = ", ".join(f"{part} (figure {FIGURES.index(part) + 1})" if part in FIGURES else part for part in PARTS)
    parser.add_argument("parts", nargs="*", help=f"{named} (default: these), peers, or page, which measures nothing")
    parser.add_argument("--trace", help="Parquet or CSV file with IPv4 addresses, or integers from 0 to 2^32 - 1")
    parser.add_argument("--column", default="source_ip", help="column of the values (default: %(default)s)")
    parser.add_argument(
        "--trace-name",
        default=OWN,
        help=f"title of these data; only {TRACE}, the trace of the page, has demands (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the page and of results/ (default: here)")
    parser.add_argument("--toy", action="store_true", help="a few seconds, to see that it works; means nothing")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - {*PARTS, "peers", "page"}:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("matplotlib is missing. Run pip install '.[figures]'")
    print(environment("numpy", "beam-dpsketch", "matplotlib"))
    results = arguments.out / "results"
    results.mkdir(parents=True, exist_ok=True)
    size = TOY if arguments.toy else FULL
    for name, (measure, seeds) in measurements(
        size, arguments.parts or list(PARTS), arguments.trace, arguments.column, arguments.trace_name
    ).items():
        print(f"measuring {name}", flush=True)
        records.write(results / f"{name}.csv", measure(), seeds)
    tables = {name: records.read(results / f"{name}.csv") for name in TABLES}
    draw(results, tables)
    page.write(arguments.out / "README.md", tables)
    for demand in demands.all_demands(tables):
        print(f"{demand.verdict:<4} {demand.what}: {demand.measured} (bar: {demand.bar})")
    print(f"page: {arguments.out / 'README.md'}, figures and tables: {results}")


if __name__ == "__main__":
    main()
