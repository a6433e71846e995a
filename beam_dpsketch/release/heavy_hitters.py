"""Heavy hitters without a candidate list: a walk down a released tree, opening what stands out.

Guarantee: post-processing of the release, so nothing of the data but the noisy counters decides what is found. Values
are found if every node on their path stands out of the noise; `detection_limit` says from which weight on that is
likely. No candidate lists are merged: the search is on the one released tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from beam_dpsketch.release.consistency import OPENING_DEVIATIONS, Nodes
from beam_dpsketch.release.tree_levels import TreeLevel


def heavy_leaves(
    levels: Sequence[TreeLevel], tree: Sequence[Nodes], *, threshold: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, weights and standard deviations of the leaves that stand out with a weight of at least a threshold.

    Sorted by weight, largest first. Siblings of a heavy leaf are reached with it and need not stand out.
    """
    if len(tree) < len(levels):
        return np.zeros(0, dtype=np.uint64), np.zeros(0), np.zeros(0)
    leaves = tree[-1]
    deviations = np.sqrt(leaves.upward_variance)
    order = np.argsort(-leaves.fitted, kind="stable")
    order = order[(leaves.fitted >= threshold)[order] & (leaves.fitted > OPENING_DEVIATIONS * deviations)[order]]
    return leaves.ids[order], leaves.fitted[order], deviations[order]


def detection_limit(levels: Sequence[TreeLevel], *, deviations: float) -> float:
    """The weight whose nodes stand out on every level: the level that is least certain decides."""
    return deviations * math.sqrt(max(level.variance() for level in levels))
