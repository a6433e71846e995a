"""What contribution bounding costs, per record: ``python -m benchmarks.bounding_cost``.

Compares `PrivateFrequencies.Globally` with Record() (unbounded) and with a PrivacyId (bounded: at most 5 records
an id) on the same element objects: ids of 36 characters, pages of 27. Two cases: ten records an id, of which bounding
must drop half, and one record an id, where it has nothing to drop and most ids to look at. Elements are dicts, named
tuples, and pyarrow tables of 50,000 rows.
Elements are made before the clock starts. Times are processor time, as the slope between two sizes, so that what a
pipeline costs whatever its size cancels; variants take turns. The bar is for elements, not for tables.
Takes about 2 minutes.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from typing import Any

import pyarrow as pa

from beam_dpsketch import REPLACE_ONE, PrivacyId, PrivacySpec, Record, RecordBounds, SketchSpec
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks import sources
from benchmarks.measuring import environment, ratios, slopes, spread

SPEC = SketchSpec(depth=5, width=2048)
PRIVACY = PrivacySpec(rho=1.0, relation=REPLACE_ONE)
SIZES = (100_000, 400_000)
TABLE_ROWS = 50_000
BAR = 2.5
SEED = 1
# The type of elements, and how to read user and page.
ELEMENTS: dict[str, tuple[Any, Any, Any]] = {
    "dict": (dict, "user", "page"),
    "named tuple": (sources.Visit, "user", "page"),
    "table": (pa.Table, "user", "page"),
}


def run(pool: str, kind: str, keep: int | None, size: int) -> None:
    """One pipeline over `size` records; bounded if `keep` is a number."""
    element_type, user, page = ELEMENTS[kind]
    unit = Record() if keep is None else PrivacyId(user, RecordBounds(keep))
    elements = size // TABLE_ROWS if kind == "table" else size
    with sources.pipeline() as pipeline:
        source = sources.Elements(pool, elements, element_type)
        _ = pipeline | source | PrivateFrequencies.Globally(SPEC, PRIVACY, item=page, unit=unit)


def fill(pool: str, kind: str, ids: list[str], pages: list[str]) -> None:
    """Makes the elements of one kind."""
    if kind == "table":
        sources.keep(pool, sources.tables({"user": ids, "page": pages}, TABLE_ROWS))
        return
    pairs = zip(ids, pages, strict=True)
    if kind == "dict":
        sources.keep(pool, [{"user": user, "page": page} for user, page in pairs])
    else:
        sources.keep(pool, [sources.Visit(*pair) for pair in pairs])


def main() -> None:
    """Print one line per kind of elements and case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--keep", type=int, default=5, help="records kept of each id (default: %(default)s)")
    arguments = parser.parse_args()
    print(environment("apache-beam", "numpy", "pyarrow", "beam-dpsketch"))
    print(f"Runner: FnApiRunner, in memory, one worker. {SPEC.depth} x {SPEC.width} CountSketch, rho = 1.")
    print(f"N: slope between {SIZES[0]:,} and {SIZES[1]:,} records; data seed {SEED}; at most", end=" ")
    print(f"{arguments.keep} records kept of each id; {arguments.repetitions} repetitions.")
    print("Processor time, nanoseconds per record: median (range). Ratio: of each repetition, median (range).")
    print(f"{'elements':<14}{'records per id':>14}  {'unbounded':<24}{'bounded':<24}{'ratio':<22}{'bar':<8}met")
    for kind in ELEMENTS:
        for records_per_id in (10, 1):
            fill("visits", kind, *sources.columns(SIZES[1], records_per_id, SEED))
            variants = {
                "unbounded": partial(run, "visits", kind, None),
                "bounded": partial(run, "visits", kind, arguments.keep),
            }
            times = slopes(variants, SIZES, arguments.repetitions)
            ratio = ratios(times["bounded"], times["unbounded"])
            bar, met = ("-", "-")
            if kind != "table":
                bar, met = f"<= {BAR}", "yes" if statistics.median(ratio) <= BAR else "NO"
            print(f"{kind:<14}{records_per_id:>14}  {spread(times['unbounded']):<24}", end="")
            print(f"{spread(times['bounded']):<24}{spread(ratio, 2):<22}{bar:<8}{met}", flush=True)


if __name__ == "__main__":
    main()
