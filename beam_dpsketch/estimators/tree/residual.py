"""Residual rounds: subtract what is known of heavy nodes from the counters, and estimate the rest again.

Guarantee: post-processing. Convergence is not proved, so each level accepts a round only if the energy left in its
counters falls. It subtracts only nodes more than three deviations of their fitted weight above zero, and at most an
eighth as many as it has counters. It ends when no level's energy falls. `choice` says when the result is taken;
`benchmarks` has the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_dpsketch.estimators.tree.least_squares import Nodes, Subtracted, fitted_tree
from beam_dpsketch.estimators.tree.levels import TreeLevel

ROUNDS = 8
_HEAVY_DEVIATIONS = 3.0
_COUNTERS_PER_HEAVY_NODE = 8


def residual_tree(
    levels: Sequence[TreeLevel], fitted: list[Nodes], *, total: float | None = None
) -> tuple[list[TreeLevel], list[Nodes]]:
    """Return the last round's levels, with heavy nodes subtracted, and their tree, from the levels' fitted tree."""
    subtracted: Subtracted = {}
    reduced, tree = list(levels), fitted
    for _ in range(ROUNDS - 1):
        improved = False
        for number, (level, nodes) in enumerate(zip(levels, tree, strict=False)):
            if not level.is_exact:
                candidate = _heavy(level, nodes)
                remaining = level.without(*candidate)
                if remaining.energy() < reduced[number].energy():
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
    limit = level.counters.size // _COUNTERS_PER_HEAVY_NODE
    heavy = np.sort(heavy[np.argsort(-nodes.fitted[heavy], kind="stable")[:limit]])
    return nodes.ids[heavy], nodes.fitted[heavy]
