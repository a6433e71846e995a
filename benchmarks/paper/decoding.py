"""Readings of one CountSketch at the largest space of Figure 1: each item alone, and a dictionary decoded together.

5 x 7,372 counters (147 KB at 4 bytes a counter), N = 100,000, REPLACE_ONE; the dictionary has the items that occur.
"noise alone" is the error that the mean noise of an item's counters makes without collisions, which no decoder undoes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from beam_dpsketch import REPLACE_ONE, CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.exact.hashing import cells
from benchmarks.paper.records import Row, summary
from benchmarks.readings import mean_relative_error

SHAPE = (5, 7372)
RHOS = ("0.1", "1")


def measure(data_sets: Iterable[np.ndarray]) -> list[Row]:
    """One row for each reading and rho: the mean relative error over the items that occur."""
    values: dict[tuple[str, str], list[float]] = {}
    for seed, positions in enumerate(data_sets):
        items, counts = np.unique(positions, return_counts=True)
        raw = CountSketch(SketchSpec(depth=SHAPE[0], width=SHAPE[1], seed=seed)).accumulate(positions)
        for rho in RHOS:
            privacy = PrivacySpec(rho=float(rho), relation=REPLACE_ONE, summary_counts=None)
            released = release(raw, ReleaseTerms(privacy))
            tables, keys = (released.counters, released.counters - raw.counters), raw.keys(raw.spec, items)
            rows, noise = (cells.read_rows(table, keys, seed=seed, has_signs=True) for table in tables)
            decoded = released.decode(items)
            found = {"median": np.median(rows, axis=0), "estimate": released.estimate(items)}
            found |= {"decoded": decoded.estimate(items), "shrunk": decoded.shrunk(items)}
            found["noise alone"] = counts + noise.mean(axis=0)
            for reading, each in found.items():
                values.setdefault((reading, rho), []).append(mean_relative_error(each, counts))
    return [
        {"reading": reading, "rho": rho, "counters": SHAPE[0] * SHAPE[1]} | summary(each) | {"data_sets": len(each)}
        for (reading, rho), each in values.items()
    ]
