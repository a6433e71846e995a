"""Choose between the least-squares fit of a tree and its residual rounds, by released numbers alone.

Guarantee: post-processing, and a function of the release and a known total, not of what is asked. The fit is taken
whose predicted variance of ranks is smaller, on average over evenly spaced ranks. The variances are those of the error
bars: read from each fit's own counters, so they cover noise and the collisions that are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from beam_dpsketch.estimators.tree.cumulative import CumulativeTree
from beam_dpsketch.estimators.tree.least_squares import Nodes, fitted_tree
from beam_dpsketch.estimators.tree.levels import TreeLevel
from beam_dpsketch.estimators.tree.residual import residual_tree

FitMethod: TypeAlias = Literal["least_squares", "residual"]
_RANKS = 64


@dataclasses.dataclass(frozen=True)
class Fit:
    """A fitted tree, the levels that it was fitted to, and the ranks that it gives."""

    method: FitMethod
    levels: Sequence[TreeLevel]
    tree: list[Nodes]
    ranks: CumulativeTree


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
    variances = [np.mean(fit.ranks.variances.rank_variance(positions)) for fit in (least_squares, residual)]
    return residual if variances[1] < variances[0] else least_squares
