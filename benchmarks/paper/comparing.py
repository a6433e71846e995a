"""Joins and distances of two CountSketches at the largest space of Figure 1, by two readings.

5 x 7,372 counters (147 KB at 4 bytes a counter), N = 100,000 on each side, two Zipf samples, REPLACE_ONE. The usual
reading is the median of the rows' sums.
"""

from __future__ import annotations

import numpy as np

from benchmarks.accuracy import two_releases
from benchmarks.paper.records import Row, summary

DATA, RHOS = "Zipf 1", ("0.1", "1")


def measure(pairs: int) -> list[Row]:
    """One row for each quantity, reading and rho: the size of its relative error, in %, over pairs."""
    rows: list[Row] = []
    for rho in RHOS:
        by_pair = [two_releases.answers(DATA, float(rho), seed, items=False) for seed in range(pairs)]
        for quantity, answers in zip(two_releases.QUANTITIES, zip(*by_pair, strict=True), strict=True):
            readings = {
                "ours": [each.error for each in answers],
                "usual": [each.old for each in answers],
                "noise alone": [each.noise for each in answers],
            }
            for reading, errors in readings.items():
                rms = {"rms": float(np.sqrt(np.mean(np.square(errors)))), "pairs": pairs}
                rows.append(
                    {"quantity": quantity, "reading": reading, "rho": rho}
                    | summary([abs(each) for each in errors])
                    | rms
                )
    return rows
