"""Flat sketches: a table of counters, in which an item adds its weight to one cell in each row.

Guarantee of CountSketch before noise: `sign * counter` is an unbiased estimate in each row, also with deletions. The
median over rows is robust to heavy collisions, and `SketchSpec.for_accuracy` bounds its error. Releases use the Huber
mean around it. Source: Charikar, Chen and Farach-Colton, ICALP 2002.

Guarantee of Count-Min before noise: while no item's net weight is negative, no row underestimates, so the minimum over
rows is the best estimate. `SketchSpec.for_accuracy` bounds its overestimate. Source: Cormode and Muthukrishnan, J.
Algorithms 55(1), 2005.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from beam_dpsketch.columns import plain_column
from beam_dpsketch.encodings import is_item
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.hashing.fingerprints import fingerprints
from beam_dpsketch.exact.sketches.linear import RawSketch, Table, read_only
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS, SketchSpec

FlatSelf = TypeVar("FlatSelf", bound="LinearSketch")


class LinearSketch(RawSketch):
    """Raw flat sketch: a table of depth x width exact counters.

    Raises `TypeError` or `ValueError` for items and weights that cannot be counted, without showing them.
    """

    spec_type = SketchSpec
    has_signs: ClassVar[bool]

    def __init__(self, spec: SketchSpec) -> None:
        super().__init__(spec)
        if self.name in FLAT_KINDS and spec.kind != self.name:
            raise ArgumentError("spec", f'must have kind="{self.name}", got kind="{spec.kind}"', "E503")
        self._counters = np.zeros((spec.depth, spec.width), dtype=np.int64)

    @property
    def counters(self) -> np.ndarray:
        """Exact counters, int64, shape (depth, width), read-only. They are not private: never publish them."""
        return read_only(self._counters)

    @classmethod
    def keys(cls, spec: SketchSpec, items: Iterable[Any]) -> np.ndarray:
        """Hash items to 64-bit keys (uint64). Raise if an item cannot be counted."""
        return fingerprints(items, item_hash=spec.item_hash, item_key=spec.item_key)

    @classmethod
    def usable_keys(cls, spec: SketchSpec, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(items, pa.Array):
            return _usable_column(cls, spec, items)
        try:
            return cls.keys(spec, items), np.ones(len(items), dtype=bool)
        except (TypeError, ValueError):
            usable = np.fromiter(map(is_item, items), dtype=bool, count=len(items))
        keys = np.zeros(len(items), dtype=np.uint64)
        keys[usable] = cls.keys(spec, [item for item in items if is_item(item)])
        return keys, usable

    @classmethod
    def tables(cls, spec: SketchSpec) -> tuple[Table, ...]:
        return (Table(spec.depth, cls.has_signs, Fraction(1)),)

    @classmethod
    def cells_of(cls, spec: SketchSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        for row in range(spec.depth):
            yield 0, cells.columns(keys, seed=spec.seed, row=row, width=spec.width)

    def accumulate_keys(self: FlatSelf, keys: np.ndarray, weights: np.ndarray | None) -> FlatSelf:
        cells.add_to_rows(self._counters, keys, weights, seed=self._spec.seed, has_signs=self.has_signs)
        return self

    @classmethod
    def count_many(
        cls, spec: SketchSpec, keys: np.ndarray, weights: np.ndarray, places: np.ndarray, count: int
    ) -> np.ndarray:
        if count == 1:
            return super().count_many(spec, keys, weights, places, count)  # faster for a single sketch
        counters, starts = np.zeros(count * spec.cells, dtype=np.int64), places.astype(np.int64) * spec.cells
        for row in range(spec.depth):
            columns, signs = cells.columns_and_signs(keys, seed=spec.seed, row=row, width=spec.width)
            own = starts + row * spec.width + columns
            np.add.at(counters, own, weights * signs if cls.has_signs else weights)
        return counters.reshape(count, spec.cells)

    @classmethod
    def many_to_release(cls, spec: SketchSpec, counters: np.ndarray, grid_bits: int) -> Sequence[np.ndarray]:
        return (counters,)

    def counter_tables(self) -> Sequence[np.ndarray]:
        return (self._counters,)

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        return self.keys(self._spec, items), slice(None)


class CountSketch(LinearSketch):
    """Raw CountSketch: an item adds its weight, times a sign.

    >>> from beam_dpsketch import SketchSpec
    >>> sketch = CountSketch(SketchSpec(depth=3, width=8)).accumulate(["a", "b"], weights=[5, 2])
    >>> sketch.accumulate(["a", "b"], weights=[-5, -2]).counters.any()
    np.False_
    """

    name = "count_sketch"
    has_signs = True


class CountMin(LinearSketch):
    """Raw Count-Min sketch.

    >>> from beam_dpsketch import SketchSpec
    >>> sketch = CountMin(SketchSpec(kind="count_min", depth=3, width=8)).accumulate(["a", "b", "a"])
    >>> sketch.counters.sum(axis=1).tolist()
    [3, 3, 3]
    """

    name = "count_min"
    has_signs = False


class ExactHistogram(LinearSketch):
    """Raw histogram of whole numbers in [0, width), without hashing. Its spec has depth 1."""

    name = "exact"
    has_signs = False

    @classmethod
    def cells_of(cls, spec: SketchSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        yield 0, keys.astype(np.int64)

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> ExactHistogram:
        np.add.at(self._counters[0], keys.astype(np.int64), np.int64(1) if weights is None else weights)
        return self


def _usable_column(kind: type[LinearSketch], spec: SketchSpec, items: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Hash a column that may contain nulls."""
    items = plain_column(items)
    if pa.types.is_decimal(items.type):  # some may not be 64-bit integers
        return kind.usable_keys(spec, items.to_pylist())
    usable = np.asarray(items.is_valid())
    try:
        found = kind.keys(spec, items.drop_null() if items.null_count else items)
    except TypeError:
        raise ArgumentTypeError(
            "", f"The item column must contain text, bytes or integers, got {items.type}", "E608"
        ) from None
    if not items.null_count:
        return found, usable
    keys = np.zeros(len(items), dtype=np.uint64)
    keys[usable] = found
    return keys, usable
