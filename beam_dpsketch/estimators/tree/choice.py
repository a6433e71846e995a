"""Residual rounds, and the choice between them and the least-squares fit of a tree.

A round subtracts what is known of heavy nodes from the counters, and estimates the rest again. Convergence is not
proved, so each level accepts a round only if the energy left in its counters falls. It subtracts only nodes more than
three deviations of their fitted weight above zero, and at most an eighth as many as it has counters. It ends when no
level's energy falls.

Guarantee: post-processing, and a function of the release and a known total, not of what is asked. The fit is taken
whose predicted variance of ranks is smaller, on average over evenly spaced ranks. The variances are those of the error
bars: read from each fit's own counters, so they cover noise and the collisions that are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from beam_dpsketch.estimators.tree.cumulative import CumulativeTree
from beam_dpsketch.estimators.tree.least_squares import Nodes, fitted_tree
from beam_dpsketch.estimators.tree.levels import TreeLevel

ROUNDS = 8
_HEAVY_DEVIATIONS = 3.0
_COUNTERS_PER_HEAVY_NODE = 8


def residual_tree(
    levels: Sequence[TreeLevel], fitted: list[Nodes], *, total: float | None = None
) -> tuple[list[TreeLevel], list[Nodes]]:
    """Return the last round's levels, with heavy nodes subtracted, and their tree, from the levels' fitted tree."""
    reduced, tree = list(levels), fitted
    for _ in range(ROUNDS - 1):
        improved = False
        for number, (level, nodes) in enumerate(zip(levels, tree, strict=False)):
            if not level.is_exact:
                remaining = level.without(*_heavy(level, nodes))
                if remaining.energy() < reduced[number].energy():
                    reduced[number], improved = remaining.closer(), True
        if not improved:
            break
        tree = fitted_tree(reduced, total=total)
    return reduced, tree


def _heavy(level: TreeLevel, nodes: Nodes) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes that exceed the noise threshold, ascending, with their fitted weights."""
    heavy = np.flatnonzero(nodes.fitted > _HEAVY_DEVIATIONS * np.sqrt(nodes.upward_variance))
    limit = level.counters.size // _COUNTERS_PER_HEAVY_NODE
    heavy = np.sort(heavy[np.argsort(-nodes.fitted[heavy], kind="stable")[:limit]])
    return nodes.ids[heavy], nodes.fitted[heavy]


FitMethod: TypeAlias = Literal["least_squares", "residual"]
_RANKS = 64


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted tree, the levels that it was fitted to, and the ranks that it gives."""

    method: FitMethod
    levels: Sequence[TreeLevel]
    tree: list[Nodes]
    ranks: CumulativeTree

    def reading(self) -> dict[str, Any]:
        """Return what a program in another language makes the same ranks and variances of.

        Nodes are the children of those that were expanded, in order, and all nodes of the coarsest level.
        """
        levels = [
            {
                "bits": level.bits,
                "shift": level.shift,
                "variance": nodes.raw_variance,
                "expanded": np.flatnonzero(nodes.expanded).astype(np.int32),
                "weights": nodes.fitted,
            }
            for level, nodes in zip(self.levels, self.tree, strict=False)
        ]
        joint = self.levels[0].joint_variances(known_total=False)
        leaves = self.levels[-1].reading()
        return {"levels": levels, "leaves": leaves, "factor": None if joint is None else joint.reading()}


def least_squares_fit(levels: Sequence[TreeLevel], *, size: int, total: float | None) -> Fit:
    """Return the fit of the counters as they are."""
    tree = fitted_tree(levels, total=total)
    return Fit("least_squares", levels, tree, CumulativeTree(levels, tree, size=size, total=total))


def residual_fit(start: Fit, *, size: int, total: float | None) -> Fit:
    """Return the fit after residual rounds that begin with the least-squares fit, or that one if they do not help."""
    levels, tree = residual_tree(start.levels, start.tree, total=total)
    if tree is start.tree:
        return start
    return Fit("residual", levels, tree, CumulativeTree(levels, tree, size=size, total=total))


def choose(least_squares: Fit, residual: Fit) -> Fit:
    """Return the fit with the smaller predicted variance of ranks; least squares if they are equal."""
    shares = np.arange(1, _RANKS) / _RANKS
    positions = least_squares.ranks.position(shares * least_squares.ranks.total)
    variances = [np.mean(fit.ranks.variance(positions)) for fit in (least_squares, residual)]
    return residual if variances[1] < variances[0] else least_squares
