"""Released CountSketch: the median over rows, unbiased, with intervals read from the noisy counters.

Guarantee: each item's interval holds with about the given confidence, over the seed and the noise, for data of
any skew. Source: Charikar, Chen and Farach-Colton 2002; private form: Zhao et al., NeurIPS 2022.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.hashing import cells
from beam_dpsketch.release.answers import Frequencies
from beam_dpsketch.release.released_sketch import ReleasedFrequencies
from beam_dpsketch.sketches import CountSketch
from beam_dpsketch.sketches.binomial import half_or_more
from beam_dpsketch.sketches.spec import SketchSpec


class ReleasedCountSketch(ReleasedFrequencies):
    """A released CountSketch: medians over rows, unbiased also with deletions, and two-sided intervals."""

    name = "count_sketch"
    raw_type = CountSketch

    def _estimates(self, items: Any) -> np.ndarray:
        return median_of_rows(self._spec, self.counters, self._keys(items))

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        middle, margin = self._estimates(items), median_margin(self.counters, confidence=confidence)
        return Frequencies(items, middle, middle - margin, middle + margin)


def median_of_rows(spec: SketchSpec, counters: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the median over rows of each key's signed counters, integers or floats of shape (depth, width)."""
    return np.median(cells.read_rows(counters, keys, seed=spec.seed, has_signs=True), axis=0)


def median_margin(counters: np.ndarray, *, confidence: float) -> float:
    """Return how far the median over rows may be from the truth at this confidence, noise and collisions together.

    What a row adds to an item's weight is, over the random hash, the counter of a random cell with a random sign:
    the noisy counters show its distribution, heavy tails included. The median is off by more than t only if half the
    rows or more are, on one side. The margin is the t at which that has probability 1 - confidence.
    """
    row_fails = _row_failure(len(counters), (1 - confidence) / 2)
    return float(np.quantile(np.abs(counters.astype(np.float64)), 1 - 2 * row_fails, method="higher"))


def _row_failure(depth: int, median_fails: float) -> float:
    """Return the failure probability of one row, up to 1/2, at which half of them fail with `median_fails`."""
    low, high = 0.0, 0.5
    for _ in range(60):
        row = (low + high) / 2
        low, high = (row, high) if half_or_more(depth, row) <= median_fails else (low, row)
    return low
