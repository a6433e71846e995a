"""Linear data structures: exact, mergeable, nothing private."""

from typing import Any

from beam_dpsketch.sketches.count_min import CountMin
from beam_dpsketch.sketches.count_sketch import CountSketch
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.grouped_items import GroupedCounts, GroupedItems
from beam_dpsketch.sketches.linear import LinearSketch, RawSketch
from beam_dpsketch.sketches.listed_items import ListedHistogram, ListedItems
from beam_dpsketch.sketches.prefix import PrefixSpec, PrefixTree
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

__all__ = ["CountMin", "CountSketch", "LinearSketch", "RawSketch", "raw_type"]

_FLAT: dict[str, type[RawSketch]] = {kind.name: kind for kind in (CountSketch, CountMin)}
_OTHERS: dict[type, type[RawSketch]] = {
    ListedItems: ListedHistogram,
    GroupedItems: GroupedCounts,  # type: ignore[type-abstract]
    TreeSpec: DyadicCountSketch,
    PrefixSpec: PrefixTree,
}


def raw_type(spec: Any) -> type[RawSketch]:
    """Return the kind of sketch that a spec describes."""
    kind = _FLAT[spec.kind] if isinstance(spec, SketchSpec) else _OTHERS.get(type(spec))
    if kind is None:
        raise TypeError(f"spec must be a SketchSpec, ListedItems, TreeSpec or PrefixSpec, got {type(spec).__name__}")
    return kind
