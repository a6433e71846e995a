"""Coders: how accumulators and releases travel between workers."""

from __future__ import annotations

from typing import Any

from apache_beam import coders

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.items import SketchInput


class AccumulatorCoder(coders.Coder):
    """Encodes raw accumulators, between workers only."""

    def __init__(self, sketch_input: SketchInput) -> None:
        self._sketch_input = sketch_input

    def encode(self, value: SketchAccumulator) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> SketchAccumulator:
        return SketchAccumulator.from_bytes(self._sketch_input, encoded)

    def is_deterministic(self) -> bool:
        return False  # equal sums may differ in bytes, depending on how they were made


class ReleasedSketchCoder(coders.Coder):
    """Encodes releases in their published format."""

    def encode(self, value: ReleasedSketch) -> bytes:
        return value.to_bytes()

    def decode(self, encoded: bytes) -> ReleasedSketch:
        return ReleasedSketch.from_bytes(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return ReleasedSketch


coders.registry.register_coder(ReleasedSketch, ReleasedSketchCoder)
