"""The law of two rounds of votes on three keys, summed over every value of the noise.

It shares nothing with the package but the numbers of the rule.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy import signal

from beam_dpsketch.privacy.two_rounds import TwoRounds
from tests.helpers.tolerances import discrete_gaussian

KEYS = 3
NOT, AT_ONCE, TOGETHER = range(3)
Table = tuple[tuple[int, ...], ...]


class Drawn(NamedTuple):
    """A law of whole numbers: its support and its probabilities."""

    values: np.ndarray
    chances: np.ndarray

    def tail(self, starts: Any) -> np.ndarray:
        """P(Z >= start) of each start."""
        tails = np.append(np.cumsum(self.chances[::-1])[::-1], 0.0)
        return tails[np.clip(np.asarray(starts) - self.values[0], 0, len(self.values))]


def noise(sigma_squared: Fraction) -> Drawn:
    found = discrete_gaussian(sigma_squared + 4)
    return Drawn(found.support, found.probabilities)


def sum_of(first: Drawn, second: Drawn) -> Drawn:
    start = first.values[0] + second.values[0]
    convolve = np.convolve if len(first.chances) < 1000 else signal.fftconvolve
    chances = convolve(first.chances, second.chances)
    return Drawn(np.arange(start, start + len(chances)), chances)


class Exact:
    """The law of what comes out, for keys 0, 1 and 2.

    Args:
      rounds: the rule.
      min_units: a key with fewer units is not considered: a fault if it is above 1.
      drawn_twice: whether the decision has another draw of round one than the steering: a fault.
    """

    def __init__(self, rounds: TwoRounds, *, min_units: int = 1, drawn_twice: bool = False) -> None:
        self.rounds, self.min_units, self.drawn_twice = rounds, min_units, drawn_twice
        self.first, self.second = map(noise, rounds.sigma_squared)
        raised = (min_units - 1) * rounds.grid
        self.at_once, self.together = rounds.at_once + raised, rounds.together + 6 * raised
        self.chances = functools.cache(self._chances)

    def _chances(self, first: int, second: int) -> np.ndarray:
        """P(cell of N1 and outcome) of a key with votes in each round: an array of (below H, between, T1 or more)."""
        noisy = first + self.first.values
        cells = [
            noisy < self.rounds.least,
            (self.rounds.least <= noisy) & (noisy < self.at_once),
            noisy >= self.at_once,
        ]
        found = np.zeros((3, 3))
        for cell, inside in enumerate(cells[:2]):
            missing = self.together - noisy[inside] - (second if cell else 0)
            together = float(self.first.chances[inside] @ self.second.tail(missing))
            found[cell, TOGETHER] = together
            found[cell, NOT] = self.first.chances[inside].sum() - together
        found[2, AT_ONCE] = self.first.chances[cells[2]].sum()
        return found

    def law(self, units: Table) -> np.ndarray:
        """P(outcome) of all keys, of shape (3, 3, 3)."""
        votes, voters = np.zeros(KEYS, dtype=int), collections.Counter(itertools.chain(*units))
        for keys in units:
            votes[[*keys]] += next(weight for size, weight in self.rounds.classes if size >= len(keys))
        there = [key for key in range(KEYS) if voters[key] >= self.min_units]
        found = np.zeros((3,) * KEYS)
        for cells in itertools.product(range(3), repeat=len(there)):
            between = {key for key, cell in zip(there, cells, strict=True) if cell == 1}
            second = dict.fromkeys(range(KEYS), 0)
            for left in ([*between.intersection(keys)] for keys in units):
                for key in left:
                    second[key] += math.floor(5 * self.rounds.grid / math.sqrt(len(left)))
            outcomes = [np.array([1.0, 0.0, 0.0])] * KEYS
            for key, cell in zip(there, cells, strict=True):
                chances = self.chances(int(votes[key]), second[key])
                outcomes[key] = chances[cell]
                if self.drawn_twice:
                    outcomes[key] = chances[cell].sum() * self.chances(int(votes[key]), second[key] if cell else 0).sum(
                        0
                    )
            found += functools.reduce(np.multiply.outer, outcomes)
        return found
