"""An exact histogram with one counter per position, for levels of a tree that fit the memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from beam_dpsketch.sketches.linear import LinearSketch
from beam_dpsketch.sketches.spec import SketchSpec


class ExactHistogram(LinearSketch):
    """A raw histogram of whole numbers in [0, width); its spec has depth 1, and nothing is hashed."""

    name = "exact"
    has_signs = False

    @classmethod
    def cells_of(cls, spec: SketchSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, keys.astype(np.int64)

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> ExactHistogram:
        np.add.at(self._counters[0], keys.astype(np.int64), np.int64(1) if weights is None else weights)
        return self
