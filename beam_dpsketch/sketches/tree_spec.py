"""Lay out a tree of sketches over an ordered domain: choose its levels, and an exact histogram or a sketch for each.

A node of the tree stands for an aligned block of positions; each level splits the nodes of the one above into 2**bits
children. Levels that fit are exact histograms, the others sketches. Source: Cormode and Muthukrishnan 2005 and Wang et
al. 2013 for the dyadic decomposition; `benchmarks.accuracy.quantiles` compares this layout with the paper's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.domains.base import Domain
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.fingerprints import HASH_VERSION
from beam_dpsketch.sketches.spec import MAX_CELLS, MAX_WIDTH, Purpose, SketchSpec, Spec

BYTES_PER_COUNTER = 4
DEFAULT_MEMORY = 490_000
MAX_LEVELS = 65
MAX_SKETCHED_BITS = 20  # answers look at all children of a node
_EXACT_ARITIES = (4, 8, 16)
_MIN_COLUMNS = 16


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Level:
    """One level of a tree.

    Args:
      bits: log2 of the number of children of a node of the level above.
      sketch: "exact", "count_sketch" or "count_min".
      depth: rows; 1 if exact.
      width: columns; the number of nodes if exact.
      share: the part of rho that the level gets.
    """

    bits: int
    sketch: str
    depth: int
    width: int
    share: Fraction

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "bits", low=0, high=64)
        _validate.whole_fields(self, "depth", "width", low=0, high=MAX_WIDTH)
        _validate.one_of(("exact", "count_sketch", "count_min"), sketch=self.sketch)
        if not 0 < self.share <= 1:
            raise ArgumentError("share", "must be above 0 and at most 1", "E507")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeSpec(Spec):
    """Everything that two trees must share to be merged. `for_memory` chooses the levels.

    Args:
      domain: the ordered universe.
      levels: 1 to 65, from the coarsest to the finest; their bits cover the domain and their shares sum to 1 exactly.
      seed: chooses the hash functions, 0 to 2**64 - 1.
    """

    kind: ClassVar[str] = "quantiles"
    takes_laplace: ClassVar[bool] = False
    domain: Domain
    levels: tuple[Level, ...]
    seed: int = 0
    hash_version: int = HASH_VERSION

    def __post_init__(self) -> None:
        _validate.instance(Domain, domain=self.domain)
        _validate.whole_fields(self, "seed", low=0, high=(1 << 64) - 1)
        _validate.one_of((HASH_VERSION,), hash_version=self.hash_version)
        if not 1 <= len(self.levels) <= MAX_LEVELS:  # adding thousands of fractions could take days
            raise ArgumentError("levels", f"must be 1 to {MAX_LEVELS}, got {len(self.levels)}", "E507")
        if sum(level.bits for level in self.levels) != self.domain.bits:
            raise ArgumentError(
                "", f"the bits of the levels must sum to {self.domain.bits}, those of the domain", "E507"
            )
        if sum(level.share for level in self.levels) != 1:
            raise ArgumentError("", "the shares of the levels must sum to 1", "E507")
        for number, level in enumerate(self.levels):
            if level.sketch == "exact" and (level.depth, level.width) != (1, self.nodes(number)):
                raise ArgumentError(
                    "", f"an exact level {number} must have depth 1 and width {self.nodes(number)}", "E507"
                )
            if level.sketch != "exact" and level.bits > MAX_SKETCHED_BITS:
                raise ArgumentError(
                    "",
                    f"bits of level {number} must be at most {MAX_SKETCHED_BITS}: answers look at all children of a "
                    "node; take more levels, or a smaller arity",
                    "E507",
                )
            self.level_spec(number)

    @classmethod
    def for_memory(
        cls,
        domain: Domain,
        memory: int = DEFAULT_MEMORY,
        *,
        seed: int = 0,
        arity: int | None = None,
        depth: int = 5,
        sketch: str = "count_sketch",
        exact_levels: bool = True,
        leaf_share: Fraction | None = None,
    ) -> TreeSpec:
        """Choose the layout that uses a given memory best.

        Takes the smallest arity of 4, 8 and 16 for which exact levels fit. If none does, the arity is 4, and memory is
        split by water-filling: every level gets the same number of counters, or an exact histogram if that is enough.

        Args:
          domain: the ordered universe.
          memory: bytes, counted at 4 a counter.
          seed: chooses the hash functions.
          arity: children of a node, a power of two; `None` chooses.
          depth: rows of the sketched levels.
          sketch: "count_sketch" or "count_min", for the levels that are not exact.
          exact_levels: `False` for the paper's layout, in which every level is a sketch.
          leaf_share: the part of rho for the finest level; the others share the rest. `None` splits evenly.
        """
        _validate.instance(Domain, domain=domain)
        _validate.whole(low=1, high=1 << 40, memory=memory)
        _validate.whole(low=1, high=64, depth=depth)
        counters = memory // BYTES_PER_COUNTER
        if arity is None:
            fitting = (each for each in _EXACT_ARITIES if sum(_level_nodes(domain, each)) <= counters)
            arity = next(fitting, _EXACT_ARITIES[0]) if exact_levels else 2
        if not isinstance(arity, int) or arity < 2 or arity & (arity - 1):
            raise ArgumentError("arity", f"must be a power of two and at least 2, got {arity}", "E508")
        nodes = _level_nodes(domain, arity)
        sizes = _water_fill(nodes, counters) if exact_levels else [counters // len(nodes)] * len(nodes)
        shares = _split_rho(len(nodes), leaf_share)
        levels = []
        for bits, size, level_nodes, share in zip(_level_bits(domain, arity), sizes, nodes, shares, strict=True):
            if exact_levels and size >= level_nodes and level_nodes <= MAX_WIDTH:
                levels.append(Level(bits, "exact", 1, level_nodes, share))
            else:
                check_memory(memory, levels=len(nodes), depth=depth, columns=size // depth)
                levels.append(Level(bits, sketch, depth, min(size // depth, MAX_WIDTH, MAX_CELLS // depth), share))
        return cls(domain=domain, levels=tuple(levels), seed=seed)

    @classmethod
    def for_search(cls, domain: Domain, memory: int = DEFAULT_MEMORY, *, seed: int = 0) -> TreeSpec:
        """Return the layout for lists of the most frequent values: few levels, half of rho for the finest."""
        return cls.for_memory(domain, memory, seed=seed, arity=16, leaf_share=Fraction(1, 2))

    @classmethod
    def paper_layout(
        cls, domain: Domain, *, depth: int, width: int, sketch: str = "count_sketch", seed: int = 0
    ) -> TreeSpec:
        """Return the paper's layout: a binary tree, every level a depth x width sketch with the same share of rho."""
        bits = _level_bits(domain, 2)
        share = Fraction(1, len(bits))
        return cls(domain=domain, levels=tuple(Level(each, sketch, depth, width, share) for each in bits), seed=seed)

    @property
    def cells(self) -> int:
        return sum(level.depth * level.width for level in self.levels)

    @property
    def key_range(self) -> int:
        return self.domain.size

    def describe_levels(self) -> Sequence[str]:
        shapes = (f"{each.width}" if each.sketch == "exact" else f"{each.depth} x {each.width}" for each in self.levels)
        return [f"{level.sketch} {shape}" for level, shape in zip(self.levels, shapes, strict=True)]

    def purpose(self, *, search: bool) -> Purpose:
        return "items" if search else "ranks"

    def shift(self, number: int) -> int:
        """Return the number of bits of a position below a level: a node is `position >> shift`."""
        return sum(level.bits for level in self.levels[number + 1 :])

    def nodes(self, number: int) -> int:
        return -(-self.domain.size >> self.shift(number))

    def level_spec(self, number: int) -> SketchSpec:
        level = self.levels[number]
        if level.sketch == "exact":
            return SketchSpec(depth=level.depth, width=level.width)
        seed = cells.derive_seed(self.seed, number)
        return SketchSpec(kind=level.sketch, depth=level.depth, width=level.width, seed=seed)


