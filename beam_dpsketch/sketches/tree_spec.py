"""Lay out a tree of sketches over an ordered domain: choose its levels, and an exact histogram or a sketch for each.

A node of the tree stands for an aligned block of positions; each level splits the nodes of the one above into 2**bits
children. Levels that fit are exact histograms, the others sketches. The coarsest may be a square-root factor: an exact
histogram too, but released as rows that tell its ranks more closely. Source: Cormode and Muthukrishnan 2005 and Wang
et al. 2013 for the dyadic decomposition; `benchmarks.accuracy.quantiles` compares this layout with the paper's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from beam_dpsketch import _validate
from beam_dpsketch.domains.base import Domain
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.encodings import named
from beam_dpsketch.hashing.fingerprints import HASH_VERSION
from beam_dpsketch.privacy.factor.toeplitz import MAX_SIZE, ToeplitzRoot
from beam_dpsketch.sketches.levels import BYTES_PER_COUNTER, Level, filled, level_bits, level_nodes, split_rho
from beam_dpsketch.sketches.spec import Purpose, SketchSpec, Spec

DEFAULT_MEMORY = 490_000
MAX_LEVELS = 65
MAX_SKETCHED_BITS = 20  # answers look at all children of a node
_EXACT_ARITIES = (4, 8, 16)
_COUNTERS_PER_TOP_NODE = 7  # of a factor above sketched levels, at least
_LEAST_TOP = 16
_BELOW = 0.8  # what a level below adds to the error of ranks in `benchmarks.accuracy.factors`, over the noise of a node


@named("TreeSpec")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeSpec(Spec):
    """Everything that two trees must share to be merged. `for_memory` chooses the levels.

    Args:
      domain: the ordered universe.
      levels: 1 to 65, from the coarsest to the finest; their bits cover the domain and their shares sum to 1 exactly.
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
        if not 1 <= len(self.levels) <= MAX_LEVELS:  # adding thousands of fractions could take days
            raise ArgumentError("levels", f"must be 1 to {MAX_LEVELS}, got {len(self.levels)}", "E507")
        if sum(level.bits for level in self.levels) != self.domain.bits:
            raise ArgumentError(
                "", f"the bits of the levels must sum to {self.domain.bits}, those of the domain", "E507"
            )
        if sum(level.share for level in self.levels) != 1:
            raise ArgumentError("", "the shares of the levels must sum to 1", "E507")
        if any(level.sketch == "factor" for level in (self.levels if len(self.levels) == 1 else self.levels[1:])):
            raise ArgumentError(
                "", "only the coarsest of several levels may be a factor; a FactorSpec has no other levels", "E507"
            )
        if self.has_factor and self.levels[0].width > MAX_SIZE:
            raise ArgumentError(
                "levels", f"must have at most 2**20 nodes in a factor, got {self.levels[0].width}", "E507"
            )
        for number, level in enumerate(self.levels):
            if level.counts_all and (level.depth, level.width) != (1, self.nodes(number)):
                raise ArgumentError(
                    "", f"{level.sketch} level {number} must have depth 1 and width {self.nodes(number)}", "E507"
                )
            if not level.counts_all and level.bits > MAX_SKETCHED_BITS:
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
        """Return the layout of one level, a counter for each value; the only one that can have Laplace noise.

        Single values have the least noise of all layouts. The noise of a rank grows with the root of the domain.
        """
        _validate.instance(Domain, domain=domain)
        return cls(domain=domain, levels=(Level(domain.bits, "exact", 1, domain.size, Fraction(1)),))

    @classmethod
    def for_search(cls, domain: Domain, memory: int = DEFAULT_MEMORY, *, seed: int = 0) -> TreeSpec:
        """Return the layout for lists of the most frequent values: few levels, half of rho for the finest."""
        return cls.for_memory(domain, memory, seed=seed, arity=16, leaf_share=Fraction(1, 2))

    @classmethod
    def for_ranks(cls, domain: Domain, memory: int = DEFAULT_MEMORY, *, depth: int = 5, seed: int = 0) -> TreeSpec:
        """Return the layout for ranks over a wide domain: a square-root factor on top, and levels of 4 children below.

        The factor replaces all levels of a tree above it, and its ranks have less noise than theirs. Its part of rho is
        about that for which both together have the least.

        Args:
          domain: the ordered universe, of 5 values or more.
          memory: bytes, counted at 4 a counter.
          depth: rows of the sketched levels.
          seed: chooses the hash functions.
        """
        _validate.instance(Domain, domain=domain)
        _validate.whole(low=1, high=1 << 40, memory=memory)
        _validate.whole(low=1, high=64, depth=depth)
        if domain.bits < 3:
            raise ArgumentError("domain", f"must have at least 5 values for for_ranks, got {domain.size}", "E516")
        most, below = min(max(_LEAST_TOP, memory // (BYTES_PER_COUNTER * _COUNTERS_PER_TOP_NODE)), MAX_SIZE), 1
        while -(-domain.size >> 2 * below) > most:
            below += 1
        bits = [domain.bits - 2 * below] + [2] * below
        deviation = 1 + math.log(1 << bits[0]) / math.pi  # about that of ranks of a factor, in the same unit
        top = Fraction(round(100 * deviation / (deviation + _BELOW * below)), 100)
        shares = [top] + [(1 - top) / below] * below
        levels = filled(domain, bits, shares, memory, depth=depth, sketch="count_sketch", top="factor")
        return cls(domain=domain, levels=levels, seed=seed)

    @classmethod
    def paper_layout(
        cls, domain: Domain, *, depth: int, width: int, sketch: str = "count_sketch", seed: int = 0
    ) -> TreeSpec:
        """Return the paper's layout: a binary tree, every level a depth x width sketch with the same share of rho."""
        bits = level_bits(domain, 2)
        share = Fraction(1, len(bits))
        return cls(domain=domain, levels=tuple(Level(each, sketch, depth, width, share) for each in bits), seed=seed)

    @property
    def takes_laplace(self) -> bool:  # type: ignore[override]
        return self.is_histogram

    @property
    def is_histogram(self) -> bool:  # type: ignore[override]
        """Whether it has one counter for each value, and no others."""
        return len(self.levels) == 1 and self.levels[0].counts_all

    @property
    def has_factor(self) -> bool:
        return self.levels[0].sketch == "factor"

    @functools.cached_property
    def factor(self) -> ToeplitzRoot:
        """What makes rows of the coarsest level, where `has_factor`."""
        return ToeplitzRoot(self.nodes(0))

    @property
    def noisy(self) -> str:
        of_rows = "; of the factor, each row, in units of the length that one record adds to all rows"
        return f"each counter{of_rows if self.has_factor else ''}"

    @property
    def title(self) -> str:
        return "quantiles, by a histogram" if self.is_histogram else super().title

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
        shapes = (f"{each.width}" if each.counts_all else f"{each.depth} x {each.width}" for each in self.levels)
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
        if level.counts_all:
            return SketchSpec(depth=level.depth, width=level.width)
        seed = cells.derive_seed(self.seed, number)
        return SketchSpec(kind=level.sketch, depth=level.depth, width=level.width, seed=seed)
