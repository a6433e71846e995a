"""How accumulators and releases travel between workers."""

from __future__ import annotations

from typing import Any

from apache_beam import coders

from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.release.released_sketch import ReleasedSketch


class AccumulatorCoder(coders.Coder):
    """Raw accumulators, between workers only."""

    def __init__(self, sketch_input: SketchInput) -> None:
        self._sketch_input = sketch_input

    def encode(self, value: SketchAccumulator) -> bytes:
        """The accumulator's own bytes."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> SketchAccumulator:
        """The accumulator, under the coder's sketch_input."""
        return SketchAccumulator.from_bytes(self._sketch_input, encoded)

    def is_deterministic(self) -> bool:
        """Equal sums may differ in bytes, depending on how they were made."""
        return False


class ReleasedSketchCoder(coders.Coder):
    """Releases, in their published format."""

    def encode(self, value: ReleasedSketch) -> bytes:
        """The published bytes."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> ReleasedSketch:
        """The release in the bytes."""
        return ReleasedSketch.from_bytes(encoded)

    def is_deterministic(self) -> bool:
        """A release has exactly one form in bytes."""
        return True

    def to_type_hint(self) -> Any:
        """The type that the coder is for."""
        return ReleasedSketch


coders.registry.register_coder(ReleasedSketch, ReleasedSketchCoder)
