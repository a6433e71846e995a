"""One-sided sums of numbers, in whole numbers. Count, sum and, on request, squares are linear in them.

Let p be the place of a number among the n steps between the ends of its domain (the value range): 0 at the low end, n
at the high end. A record of weight w adds to the counters of one table:

* without squares: w p to the first counter, w (n - p) to the second. The `whole` of both is n.
* with squares: w floor(p^2 Q / n^2) to the first, w floor((n - p)^2 Q / n^2) to the third, and the rest of w Q to the
  second. The whole is Q.
* to a last counter, the guard, w times the whole over 2^10, rounded up. There is no guard below a whole of 2^7.

Guarantee: a record of weight 1 adds parts that are not negative and sum to the `amount`: the whole and the guard. The
floors sum to at most Q, because x^2 + (1 - x)^2 <= 1 for x = p / n. Therefore, records of weights w change the table by
at most amount times the sum of |w|, in sum and in length (an L2 norm is at most the L1 norm), under any signs of w.
Without a guard, equal records at an end attain both. Noise for this single sensitivity on each counter covers all
counters together, so there are no budget shares. Counters only grow if weights are not negative: then |h - h'|^2 <=
|h|^2 + |h'|^2, and replacing a unit moves them by at most sqrt(2) times as much in length, and at most twice as much in
sum or with signed weights.

The counters are a linear function of the input in 64-bit integers that wrap around. If a part wraps around, the parts
correspond to another number of records than the guard counts, which has 2^10 times the room and the noise. n is the
number of steps in the domain, but at most 2^17. Then each number is moved by at most 2^-18 of the width. Q is n^2, but
at most 2^18. Then the floors move each square by less than 1 / Q of the squared width.
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

from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains import FloatDomain, IntegerDomain
from beam_dpsketch.exact.sketches.linear import Table
from beam_dpsketch.exact.sketches.listed_items import Histogram
from beam_dpsketch.exact.sketches.spec import Spec

MAX_STEPS, MAX_SQUARE = 1 << 17, 1 << 18
_GUARD_BITS, _LEAST_GUARDED = 10, 1 << 7
_LARGEST = 1e100


@named("StatisticsSpec")
@dataclasses.dataclass(frozen=True)
class StatisticsSpec(Spec):
    """Numbers to sum.

    Args:
      domain: an `IntegerDomain` or a `FloatDomain`, whose ends are the value range. It has two values or more.
      variance: whether squares are summed too, for variances.
    """

    kind: ClassVar[str] = "statistics"
    domain: IntegerDomain | FloatDomain
    variance: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.domain, (IntegerDomain, FloatDomain)):
            given = f"got {type(self.domain).__name__}. Example: IntegerDomain(0, 100)"
            raise ArgumentTypeError("domain", f"must contain integers, or floats in equal steps, {given}", "E512")
        if self.domain.size < 2:
            raise ArgumentError("domain", "must have at least two values: the mean of a single value is known", "E512")
        if max(map(abs, self.ends)) > _LARGEST or self.width < 2 / _LARGEST:
            raise ArgumentError(
                "domain",
                "must be within 1e100 of 0, with ends at least 2e-100 apart: squares of other numbers exceed the range "
                "that floats support. Use another unit of measurement",
                "E512",
            )
        if not isinstance(self.variance, bool):
            words = (
                f"must be True or False, got {self.variance!r}. Squares have no separate budget share. Set $variance"
            )
            raise ArgumentTypeError("variance", words, "E512")

    @property
    def parts(self) -> int:
        """Number of counters that sum to the whole."""
        return 3 if self.variance else 2

    @property
    def cells(self) -> int:
        return self.parts + (self.guard > 0)

    @property
    def total_cells(self) -> int:
        return self.parts

    @property
    def key_range(self) -> int:
        return self.steps + 1

    @property
    def steps(self) -> int:
        """n, the number of steps from the low end to the high end."""
        return min(self.domain.size - 1, MAX_STEPS)

    @property
    def whole(self) -> int:
        """Sum of a unit-weight number's parts: n, or Q with squares."""
        return min(self.steps**2, MAX_SQUARE) if self.variance else self.steps

    @property
    def guard(self) -> int:
        """Contribution of a unit-weight number to the guard. 0 without a guard."""
        return -(-self.whole >> _GUARD_BITS) if self.whole >= _LEAST_GUARDED else 0

    @property
    def amount(self) -> int:
        """Contribution of a unit-weight number to all counters together."""
        return self.whole + self.guard

    @functools.cached_property
    def ends(self) -> tuple[float, float]:
        """Ends of the value range, as floats that include it."""
        return floats_around(*self._exact_ends)

    @functools.cached_property
    def width(self) -> float:
        """Width of the value range."""
        low, high = self._exact_ends
        return float(high - low)

    def number(self, place: float) -> Fraction:
        """Convert a place from 0 to 1 to a number, exactly: numbers may be large, and the value range narrow."""
        low, high = self._exact_ends
        return low + (high - low) * Fraction(place)

    @functools.cached_property
    def _exact_ends(self) -> tuple[Fraction, Fraction]:
        low, high = self.domain.values(np.array([0, self.domain.size - 1], dtype=np.uint64))
        return Fraction(low), Fraction(high)

    @property
    def moved(self) -> float:
        """Largest rounding of x if the domain has more steps. 0 if each value has its own step."""
        return 0.5 / self.steps if self.domain.size - 1 > self.steps else 0.0

    @property
    def floored(self) -> float:
        """Largest loss of a record's square by the floors. 0 if squares are whole numbers of parts."""
        return 1 / self.whole if self.variance and self.steps**2 > self.whole else 0.0

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Convert positions in the domain, uint64, to steps from the low end, uint64."""
        last = self.domain.size - 1
        if last <= self.steps:
            return positions
        return np.rint(positions.astype(np.float64) * (self.steps / last)).astype(np.uint64)

    def added(self, places: np.ndarray) -> np.ndarray:
        """Compute the contributions of unit-weight records, int64, shape (cells, n), from their steps."""
        low, steps, whole = places.astype(np.int64), self.steps, self.whole
        parts = [low, steps - low]
        if self.variance:
            first, last = (each**2 * whole // steps**2 for each in parts)
            parts = [first, whole - first - last, last]
        return np.stack([*parts, np.full_like(low, self.guard)][: self.cells])

    def exactly(self, places: np.ndarray, weights: np.ndarray) -> dict[str, float | None]:
        """Compute exact answers for numbers at these places, by name. `None` for undefined answers.

        They are not private: a rehearsal shows them for public data.
        """
        count, x = float(weights.sum()), places.astype(np.float64) / self.steps
        place = float(weights @ x) / count if count > 0 else 0.5
        mean = float(self.number(place))
        answers = {"count": count, "total": mean * count, "mean": mean if count > 0 else None}
        if self.variance:
            spread = self.width**2 * float(weights @ (x - place) ** 2) / count if count > 0 else None
            answers |= {"variance": spread, "std": None if spread is None else math.sqrt(spread)}
        return answers


def floats_around(lower: Fraction, upper: Fraction) -> tuple[float, float]:
    """Enclose two numbers in the nearest floats."""
    low, high = math.nextafter(float(lower), -math.inf), math.nextafter(float(upper), math.inf)
    return float(lower) if float(lower) <= lower else low, float(upper) if float(upper) >= upper else high


class NumberSums(Histogram):
    """Raw one-sided sums of numbers.

    >>> NumberSums(StatisticsSpec(IntegerDomain(0, 10), variance=True)).accumulate([0, 4, 10, 99]).counters.tolist()
    [216, 48, 136]
    """

    name = "statistics"
    spec_type = StatisticsSpec
    amount_bits = 12

    @classmethod
    def usable_keys(cls, spec: StatisticsSpec, items: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        positions, usable = spec.domain.index(items)
        return spec.places(positions), usable

    @classmethod
    def tables(cls, spec: StatisticsSpec) -> tuple[Table, ...]:
        return (Table(1, False, Fraction(1), spec.amount**2),)

    @classmethod
    def cells_of(cls, spec: StatisticsSpec, keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        for cell in range(spec.cells):
            yield 0, np.full(len(keys), cell)

    @classmethod
    def amounts_of(cls, spec: StatisticsSpec, keys: np.ndarray) -> np.ndarray:
        return -(-(spec.added(keys) << np.int64(cls.amount_bits)) // np.int64(spec.amount))

    def accumulate_keys(self, keys: np.ndarray, weights: np.ndarray | None) -> NumberSums:
        added = self._spec.added(keys)
        self._counters += (added if weights is None else added * weights).sum(axis=1)
        return self
