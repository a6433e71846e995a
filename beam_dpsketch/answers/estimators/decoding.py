"""Decoding: subtract the items in a dictionary from the counters that others share with them.

Items far above the noise are peeled off first. Then rounds estimate every item from the residual counters, shrink the
estimates and subtract them, which reduces collisions within the dictionary. A row's weight in an estimate decreases
with the unknown rest in its cell.

The subtracted weights in a row come from the other rows, in up to five groups. A row's error thus stays independent of
the other rows, as intervals assume. Items decided by the row itself would remove some of its noise, and intervals would
be too narrow for medium weights.

Guarantee: post-processing. Convergence is not proved. Therefore a round counts only if the energy of the residual
counters falls, and at most a quarter as many items as a row has counters are peeled at once. The energy is their mean
square, with each counter clamped to a limit, because a single heavy item outside the dictionary must not drown the
rest. Source: message passing for sparse linear systems (Guo and Wang 2006), with the empirical Bayes step below.

A Huber mean that weights rows by their variance combines the freed rows. Bounds have about the given confidence over
the noise and the seed, for any dictionary. An item's row has the error of a residual counter, in units of its own
deviation, and rows have independent errors. `upper_margin` therefore computes the error of their Huber mean, as without
decoding. Heavy items outside the dictionary are in the residual counters, and so in the bounds. `row_mean` has the
argument and its sources.

SHRINKING moves estimates towards a common distribution for all weights. An estimate is a weight plus a normal error
with a known deviation. The distribution that makes all estimates most likely is fitted on a grid. On average over the
list, an item's posterior mean under it is closer to the truth than its estimate.

Limited translation: a posterior mean is clamped to a fixed interval around its estimate, in deviations, so that many
light items cannot pull a heavy item down. Sources: Kiefer and Wolfowitz 1956 (maximum likelihood), Efron and Morris
1972 (limited translation).

Listed items do not collide. Their estimates and intervals stay the same, and only shrinking brings them closer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from beam_dpsketch.answers.estimators.row_mean import huber_mean, margins, robust_scale
from beam_dpsketch.exact.hashing.cells import Places

_PEELS, _ROUNDS, _GROUPS = 12, 16, 5
_MIN_DEPTH = 3  # with fewer rows, a heavy collision looks like a heavy item
_PEELED_DEVIATIONS = 5.0
_COUNTERS_PER_PEELED_ITEM = 4
_ENERGY_SCALES = 5.0
_WORTH_A_ROUND = 0.995  # of the energy
_DAMPING = 0.5
_TRUSTED_DEVIATIONS = 4.0  # of a residual counter; beyond it, its variance is larger


@dataclasses.dataclass(frozen=True)
class FreedRows:
    """Estimates for each item and row, freed from known other items.

    Attributes:
      rows, variances: float64 of shape (depth, n).
      residual, counter_variances: residual counters and their expected squares, (depth, width).
      energy: the mean square over residual counters, each clamped.
      expected: its part from errors in subtracted weights.
      subtracted, uncertainties: the weights subtracted in each row and their mean squared errors, (depth, n).
    """

    rows: np.ndarray
    variances: np.ndarray
    residual: np.ndarray
    counter_variances: np.ndarray
    energy: float
    expected: float
    subtracted: np.ndarray
    uncertainties: np.ndarray


class Rounds:
    """Peeling and rounds over a release's counters."""

    def __init__(
        self, counters: np.ndarray, places: Places, *, sigma_squared: float, has_signs: bool, signed: bool
    ) -> None:
        self._counters, self._places, self._items = counters, places, places.size
        self._sigma_squared, self._has_signs, self._signed = sigma_squared, has_signs, signed
        numbers = np.arange(places.depth) % _GROUPS
        self._groups = [(numbers == group, numbers != group) for group in np.unique(numbers)]

    def run(self) -> FreedRows:
        has_rounds = self._places.depth >= _MIN_DEPTH
        subtracted = self._peeled() if has_rounds else np.zeros((self._places.depth, self._items))
        limit = _ENERGY_SCALES * self._scale(self._residual(subtracted))
        best = self._freed(subtracted, np.zeros_like(subtracted), limit)
        for number in range(_ROUNDS if has_rounds else 0):
            subtracted, uncertainties = self._known(best)
            if number:
                subtracted = _DAMPING * best.subtracted + (1 - _DAMPING) * subtracted
                uncertainties = _DAMPING * best.uncertainties + (1 - _DAMPING) * uncertainties
            found = self._freed(subtracted, uncertainties, limit)
            if found.energy >= best.energy:
                break
            best, before = found, best.energy
            if best.energy > _WORTH_A_ROUND * before:
                break
        return best

    def _peeled(self) -> np.ndarray:
        """Estimate items far above the noise for each row, from the other rows. Other items have 0."""
        taken = np.zeros((self._places.depth, self._items))
        residual = self._residual(taken)
        for _ in range(_PEELS):
            scale, candidate = self._scale(residual), np.zeros_like(taken)
            rows = taken + self._places.read(residual)
            for own, others in self._groups:
                candidate[own] = self._heavy(huber_mean(rows[others], scale), scale / math.sqrt(others.sum()))
            remaining, limit = self._residual(candidate), _ENERGY_SCALES * scale
            if _energy(remaining, limit) > _WORTH_A_ROUND * _energy(residual, limit):
                break
            taken, residual = candidate, remaining
        return taken

    def _heavy(self, estimates: np.ndarray, deviation: float) -> np.ndarray:
        """Select estimates many deviations from 0, at most as many as the guard allows. Other items have 0."""
        sizes, most = np.abs(estimates), self._places.width // _COUNTERS_PER_PEELED_ITEM
        threshold = _PEELED_DEVIATIONS * deviation
        if most < self._items:
            threshold = max(threshold, float(np.partition(sizes, -most - 1)[-most - 1]))
        return np.where(sizes > threshold, estimates, 0.0)

    def _known(self, freed: FreedRows) -> tuple[np.ndarray, np.ndarray]:
        suspected = (self._places.read(freed.residual) / _TRUSTED_DEVIATIONS) ** 2
        trust = 1 / np.maximum(freed.variances, suspected)
        weighted, total = trust * freed.rows, trust.sum(axis=0)
        law = None
        if self._items >= MIN_ITEMS:
            law = WeightLaw(weighted.sum(axis=0) / total, total**-0.5, signed=self._signed)
        known, uncertainties = np.empty_like(trust), np.empty_like(trust)
        for own, others in self._groups:
            trusted = trust[others].sum(axis=0)
            estimates = weighted[others].sum(axis=0) / trusted
            known[own], uncertainties[own] = (
                law.shrink(estimates, trusted**-0.5) if law is not None else (estimates, 1 / trusted)
            )
        return known, uncertainties

    def _freed(self, subtracted: np.ndarray, uncertainties: np.ndarray, limit: float) -> FreedRows:
        """Subtract these weights in each row, and estimate counter variances from the energy."""
        residual = self._residual(subtracted)
        energy, unknown = _energy(residual, limit), self._places.sums(uncertainties)
        expected = float(unknown.mean())
        rest = max(self._sigma_squared, energy - expected)
        share = min(1.0, max(0.0, energy - self._sigma_squared) / expected) if expected else 1.0
        counter_variances = rest + share * unknown
        variances = np.maximum(self._places.look_up(counter_variances) - share * uncertainties, rest)
        rows = subtracted + self._places.read(residual)
        return FreedRows(
            rows, variances, residual, counter_variances, energy, share * expected, subtracted, uncertainties
        )

    def _residual(self, weights: np.ndarray) -> np.ndarray:
        residual = self._counters - self._places.sketch(weights)
        return residual if self._has_signs else _centred(residual)

    def _scale(self, residual: np.ndarray) -> float:
        return robust_scale(residual, math.sqrt(self._sigma_squared))


