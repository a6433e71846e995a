"""The mechanisms: how far a unit moves the counters, and the noise that hides it.

Gaussian. Guarantee: let sigma^2 = Delta^2 / (2 rho), where Delta is the L2 sensitivity of a vector of integers. Adding
an independent discrete Gaussian of parameter sigma^2 + 4 to each of them is rho-zCDP, and has the (epsilon, delta)
curve of a continuous Gaussian of parameter sigma^2, as `noise.drawing` proves. Counters and noise live in one ring of
64-bit integers that wrap around, which is post-processing; saturation before the noise would not be. Source: Canonne,
Kamath and Steinke 2020 (arXiv:2004.00010), Theorem 4.

Laplace. Guarantee: let scale = Delta / epsilon, where Delta is the L1 sensitivity: the largest sum of absolute changes.
Adding an independent discrete Laplace of this scale to each of them is epsilon-DP, and needs no delta. Parts with
shares of epsilon are one mechanism: the ratio of probabilities is at most e^epsilon_i for each. Source: Ghosh,
Roughgarden and Sundararajan 2009 (arXiv:0811.2841).

L2 sensitivity: how far one unit can move the counters of a sketch, in the worst case over all hash functions. The hash
is public, so an adversary may choose items by where they land, and a small sketch has every coincidence anyway. Two
things follow that a histogram does not teach. (1) k distinct items of one unit may share all their cells, so they count
k times, not sqrt(k). (2) Two items may share their cells with opposite signs, so replacing one by the other moves each
cell by 2: for CountSketch `REPLACE_ONE` costs 2 sqrt(depth), not the sqrt(2 depth) of the paper. Each entry is attained
by brute force in the tests.

L1 sensitivity. Let W be the most total weight, without signs, of a unit over all keys and windows: max_keys times
max_per_key times max_weight, or b under a `NormBound` of order 1. An item adds its weight to cells_per_item counters,
under all hashes and signs. So adding or removing a unit changes the counters by at most cells_per_item W in
sum, and replacing it by twice that, because both sums of changes can be apart. Both are attained. A norm of order 2 has
no such bound: a unit may have b^2 items.

Under a `NormBound` with max_norm b the changes of all tables together are bounded (`norm.scaling`), and each table has
the noise of b records of one item. What is returned for a table is then its part of that bound: in a flat sketch of
`cells_per_item` rows, the largest squared change itself, attained by b records of one item.
"""

from __future__ import annotations

import enum
import math
from fractions import Fraction
from typing import NamedTuple

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation
from beam_dpsketch.privacy.noise.drawing import MAX_SIGMA_SQUARED, MIN_SIGMA_SQUARED
from beam_dpsketch.privacy.noise.laws import Noise


class Randomness(enum.Enum):
    """Where the noise comes from; the value says it in words."""

    SYSTEM = "the entropy of the operating system"
    KEYED = (
        "a generator keyed with a secret, so the guarantee holds against those who cannot break it or learn the secret"
    )


_MIN_SCALE = Fraction(1, 16)


class Sensitivity(NamedTuple):
    """How far one unit can move counters, in records.

    Attributes:
      squared: the largest sum of squared changes.
      total: the largest sum of absolute changes; `None` if there is no limit that is known.
    """

    squared: Fraction
    total: Fraction | None = None


class Spending(NamedTuple):
    """What a release spends, and by which noise.

    Attributes:
      rho: zCDP of all of it.
      epsilon: what Laplace noise spends; `None` where noise is Gaussian.
    """

    rho: Fraction
    epsilon: Fraction | None = None

    @property
    def noise(self) -> Noise:
        return Noise.GAUSSIAN if self.epsilon is None else Noise.LAPLACE

    @property
    def whole(self) -> Fraction:
        """All of it: rho of Gaussian noise, epsilon of Laplace noise."""
        return self.rho if self.epsilon is None else self.epsilon

    @property
    def of_one_count(self) -> Fraction:
        """The noise parameter of a count of units that all of it pays for."""
        return 1 / (2 * self.rho) if self.epsilon is None else 2 / self.epsilon**2

    def parameter(self, change: Sensitivity, *, share: Fraction = Fraction(1), squared_unit: int = 1) -> Fraction:
        """Return the parameter of the noise, as `noise.laws` has it, for a share of what is spent, in squared records.

        Refuses noise that hides nothing, or is so large that counters would wrap around, as `sigma_squared` does.
        """
        if self.epsilon is None:
            return sigma_squared(
                squared_sensitivity=change.squared, rho=self.rho, share=share, squared_unit=squared_unit
            )
        if change.total is None:
            raise ValueError("Laplace noise needs a limit of the total change")
        scale = change.total / (self.epsilon * share)
        if scale < _MIN_SCALE:
            raise ArgumentError(
                "epsilon",
                f"must be at most {float(change.total / share / _MIN_SCALE):.4g} for this sensitivity; got "
                f"{float(self.epsilon):g}, which hides nothing",
                "E107",
            )
        _check_room(2 * scale**2, squared_unit, "epsilon")
        return 2 * scale**2


