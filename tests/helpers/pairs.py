"""Rows that cover all pairs of settings: each two values of two dimensions are together in a row, if they can be.

Few faults need three settings at once (Kuhn, Wallace and Gallo 2004). Rows are chosen greedily, the same in every run.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

_Row: TypeAlias = "tuple[int, ...]"
"""An index into each dimension."""
Pair: TypeAlias = "frozenset[tuple[int, int]]"
_TRIES, _GREEDY = 60, 12


class Cover:
    """Rows for dimensions, made as they are asked for.

    Args:
      dimensions: the values of each dimension.
      made: makes a row of its values, given as keywords; `None` if they cannot be together.

    Attributes:
      covered: the pairs in rows that were made.
      refused: the pairs that no tried row could contain.
    """

    def __init__(self, dimensions: Mapping[str, Sequence[Any]], made: Callable[..., Any]) -> None:
        self._dimensions, self._made = dimensions, made
        self._sizes, self._rng = [len(values) for values in dimensions.values()], random.Random(1)
        self._rows: list[_Row] = []
        self.covered: set[Pair] = set()
        self.refused: set[Pair] = set()

    def rows(self) -> Iterator[Any]:
        """Yield rows until each pair is covered or refused."""
        left = list(self._all_pairs())
        self._rng.shuffle(left)
        for pair in left:
            if pair in self.covered:
                continue
            for attempt in range(_TRIES):
                row = self._completed(dict(pair) if attempt < _GREEDY else self._changed(pair, attempt % 3))
                if (made := self._made(**self._values_of(row))) is not None:
                    self._rows.append(row)
                    self.covered.update(_pairs_in(row))
                    self.refused -= self.covered
                    yield made
                    break
            else:
                self.refused.add(pair)

    def _all_pairs(self) -> Iterator[Pair]:
        places = [[(place, value) for value in range(size)] for place, size in enumerate(self._sizes)]
        for one, two in itertools.combinations(places, 2):
            yield from map(frozenset, itertools.product(one, two))

    def _values_of(self, row: _Row) -> dict[str, Any]:
        return {name: values[place] for (name, values), place in zip(self._dimensions.items(), row, strict=True)}

    def _changed(self, pair: Pair, others: int) -> dict[int, int]:
        """Return a row that has a value of the pair, with the other one, and without some of its other values."""
        near = [row for row in self._rows if any(row[place] == value for place, value in pair)] or self._rows
        row = dict(enumerate(self._rng.choice(near)))
        for place in self._rng.sample(range(len(row)), others):
            del row[place]
        return row | dict(pair)

    def _completed(self, row: dict[int, int]) -> _Row:
        """Return the row with values that are in few refused pairs, and then in many that are not yet covered."""
        for place in self._rng.sample(range(len(self._sizes)), len(self._sizes)):
            if place not in row:
                row[place] = max(range(self._sizes[place]), key=lambda value: self._worth((place, value), row))
        return tuple(row[place] for place in range(len(self._sizes)))

    def _worth(self, value: tuple[int, int], row: dict[int, int]) -> tuple[int, int, float]:
        pairs = [frozenset({value, each}) for each in row.items()]
        refused = sum(pair in self.refused for pair in pairs)
        return -refused, sum(pair not in self.covered for pair in pairs) - refused, self._rng.random()


def _pairs_in(row: _Row) -> Iterator[Pair]:
    return map(frozenset, itertools.combinations(enumerate(row), 2))
