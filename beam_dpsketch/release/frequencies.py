"""What released flat sketches share: answers about items that are given, with error bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.release.answers import Frequencies
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.sketches.spec import SketchSpec


class ReleasedFrequencies(ReleasedSketch):
    """A released flat sketch: how often any item occurred. It stores no items, so `top_k` needs `candidates`."""

    def __init__(self, spec: SketchSpec, counters: np.ndarray, privacy: PrivacyStatement) -> None:
        super().__init__(spec, counters, privacy)
        self._counters = self._counters.reshape(spec.depth, spec.width)

    @property
    def _size(self) -> str:
        return f"{self._spec.depth} x {self._spec.width} counters"

    def _keys(self, items: Any) -> np.ndarray:
        return fingerprints(items, item_hash=self._spec.item_hash, item_key=self._spec.item_key)

    def _search(self, confidence: float) -> Frequencies:
        raise ValueError(
            "candidates must be given: a flat sketch stores no items; PrivateTopK makes releases that find them"
        )
