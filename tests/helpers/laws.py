"""The laws of a commutative monoid, as functions that any sketch can be handed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Records = Sequence[tuple[Any, int]]
SketchOf = Callable[[Records], Any]


class Whole:
    """A tree as the laws see a sketch: all its counters in one array."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    @property
    def counters(self) -> np.ndarray:
        return self.tree.to_vector()

    def merge(self, other: Whole) -> Whole:
        assert self.tree.merge(other.tree) is self.tree
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Whole) and self.tree == other.tree

    __hash__ = None  # type: ignore[assignment]


def check_commutative_monoid(sketch_of: SketchOf, first: Records, second: Records, third: Records) -> None:
    """Any split, order and grouping of the records gives bit-identical counters, and nothing is neutral."""
    first, second, third = list(first), list(second), list(third)
    whole = sketch_of(first + second + third)
    _same(sketch_of(third + first + second), whole)
    _same(sketch_of((first + second + third)[::-1]), whole)
    _same(sketch_of(first).merge(sketch_of(second)).merge(sketch_of(third)), whole)
    _same(sketch_of(first).merge(sketch_of(second).merge(sketch_of(third))), whole)
    _same(sketch_of(third).merge(sketch_of(first)).merge(sketch_of(second)), whole)
    _same(sketch_of([]).merge(whole), whole)
    one_by_one = sketch_of([])
    for record in first + second + third:
        one_by_one.merge(sketch_of([record]))
    _same(one_by_one, whole)


def check_deletion_is_inverse(sketch_of: SketchOf, records: Records) -> None:
    """Inserting and then deleting the same records, in another order, gives zeros."""
    lowest = -(1 << 63)  # its own opposite in 64 bits
    opposite = [(item, -weight if weight > lowest else weight) for item, weight in reversed(list(records))]
    assert not sketch_of([*records, *opposite]).counters.any()
    assert not sketch_of(records).merge(sketch_of(opposite)).counters.any()


def check_merge_changes_only_the_left(sketch_of: SketchOf, first: Records, second: Records) -> None:
    """`a.merge(b)` returns a and leaves b as it was."""
    left, right = sketch_of(first), sketch_of(second)
    before = right.counters.copy()
    assert left.merge(right) is left
    np.testing.assert_array_equal(right.counters, before)


def _same(sketch: Any, expected: Any) -> None:
    assert sketch.counters.dtype == np.int64
    np.testing.assert_array_equal(sketch.counters, expected.counters)
    assert sketch == expected
