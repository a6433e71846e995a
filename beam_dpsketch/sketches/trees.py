"""Trees of sketches: dyadic ones over an ordered domain (DCS, DCM), and prefixes of text and bytes.

Dyadic: one linear sketch for each level. Guarantee: every level is the exact linear sketch of the items' ancestors on
it, so the whole is linear: it merges, and insertions and deletions cancel. Source: Cormode and Muthukrishnan 2005
(Count-Min levels); Wang, Luo, Yi and Cormode 2013 (CountSketch levels).

Prefixes: level l counts the first l bytes of every item. Guarantee: every level is the exact linear sketch of the
items' prefixes, so the whole is linear. The end of an item is a symbol of its own, repeated up to the last level. So
every item is on every level, and short items are found as well as long ones. A prefix is represented by a 64-bit hash,
extended byte by byte.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.domains.text import TRUNCATED, BytesDomain
from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.fingerprints import HASH_VERSION
from beam_dpsketch.hashing.repeats import in_order, sort_by_key, sum_by_key
from beam_dpsketch.sketches.flat import CountMin, CountSketch, ExactHistogram, LinearSketch
from beam_dpsketch.sketches.levels import BYTES_PER_COUNTER, check_memory
from beam_dpsketch.sketches.linear import RawSketch, Table
from beam_dpsketch.sketches.spec import Purpose, SketchSpec, Spec
from beam_dpsketch.sketches.tree_spec import DEFAULT_MEMORY, TreeSpec

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


END = 256
_SYMBOL_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrefixSpec(Spec):
    """Everything that two prefix trees must share to be merged.

    Args:
      domain: text or bytes, with the number of bytes that count; each byte is a level with the same share of rho.
      depth: rows of each level.
      width: columns of each level.
      seed: chooses the hash functions, 0 to 2**64 - 1.
    """

    kind: ClassVar[str] = "top_k"
    takes_laplace: ClassVar[bool] = False
    domain: BytesDomain
    depth: int
    width: int
    seed: int = 0
    hash_version: int = HASH_VERSION

    def __post_init__(self) -> None:
        _validate.instance(BytesDomain, domain=self.domain)
        _validate.one_of((HASH_VERSION,), hash_version=self.hash_version)
        _validate.whole_fields(self, "depth", "width", "seed", low=0, high=(1 << 64) - 1)
        SketchSpec(depth=self.depth, width=self.width, seed=self.seed)

    @classmethod
    def for_memory(
        cls, domain: BytesDomain, memory: int = DEFAULT_MEMORY, *, depth: int = 5, seed: int = 0
    ) -> PrefixSpec:
        """Return the layout for a given memory in bytes, counted at 4 a counter and split evenly over the levels."""
        _validate.instance(BytesDomain, domain=domain)
        _validate.whole(low=1, high=1 << 40, memory=memory)
        _validate.whole(low=1, high=64, depth=depth)
        row_bytes = domain.max_bytes * depth * BYTES_PER_COUNTER
        check_memory(memory, levels=domain.max_bytes, depth=depth, columns=memory // row_bytes)
        return cls(domain=domain, depth=depth, width=memory // row_bytes, seed=seed)

    @property
    def cells(self) -> int:
        return self.domain.max_bytes * self.depth * self.width

    @property
    def key_range(self) -> None:
        return None

    def purpose(self, *, search: bool) -> Purpose:
        return "items"

    def level_spec(self, number: int) -> SketchSpec:
        return SketchSpec(depth=self.depth, width=self.width, seed=cells.derive_seed(self.seed, number))


class PrefixTree(RawSketch):
    """A raw prefix tree.

    >>> from beam_dpsketch import TextDomain
    >>> tree = PrefixTree(PrefixSpec(domain=TextDomain(4), depth=1, width=64)).accumulate(["to", "tea"])
    >>> [int(abs(level.counters).max()) for level in tree.levels]
    [2, 1, 1, 1]
    """

    name = "top_k"
    spec_type = PrefixSpec

    def __init__(self, spec: PrefixSpec) -> None:
        super().__init__(spec)
        self._levels = tuple(CountSketch(spec.level_spec(number)) for number in range(spec.domain.max_bytes))

    @property
    def levels(self) -> tuple[LinearSketch, ...]:
        return self._levels

    @classmethod
    def usable_keys(cls, spec: PrefixSpec, items: Any) -> tuple[np.ndarray, np.ndarray]:
        return spec.domain.index(items)

    @classmethod
    def key_type(cls, spec: PrefixSpec) -> np.dtype[Any]:
        return spec.domain.key_type

    @classmethod
    def tables(cls, spec: PrefixSpec) -> tuple[Table, ...]:
        levels = spec.domain.max_bytes
        return (Table(spec.depth, True, Fraction(1, levels)),) * levels

    @classmethod
    def cells_of(cls, spec: PrefixSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        for number, (prefixes, _) in enumerate(hash_prefixes(spec, keys)):
            for _, cells_of_row in CountSketch.cells_of(spec.level_spec(number), prefixes):
                yield number, cells_of_row

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> PrefixTree:
        distinct, places = np.unique(keys, return_inverse=True)
        net = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(net, places, np.int64(1) if weights is None else weights)
        for level, (prefixes, _) in zip(self._levels, hash_prefixes(self._spec, distinct), strict=True):
            level.accumulate_keys(prefixes, net)
        return self

    def counter_tables(self) -> Sequence[np.ndarray]:
        return [level._counters for level in self._levels]

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        return self.usable_keys(self._spec, items)


def root(spec: PrefixSpec) -> np.ndarray:
    """Return the hash of the empty prefix, of shape (1,)."""
    return np.array([cells.derive_seed(spec.seed, spec.domain.max_bytes)], dtype=np.uint64)


def extend(spec: PrefixSpec, prefixes: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Extend the hash of each prefix by one symbol (0 to 255, or `END`)."""
    return cells.mix(prefixes + (symbols.astype(np.uint64) + np.uint64(1)) * _SYMBOL_STEP, seed=spec.seed, row=0)


def extension_keys(spec: PrefixSpec) -> np.ndarray:
    """Return the keys by which `extend` mixes, of shape (1, 2)."""
    return np.hstack(cells.keys_of_rows(spec.seed, range(1)))


def hash_prefixes(spec: PrefixSpec, keys: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, for each level, the hashes of the keys' prefixes and which keys have ended."""
    size = spec.domain.max_bytes
    data = np.frombuffer(keys.tobytes(), dtype=np.uint8).reshape(len(keys), size + 1)
    lengths = np.where(data[:, size] == TRUNCATED, size, data[:, size].astype(np.int64) - 1)
    prefixes = np.repeat(root(spec), len(keys))
    for level in range(size):
        ended = lengths <= level
        prefixes = extend(spec, prefixes, np.where(ended, END, data[:, level].astype(np.int64)))
        yield prefixes, ended
