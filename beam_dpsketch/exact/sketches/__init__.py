"""Exact, mergeable, linear sketches. They are not private."""

from typing import Any

from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.sketches.flat import CountMin, CountSketch, LinearSketch
from beam_dpsketch.exact.sketches.linear import RAW_KINDS, RawSketch
from beam_dpsketch.exact.sketches.listed_items import GroupedHistogram, ListedHistogram
from beam_dpsketch.exact.sketches.trees import DyadicCountSketch

__all__ = [
    "CountMin",
    "CountSketch",
    "DyadicCountSketch",
    "GroupedHistogram",
    "LinearSketch",
    "ListedHistogram",
    "RawSketch",
    "raw_type",
]


def raw_type(spec: Any) -> type[RawSketch]:
    """Look up the sketch class for a spec."""
    kind = RAW_KINDS.get(getattr(spec, "kind", ""))
    if kind is None or type(spec) is not kind.spec_type:
        raise ArgumentTypeError(
            "spec",
            f"must be a SketchSpec, ListedItems, FactorizationSpec or TreeSpec, got {type(spec).__name__}",
            "E503",
        )
    return kind
