"""What is promised, what a person has, and the laws of noise that all lines share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

DELTA = 1e-6
EPSILONS = (0.1, 1.0, 4.0)
RELEASES = (1, 5)
TOLERANCE = 0.03
"""By which part another library may be better before a line is a loss."""
GAUSSIAN, LAPLACE = "Gaussian", "Laplace"


class Promise(NamedTuple):
    """The loss of all releases together, for a person who is added or removed; a delta of 0 is pure epsilon."""

    epsilon: float
    delta: float
    releases: int = 1

    def __str__(self) -> str:
        return f"{self.releases} release{'s' * (self.releases > 1)}, epsilon {self.epsilon:g}"


class Person(NamedTuple):
    """What each person has at most.

    Attributes:
      items: how many different items.
      each: the records, or the weight, of each of them.
    """

    items: int
    each: int = 1

    @property
    def total(self) -> int:
        """The L1 length, which a Laplace is calibrated to."""
        return self.items * self.each

    @property
    def squared(self) -> int:
        """The squared L2 length, which a Gaussian is calibrated to."""
        return self.items * self.each**2

    @property
    def length(self) -> float:
        return math.sqrt(self.squared)

    def __str__(self) -> str:
        if self.each == 1:
            return f"{self.items} item{'s' * (self.items > 1)}"
        return f"{self.each} of one item"


class Named(NamedTuple):
    """Items that are released with their counts.

    Attributes:
      keys: how many are expected.
      deviation: of the noise of a count.
      law: of this noise.
    """

    keys: float = 0.0
    deviation: float = math.inf
    law: str = ""

    def __str__(self) -> str:
        return f"{self.keys:,.1f}; {self.deviation:,.2f}" if math.isfinite(self.deviation) else "-"


def best(found: Iterable[Named]) -> Named:
    """The least noise of those that release the most, or all but 3 % of that."""
    found = list(found)
    enough = max(each.keys for each in found) * (1 - TOLERANCE)
    return min((each for each in found if each.keys >= enough), key=lambda each: each.deviation)


PEOPLE = (Person(1), *(person for n in (3, 10, 30) for person in (Person(n), Person(1, n))))


def root(squared: int) -> Fraction:
    """The square root, rounded up to a norm that the package takes."""
    return Fraction(math.isqrt((squared << 32) - 1) + 1, 1 << 16)


def laplace_deviation(scale: float, grid: float = 0.0) -> float:
    """The standard deviation of a Laplace, or of a discrete one on multiples of `grid`."""
    if scale > 1e6 * grid:
        return math.sqrt(2) * scale
    return grid / (math.sqrt(2) * math.sinh(grid / (2 * scale)))


def laplace_tail(scale: float, start: float, grid: float = 0.0) -> float:
    """P(noise >= start) of a Laplace, or of a discrete one; then start is a multiple of `grid`."""
    if grid == 0.0:
        half = math.exp(-abs(start) / scale) / 2
        return half if start > 0 else 1 - half
    p = math.exp(-grid / scale)
    if start > 0:
        return math.exp(-start / scale) / (1 + p)
    return 1 - math.exp((start - grid) / scale) / (1 + p)


def gaussian_tail(sigma: float, start: float) -> float:
    """P(noise >= start) of a Gaussian on a fine grid."""
    return math.erfc(start / sigma / math.sqrt(2)) / 2


def gaussian_scale(epsilon: float, delta: float) -> float:
    """The least sigma at a length of 1: the analytic Gaussian of Balle and Wang (2018)."""
    normal, low, high = NormalDist(), 1e-3, 1e5
    for _ in range(100):
        middle = math.sqrt(low * high)
        shift, middle_loss = 1 / (2 * middle), epsilon * middle
        lost = normal.cdf(shift - middle_loss) - math.exp(epsilon) * normal.cdf(-shift - middle_loss)
        low, high = (middle, high) if lost > delta else (low, middle)
    return high
