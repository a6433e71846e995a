"""One level of a tree: how its nodes are counted, and how a memory is divided among levels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.domains.base import Domain
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing.encodings import named
from beam_dpsketch.sketches.spec import MAX_CELLS, MAX_WIDTH

BYTES_PER_COUNTER = 4
LEVEL_KINDS = ("exact", "count_sketch", "count_min", "factor")
_MIN_COLUMNS = 16


@shown_plainly
@named("Level")
@dataclasses.dataclass(frozen=True)
class Level:
    """One level of a tree.

    Args:
      bits: log2 of the number of children of a node of the level above.
      sketch: "exact", "count_sketch" or "count_min"; or "factor", for the coarsest of several levels.
      depth: rows; 1 if exact, or a factor.
      width: columns; the number of nodes if exact, or a factor.
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
        _validate.one_of(LEVEL_KINDS, sketch=self.sketch)
        if not 0 < self.share <= 1:
            raise ArgumentError("share", "must be above 0 and at most 1", "E507")

    @property
    def counts_all(self) -> bool:
        """Whether each node has a counter of its own."""
        return self.sketch in ("exact", "factor")


def filled(
    domain: Domain, bits: Sequence[int], shares: Sequence[Fraction], memory: int, *, depth: int, sketch: str, top: str
) -> tuple[Level, ...]:
    """Return levels that fill a memory.

    Args:
      domain: the ordered universe.
      bits: of each level, from the coarsest.
      shares: of each level.
      memory: bytes.
      depth: rows of the levels that are sketches.
      sketch: what they are.
      top: "exact", if levels that fit are; "factor", if the coarsest is one in any case; else all are sketches.
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
    """Refuse a memory that leaves too few columns for a level."""
    if columns < _MIN_COLUMNS:
        needed = levels * depth * _MIN_COLUMNS * BYTES_PER_COUNTER
        raise ArgumentError(
            "memory", f"must be at least {needed} bytes for {levels} levels of {depth} rows, got {memory}", "E506"
        )


def level_bits(domain: Domain, arity: int) -> list[int]:
    """Return the bits of each level for a number of children of each node; the coarsest level gets what is left."""
    per_level = arity.bit_length() - 1
    count = max(1, -(-domain.bits // per_level))
    return [domain.bits - per_level * (count - 1)] + [per_level] * (count - 1)


def level_nodes(domain: Domain, arity: int) -> list[int]:
    """Return how many nodes each of these levels has."""
    return nodes_of(domain, level_bits(domain, arity))


def nodes_of(domain: Domain, bits: Sequence[int]) -> list[int]:
    """Return how many nodes there are on levels of these bits."""
    return [-(-domain.size >> sum(bits[number + 1 :])) for number in range(len(bits))]


def water_fill(nodes: list[int], counters: int) -> list[int]:
    """Return counters per level, min(nodes, fill), with the largest fill that sums to at most `counters`."""
    left, fill = counters, 0
    waiting = sorted(nodes)
    while waiting:
        fill = left // len(waiting)
        if waiting[0] > fill:
            break
        left -= waiting.pop(0)
    return [size if not waiting or size < waiting[0] else fill for size in nodes]


def split_rho(count: int, leaf_share: Fraction | None) -> list[Fraction]:
    """Return even shares of rho; or the one that the finest level gets, and even parts of the rest before it."""
    if leaf_share is None or count == 1:
        return [Fraction(1, count)] * count
    return [(1 - Fraction(leaf_share)) / (count - 1)] * (count - 1) + [Fraction(leaf_share)]
