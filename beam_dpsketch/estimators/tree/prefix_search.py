"""Search a released prefix tree: on each level, subtract the prefixes that stand high, and look again.

Guarantee: post-processing. A prefix is opened if its estimate exceeds `EXPANSION_DEVIATIONS` deviations. Before that,
heavy prefixes are subtracted from the level's counters, so that fewer collisions are left for the others. A round
counts only if the energy left in the counters falls. Each may subtract a quarter as many prefixes more as a row has
counters. After an item's end every further level counts the item alone, so its estimates are averaged by inverse
variance.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from beam_dpsketch.estimators.tree.levels import TreeLevel, median_variance
from beam_dpsketch.sketches.trees import END, PrefixSpec, extend, root

EXPANSION_DEVIATIONS = 4.0
"""With 257 children of each expanded prefix, fewer would let noise grow words of its own."""
ROUNDS = 8
_SUBTRACTED_DEVIATIONS = 5.0
"""Of the energy: the few heavy collisions, which a median forgives, count in full until they are subtracted."""
_COLUMNS_PER_SUBTRACTED = 4
_MIN_FALL = 1e-3
_MAX_EXPANDED = 1024


@dataclasses.dataclass(frozen=True)
class Found:
    """Prefixes above the noise threshold, largest first; arrays of n.

    Args:
      prefixes: hashes, uint64.
      symbols: int64 of shape (n, levels).
      weights: estimates.
      variances: their variances.
      precisions: the sum of inverse variances of the levels after the end; 0 before the end.
      deviations: the standard deviation of an estimate on each level, after what was found is subtracted.
    """

    prefixes: np.ndarray
    symbols: np.ndarray
    weights: np.ndarray
    variances: np.ndarray
    precisions: np.ndarray
    deviations: tuple[float, ...] = ()

    @property
    def ended(self) -> np.ndarray:
        """Whether the level counts an item alone, and not a longer one too."""
        return self.precisions > 0

    def rows(self) -> Iterator[tuple[bytes, float, float, bool]]:
        for symbols, *row in zip(self.symbols, self.weights, self.variances, self.ended, strict=True):
            weight, variance, ended = row
            yield bytes(symbols[symbols < END].astype(np.uint8)), float(weight), float(variance), bool(ended)


def search(spec: PrefixSpec, levels: Sequence[TreeLevel], *, rounds: int = ROUNDS) -> Found:
    """Return the prefixes of full length that exceed the noise on every level; `rounds=0` subtracts nothing."""
    found = Found(root(spec), np.zeros((1, 0), dtype=np.int64), *np.zeros((3, 1)))
    for level in levels:
        found = _expanded(found, spec, level, rounds)
    return found


def _expanded(found: Found, spec: PrefixSpec, level: TreeLevel, rounds: int) -> Found:
    """Return prefixes one symbol longer that exceed the noise."""
    going_on, ended = np.flatnonzero(~found.ended), np.flatnonzero(found.ended)
    parents = np.concatenate([np.repeat(going_on, END + 1), ended])
    symbols = np.concatenate([np.tile(np.arange(END + 1), len(going_on)), np.full(len(ended), END)])
    children = _Children(extend(spec, found.prefixes[parents], symbols), symbols == END, found, parents)
    remaining = level
    for number in range(rounds):
        most = min((number + 1) * max(1, spec.width // _COLUMNS_PER_SUBTRACTED), level.counters.size // 2)
        variance = max(remaining.energy() * median_variance(spec.depth), remaining.variance())
        weights, variances, _ = children.read(remaining, variance)
        heavy = _largest(weights, variances, _SUBTRACTED_DEVIATIONS, most)
        without = level.without(children.prefixes[heavy], weights[heavy])
        if without.energy() >= remaining.energy() * (1 - _MIN_FALL):
            break
        remaining = without
    remaining = remaining.closer()
    variance = remaining.variance()
    weights, variances, precisions = children.read(remaining, variance)
    kept = _largest(weights, variances, EXPANSION_DEVIATIONS, _MAX_EXPANDED)
    longer = np.column_stack([found.symbols[parents[kept]], symbols[kept]])
    return Found(
        children.prefixes[kept],
        longer,
        weights[kept],
        variances[kept],
        precisions[kept],
        (*found.deviations, math.sqrt(variance)),
    )


@dataclasses.dataclass(frozen=True)
class _Children:
    """Prefixes of one level, and what the levels before said of those that have ended."""

    prefixes: np.ndarray
    at_end: np.ndarray
    found: Found
    parents: np.ndarray

    def read(self, level: TreeLevel, variance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights, variances and precisions."""
        before = self.found.precisions[self.parents]
        precisions = before + 1 / variance
        estimates = level.estimates(self.prefixes)
        averages = (self.found.weights[self.parents] * before + estimates / variance) / precisions
        return (
            np.where(self.at_end, averages, estimates),
            np.where(self.at_end, 1 / precisions, variance),
            np.where(self.at_end, precisions, 0.0),
        )


def _largest(weights: np.ndarray, variances: np.ndarray, deviations: float, most: int) -> np.ndarray:
    above = np.flatnonzero(weights > deviations * np.sqrt(variances))
    return above[np.argsort(-weights[above], kind="stable")[:most]]
