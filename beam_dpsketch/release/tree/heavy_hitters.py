"""Heavy hitters without a candidate list: a walk down a released tree, opening what stands out.

Guarantee: post-processing of the release, so nothing of the data but the noisy counters decides what is found. Values
are found if every node on their path exceeds the noise threshold; `detection_limit` is the weight at which that has a
given probability. No candidate lists are merged: the search is on the one released tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from beam_dpsketch.release.tree.least_squares import OPENING_DEVIATIONS, Nodes
from beam_dpsketch.release.tree.levels import TreeLevel

FOUND = 0.95


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


def detection_limit(deviations: Sequence[float], *, opening: float, probability: float = FOUND) -> float:
    """The weight of a value that is found with a probability, if no other value shares a node with it.

    It is found if on every level the estimate of its node is above `opening` deviations. Levels have independent
    noise and hashes, and errors are taken as normal, so the probability is the product over levels of
    Phi(weight / deviation - opening). What shares a node with it makes it likelier to be found.

    Args:
      deviations: the standard deviation of an estimate on each level.
      opening: how many of them an estimate must exceed.
      probability: in (0, 1).
    """
    normal, largest = NormalDist(), max(deviations)
    low, high = 0.0, (opening + normal.inv_cdf(1 - (1 - probability) / len(deviations))) * largest
    for _ in range(60):
        weight = (low + high) / 2
        found = math.prod(normal.cdf(weight / deviation - opening) for deviation in deviations)
        low, high = (weight, high) if found < probability else (low, weight)
    return high
