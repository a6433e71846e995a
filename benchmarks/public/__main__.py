"""The public benchmark: `make bench-public`, or ``python -m benchmarks.public``.

It measures this package, PipelineDP, OpenDP and a plain histogram on public data, and writes results/*.csv, a picture
and the page README.md. The full size uses about ten minutes of processor time. The page is always made from all CSV
files that exist. A part that is not measured again keeps its last measurement, such as DPBench without its folder.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from benchmarks.command import environment
from benchmarks.paper import records
from benchmarks.public import bids, flights, histograms, page, zipf
from benchmarks.public.contest import DATASKETCHES, OPENDP, PIPELINE_DP, PLAIN, Contest, Result, measured

HERE = Path(__file__).parent
PACKAGES = {PIPELINE_DP: "pipeline-dp", OPENDP: "opendp", PLAIN: "opendp", DATASKETCHES: "datasketches"}


class Size(NamedTuple):
    """How much is measured."""

    records: int
    events: int
    windows: int
    rows: int | None
    items: int
    universe: int


FULL = Size(histograms.RECORDS, bids.EVENTS, bids.WINDOWS, None, zipf.RECORDS, zipf.UNIVERSE)
TOY = Size(2_000, 5_000, 2, 5_000, 3_000, 1_000)


def parts(size: Size, dpbench: Path | None) -> dict[str, tuple[Iterable[Contest], str]]:
    """The contests of each part, and its seeds."""
    found: dict[str, tuple[Iterable[Contest], str]] = {
        "bids": (bids.contests(size.events, size.windows), f"data {bids.SEED}"),
        "flights": (flights.contests(size.rows), "bounding by hand 0"),
        "zipf": (zipf.contests(size.items, size.universe), f"data {zipf.SEED}"),
    }
    if dpbench:
        found = {"histograms": (histograms.contests(dpbench, size.records), "data 0")} | found
    return found


def as_row(result: Result) -> records.Row:
    """A row of a CSV file."""
    package = PACKAGES.get(result.library, "beam-dpsketch")
    return result._asdict() | {"library_version": f"{package} {metadata.version(package)}"}


def main() -> None:
    """Measure, and write the files and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", help="histograms, bids, flights, zipf (default: all; page: measure nothing)"
    )
    parser.add_argument("--dpbench", type=Path, help="folder datafiles/1D of dpcomp_core, for the part histograms")
    parser.add_argument("--runs", type=int, default=10, help="runs of each library (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the page and of results/ (default: here)")
    parser.add_argument("--toy", action="store_true", help="a minute, to see that it works; means nothing")
    arguments = parser.parse_args()
    known = parts(TOY if arguments.toy else FULL, arguments.dpbench)
    if unknown := set(arguments.parts) - {*known, "page"}:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}. Choose {', '.join(known)} or page")
    if arguments.runs < 2:
        parser.error(f"--runs must be 2 or more, got {arguments.runs}. A standard error needs two runs")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    results = arguments.out / "results"
    results.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in arguments.parts or known if name != "page"]
    if wanted:
        print(_versions())
    for name in wanted:
        contests, seeds = known[name]
        rows = [as_row(result) for contest in contests for result in _shown(measured(contest, arguments.runs))]
        records.write(results / f"{name}.csv", rows, f"{seeds}; noise from the operating system")
    page.write(arguments.out)
    print(f"page: {arguments.out / 'README.md'}")


def _versions() -> str:
    try:
        return environment("numpy", "beam-dpsketch", "pipeline-dp", "opendp", "datasketches")
    except metadata.PackageNotFoundError as error:
        raise SystemExit(
            f"{error.name} is not installed: pip install 'beam-dpsketch[peers]', or make bench-public"
        ) from error


def _shown(results: Iterable[Result]) -> Iterable[Result]:
    for result in results:
        grid = f" [{result.tried}]" if result.tried else ""
        print(
            f"{result.data}, {result.question}: {result.library}, {result.bounds} {result.error:.4g}{grid}", flush=True
        )
        yield result


if __name__ == "__main__":
    main()
