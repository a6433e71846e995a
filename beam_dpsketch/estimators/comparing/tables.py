"""The table of counters by which two releases are compared: that of single items, with what is known of its noise.

Guarantee: products of two such tables estimate products of what was counted. Rows without signs are centred: each minus
the mean of its cells that hold no heavy item. Over the hash, the product of two centred rows is 1 - 1/width times that
of the items.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, TypeAlias

import numpy as np

Hashing: TypeAlias = Literal["exact", "signs", "columns"]
"""Each item has a counter of its own, or shares one with a random sign, or shares one without."""

_HEAVY_DEVIATIONS = 6.0
_NORMAL_MEDIAN = 0.6745


@dataclasses.dataclass(frozen=True)
class NoisyTable:
    """Counters as float64 of shape (depth, width), the variance of the noise in each, and where items are."""

    counters: np.ndarray
    noise: float
    hashing: Hashing

    @classmethod
    def of(cls, counters: np.ndarray, noise: float, hashing: Hashing) -> NoisyTable:
        """Return the table of noisy counters; refuse rows of one cell without signs, which hold the total alone."""
        counters = counters.astype(np.float64)
        if hashing == "columns":
            if counters.shape[1] == 1:
                raise ValueError("a Count-Min of width 1 holds a total and no items: compare wider sketches")
            about = counters - np.median(counters, axis=1, keepdims=True)
            light = ~cls(about, noise, hashing).heavy
            light |= ~light.any(axis=1, keepdims=True)
            counters = counters - np.mean(counters, axis=1, keepdims=True, where=light)
        return cls(counters, noise, hashing)

    @property
    def depth(self) -> int:
        """The number of rows."""
        return self.counters.shape[0]

    @property
    def width(self) -> int:
        """The number of counters in a row."""
        return self.counters.shape[1]

    @property
    def free(self) -> int:
        """How many counters of a row are free: one less where they are centred."""
        return self.width - (self.hashing == "columns")

    @property
    def heavy(self) -> np.ndarray:
        """Which cells exceed what most of them hold by far, so that each has one heavy item: bool."""
        sizes = np.abs(self.counters)
        scale = math.hypot(float(np.median(sizes)) / _NORMAL_MEDIAN, math.sqrt(self.noise))
        found: np.ndarray = sizes > _HEAVY_DEVIATIONS * scale
        return found

    def minus(self, other: NoisyTable) -> NoisyTable:
        """Return the table of the difference; noise adds."""
        return NoisyTable(self.counters - other.counters, self.noise + other.noise, self.hashing)

    def over(self, length: float) -> NoisyTable:
        """Return the table divided by a length."""
        return NoisyTable(self.counters / length, self.noise / length**2, self.hashing)
