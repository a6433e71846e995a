"""All ways to combine a few releases, and what one unit loses to them by brute force.

A combination is a leaf, or a sum of two. The caller may promise that no unit is in both; then a unit is in leaves on
one side only. So it is in a set of leaves of which no two are kept apart, and its replacement is in such a set too.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from beam_dpsketch import ADD_OR_REMOVE_ONE, PrivacyStatement
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.statement.release_id import DRAW_BYTES, PART_BYTES, RUN_BYTES

Parts: TypeAlias = "tuple[tuple[int, int], ...]"
"""Parts of a run, each with how often it was drawn."""
RunLoss: TypeAlias = Callable[[Parts, Parts], Any]
"""What a run loses if a unit in these parts is replaced by one in others; in none if there are none."""


class Leaf(NamedTuple):
    """A release: a part of a run, and which draw of its noise."""

    run: str
    part: int = 0
    draw: int = 0

    @property
    def release_id(self) -> bytes:
        """A name as releases have them."""
        sizes = ((ord(self.run), RUN_BYTES), (self.part, PART_BYTES), (self.draw, DRAW_BYTES))
        return b"".join(bytes([value]) * size for value, size in sizes)


class Combination(NamedTuple):
    """Two releases together."""

    first: Any
    second: Any
    disjoint: bool


def leaves_of(tree: Any) -> tuple[Leaf, ...]:
    """Return all releases in a combination."""
    return (tree,) if isinstance(tree, Leaf) else leaves_of(tree.first) + leaves_of(tree.second)


def trees(leaves: tuple[Leaf, ...]) -> list[Any]:
    """Return all combinations of these releases."""
    if len(leaves) == 1:
        return [leaves[0]]
    found = []
    first, *others = leaves
    for size in range(len(others)):
        for chosen in itertools.combinations(others, size):
            rest = tuple(each for each in others if each not in chosen)
            for left, right, disjoint in itertools.product(trees((first, *chosen)), trees(rest), (False, True)):
                found.append(Combination(left, right, disjoint))
    return found


def all_trees(pool: Iterable[Leaf], size: int) -> list[Any]:
    """Return all combinations of this many of the releases."""
    return [tree for leaves in itertools.combinations(tuple(pool), size) for tree in trees(leaves)]


def compose(tree: Any, statement_of: Callable[[Leaf], PrivacyStatement]) -> PrivacyStatement:
    """Return what the package says of a combination."""
    if isinstance(tree, Leaf):
        return statement_of(tree)
    first, second = (compose(side, statement_of) for side in (tree.first, tree.second))
    return first.composed(second, units_disjoint=tree.disjoint)


@functools.cache
def neighbours(tree: Any, relation: NeighboringRelation, others: tuple[Leaf, ...] = ()) -> list[Any]:
    """Return the pairs of what a unit and its replacement are in: for each run, the parts of both.

    `others` are further releases, which are not kept apart from any.
    """
    held = list(_held(tree, others))
    nothing: frozenset[Leaf] = frozenset()
    pairs = [(one, nothing) for one in held]
    if relation is not ADD_OR_REMOVE_ONE:
        pairs += list(itertools.combinations_with_replacement(held, 2))
    runs = sorted({leaf.run for leaf in (*leaves_of(tree), *others)})
    return list(dict.fromkeys(tuple((run, _of(run, one), _of(run, two)) for run in runs) for one, two in pairs))


def _held(tree: Any, others: tuple[Leaf, ...]) -> Iterator[frozenset[Leaf]]:
    """Yield sets of releases in which a unit can be: all draws of a part or none, and none that are kept apart."""
    leaves, apart = tuple(dict.fromkeys((*leaves_of(tree), *others))), set(_apart(tree))
    for size in range(1, len(leaves) + 1):
        for chosen in map(frozenset, itertools.combinations(leaves, size)):
            parts = {leaf[:2] for leaf in chosen}
            whole = all(leaf in chosen for leaf in leaves if leaf[:2] in parts)
            if whole and not any(pair <= chosen for pair in apart):
                yield chosen


def _apart(tree: Any) -> Iterator[frozenset[Leaf]]:
    """Yield pairs of releases that have no unit in common, as the caller promises."""
    if isinstance(tree, Combination):
        yield from _apart(tree.first)
        yield from _apart(tree.second)
        if tree.disjoint:
            yield from map(frozenset, itertools.product(leaves_of(tree.first), leaves_of(tree.second)))


def _of(run: str, chosen: frozenset[Leaf]) -> Parts:
    return tuple(sorted(Counter(leaf.part for leaf in chosen if leaf.run == run).items()))


def worst_loss(pairs: list[Any], loss_of: dict[str, RunLoss]) -> Any:
    """Return the largest loss over pairs of neighbours; each run has units of its own choice."""
    return max((sum(loss_of[run](one, two) for run, one, two in pair) for pair in pairs), default=0)


def worst_delta(pairs: list[Any], delta: Fraction) -> Fraction:
    """Return the largest probability of exceptions, on one of two neighbours: once for each draw of a run in it."""
    if not delta:
        return delta
    draws = (
        sum(max((times for _, times in run[side]), default=0) for run in pair) for pair in pairs for side in (1, 2)
    )
    return 1 - (1 - delta) ** max(draws, default=0)