def sigma_squared(
    *, squared_sensitivity: Fraction | int, rho: Fraction, share: Fraction = Fraction(1), squared_unit: int = 1
) -> Fraction:
    """Return the noise parameter sigma^2 = Delta^2 / (2 rho share), exactly, for a share of rho.

    Refuses sigma < 1/16, which hides nothing, and sigma > 2**50, where counters would wrap around. Where a record
    counts more than 1, and `squared_unit` is the square of that, counters wrap around that much earlier.

    >>> sigma_squared(squared_sensitivity=20, rho=Fraction(1))
    Fraction(10, 1)
    """
    result = Fraction(squared_sensitivity) / (2 * rho * share)
    if result < MIN_SIGMA_SQUARED:
        raise ArgumentError(
            "rho",
            f"must be at most {float(squared_sensitivity / share / MIN_SIGMA_SQUARED / 2):g} for this sensitivity, so "
            f"that sigma is at least 1/16; got {float(rho):g}, which hides nothing",
            "E107",
        )
    _check_room(result, squared_unit, "rho")
    return result


def _check_room(parameter: Fraction, squared_unit: int, spent: str) -> None:
    if parameter * squared_unit > MAX_SIGMA_SQUARED:
        limit = f"2**{math.isqrt(MAX_SIGMA_SQUARED.numerator // squared_unit).bit_length()}"
        raise ArgumentError(
            "",
            f"{spent} is too small for these contribution bounds: sigma would exceed {limit}; lower the bounds",
            "E108",
        )


MAX_WINDOWS = (1 << 32) - 1


def squared_l2_sensitivity(
    *, cells_per_item: int, has_signs: bool, bounds: Bounds, relation: NeighboringRelation, reach: Fraction | int = 1
) -> Fraction:
    """Return the largest squared L2 change of all counters that one privacy unit can cause.

    With C the total weight a unit may contribute to one sketch (or max_norm), one row changes by at most

    * C when a unit is added or removed: all its weight in one cell;
    * sqrt(2) C when it is replaced, if its cells only grow: C leaves one cell and enters another;
    * 2 C when it is replaced and cells may grow or shrink, because the sketch has signs or the weights do: C in
      one cell turns into -C.

    All rows can do so together (cells_per_item of them), and so can max_keys sketches and `reach` windows, whose
    changes are orthogonal: each factor multiplies the square. In rows over time the changes of windows add up. Their
    weights are not negative, so the same factors hold, and `reach` is `RowMechanism.squared_reach`.

    Args:
      cells_per_item: counters that one item touches (the depth; 1 for an exact histogram).
      has_signs: whether an item may count negatively in a cell.
      bounds: what one unit may contribute.
      relation: the relation between neighbouring inputs.
      reach: the squared change of all releases by a unit, over that of one of them: how many windows it can reach.
    """
    _validate.whole(low=1, high=MAX_WINDOWS, cells_per_item=cells_per_item)
    squared_reach = check_reach(reach)
    row = change_factor(relation, has_signs=has_signs or bounds.signed)
    return row * int(cells_per_item) * bounds.squared_length * squared_reach  # int: numpy's overflow


def sensitivity(
    *, cells_per_item: int, has_signs: bool, bounds: Bounds, relation: NeighboringRelation, reach: Fraction | int = 1
) -> Sensitivity:
    """Return how far one privacy unit can move all counters of a table; arguments as in `squared_l2_sensitivity`."""
    squared = squared_l2_sensitivity(
        cells_per_item=cells_per_item, has_signs=has_signs, bounds=bounds, relation=relation, reach=reach
    )
    if bounds.total_weight is None:
        return Sensitivity(squared)
    return Sensitivity(squared, total_factor(relation) * int(cells_per_item) * bounds.total_weight * Fraction(reach))


def check_reach(reach: Fraction | int) -> Fraction:
    """Return a reach as an exact fraction; refuse one below 1."""
    if not isinstance(reach, Fraction):
        _validate.whole(low=1, high=MAX_WINDOWS, reach=reach)
    elif reach < 1:
        raise ValueError(f"reach must be at least 1, got {reach}")
    return Fraction(reach) if isinstance(reach, Fraction) else Fraction(int(reach))


def change_factor(relation: NeighboringRelation, *, has_signs: bool = False) -> int:
    """Return the largest squared change by a unit, over that of adding it.

    It is 2 or more where a unit is replaced, for a single number too: its replacement may be in another window, period
    or release. `privacy.loss.zcdp` needs that a removal costs half a replacement at most.
    """
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return 1
    return 4 if has_signs else 2


def total_factor(relation: NeighboringRelation) -> int:
    """Return the largest sum of absolute changes by a unit, over that of adding it, with signs or without.

    It is 2 where a unit is replaced, for a single number too, as in `change_factor`.
    """
    return 1 if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else 2


def one_count(relation: NeighboringRelation, reach: int = 1) -> Sensitivity:
    """Return how far one unit moves counts of units: it is in one at most, in each of `reach` windows."""
    return Sensitivity(Fraction(change_factor(relation) * reach), Fraction(total_factor(relation) * reach))
