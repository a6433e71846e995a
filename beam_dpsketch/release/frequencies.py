"""What released flat sketches share: answers about single items, with error bars."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.sketches.spec import SketchSpec


class Frequency(NamedTuple):
    """One item with its estimated total weight and an interval for the true one.

    The true weight is that of the records that bounding kept: see `ReleasedFrequencies.interval`.
    """

    item: Any
    estimate: float
    lower: float
    upper: float


class ReleasedFrequencies(ReleasedSketch):
    """A released flat sketch: how often any item occurred."""

    def __init__(self, spec: SketchSpec, counters: np.ndarray, privacy: PrivacyStatement) -> None:
        super().__init__(spec, counters, privacy)
        self._counters = self._counters.reshape(spec.depth, spec.width)

    @abstractmethod
    def estimate(self, items: Iterable[Any]) -> np.ndarray:
        """The estimated total weight of each item, float64 of shape (n,)."""

    def interval(self, items: Iterable[Any], confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds for the true total weight of each item, over the records that bounding kept.

        They cover noise and collisions. They do not cover what `RecordBounds` dropped or clamped, so where
        records are dropped, the total in the raw data may lie far outside. Each item's bounds hold with the given
        confidence, over the noise and the seed, for that item alone; see `top_k` for lists.
        """
        _validate.open_unit_interval(confidence=confidence)
        _, lower, upper = self._answers(self._keys(items), confidence)
        return lower, upper

    def top_k(self, candidates: Iterable[Any], k: int, confidence: float = 0.95) -> list[Frequency]:
        """The k candidates of largest estimate, largest first, equal ones in the order given.

        The candidate list must be public: candidates taken from the data would publish them. All are returned if
        fewer than k; repeated ones count once.

        Each interval holds at the given confidence for an item chosen before asking. A list of the largest estimates
        prefers items that the noise raised. Where many candidates have nearly equal weights, fewer of its intervals
        hold. For intervals that hold for all m candidates together, and so for any list of them, divide what may
        fail: ``confidence=1 - 0.05 / m``.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        frequencies = self._frequencies(list(dict.fromkeys(_listed(candidates))), confidence)
        return sorted(frequencies, key=lambda frequency: -frequency.estimate)[:k]

    def as_rows(self, items: Iterable[Any], confidence: float = 0.95) -> list[dict[str, Any]]:
        """One plain dict per item with the fields item, estimate, lower and upper, for any sink."""
        return [frequency._asdict() for frequency in self._frequencies(_listed(items), confidence)]

    def _keys(self, items: Iterable[Any]) -> np.ndarray:
        return fingerprints(items, item_hash=self._spec.item_hash, item_key=self._spec.item_key)

    def _frequencies(self, items: list[Any], confidence: float) -> list[Frequency]:
        _validate.open_unit_interval(confidence=confidence)
        answers = self._answers(self._keys(items), confidence)
        return [Frequency(*row) for row in zip(items, *(values.tolist() for values in answers), strict=True)]

    @abstractmethod
    def _answers(self, keys: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Estimate, lower and upper bound of each key, float64 of shape (n,)."""


def _listed(items: Iterable[Any]) -> list[Any]:
    """Any iterable, numpy or pyarrow array as a list of plain Python items."""
    if isinstance(items, np.ndarray):
        return items.tolist()
    return items.to_pylist() if isinstance(items, (pa.Array, pa.ChunkedArray)) else list(items)
