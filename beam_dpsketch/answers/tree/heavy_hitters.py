"""Above which estimate a search takes a value for one that occurs, and from which weight on it finds a value.

Guarantee: post-processing of the release. A search expands the nodes that exceed the noise threshold, so a value is
found if every node on its path does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from beam_dpsketch.estimators.tree_fit import EXPANSION_DEVIATIONS
from beam_dpsketch.privacy.noise.laws import Noise

FOUND = 0.95
_FALSE_VALUES = 0.05


def expansion(spec: Any, noise: Noise) -> float:
    """Return above how many deviations of its estimate a search takes a node for one that has weight.

    A tree of several levels tests a value on each of them. Where all values are tested at once, a list has on average
    at most 0.05 values that do not occur. The threshold is the quantile of the noise at 0.05 / size; of a Laplace at
    half of that, because P(Z >= k) on a grid is at most twice the tail of the continuous law.
    """
    if len(spec.describe_levels()) > 1:
        return EXPANSION_DEVIATIONS
    return noise.deviations(_FALSE_VALUES / max(2, spec.domain.size) / (1 if noise is Noise.GAUSSIAN else 2))


def detection_limit(deviations: Sequence[float], *, expansion: float, probability: float = FOUND) -> float:
    """Return the weight of a value that is found with a probability, if no other value shares a node with it.

    It is found if on every level the estimate of its node exceeds `expansion` deviations. Levels have independent
    noise and hashes, and errors are taken as normal, so the probability is the product over levels of
    Phi(weight / deviation - expansion). What shares a node with it makes it likelier to be found.
    """
    normal, largest = NormalDist(), max(deviations)
    low, high = 0.0, (expansion + normal.inv_cdf(1 - (1 - probability) / len(deviations))) * largest
    for _ in range(60):
        weight = (low + high) / 2
        found = math.prod(normal.cdf(weight / deviation - expansion) for deviation in deviations)
        low, high = (weight, high) if found < probability else (low, weight)
    return high
