"""Visits whose records have an item for some metrics and none for others."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa


class Visit(NamedTuple):
    person: int | None
    country: str | None
    number: int
    page: str | None
    minutes: int | None
    amount: int | None


def visits(size: int = 240) -> list[Visit]:
    """Visits of heavy people and others; some have no page, no minutes, no country, no weight or no person."""
    rng = random.Random(11)
    pages, minutes = [None, "", "a", "ä", "/index", *map(str, range(9))], [None, -40, 0, 3, 59, 60, 9000]
    return [
        Visit(
            rng.choice([None, *[int(rng.expovariate(0.2))] * 15]),
            rng.choice([None, "NO", "NO", "IT", "unlisted"]),
            number,
            rng.choice(pages),
            rng.choice(minutes),
            rng.choice([None, 0, -2, *range(1, 6)]),
        )
        for number in range(size)
    ]


VISITS = visits()
TABLE = pa.Table.from_pylist([visit._asdict() for visit in VISITS])
FORMS: dict[str, Callable[[], list[Any]]] = {
    "rows": lambda: [beam.Row(**visit._asdict()) for visit in VISITS],
    "dicts": lambda: [visit._asdict() for visit in VISITS],
    "named tuples": lambda: VISITS,
    "tables": lambda: [TABLE.slice(0, 100), TABLE.slice(100)],
    "record batches": lambda: TABLE.to_batches(max_chunksize=37),
    "data frames": lambda: [TABLE.slice(0, 100).to_pandas(), TABLE.slice(100).to_pandas()],
    "dictionaries": lambda: [TABLE.set_column(3, "page", TABLE["page"].combine_chunks().dictionary_encode())],
}
