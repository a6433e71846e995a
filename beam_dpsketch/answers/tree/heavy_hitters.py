"""Heavy hitters without a candidate list: a walk down a released tree that expands what exceeds the noise threshold.

Guarantee: post-processing of the release, so nothing of the data but the noisy counters decides what is found. Values
are found if every node on their path exceeds the noise threshold; `detection_limit` is the weight at which that has a
given probability. No candidate lists are merged: the search is on the one released tree.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.estimators.comparing import Hashing, NoisyTable
from beam_dpsketch.estimators.presence import deviations_for
from beam_dpsketch.estimators.tree.least_squares import EXPANSION_DEVIATIONS
from beam_dpsketch.estimators.tree.levels import TreeLevel

FOUND = 0.95
_HASHING: dict[str, Hashing] = {"exact": "exact", "count_sketch": "signs", "count_min": "columns"}


class ReleasedTree(ReleasedSketch):
    """A released tree: it finds heavy items without candidates."""

    @functools.cached_property
    def level_deviations(self) -> tuple[float, ...]:
        """The standard deviation of the estimate of a node, on each level, noise and collisions together."""
        return tuple(math.sqrt(level.variance()) for level in self._levels)

    @property
    def search_deviations(self) -> tuple[float, ...]:
        """The same in a search, which may subtract what it has found."""
        return self.level_deviations

    @abstractmethod
    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        """Return the items of an estimated weight of `threshold` or more that exceed the noise threshold."""

    @functools.cached_property
    @abstractmethod
    def _levels(self) -> list[TreeLevel]: ...

    @property
    def _coarsest(self) -> tuple[np.ndarray, float]:
        return self._levels[0].drawn(self._noise_variance(0))

    @property
    def _noise_reach(self) -> float:
        return deviations_for(0.95) * min(self.level_deviations)

    @property
    def _table(self) -> NoisyTable:
        leaves = self._levels[-1]
        return NoisyTable.of(leaves.counters, self._noise_variance(), _HASHING[leaves.sketch])

    @property
    def _detection_limit(self) -> float:
        return detection_limit(self.search_deviations, expansion=EXPANSION_DEVIATIONS)

    def _search(self, confidence: float) -> Frequencies:
        return self.heavy_hitters(0.0, confidence)


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
