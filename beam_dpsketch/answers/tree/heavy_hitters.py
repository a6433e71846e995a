"""From which weight on a search finds a value.

Guarantee: post-processing of the release. A search expands the nodes that exceed the noise threshold, so a value is
found if every node on its path does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

FOUND = 0.95


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
