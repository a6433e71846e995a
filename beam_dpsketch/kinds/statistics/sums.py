"""Sums of numbers: how many there are, what they add up to, and what their squares do, in whole numbers.

A number is counted by its place between the ends of its domain, the clip bounds. Let x be that place, from -1 at the
low end to 1 at the high one. A record of weight w adds w to a count, w x to a sum and, on request, w (2 x^2 - 1) to a
sum of squares. All three are at most w in size, so that one bound on the weight of a unit bounds each of them. From the
middle, a number is at most half the width away; from 0, it could be further than the whole of it.

Guarantee: the counters are a linear function of the input in 64-bit integers. x is counted in steps of the domain, but
not in more than 2^17 steps; then each number is moved by 2^-18 of the width at most. 2 x^2 - 1 is counted in 2^-18.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.domains import FloatDomain, IntegerDomain
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.sketches.linear import RawSketch, Table
from beam_dpsketch.sketches.spec import Spec

MAX_STEPS, MAX_SQUARE, MAX_SUM = 1 << 17, 1 << 18, 1 << 61
DROWNED_BITS = 7
"""What is rounded off of the grid of noise, at most: from a sigma of 8 on, all of it."""
SUM_SHARE = Fraction(3, 5)
"""The part of rho for the sum; the count gets the rest. Means need the sum more, unless they are near an end."""
_LARGEST_SHARE, _LARGEST = Fraction(1, 2), 1e100


@dataclasses.dataclass(frozen=True)
class StatisticsSpec(Spec):
    """Which numbers are summed.

    Args:
      domain: an `IntegerDomain` or a `FloatDomain`, whose ends are the clip bounds; it has two values or more.
      variance: the part of rho for the sum of squares, above 0 and at most 1/2; a float means its decimal spelling.
        `None` sums no squares.
    """

    kind: ClassVar[str] = "statistics"
    domain: IntegerDomain | FloatDomain
    variance: Fraction | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.domain, (IntegerDomain, FloatDomain)):
            given = f"{type(self.domain).__name__}; give one, as IntegerDomain(0, 100)"
            raise ArgumentTypeError("domain", f"must be of integers, or of floats in equal steps; got {given}", "E512")
        if self.domain.size < 2:
            raise ArgumentError("domain", "must have two values or more: of one value, the mean is known", "E512")
        if max(map(abs, self.ends)) > _LARGEST or self.half < 1 / _LARGEST:
            raise ArgumentError(
                "domain",
                "must be within 1e100 of 0, and its ends at least 2e-100 apart: squares of other numbers do not fit "
                "into floats. Give numbers in another unit",
                "E512",
            )
        if self.variance is not None:
            share = _validate.exact(variance=self.variance)
            if share > _LARGEST_SHARE:
                raise ArgumentError(
                    "variance", f"must be at most 1/2, the part of rho for squares; got {float(share):g}", "E512"
                )
            object.__setattr__(self, "variance", share)

    @property
    def cells(self) -> int:
        return 2 if self.variance is None else 3

    @property
    def key_range(self) -> int:
        return self.steps + 1

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The part of rho for the count, the sum and, if there are any, the squares."""
        squares = self.variance or Fraction(0)
        parts = (1 - squares) * (1 - SUM_SHARE), (1 - squares) * SUM_SHARE
        return parts if self.variance is None else (*parts, squares)

    @property
    def steps(self) -> int:
        """How many steps there are from the low end to the high one: x changes by 2 / steps."""
        return min(self.domain.size - 1, MAX_STEPS)

    @property
    def square(self) -> int:
        """What stands for 1 in 2 x^2 - 1."""
        return min(self.steps**2, MAX_SQUARE)

    @property
    def amounts(self) -> tuple[int, int, int]:
        """The most that a number of weight 1 adds to the count, to the sum and to the squares."""
        return 1, self.steps, self.square

    def room(self, table: int, bits: int) -> float:
        """Return from which weight on a table may have wrapped around, where weights are in units of 2**-bits."""
        return MAX_SUM / self.amounts[table] / 2**bits

    @functools.cached_property
    def ends(self) -> tuple[float, float]:
        """The clip bounds; as floats, not inside of them."""
        return floats_around(*self._exact_ends)

    @functools.cached_property
    def half(self) -> float:
        """Half the distance of the clip bounds."""
        low, high = self._exact_ends
        return float((high - low) / 2)

    def number(self, place: float) -> Fraction:
        """Return the number at a place from -1 to 1, exactly: it may be large, and the clip bounds close together."""
        low, high = self._exact_ends
        return (low + high + (high - low) * Fraction(place)) / 2

    @functools.cached_property
    def _exact_ends(self) -> tuple[Fraction, Fraction]:
        low, high = self.domain.values(np.array([0, self.domain.size - 1], dtype=np.uint64))
        return Fraction(low), Fraction(high)

    @property
    def moved(self) -> float:
        """How far x is moved at most, because it has no more steps; 0 where each value has its own."""
        return 1 / self.steps if self.domain.size - 1 > self.steps else 0.0

    @property
    def squares_moved(self) -> float:
        """How far x^2 is moved at most, because `square` has a limit; 0 where it is a whole number of parts."""
        return 0.5 / self.square if self.steps**2 > self.square else 0.0

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Return the steps from the low end, uint64, of positions in the domain, uint64."""
        last = self.domain.size - 1
        if last <= self.steps:
            return positions
        return np.rint(positions.astype(np.float64) * (self.steps / last)).astype(np.uint64)

    def added(self, places: np.ndarray, table: int) -> np.ndarray:
        """Return what a record of weight 1 adds to a table, int64, given its steps from the low end."""
        steps, square = np.int64(self.steps), np.int64(self.square)
        if table == 0:
            return np.ones(len(places), dtype=np.int64)
        x = 2 * places.astype(np.int64) - steps
        return x if table == 1 else 2 * ((x * x * square + steps**2 // 2) // steps**2) - square

    def exactly(self, places: np.ndarray, weights: np.ndarray) -> dict[str, float | None]:
        """Return what is true of numbers at these places, by the names of answers; `None` where there is nothing.

        It is not private: a rehearsal shows it of public data.
        """
        count, x = float(weights.sum()), 2 * places.astype(np.float64) / self.steps - 1
        place = float(weights @ x) / count if count > 0 else 0.0
        mean = float(self.number(place))
        answers = {"count": count, "total": mean * count, "mean": mean if count > 0 else None}
        if self.variance is not None:
            spread = self.half**2 * float(weights @ (x - place) ** 2) / count if count > 0 else None
            answers |= {"variance": spread, "std": None if spread is None else math.sqrt(spread)}
        return answers


def floats_around(lower: Fraction, upper: Fraction) -> tuple[float, float]:
    """Return the nearest floats between which two numbers are."""
    low, high = math.nextafter(float(lower), -math.inf), math.nextafter(float(upper), math.inf)
    return float(lower) if float(lower) <= lower else low, float(upper) if float(upper) >= upper else high


class NumberSums(RawSketch):
    """A raw sum of numbers: the count, the sum and, on request, the sum of squares.

    >>> spec = StatisticsSpec(IntegerDomain(0, 10), variance=0.1)
    >>> NumberSums(spec).accumulate([0, 10, 10, 99]).counters.tolist()
    [4, 20, 400]
    """

    name = "statistics"
    spec_type = StatisticsSpec
    amount_bits = 12

    def __init__(self, spec: StatisticsSpec) -> None:
        super().__init__(spec)
        self._counters = np.zeros(spec.cells, dtype=np.int64)

    @property
    def counters(self) -> np.ndarray:
        """The exact counters, int64 of shape (cells,). They are not private: never publish them."""
        return self.to_vector()

    @classmethod
    def usable_keys(cls, spec: StatisticsSpec, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        positions, usable = spec.domain.index(items)
        return spec.places(positions), usable

    @classmethod
    def tables(cls, spec: StatisticsSpec) -> tuple[Table, ...]:
        amounts = zip(spec.amounts, spec.shares, strict=False)
        return tuple(Table(1, number > 0, share, amount**2) for number, (amount, share) in enumerate(amounts))

    @classmethod
    def cells_of(cls, spec: StatisticsSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        for table in range(spec.cells):
            yield table, np.zeros(len(keys), dtype=np.int64)

    @classmethod
    def amounts_of(cls, spec: StatisticsSpec, keys: np.ndarray, table: int) -> np.ndarray:
        amount = spec.amounts[table]
        return -(-(np.abs(spec.added(keys, table)) << np.int64(cls.amount_bits)) // np.int64(amount))

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> NumberSums:
        for table in range(self._spec.cells):
            added = self._spec.added(keys, table)
            self._counters[table : table + 1] += (added if weights is None else added * weights).sum()
        return self

    def counter_tables(self) -> Sequence[np.ndarray]:
        return [self._counters[table : table + 1] for table in range(self._spec.cells)]

    def _own_keys(self, items: Any) -> tuple[np.ndarray, Any]:
        return self.usable_keys(self._spec, items)
