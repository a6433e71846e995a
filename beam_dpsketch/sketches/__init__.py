"""Linear data structures: exact, mergeable, nothing private."""

from typing import Any

from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.sketches.flat import CountMin, CountSketch, LinearSketch
from beam_dpsketch.sketches.grouped_items import GroupedHistogram, GroupedItems
from beam_dpsketch.sketches.linear import RawSketch
from beam_dpsketch.sketches.listed_items import ListedHistogram, ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.sketches.trees import DyadicCountSketch, PrefixSpec, PrefixTree

__all__ = ["CountMin", "CountSketch", "LinearSketch", "RawSketch", "raw_type"]

_KINDS: dict[str, type[RawSketch]] = {
    kind.name: kind
    for kind in (CountSketch, CountMin, ListedHistogram, GroupedHistogram, DyadicCountSketch, PrefixTree)
}


def raw_type(spec: Any) -> type[RawSketch]:
    """Return the kind of sketch that a spec describes."""
    kind = _KINDS.get(getattr(spec, "kind", ""))
    if kind is None or type(spec) is not kind.spec_type:
        raise ArgumentTypeError(
            "spec", f"must be a SketchSpec, ListedItems, TreeSpec or PrefixSpec, got {type(spec).__name__}", "E503"
        )
    return kind
