"""DPBench: counts, ranks and ranges of one-dimensional histograms, 100,000 records of each, one record a person."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import release_frame
from benchmarks.public import peers
from benchmarks.public.contest import (
    DELTA,
    EPSILON,
    OPENDP,
    OURS,
    PIPELINE_DP,
    PLAIN,
    Answers,
    Contest,
    Entry,
    Question,
)

RECORDS, RANGES = 100_000, 200
DIGESTS = {
    "ADULTFRANK.n4096.npy": "d85d9b9fe1ff128820cd103f710200affee71859f721ccb9ecc6e020325e4705",
    "MEDCOST.n4096.npy": "98ac6a1fb0ccdb0e249a7df49a238145eb971fdbebe1ee805174f99d28ef0dd3",
    "PATENT.n4096.npy": "0dac5363cfc1e15189cf00ef3a817dcfeb39678d986b1951ba4f451b1cc6f864",
    "SEARCHLOGS.n4096.npy": "183561b0a8bd8a6cdd0622468830aaab491400a7ee58db2f46a4496e9a4e2621",
    "bids.npy": "8a2074b437c1bbf5b35bd5d3ae5f26d5b30f94879e4bbd1ada01c4cd9c6fd319",
}
COUNTS, RANKS, RANGE_COUNTS = "count of each value", "rank of each value", f"{RANGES} random ranges"


def contests(folder: Path, records: int = RECORDS) -> Iterator[Contest]:
    for name, digest in DIGESTS.items():
        path = folder / name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise SystemExit(
                f"--dpbench: {path} is missing or another file. Pass the folder datafiles/1D of dpcomp_core."
            )
        yield contest(f"DPBench {name.split('.')[0]}", np.load(path), records)


def contest(data: str, histogram: np.ndarray, records: int) -> Contest:
    size, generator = len(histogram), np.random.default_rng(0)
    values = generator.choice(size, records, p=histogram / histogram.sum())
    low = generator.integers(0, size, RANGES)
    high = np.minimum(size - 1, low + (size * generator.random(RANGES) ** 2).astype(int))
    table, every = pa.table({"value": values}), np.arange(size)
    rows = [(place, value, 0) for place, value in enumerate(values.tolist())]

    def between(counts: np.ndarray) -> np.ndarray:
        below = np.append(0, np.cumsum(counts))
        return below[high + 1] - below[low]

    def answers(counts: Answers) -> dict[str, Answers]:
        estimate = counts.estimate
        return {COUNTS: counts, RANKS: Answers(np.cumsum(estimate)), RANGE_COUNTS: Answers(between(estimate))}

    def ours(optimize_for: str) -> Any:
        return release_frame(
            table,
            {
                "kind": "quantiles",
                "item": "value",
                "domain": {"type": "integer", "low": 0, "high": size - 1},
                "optimize_for": optimize_for,
                "privacy_unit": "record",
                "privacy": {"epsilon": EPSILON, "delta": DELTA},
            },
        )

    def theirs() -> Answers:
        return peers.counts(peers.pipeline_dp(rows, ["COUNT"], range(size), keys=1, each=1), range(size))

    exact = np.bincount(values, minlength=size)
    return Contest(
        data,
        (Question(COUNTS, exact), Question(RANKS, np.cumsum(exact)), Question(RANGE_COUNTS, between(exact))),
        (
            Entry(OURS, {"optimize_for: values": lambda: {COUNTS: Answers.of(ours("values").interval(every))}}),
            Entry(OURS, {"optimize_for: ranks": lambda: {RANKS: Answers.of(ours("ranks").rank_interval(every))}}),
            Entry(
                OURS,
                {"optimize_for: ranges": lambda: {RANGE_COUNTS: Answers.of(ours("ranges").range_interval(low, high))}},
            ),
            Entry(PIPELINE_DP, {"public partitions": lambda: answers(theirs())}),
            Entry(OPENDP, {"consistent tree": lambda: answers(Answers(peers.tree_counts(values, size)))}),
            Entry(PLAIN, {"a count of each value": lambda: answers(peers.noisy(exact, 1, 1.0))}),
        ),
    )
