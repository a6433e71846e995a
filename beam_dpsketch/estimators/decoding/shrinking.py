"""Shrink estimates towards the law of all the weights, fitted to the estimates themselves.

An estimate is a weight plus a normal error of known deviation. The law that makes all the estimates most likely is
fitted on a grid. An item's posterior mean under it is closer to the truth on average over the list than its estimate.

Guarantee: post-processing. Limited translation: a posterior mean is clipped to a given number of deviations around its
estimate, so a heavy item cannot be drawn towards the many light ones. Sources: Kiefer and Wolfowitz 1956 (the law of
maximum likelihood), Efron and Morris 1972 (limited translation).

Of listed items nothing collides: estimates and intervals stay as they are, and shrinking alone brings them closer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

MIN_ITEMS = 200
"""Fewer items do not show the law of their weights, so their estimates are not shrunk."""

LIMIT = 1.96
"""How many deviations a posterior mean may be from the estimate."""

_CLASSES = 6  # of deviations; estimates of one class share a table
_STEPS = 60  # of expectation and maximisation
_PARTS = 4  # of a deviation: the steps of tables
_REACH, _FLAT, _FAR = 30, 25, 8  # in deviations: the grid covers, nothing is shrunk from here on, the most below 0
_GROWTH = 1.05
_NEVER = 1e-300


def shrink(estimates: np.ndarray, deviations: np.ndarray, *, signed: bool) -> np.ndarray:
    """Return limited posterior means under the law of all the weights; the estimates, if these are too few."""
    if len(estimates) < MIN_ITEMS:
        return estimates
    return WeightLaw(estimates, deviations, signed=signed).shrink(estimates, deviations)[0]


class WeightLaw:
    """The law of the weights behind some estimates."""

    def __init__(self, estimates: np.ndarray, deviations: np.ndarray, *, signed: bool) -> None:
        self._signed = signed
        self.grid = _grid(float(deviations.min()), _REACH * float(deviations.max()), signed)
        likelihoods, counts = [], []
        for chosen, deviation in _classes(deviations):
            # 0.9: those at the end of the grid would look as if all weights beyond it were there.
            bins = np.rint(estimates[chosen][np.abs(estimates[chosen]) < 0.9 * self.grid[-1]] * (_PARTS / deviation))
            centres, found = np.unique(bins, return_counts=True)
            likelihoods.append(_likelihood(centres * (deviation / _PARTS), self.grid, deviation))
            counts.append(found)
        self.shares = _fitted(np.concatenate(likelihoods), np.concatenate(counts).astype(np.float64))

    def shrink(self, estimates: np.ndarray, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior mean of each weight, limited, and the mean square of its error."""
        means, variances = estimates.copy(), deviations**2
        for chosen, deviation in _classes(deviations):
            values = deviation / _PARTS * np.arange(-_PARTS * (_FLAT if self._signed else _FAR), _PARTS * _FLAT + 1)
            chances = _likelihood(values, self.grid, deviation) * self.shares
            chances /= chances.sum(axis=1, keepdims=True)
            mean = chances @ self.grid
            variance = np.maximum(chances @ self.grid**2 - mean**2, 0.0)
            own = estimates[chosen]
            near = (own < values[-1]) & ((own > values[0]) | (not self._signed))
            means[chosen[near]] = np.interp(own[near], values, mean)
            variances[chosen[near]] = np.interp(own[near], values, variance)
        limited = np.clip(means, estimates - LIMIT * deviations, estimates + LIMIT * deviations)
        return limited, variances + (limited - means) ** 2


def _grid(smallest: float, reach: float, signed: bool) -> np.ndarray:
    """Return weights from 0 on: first a record or half a deviation apart, then ever further, by a constant ratio."""
    step = min(1.0, smallest / 2)
    even = step * np.arange(round(1 / (_GROWTH - 1)))
    start = even[-1] + step
    longer = math.ceil(math.log(max(reach / start, 1.0)) / math.log(_GROWTH)) + 1
    grid = np.append(even, start * _GROWTH ** np.arange(longer))
    return np.append(-grid[:0:-1], grid) if signed else grid


def _classes(deviations: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the places of estimates with about equal deviations, and their mean deviation."""
    edges = np.quantile(deviations, np.arange(1, _CLASSES) / _CLASSES)
    classes = np.searchsorted(edges, deviations)
    for number in np.unique(classes):
        places = np.flatnonzero(classes == number)
        yield places, float(deviations[places].mean())


def _likelihood(values: np.ndarray, grid: np.ndarray, deviation: float) -> np.ndarray:
    return np.exp(-0.5 * ((values[:, None] - grid) / deviation) ** 2) + _NEVER


def _fitted(likelihoods: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return how common each weight of the grid is, so that the counted values are most likely."""
    shares = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    for _ in range(_STEPS if len(counts) else 0):
        shares *= (counts / (likelihoods @ shares)) @ likelihoods / counts.sum()
    return shares


class DecodedList:
    """The counters of some items."""

    def __init__(
        self, counters: np.ndarray, deviation: float, margin: Callable[[float], float], *, signed: bool
    ) -> None:
        self.estimates, self.deviations = counters, np.ones(len(counters))
        self.shrunk = shrink(counters, np.full(len(counters), deviation), signed=signed)
        self._margin = margin

    def margins(self, confidence: float) -> tuple[float, float]:
        return self._margin(confidence), self._margin(confidence)
