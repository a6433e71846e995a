"""Released CountSketch: the median over rows, unbiased, with intervals read from the noisy counters.

Guarantee: each item's interval holds with about the given confidence, over the seed and the noise, whatever the
skew of the data. Source: Charikar, Chen and Farach-Colton 2002; private form: Zhao et al., NeurIPS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from beam_dpsketch.hashing import cells
from beam_dpsketch.release.frequencies import ReleasedFrequencies
from beam_dpsketch.sketches import CountSketch
from beam_dpsketch.sketches.spec import SketchSpec


class ReleasedCountSketch(ReleasedFrequencies):
    """A released CountSketch: unbiased estimates, also with deletions, and two-sided intervals."""

    name = "count_sketch"
    raw_type = CountSketch

    def estimate(self, items: Iterable[Any]) -> np.ndarray:
        """The estimated total weight of each item, float64 of shape (n,): the median over rows."""
        return self._median(self._keys(items))

    def _answers(self, keys: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        middle = self._median(keys)
        margin = median_margin(self._counters, confidence=confidence)
        return middle, middle - margin, middle + margin

    def _median(self, keys: np.ndarray) -> np.ndarray:
        return median_of_rows(self._spec, self._counters, keys)


def median_of_rows(spec: SketchSpec, counters: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The median over rows of each key's signed counters, which may be integers or floats, shape (depth, width)."""
    return np.median(cells.read_rows(counters, keys, seed=spec.seed, has_signs=True), axis=0)


def median_margin(counters: np.ndarray, *, confidence: float) -> float:
    """How far the median over rows may be from the truth at this confidence, noise and collisions together.

    What a row adds to an item's weight is, over the random hash, the counter of a random cell with a random sign:
    the noisy counters show its distribution, heavy tails included. The median is off by more than t only if at
    least half the rows are, on one side; the margin is the t at which that has probability 1 - confidence.

    Args:
      counters: noisy counters of shape (depth, width).
      confidence: in (0, 1).
    """
    magnitudes = np.abs(counters.astype(np.float64)).ravel()
    row_fails = _row_failure(len(counters), (1 - confidence) / 2)
    return float(np.quantile(magnitudes, 1 - 2 * row_fails, method="higher"))


def _row_failure(depth: int, median_fails: float) -> float:
    """The failure probability of one row, at most 1/2, at which half of `depth` rows fail with `median_fails`."""
    half = range((depth + 1) // 2, depth + 1)
    low, high = 0.0, 0.5
    for _ in range(60):
        row = (low + high) / 2
        fails = sum(math.comb(depth, rows) * row**rows * (1 - row) ** (depth - rows) for rows in half)
        low, high = (row, high) if fails <= median_fails else (low, row)
    return low
