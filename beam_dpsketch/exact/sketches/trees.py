"""Dyadic trees of sketches over an ordered domain (DCS, DCM): a linear sketch for each level.

Guarantee: every level is the exact linear sketch of the items' ancestors on it, so the tree is linear: it merges, and
insertions and deletions cancel. Source: Cormode and Muthukrishnan 2005 (Count-Min levels); Wang, Luo, Yi and Cormode
2013 (CountSketch levels).

A node of the tree is an aligned block of positions. Each level splits the nodes of the previous level into 2**bits
children. Levels that fit into the memory are exact histograms, and others are sketches. The coarsest level may be a
square-root factorization: an exact histogram too, but released as rows, which have more accurate ranks. Source: Cormode
and Muthukrishnan 2005 and Wang et al. 2013 for the dyadic decomposition. `benchmarks.accuracy.quantiles` compares this
layout with the paper's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.domains.base import Domain
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import HASH_VERSION
from beam_dpsketch.exact.hashing.lookup import in_order, sort_by_key, sum_by_key
from beam_dpsketch.exact.sketches.flat import CountMin, CountSketch, ExactHistogram, LinearSketch
from beam_dpsketch.exact.sketches.linear import RawSketch, Table
from beam_dpsketch.exact.sketches.spec import MAX_CELLS, MAX_WIDTH, SKETCH_NAMES, Purpose, SketchSpec, Spec
from beam_dpsketch.privacy.factor.toeplitz import MAX_FACTOR_SIZE, ToeplitzRoot
from beam_dpsketch.words import shown_plainly

BYTES_PER_COUNTER = 4
LEVEL_KINDS = ("exact", "count_sketch", "count_min", "factor")
_MIN_COLUMNS = 16


@shown_plainly
@named("Level")
@dataclasses.dataclass(frozen=True)
class Level:
    """One level of a tree.

    Args:
      bits: log2 of the number of children per node of the previous level.
      sketch: "exact", "count_sketch" or "count_min", or "factor" for the coarsest of several levels.
      depth: rows, 1 if exact or a factor.
      width: columns, or the number of nodes if exact or a factor.
      share: budget share of the level.
    """

    bits: int
    sketch: str
    depth: int
    width: int
    share: Fraction

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "bits", low=0, high=64)
        _validate.whole_fields(self, "depth", "width", low=0, high=MAX_WIDTH)
        _validate.one_of(LEVEL_KINDS, sketch=self.sketch)
        _validate.real(share=self.share)
        if not 0 < self.share <= 1:
            raise ArgumentError("share", "must be greater than 0 and at most 1", "E507")

    @property
    def counts_all(self) -> bool:
        """Whether each node has its own counter."""
        return self.sketch in ("exact", "factor")


def filled(
    domain: Domain, bits: Sequence[int], shares: Sequence[Fraction], memory: int, *, depth: int, sketch: str, top: str
) -> tuple[Level, ...]:
    """Choose levels that fill the given memory.

    Args:
      domain: the ordered universe.
      bits: bits of each level, from the coarsest.
      shares: budget share of each level.
      memory: bytes.
      depth: rows of the sketched levels.
      sketch: kind of the sketched levels.
      top: "exact" if levels that fit are exact, "factor" if the coarsest is always a factor. Otherwise all are
        sketches.
    """
    nodes, counters = nodes_of(domain, bits), memory // BYTES_PER_COUNTER
    held = nodes[: top == "factor"]
    sizes = held + water_fill(nodes[len(held) :], counters - sum(held))
    if top == sketch:
        sizes = [counters // len(nodes)] * len(nodes)
    levels = []
    for number, (own, size, level_nodes, share) in enumerate(zip(bits, sizes, nodes, shares, strict=True)):
        if top != sketch and size >= level_nodes and level_nodes <= MAX_WIDTH:
            levels.append(Level(own, top if number == 0 else "exact", 1, level_nodes, share))
        else:
            check_memory(memory, levels=len(nodes), depth=depth, columns=size // depth)
            levels.append(Level(own, sketch, depth, min(size // depth, MAX_WIDTH, MAX_CELLS // depth), share))
    return tuple(levels)


def check_memory(memory: int, *, levels: int, depth: int, columns: int) -> None:
    """Raise if the memory leaves too few columns for a level."""
    if columns < _MIN_COLUMNS:
        needed = levels * depth * _MIN_COLUMNS * BYTES_PER_COUNTER
        raise ArgumentError(
            "memory", f"must be at least {needed} bytes for {levels} levels with {depth} rows, got {memory}", "E506"
        )


def level_bits(domain: Domain, arity: int) -> list[int]:
    """Compute the bits of each level for this number of children. The coarsest level has the remainder."""
    per_level = arity.bit_length() - 1
    count = max(1, -(-domain.bits // per_level))
    return [domain.bits - per_level * (count - 1)] + [per_level] * (count - 1)


def level_nodes(domain: Domain, arity: int) -> list[int]:
    """Count the nodes on each of these levels."""
    return nodes_of(domain, level_bits(domain, arity))


def nodes_of(domain: Domain, bits: Sequence[int]) -> list[int]:
    """Count the nodes on levels with these bits."""
    return [-(-domain.size >> sum(bits[number + 1 :])) for number in range(len(bits))]


def water_fill(nodes: list[int], counters: int) -> list[int]:
    """Divide counters among levels, min(nodes, fill), with the largest fill that sums to at most `counters`."""
    left, fill = counters, 0
    waiting = sorted(nodes)
    while waiting:
        fill = left // len(waiting)
        if waiting[0] > fill:
            break
        left -= waiting.pop(0)
    return [size if not waiting or size < waiting[0] else fill for size in nodes]


def split_rho(count: int, leaf_share: Fraction | None) -> list[Fraction]:
    """Split rho evenly, or give the finest level its share and split the rest evenly."""
    if leaf_share is None or count == 1:
        return [Fraction(1, count)] * count
    return [(1 - Fraction(leaf_share)) / (count - 1)] * (count - 1) + [Fraction(leaf_share)]


DEFAULT_MEMORY = 490_000
MAX_LEVELS = 65
MAX_SKETCHED_BITS = 20  # answers read all children of a node
_EXACT_ARITIES = (4, 8, 16)
_COUNTERS_PER_TOP_NODE = 7  # minimum for a factor above sketched levels
_LEAST_TOP = 16
_BELOW = 0.8  # error of ranks per level below, relative to a node's noise (`benchmarks.accuracy.factors`)


@named("TreeSpec")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeSpec(Spec):
    """Complete specification of a tree. Trees with equal specs can be merged. `for_memory` chooses the levels.

    Args:
      domain: the ordered universe.
      levels: 1 to 65, from the coarsest to the finest. Their bits cover the domain, and their shares sum to 1 exactly.
      seed: chooses the hash functions, 0 to 2**64 - 1.
    """

    kind: ClassVar[str] = "quantiles"
    domain: Domain
    levels: tuple[Level, ...]
    seed: int = 0
    hash_version: int = HASH_VERSION

    def __post_init__(self) -> None:
        _validate.instance(Domain, domain=self.domain)
        _validate.whole_fields(self, "seed", low=0, high=(1 << 64) - 1)
        _validate.one_of((HASH_VERSION,), hash_version=self.hash_version)
        if not 1 <= len(self.levels) <= MAX_LEVELS:  # adding thousands of fractions could run for days
            raise ArgumentError("levels", f"must contain 1 to {MAX_LEVELS} levels, got {len(self.levels)}", "E507")
        if sum(level.bits for level in self.levels) != self.domain.bits:
            raise ArgumentError("", f"The level bits must sum to {self.domain.bits}, the bits of the domain", "E507")
        if sum(level.share for level in self.levels) != 1:
            raise ArgumentError("", "The level shares must sum to 1", "E507")
        if any(level.sketch == "factor" for level in (self.levels if len(self.levels) == 1 else self.levels[1:])):
            raise ArgumentError(
                "",
                "Only the coarsest of several levels can be a factorization. For a single level, use FactorizationSpec",
                "E507",
            )
        if self.has_factor and self.levels[0].width > MAX_FACTOR_SIZE:
            raise ArgumentError(
                "levels", f"must have at most 2**20 nodes in a factorization, got {self.levels[0].width}", "E507"
            )
        for number, level in enumerate(self.levels):
            if level.counts_all and (level.depth, level.width) != (1, self.nodes(number)):
                raise ArgumentError(
                    "", f"Level {number} ({level.sketch}) must have depth 1 and width {self.nodes(number)}", "E507"
                )
            if not level.counts_all and level.bits > MAX_SKETCHED_BITS:
                raise ArgumentError(
                    "",
                    f"Level {number} must have at most {MAX_SKETCHED_BITS} bits, because answers read all children of "
                    "a node. Use more levels or a smaller arity",
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
        """Choose the best layout for a given memory.

        Uses the smallest arity of 4, 8 and 16 for which exact levels fit. If none does, the arity is 4, and memory is
        split by water-filling: every level has the same number of counters, or an exact histogram if that is enough.

        Args:
          domain: the ordered universe.
          memory: bytes, at 4 per counter.
          seed: chooses the hash functions.
          arity: children per node, a power of two. `None` chooses it.
          depth: rows of the sketched levels.
          sketch: "count_sketch" or "count_min", for the levels that are not exact.
          exact_levels: whether levels that fit are exact, instead of sketches on every level as in the paper.
          leaf_share: budget share of the finest level, while other levels divide the rest. `None` splits evenly.
        """
        _validate.instance(Domain, domain=domain)
        _validate.whole(low=1, high=1 << 40, memory=memory)
        _validate.whole(low=1, high=64, depth=depth)
        counters = memory // BYTES_PER_COUNTER
        if arity is None:
            fitting = (each for each in _EXACT_ARITIES if sum(level_nodes(domain, each)) <= counters)
            arity = next(fitting, _EXACT_ARITIES[0]) if exact_levels else 2
        if not isinstance(arity, int) or arity < 2 or arity & (arity - 1):
            raise ArgumentError("arity", f"must be a power of two and at least 2, got {arity}", "E508")
        bits = level_bits(domain, arity)
        shares = split_rho(len(bits), leaf_share)
        top = "exact" if exact_levels else sketch
        levels = filled(domain, bits, shares, memory, depth=depth, sketch=sketch, top=top)
        return cls(domain=domain, levels=levels, seed=seed)

    @classmethod
    def histogram(cls, domain: Domain) -> TreeSpec:
        """Create the layout with one level, a counter for each value. Only this layout supports Laplace noise.

        Single values have the least noise of all layouts. The noise of a rank grows with the root of the domain size.
        """
        _validate.instance(Domain, domain=domain)
        return cls(domain=domain, levels=(Level(domain.bits, "exact", 1, domain.size, Fraction(1)),))

    @classmethod
    def for_search(cls, domain: Domain, memory: int = DEFAULT_MEMORY, *, seed: int = 0) -> TreeSpec:
        """Create the layout for lists of the most frequent values: few levels, half of rho for the finest."""
        return cls.for_memory(domain, memory, seed=seed, arity=16, leaf_share=Fraction(1, 2))

    @classmethod
    def for_ranks(cls, domain: Domain, memory: int = DEFAULT_MEMORY, *, depth: int = 5, seed: int = 0) -> TreeSpec:
        """Create the layout for ranks over a wide domain: a factor on top, and levels with 4 children per node below.

        The factor replaces all upper levels of a tree, and its ranks have less noise. Its budget share approximately
        minimizes the noise of factor and levels together.

        Args:
          domain: the ordered universe, of 5 values or more.
          memory: bytes, at 4 per counter.
          depth: rows of the sketched levels.
          seed: chooses the hash functions.
        """
        _validate.instance(Domain, domain=domain)
        _validate.whole(low=1, high=1 << 40, memory=memory)
        _validate.whole(low=1, high=64, depth=depth)
        if domain.bits < 3:
            raise ArgumentError("domain", f"must have at least 5 values for for_ranks, got {domain.size}", "E516")
        most, below = min(max(_LEAST_TOP, memory // (BYTES_PER_COUNTER * _COUNTERS_PER_TOP_NODE)), MAX_FACTOR_SIZE), 1
        while -(-domain.size >> 2 * below) > most:
            below += 1
        bits = [domain.bits - 2 * below] + [2] * below
        deviation = 1 + math.log(1 << bits[0]) / math.pi  # approximate deviation of a factor's ranks, in the same unit
        top = Fraction(round(100 * deviation / (deviation + _BELOW * below)), 100)
        shares = [top] + [(1 - top) / below] * below
        levels = filled(domain, bits, shares, memory, depth=depth, sketch="count_sketch", top="factor")
        return cls(domain=domain, levels=levels, seed=seed)

    @classmethod
    def paper_layout(
        cls, domain: Domain, *, depth: int, width: int, sketch: str = "count_sketch", seed: int = 0
    ) -> TreeSpec:
        """Create the paper's layout: a binary tree, every level a depth x width sketch with the same budget share."""
        bits = level_bits(domain, 2)
        share = Fraction(1, len(bits))
        return cls(domain=domain, levels=tuple(Level(each, sketch, depth, width, share) for each in bits), seed=seed)

    @property
    def takes_laplace(self) -> bool:  # type: ignore[override]
        return self.is_histogram

    @property
    def is_histogram(self) -> bool:  # type: ignore[override]
        return len(self.levels) == 1 and self.levels[0].counts_all

    @property
    def has_factor(self) -> bool:
        return self.levels[0].sketch == "factor"

    @functools.cached_property
    def factor(self) -> ToeplitzRoot:
        """Factorization that computes rows from the coarsest level, if `has_factor`."""
        return ToeplitzRoot(self.nodes(0))

    @property
    def noisy(self) -> str:
        of_rows = (
            "; for the square-root factorization on each row, in units of the length that one record adds to all rows"
        )
        return f"each counter{of_rows if self.has_factor else ''}"

    @property
    def title(self) -> str:
        return "histogram" if self.is_histogram else "tree"

    @property
    def cells(self) -> int:
        return sum(level.depth * level.width for level in self.levels)

    @property
    def total_cells(self) -> int | None:
        exact = [level for level in self.levels if level.counts_all]
        cells = (self.factor.total_cells if level.sketch == "factor" else level.width for level in exact)
        precision = sum(level.share / width for level, width in zip(exact, cells, strict=True))
        return math.ceil(1 / precision) if exact else None

    @property
    def key_range(self) -> int:
        return self.domain.size

    def describe_levels(self) -> Sequence[str]:
        shapes = (f"{'' if each.counts_all else f'{each.depth} x '}{each.width:,}" for each in self.levels)
        names = {**SKETCH_NAMES, "factor": "square-root factorization"}
        return [
            f"{names.get(each.sketch, each.sketch)} {shape}" for each, shape in zip(self.levels, shapes, strict=True)
        ]

    def purpose(self, *, search: bool) -> Purpose:
        return "items" if search else "ranks"

    def shift(self, number: int) -> int:
        """Count the position bits below a level. A node is `position >> shift`."""
        return sum(level.bits for level in self.levels[number + 1 :])

    def nodes(self, number: int) -> int:
        return -(-self.domain.size >> self.shift(number))

    def level_spec(self, number: int) -> SketchSpec:
        level = self.levels[number]
        if level.counts_all:
            return SketchSpec(depth=level.depth, width=level.width)
        seed = cells.derive_seed(self.seed, number)
        return SketchSpec(kind=level.sketch, depth=level.depth, width=level.width, seed=seed)


LEVEL_SKETCHES: dict[str, type[LinearSketch]] = {
    "factor": ExactHistogram,
    **{kind.name: kind for kind in (ExactHistogram, CountSketch, CountMin)},
}


class DyadicCountSketch(RawSketch):
    """Raw tree of sketches. The levels may be exact, CountSketches or Count-Mins.

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
        for start in range(0, len(nodes), cells.AT_ONCE):
            self._accumulate_distinct(nodes[start : start + cells.AT_ONCE], net[start : start + cells.AT_ONCE])
        return self

    def _accumulate_distinct(self, nodes: np.ndarray, net: np.ndarray) -> None:
        for number in reversed(range(len(self._levels))):
            self._levels[number].accumulate_keys(nodes, net)
            if number:
                nodes, net = sum_by_key(nodes >> np.uint64(self._spec.levels[number].bits), net)

    def counter_tables(self) -> Sequence[np.ndarray]:
        return [level._counters for level in self._levels]
