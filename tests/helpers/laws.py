"""Laws as functions: that planted faults are found, and those of a commutative monoid, for any sketch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

Records = Sequence[tuple[Any, int]]
SketchOf = Callable[[Records], Any]


class Fault(NamedTuple):
    """Patches to plant together, and what `check` is given; its error must match `words`."""

    plant: Callable[[pytest.MonkeyPatch], None]
    words: str = ""
    given: tuple[Any, ...] = ()
    is_slow: bool = False

    def found(self, words: str, *given: Any) -> Fault:
        """Return the same fault, found in these words in what is given."""
        return self._replace(words=words, given=given)

    def slow(self) -> Fault:
        return self._replace(is_slow=True)


def put(owner: Any, name: str, faulty: Any, words: str = "", *given: Any) -> Fault:
    """Return the fault that puts `faulty` in the place of an attribute."""
    return Fault(lambda patch: patch.setattr(owner, name, faulty), words, given)


def around(owner: Any, name: str, faulty: Callable[..., Any], words: str = "", *given: Any) -> Fault:
    """Return the fault that calls `faulty` with the exact function, or getter, and the arguments of the call."""
    exact = inspect.getattr_static(owner, name)
    if isinstance(exact, staticmethod):
        wrong: Any = staticmethod(lambda *terms, **rest: faulty(exact.__func__, *terms, **rest))
    elif isinstance(exact, classmethod):
        wrong = classmethod(lambda cls, *terms, **rest: faulty(functools.partial(exact.__func__, cls), *terms, **rest))
    elif isinstance(exact, property):
        wrong = property(lambda self: faulty(exact.fget, self))
    else:
        wrong = lambda *terms, **rest: faulty(exact, *terms, **rest)  # noqa: E731
    return put(owner, name, wrong, words, *given)


def together(*faults: Fault) -> Fault:
    """Return the fault that plants all of these."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for fault in faults:
            fault.plant(patch)

    return Fault(plant)


def mutants(
    table: Mapping[str, Fault],
    check: Callable[..., object],
    *,
    words: str = "",
    intact: bool = False,
    error: type[Exception] | tuple[type[Exception], ...] = AssertionError,
) -> Callable[..., None]:
    """Return a test for each fault of the table: with the fault in place, `check(*given)` must fail.

    Pytest gives `check` its other arguments. With `intact`, it must accept what is given before the fault is planted.
    Faults that are given the same share this. The error must match the words of the fault, or if it has none, those of
    the table.
    """
    accepted = set()

    def test(fault: Fault, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, **fixtures: Any) -> None:
        cases = {name: repr(value) for name, value in request.node.callspec.params.items() if name != "fault"}
        known = (*map(id, fault.given), *sorted(cases.items()))
        if intact and known not in accepted:
            check(*fault.given, **fixtures)
            accepted.add(known)
        fault.plant(monkeypatch)
        with pytest.raises(error, match=fault.words or words or None):
            check(*fault.given, **fixtures)

    given = max(len(fault.given) for fault in table.values())
    asked = [each for each in inspect.signature(check).parameters.values() if each.default is each.empty][given:]
    own = list(inspect.signature(test).parameters.values())[:3]
    test.__signature__ = inspect.Signature([*own, *asked])  # type: ignore[attr-defined]
    cases = [
        pytest.param(fault, id=name, marks=pytest.mark.slow if fault.is_slow else ()) for name, fault in table.items()
    ]
    return pytest.mark.parametrize("fault", cases)(test)


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
