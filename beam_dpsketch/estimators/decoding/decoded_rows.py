"""Read freed rows: a Huber mean that weights rows by their variance, and how far it may be from the truth.

Guarantee: post-processing. Bounds hold with about the given confidence over the noise and the seed, for any dictionary.
An item's row errs as a residual counter does, in units of its own deviation, and rows err independently. So
`upper_margin` finds how their Huber mean errs, as it does without decoding. Heavy items that the dictionary lacks are
in the residual counters, and so in the bounds. `row_mean` has the argument and its sources.
"""

from __future__ import annotations

import math

import numpy as np

from beam_dpsketch.estimators.decoding.rounds import FreedRows
from beam_dpsketch.estimators.decoding.shrinking import LIMIT, shrink
from beam_dpsketch.estimators.row_mean import margins, robust_scale

_CLIPS = 1.5, 3.0
_SMALLEST_SCALE = 0.1
_TIE = 1e-9


class DecodedRows:
    """The estimates of freed rows.

    Of two clips, it takes the one with the narrower intervals: the smaller where heavy collisions are left, the larger
    where noise dominates.

    Attributes:
      estimates: float64 of shape (n,).
      deviations: of their errors; margins are in this unit.
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
        """Return how far the truth may be below an estimate and above it, in deviations."""
        if confidence not in self._known_margins:
            self._known_margins[confidence] = self._found_margins(self._clip, confidence)
        return self._known_margins[confidence]

    def _found_margins(self, clip: float, confidence: float) -> tuple[float, float]:
        unit = math.sqrt(self._depth)
        below, above = margins(self._errors, clip, depth=self._depth, confidence=confidence, has_signs=self._has_signs)
        return unit * below, unit * above


def weighted_huber_mean(rows: np.ndarray, deviations: np.ndarray, clip: float) -> np.ndarray:
    """Return the Huber mean over the first axis, where rows weigh by inverse variance and are clipped in deviations.

    It starts from the weighted median, where each row weighs by 1 / deviation.
    """
    middle, weights, limits = weighted_median(rows, 1 / deviations), deviations**-2, clip * deviations
    return middle + (weights * np.clip(rows - middle, -limits, limits)).sum(axis=0) / weights.sum(axis=0)


def weighted_median(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the middle, over the first axis, of all values that have half the weight or more on either side."""
    order = np.argsort(rows, axis=0, kind="stable")
    ordered, below = np.take_along_axis(rows, order, 0), np.cumsum(np.take_along_axis(weights, order, 0), axis=0)
    half = below[-1] / 2
    lower = (below < half * (1 - _TIE)).sum(axis=0)
    upper = np.minimum((below <= half * (1 + _TIE)).sum(axis=0), len(rows) - 1)
    return (np.take_along_axis(ordered, lower[None], 0)[0] + np.take_along_axis(ordered, upper[None], 0)[0]) / 2