def _centred(residual: np.ndarray) -> np.ndarray:
    """Subtract the mean of its row from each counter, with counters clamped to the energy limit.

    Once collisions are known, the mean is closer than the median to a cell's weight from other items.
    """
    around = residual - np.median(residual, axis=1, keepdims=True)
    limit = _ENERGY_SCALES * robust_scale(around, 0.0)
    return around - np.clip(around, -limit, limit).mean(axis=1, keepdims=True)


def _energy(residual: np.ndarray, limit: float) -> float:
    return float(np.mean(np.minimum(np.abs(residual), limit) ** 2))


_CLIPS = 1.5, 3.0
_SMALLEST_SCALE = 0.1
_TIE = 1e-9


class DecodedRows:
    """Estimates from freed rows.

    The class selects the narrower intervals of two clips: the smaller clip if heavy collisions remain, the larger if
    noise dominates.

    Attributes:
      estimates: float64 of shape (n,).
      deviations: standard deviations of their errors, the unit of margins.
      shrunk: posterior means, limited and inside the 95 % intervals; the estimates, if items are too few.
    """

    def __init__(self, freed: FreedRows, *, has_signs: bool, signed: bool) -> None:
        self._depth, self._has_signs = len(freed.rows), has_signs
        self._errors = (freed.residual / np.sqrt(freed.counter_variances)).ravel()
        scale = max(_SMALLEST_SCALE, robust_scale(self._errors, 0.0))
        by_clip = {clip * scale: self._found_margins(clip * scale, 0.95) for clip in _CLIPS}
        self._clip = min(by_clip, key=lambda clip: sum(by_clip[clip]))
        self._known_margins = {0.95: by_clip[self._clip]}
        deviations = np.sqrt(freed.variances)
        self.estimates = weighted_huber_mean(freed.rows, deviations, self._clip)
        self.deviations = (1 / freed.variances).sum(axis=0) ** -0.5
        below, above = self.margins(0.95)
        shrunk = shrink(self.estimates, (below + above) / 2 / LIMIT * self.deviations, signed=signed)
        self.shrunk = np.clip(
            shrunk, self.estimates - below * self.deviations, self.estimates + above * self.deviations
        )

    def margins(self, confidence: float) -> tuple[float, float]:
        if confidence not in self._known_margins:
            self._known_margins[confidence] = self._found_margins(self._clip, confidence)
        return self._known_margins[confidence]

    def _found_margins(self, clip: float, confidence: float) -> tuple[float, float]:
        unit = math.sqrt(self._depth)
        below, above = margins(self._errors, clip, depth=self._depth, confidence=confidence, has_signs=self._has_signs)
        return unit * below, unit * above


