"""An exact histogram: one counter for each key, and no collisions.

Guarantee: a record adds its weight to its own counter and to no other, so the counters are a linear function of the
input. What the keys stand for, and what is released of the counters, is up to the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from beam_dpsketch.sketches.linear import RawSketch, read_only

Self = TypeVar("Self", bound="Histogram")


class Histogram(RawSketch):
    """One table of counters, whose keys are their places."""

    def __init__(self, spec: Any) -> None:
        super().__init__(spec)
        self._counters = np.zeros(spec.cells, dtype=np.int64)

    @property
    def counters(self) -> np.ndarray:
        """The exact counters, int64 of shape (cells,), read-only. They are not private: never publish them."""
        return read_only(self._counters)

    @classmethod
    def cells_of(cls, spec: Any, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, keys.astype(np.int64)

    def accumulate_keys(self: Self, keys: np.ndarray, weights: np.ndarray | None) -> Self:
        np.add.at(self._counters, keys.astype(np.int64), np.int64(1) if weights is None else weights)
        return self

    def counter_tables(self) -> Sequence[np.ndarray]:
        return (self._counters,)
