"""What contribution bounding costs, per record: ``python -m benchmarks.speed.bounding_cost``.

Compares `PrivateFrequencies` with Record() (no bounds), with a PrivacyId of at most 5 records, and with one
of a norm of at most 5 records, on the same element objects: ids of 36 characters, pages of 27. Two cases: ten records
an id, where bounding drops half or scales many, and one record an id, where it changes nothing and there are the most
ids. Elements are dicts, named tuples, and pyarrow tables of 50,000 rows; tables with 64-bit integers as ids too.
Elements are made before the clock starts. Times are processor time, as the slope between two sizes, so that what a
pipeline costs cancels; variants take turns. The bar of RecordBounds is against no bounds, for elements alone; that of
NormBound is against RecordBounds.
Bounding has to look at every privacy id and to bring all records of an id together. Without bounds a sketch of a column
never reads the ids. A norm costs more where most records would have been dropped before they travel: it needs all.
Takes about 4 minutes.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import REPLACE_ONE, NormBound, PrivacyId, PrivacySpec, Record, RecordBounds, SketchSpec
from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks import sources
from benchmarks.command import Command
from benchmarks.measuring import ratios, slopes
from benchmarks.table import Bar, Table, spread

SPEC = SketchSpec(depth=5, width=2048)
PRIVACY = PrivacySpec(rho=1.0, relation=REPLACE_ONE)
SIZES, TABLE_SIZES = (100_000, 400_000), (400_000, 1_600_000)
TABLE_ROWS = 50_000
BAR = 2.5  # times the unbounded pipeline
NORM_BAR = 1.3  # times the pipeline with RecordBounds
SEED = 1
# The type of elements, and how to read user and page.
ELEMENTS: dict[str, tuple[Any, Any, Any]] = {
    "dict": (dict, "user", "page"),
    "named tuple": (sources.Visit, "user", "page"),
    "table": (pa.Table, "user", "page"),
    "table, numbers": (pa.Table, "user", "page"),
}


def run(pool: str, kind: str, bounds: Bounds | None, size: int) -> None:
    """One pipeline over `size` records."""
    element_type, user, page = ELEMENTS[kind]
    privacy_unit = Record() if bounds is None else PrivacyId(user, bounds)
    elements = size // TABLE_ROWS if element_type is pa.Table else size
    with sources.pipeline() as pipeline:
        source = sources.Elements(pool, elements, element_type)
        _ = pipeline | source | PrivateFrequencies(SPEC, PRIVACY, item=page, privacy_unit=privacy_unit)


def fill(pool: str, kind: str, ids: list[str], pages: list[str]) -> None:
    """Makes the elements of one kind."""
    if ELEMENTS[kind][0] is pa.Table:
        users = ids if kind == "table" else np.unique(ids, return_inverse=True)[1].tolist()
        sources.keep(pool, sources.tables({"user": users, "page": pages}, TABLE_ROWS))
        return
    pairs = zip(ids, pages, strict=True)
    if kind == "dict":
        sources.keep(pool, [{"user": user, "page": page} for user, page in pairs])
    else:
        sources.keep(pool, [sources.Visit(*pair) for pair in pairs])


def main() -> None:
    """Print one line per kind of elements and case."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch")
    command.number("--repetitions", 5, "of each pipeline")
    command.number("--keep", 5, "records kept of each id")
    arguments = command.parse_args()
    bounds: dict[str, Bounds | None] = {
        "none": None,
        "RecordBounds": RecordBounds(arguments.keep),
        "NormBound": NormBound(arguments.keep),
    }
    with command.writing(
        arguments,
        f"Runner: FnApiRunner, in memory, one worker. {SPEC.depth} x {SPEC.width} CountSketch, rho = 1.",
        f"N: slope between {SIZES[0]:,} and {SIZES[1]:,} records, of tables {TABLE_SIZES[0]:,} and {TABLE_SIZES[1]:,};",
        f"data seed {SEED}; at most {arguments.keep} records of each id; {arguments.repetitions} repetitions.",
        "Processor time, nanoseconds per record: median (range). Ratio: of each repetition, median (range).",
    ):
        heads = ("elements", "records per id", "  bounds", "ns a record", "ratio")
        table = Table(None, heads, (16, -16, 18, 26, 24))
        for kind, (element_type, _, _) in ELEMENTS.items():
            of_tables = element_type is pa.Table
            sizes = TABLE_SIZES if of_tables else SIZES
            for records_per_id in (10, 1):
                fill("visits", kind, *sources.columns(sizes[1], records_per_id, SEED))
                runs = {name: partial(run, "visits", kind, each) for name, each in bounds.items()}
                times = slopes(runs, sizes, arguments.repetitions)
                for name in bounds:
                    base, limit = ("RecordBounds", NORM_BAR) if name == "NormBound" else ("none", BAR)
                    ratio = ratios(times[name], times[base])
                    barred = name == "NormBound" or (name == "RecordBounds" and not of_tables)
                    bars = [Bar(statistics.median(ratio), "<=", limit)] if barred else []
                    cells = (kind, str(records_per_id), f"  {name}", spread(times[name]), spread(ratio, 2))
                    table.row(*cells, bars=bars)


if __name__ == "__main__":
    main()
