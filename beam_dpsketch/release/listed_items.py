"""Released histograms of listed items: each estimate is one noisy counter.

Guarantee: each item's interval holds with the given confidence or more, over the noise; there are no collisions. For
whole m, P[|noise| > m] <= P[|normal| > m] at the same sigma: the weights exp(-x^2 / (2 sigma^2)) of x > m sum to less
than the integral from m on, and all weights sum to sigma sqrt(2 pi) or more, by Poisson summation. The noise of
combined releases has the same tails but for a share below 1e-8, if each sigma is 1.5 or more.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.release.answers import Frequencies
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.sketches.listed_items import ListedHistogram, find_all


class ReleasedListedItems(ReleasedSketch):
    """A released histogram of listed items. Its answers are about these alone, and `top_k` needs no candidates.

    Questions about an item that is not listed raise `ValueError`: its records were dropped, so nothing is known of it.
    """

    name = "listed_items"
    raw_type = ListedHistogram

    def _estimates(self, items: Any) -> np.ndarray:
        return self.counters[self._places(items)].astype(np.float64)

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        return self._rows(items, self._estimates(items), confidence)

    def _search(self, confidence: float) -> Frequencies:
        order = np.argsort(-self.counters.astype(np.float64), kind="stable")
        return self._rows([self.spec.items[place] for place in order], self.counters[order], confidence)

    def _rows(self, items: Any, counters: np.ndarray, confidence: float) -> Frequencies:
        estimates = counters.astype(np.float64)
        margin = noise_margin(self.privacy.sigma_squared, confidence) + self._rounding
        return Frequencies(items, estimates, estimates - margin, estimates + margin)

    def _places(self, items: Any) -> np.ndarray:
        places = find_all(self.spec, items)
        if missing := np.count_nonzero(places < 0):
            raise ValueError(
                f"items must be listed, and {missing} of {len(places)} are not: ask for those in spec.items, or count "
                "with a SketchSpec where items are not known beforehand"
            )
        return places

    @property
    def _size(self) -> str:
        return f"{self.spec.cells} listed items"


def noise_margin(sigma_squared: Fraction, confidence: float) -> int:
    """Return a whole number that noise of this parameter exceeds with a probability of at most 1 - confidence."""
    _validate.open_unit_interval(confidence=confidence)
    return math.ceil(NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(sigma_squared))
