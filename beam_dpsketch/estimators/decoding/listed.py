"""Decode listed items: nothing collides, so estimates stay as they are and shrinking alone brings them closer.

Guarantee: post-processing of released counters; intervals are those of the release.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beam_dpsketch.estimators.decoding.shrinking import shrink


class DecodedList:
    """The counters of some items.

    Args:
      counters: float64 of shape (n,).
      deviation: of the noise in each.
      margin: how far the truth may be to either side, at a given confidence.
      signed: whether weights may be negative.
    """

    def __init__(
        self, counters: np.ndarray, deviation: float, margin: Callable[[float], float], *, signed: bool
    ) -> None:
        self.estimates, self.deviations = counters, np.ones(len(counters))
        self.shrunk = shrink(counters, np.full(len(counters), deviation), signed=signed)
        self._margin = margin

    def margins(self, confidence: float) -> tuple[float, float]:
        """Return how far the truth may be below an estimate and above it."""
        return self._margin(confidence), self._margin(confidence)