def weighted_huber_mean(rows: np.ndarray, deviations: np.ndarray, clip: float) -> np.ndarray:
    """Compute the Huber mean over the first axis, with rows weighted by inverse variance and clamped in deviations.

    It starts from the weighted median, in which each row weighs 1 / deviation.
    """
    middle, weights, limits = weighted_median(rows, 1 / deviations), deviations**-2, clip * deviations
    return middle + (weights * np.clip(rows - middle, -limits, limits)).sum(axis=0) / weights.sum(axis=0)


def weighted_median(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute the middle, over the first axis, of all values with at least half the weight on either side."""
    order = np.argsort(rows, axis=0, kind="stable")
    ordered, below = np.take_along_axis(rows, order, 0), np.cumsum(np.take_along_axis(weights, order, 0), axis=0)
    half = below[-1] / 2
    lower = (below < half * (1 - _TIE)).sum(axis=0)
    upper = np.minimum((below <= half * (1 + _TIE)).sum(axis=0), len(rows) - 1)
    return (np.take_along_axis(ordered, lower[None], 0)[0] + np.take_along_axis(ordered, upper[None], 0)[0]) / 2


MIN_ITEMS = 200
"""Fewer items are not shrunk, because they do not show the distribution of their weights."""

LIMIT = 1.96
"""Largest distance between a posterior mean and its estimate, in deviations."""

_CLASSES = 6  # of deviations; estimates in a class share a table
_STEPS = 60  # of expectation and maximization
_PARTS = 4  # table steps per deviation
_REACH, _FLAT, _FAR = 30, 25, 8  # in deviations: grid coverage, no shrinking from here on, most below 0
_GROWTH = 1.05
_NEVER = 1e-300


def shrink(estimates: np.ndarray, deviations: np.ndarray, *, signed: bool) -> np.ndarray:
    """Compute limited posterior means under a fitted distribution, or the estimates if they are too few."""
    if len(estimates) < MIN_ITEMS:
        return estimates
    return WeightLaw(estimates, deviations, signed=signed).shrink(estimates, deviations)[0]


class WeightLaw:
    """Fitted distribution of the weights behind estimates."""

    def __init__(self, estimates: np.ndarray, deviations: np.ndarray, *, signed: bool) -> None:
        self._signed = signed
        self.grid = _grid(float(deviations.min()), _REACH * float(deviations.max()), signed)
        likelihoods, counts = [], []
        for chosen, deviation in _classes(deviations):
            # 0.9: at the end of the grid, all weights beyond it would seem to be there.
            bins = np.rint(estimates[chosen][np.abs(estimates[chosen]) < 0.9 * self.grid[-1]] * (_PARTS / deviation))
            centres, found = np.unique(bins, return_counts=True)
            likelihoods.append(_likelihood(centres * (deviation / _PARTS), self.grid, deviation))
            counts.append(found)
        self.shares = _fitted(np.concatenate(likelihoods), np.concatenate(counts).astype(np.float64))

    def shrink(self, estimates: np.ndarray, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute limited posterior means and their mean squared errors."""
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
    """List weights from 0 on: first a record or half a deviation apart, then growing by a constant ratio."""
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
    """Fit a probability for each grid weight by maximum likelihood."""
    shares = np.full(likelihoods.shape[1], 1 / likelihoods.shape[1])
    for _ in range(_STEPS if len(counts) else 0):
        shares *= (counts / (likelihoods @ shares)) @ likelihoods / counts.sum()
    return shares


class DecodedList:
    """Decoded counters of listed items."""

    def __init__(
        self, counters: np.ndarray, deviation: float, margin: Callable[[float], float], *, signed: bool
    ) -> None:
        self.estimates, self.deviations = counters, np.ones(len(counters))
        self.shrunk = shrink(counters, np.full(len(counters), deviation), signed=signed)
        self._margin = margin

    def margins(self, confidence: float) -> tuple[float, float]:
        return self._margin(confidence), self._margin(confidence)