def check_memory(memory: int, *, levels: int, depth: int, columns: int) -> None:
    """Refuse a memory that leaves too few columns for a level."""
    if columns < _MIN_COLUMNS:
        needed = levels * depth * _MIN_COLUMNS * BYTES_PER_COUNTER
        raise ArgumentError(
            "memory", f"must be at least {needed} bytes for {levels} levels of {depth} rows, got {memory}", "E506"
        )


def _level_bits(domain: Domain, arity: int) -> list[int]:
    per_level = arity.bit_length() - 1
    count = max(1, -(-domain.bits // per_level))
    return [domain.bits - per_level * (count - 1)] + [per_level] * (count - 1)


def _level_nodes(domain: Domain, arity: int) -> list[int]:
    bits = _level_bits(domain, arity)
    return [-(-domain.size >> sum(bits[number + 1 :])) for number in range(len(bits))]


def _water_fill(nodes: list[int], counters: int) -> list[int]:
    """Return counters per level, min(nodes, fill), with the largest fill that sums to at most `counters`."""
    left, fill = counters, 0
    waiting = sorted(nodes)
    while waiting:
        fill = left // len(waiting)
        if waiting[0] > fill:
            break
        left -= waiting.pop(0)
    return [size if not waiting or size < waiting[0] else fill for size in nodes]


def _split_rho(count: int, leaf_share: Fraction | None) -> list[Fraction]:
    if leaf_share is None or count == 1:
        return [Fraction(1, count)] * count
    return [(1 - Fraction(leaf_share)) / (count - 1)] * (count - 1) + [Fraction(leaf_share)]
