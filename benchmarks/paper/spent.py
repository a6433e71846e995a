"""What neighbouring data sets really cost: the rho of the worst pair of items that a search finds, for several sigmas.

Replacing one record by another moves the counters by a vector v; with Gaussian noise of sigma that spends
|v|^2 / (2 sigma^2) of rho, exactly. Two items that share a column with opposite signs move it by 2.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    IntegerDomain,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
)
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.sketches import LinearSketch
from beam_dpsketch.noise.calibration import calibrate
from benchmarks.paper import prototype
from benchmarks.paper.records import Row

BETA = 0.01
SEEDS = 16


def colliding_pair(spec: SketchSpec, items: np.ndarray, rows: int) -> tuple[int, int] | None:
    """Two items that share their columns with opposite signs in the first `rows` rows, if there are any.

    Items whose cells agree up to the sign of all rows have the same key; keys are sorted.
    """
    keys = np.zeros(len(items), dtype=np.uint64)
    first = np.zeros(len(items), dtype=np.int64)
    for row in range(rows):
        columns, signs = cells.columns_and_signs(items, seed=spec.seed, row=row, width=spec.width)
        first = signs if row == 0 else first
        cell = 2 * columns + (signs * first > 0)
        keys = keys * np.uint64(2 * spec.width) + cell.astype(np.uint64)
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero((keys[order][1:] == keys[order][:-1]) & (first[order][1:] != first[order][:-1]))
    return (int(items[order[same[0]]]), int(items[order[same[0] + 1]])) if len(same) else None


def worst_pair(
    kind: type[LinearSketch], spec: SketchSpec, items: np.ndarray, seeds: int
) -> tuple[SketchSpec, tuple[int, int]]:
    """The pair that moves the counters most: opposite signs in as many rows as the search finds, over a few seeds."""
    specs = [dataclasses.replace(spec, seed=seed) for seed in range(seeds)]
    if kind is CountMin:
        return specs[0], (int(items[0]), int(items[1]))
    pairs = ((each, colliding_pair(each, items, rows)) for rows in range(spec.depth, 0, -1) for each in specs)
    return next((each, pair) for each, pair in pairs if pair)


def squared_distance(kind: type[LinearSketch], spec: SketchSpec, pair: tuple[int, int]) -> int:
    """|v|^2 between the sketches of one item and of the other, from their counters."""
    one, other = (
        kind(dataclasses.replace(spec, kind=kind.name)).accumulate(np.array([item], dtype=np.uint64)).counters
        for item in pair
    )
    return int(np.sum((one - other) ** 2))


def cases() -> list[tuple[str, type[LinearSketch], SketchSpec, float, int]]:
    """Name, sketch, shape, the sigma^2 that its source takes for rho = 1, and the number of items that are searched."""
    paper = SketchSpec.paper_dimensions(relative_error=0.01, failure_probability=BETA)
    notebook = prototype.figure_1(2**-9, BETA, 1.0)
    bits = 16
    tree = prototype.tree(IntegerDomain(0, (1 << bits) - 1), 0.01, 1.0)
    found: list[tuple[str, type[LinearSketch], SketchSpec, float, int]] = []
    for kind in (CountMin, CountSketch):
        found.append(("paper, gamma = beta = 1 %", kind, paper, math.log(2 / BETA), 1 << 24))
        found.append(("notebook, first space", kind, prototype.spec(notebook, 0), notebook.sigma**2, 1 << 24))
    level = SketchSpec(depth=tree.depth, width=tree.width, seed=0)
    alone = tree.sigma**2 / bits  # if the level could spend rho = 1
    found.append((f"notebook, a level of the tree, U = 2^{bits}", CountSketch, level, alone, 1 << bits))
    return found


def measure(limit: int = 1 << 24) -> list[Row]:
    """One row for each case: rho spent by the worst pair found, and by the worst over all hash functions."""
    rows = []
    for name, kind, spec, sigma_squared, universe in cases():
        seeds = SEEDS if universe <= 1 << 16 else 1
        spec, pair = worst_pair(kind, spec, np.arange(min(universe, limit), dtype=np.uint64), seeds)
        moved = squared_distance(kind, spec, pair)
        privacy = PrivacySpec(rho=1, relation=REPLACE_ONE, summary_counts=None)
        (ours,) = calibrate(spec, ReleaseTerms(privacy, RecordBounds(1, max_weight=1)))
        worst = (4 if kind is CountSketch else 2) * spec.depth
        rows.append(
            {
                "settings": name,
                "sketch": kind.name,
                "shape": f"{spec.depth} x {spec.width}",
                "seed": spec.seed,
                "pair": f"{pair[0]} / {pair[1]}",
                "moved_squared": moved,
                "their_sigma_squared": sigma_squared,
                "spent_theirs": moved / (2 * sigma_squared),
                "worst_theirs": worst / (2 * sigma_squared),
                "our_sigma_squared": float(ours),
                "spent_ours": moved / (2 * float(ours)),
                "worst_ours": worst / (2 * float(ours)),
            }
        )
    return rows
