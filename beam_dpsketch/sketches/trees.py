"""Dyadic trees of sketches over an ordered domain (DCS, DCM): one linear sketch for each level.

Guarantee: every level is the exact linear sketch of the items' ancestors on it, so the whole is linear: it merges, and
insertions and deletions cancel. Source: Cormode and Muthukrishnan 2005 (Count-Min levels); Wang, Luo, Yi and Cormode
2013 (CountSketch levels).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.repeats import in_order, sort_by_key, sum_by_key
from beam_dpsketch.sketches.flat import CountMin, CountSketch, ExactHistogram, LinearSketch
from beam_dpsketch.sketches.linear import RawSketch, Table
from beam_dpsketch.sketches.tree_spec import TreeSpec

LEVEL_SKETCHES: dict[str, type[LinearSketch]] = {
    "factor": ExactHistogram,
    **{kind.name: kind for kind in (ExactHistogram, CountSketch, CountMin)},
}


class DyadicCountSketch(RawSketch):
    """A raw tree of sketches; the levels of its spec may be exact, CountSketches or Count-Mins.

    >>> from beam_dpsketch import IntegerDomain
    >>> tree = DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 9))).accumulate([3, 4, 4, 99])
    >>> tree.levels[-1].counters.tolist()
    [[0, 0, 0, 1, 2, 0, 0, 0, 0, 1]]
    """

    name = "quantiles"
    spec_type = TreeSpec

    def __init__(self, spec: TreeSpec) -> None:
        super().__init__(spec)
        self._levels = tuple(
            LEVEL_SKETCHES[level.sketch](spec.level_spec(number)) for number, level in enumerate(spec.levels)
        )

    @property
    def levels(self) -> tuple[LinearSketch, ...]:
        return self._levels

    @classmethod
    def usable_keys(cls, spec: TreeSpec, items: Any) -> tuple[np.ndarray, np.ndarray]:
        return spec.domain.index(items)

    @classmethod
    def tables(cls, spec: TreeSpec) -> tuple[Table, ...]:
        return tuple(
            Table(1, False, level.share, spec.factor.squared_length, spec.factor.dropped_bits)
            if level.sketch == "factor"
            else Table(level.depth, LEVEL_SKETCHES[level.sketch].has_signs, level.share)
            for level in spec.levels
        )

    def tables_to_release(self, grid_bits: int) -> Sequence[np.ndarray]:
        top, *below = self.counter_tables()
        return [self._spec.factor.rows(top.ravel(), grid_bits) if self._spec.has_factor else top, *below]

    @classmethod
    def cells_of(cls, spec: TreeSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        for number, level in enumerate(spec.levels):
            shift = spec.shift(number)
            nodes = keys >> np.uint64(shift) if shift < 64 else np.zeros_like(keys)
            for _, cells_of_row in LEVEL_SKETCHES[level.sketch].cells_of(spec.level_spec(number), nodes):
                yield number, cells_of_row

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> DyadicCountSketch:
        if weights is None:
            keys, weights = in_order(keys), np.broadcast_to(np.int64(1), len(keys))
        nodes, net = sum_by_key(*sort_by_key(keys, weights))
        for start in range(0, len(nodes), cells.CHUNK):
            self._accumulate_distinct(nodes[start : start + cells.CHUNK], net[start : start + cells.CHUNK])
        return self

    def _accumulate_distinct(self, nodes: np.ndarray, net: np.ndarray) -> None:
        for number in reversed(range(len(self._levels))):
            self._levels[number].accumulate_keys(nodes, net)
            if number:
                nodes, net = sum_by_key(nodes >> np.uint64(self._spec.levels[number].bits), net)

    def counter_tables(self) -> Sequence[np.ndarray]:
        return [level._counters for level in self._levels]

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        return self.usable_keys(self._spec, items)
