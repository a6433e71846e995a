"""Residual rounds: subtract what is known of heavy nodes from the counters, and estimate the rest again.

Guarantee: post-processing. Convergence is not proved, so each level accepts a round only if the energy left in its
counters falls. It subtracts only nodes more than three deviations of their fitted weight above zero, and at most an
eighth as many as it has counters. It ends when no level's energy falls. An option: it lowers errors where collisions
dominate, and may not elsewhere; `benchmarks` has the table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from beam_dpsketch.hashing import cells
from beam_dpsketch.release.tree.least_squares import Nodes, Subtracted, fitted_tree
from beam_dpsketch.release.tree.levels import TreeLevel

ROUNDS = 8
_HEAVY_DEVIATIONS = 3.0
_COUNTERS_PER_HEAVY_NODE = 8


def residual_tree(levels: Sequence[TreeLevel], *, total: float | None = None) -> tuple[list[TreeLevel], list[Nodes]]:
    """Return the last round's levels, with heavy nodes subtracted, and the fitted tree."""
    subtracted: Subtracted = {}
    reduced, tree = list(levels), fitted_tree(levels, total=total)
    for _ in range(ROUNDS - 1):
        improved = False
        for number, (level, nodes) in enumerate(zip(levels, tree, strict=False)):
            if not level.is_exact:
                candidate = _heavy(level, nodes)
                remaining = _without(level, candidate)
                if _energy(remaining) < _energy(reduced[number]):
                    subtracted[number], reduced[number] = candidate, remaining
                    improved = True
        if not improved:
            break
        means = frozenset(number for number in subtracted if reduced[number].prefers_mean())
        tree = fitted_tree(reduced, total=total, subtracted=subtracted, means=means)
    return reduced, tree


def _heavy(level: TreeLevel, nodes: Nodes) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes that exceed the noise threshold, ascending, with their fitted weights."""
    heavy = np.flatnonzero(nodes.fitted > _HEAVY_DEVIATIONS * np.sqrt(nodes.upward_variance))
    limit = max(1, level.counters.size // _COUNTERS_PER_HEAVY_NODE)
    heavy = np.sort(heavy[np.argsort(-nodes.fitted[heavy], kind="stable")[:limit]])
    return nodes.ids[heavy], nodes.fitted[heavy]


def _without(level: TreeLevel, heavy: tuple[np.ndarray, np.ndarray]) -> TreeLevel:
    """Return the level with the sketch of these nodes subtracted from its counters."""
    (nodes, weights), counters = heavy, level.counters.astype(np.float64)
    for row in range(level.spec.depth):
        columns, signs = cells.columns_and_signs(nodes, seed=level.spec.seed, row=row, width=level.spec.width)
        signed = weights * signs if level.sketch == "count_sketch" else weights
        counters[row] -= np.bincount(columns, weights=signed, minlength=level.spec.width)
    return dataclasses.replace(level, counters=counters)


def _energy(level: TreeLevel) -> float:
    """Return the mean square of the counters, around their mean where they have no signs."""
    counters = level.counters.astype(np.float64)
    return float(np.mean(counters**2) if level.sketch == "count_sketch" else counters.var())
