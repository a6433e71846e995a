"""Privacy mechanisms: sensitivity of the counters, and the noise that covers it.

Gaussian. Guarantee: let sigma^2 = Delta^2 / (2 rho), where Delta is the L2 sensitivity of an integer vector. Adding an
independent discrete Gaussian with parameter sigma^2 + 4 to each entry is rho-zCDP, and has the (epsilon, delta) curve
of a continuous Gaussian with parameter sigma^2, as `noise.drawing` proves. Counters and noise live in one ring of
64-bit integers that wrap around, which is post-processing. Saturation before the noise would not be post-processing.
Source: Canonne, Kamath and Steinke 2020 (arXiv:2004.00010), Theorem 4.

Laplace. Guarantee: let scale = Delta / epsilon, where Delta is the L1 sensitivity: the largest sum of absolute changes.
Adding an independent discrete Laplace with this scale to each entry is epsilon-DP, and needs no delta. Parts with
shares of epsilon are one mechanism: each probability ratio is at most e^epsilon_i. Source: Ghosh, Roughgarden and
Sundararajan 2009 (arXiv:0811.2841).

L2 sensitivity: the largest change of a sketch's counters by a unit, in the worst case over all hash functions. The hash
is public, hence an adversary may choose items by their cells, and a small sketch has every coincidence anyway. Sketches
differ from histograms in two ways. (1) k distinct items of a unit may share all their cells, hence they count k times,
not sqrt(k). (2) Two items may share their cells with opposite signs, hence replacing an item by the other moves each
cell by 2: for CountSketch `REPLACE_ONE` costs 2 sqrt(depth), not the sqrt(2 depth) of the paper. Tests attain each
entry by brute force.

L1 sensitivity. Let W be the largest total weight, without signs, of a unit over all keys and windows: max_keys times
max_records times max_weight, or b under a `NormBound` with an L1 norm. An item adds its weight to cells_per_item
counters, under all hashes and signs. Hence adding or removing a unit changes the counters by at most cells_per_item W
in sum, and replacing it by twice that, because the two contributions can be disjoint. Both are attained. An L2 norm has
no such bound: a unit may have b^2 items.

Under a `NormBound` with max_norm b the changes in all tables together are bounded (`norm.scaling`), and each table has
the noise for b records of the same item. The result for a table is then its share of that bound: in a flat sketch with
`cells_per_item` rows, the largest squared change itself, attained by b records of the same item.
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
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.noise.laws import Noise


class Randomness(enum.Enum):
    """Source of the noise. The value describes it in words."""

    SYSTEM = "the entropy of the operating system"
    KEYED = (
        "a generator keyed with a secret, so the guarantee holds against those who cannot break it or learn the secret"
    )
    PUBLIC = "a public seed for tests: NOT PRIVATE"

    @classmethod
    def of(cls, keyed: KeyedRandomness | None) -> Randomness:
        """Determine the source of noise with this secret. `None` uses system entropy."""
        return cls.SYSTEM if keyed is None else cls.KEYED if keyed.is_secret else cls.PUBLIC

    def joined(self, other: Randomness) -> Randomness:
        """Determine the source of combined releases: the one with the weaker guarantee."""
        return max(self, other, key=[*Randomness].index)


_MIN_SCALE = Fraction(1, 16)


class Sensitivity(NamedTuple):
    """Largest change of counters by a unit, in records.

    Attributes:
      squared: the largest sum of squared changes.
      total: the largest sum of absolute changes, or `None` without a known limit.
    """

    squared: Fraction
    total: Fraction | None = None


class Spending(NamedTuple):
    """Privacy loss that a release spends, by noise type.

    Attributes:
      rho: zCDP loss of the whole release.
      epsilon: loss with Laplace noise, or `None` with Gaussian noise.
    """

    rho: Fraction
    epsilon: Fraction | None = None

    @property
    def noise(self) -> Noise:
        return Noise.GAUSSIAN if self.epsilon is None else Noise.LAPLACE

    @property
    def whole(self) -> Fraction:
        """Whole loss: rho with Gaussian noise, epsilon with Laplace noise."""
        return self.rho if self.epsilon is None else self.epsilon

    @property
    def of_one_count(self) -> Fraction:
        """Noise parameter of a unit count that spends the whole loss."""
        return 1 / (2 * self.rho) if self.epsilon is None else 2 / self.epsilon**2

    def parameter(self, change: Sensitivity, *, share: Fraction = Fraction(1), squared_unit: int = 1) -> Fraction:
        """Compute the noise parameter, as defined in `noise.laws`, for a budget share, in squared records.

        Raises `ArgumentError` for sigma < 1/16 and for noise at which counters would wrap around, like `sigma_squared`.
        """
        if self.epsilon is None:
            return sigma_squared(
                squared_sensitivity=change.squared, rho=self.rho, share=share, squared_unit=squared_unit
            )
        if change.total is None:
            raise ValueError("Laplace noise requires an L1 sensitivity")
        scale = change.total / (self.epsilon * share)
        if scale < _MIN_SCALE:
            raise ArgumentError(
                "epsilon",
                f"must be at most {float(change.total / share / _MIN_SCALE):.4g} for these bounds and budget shares, "
                f"got {float(self.epsilon):g}. With less noise, counters would be nearly exact",
                "E107",
            )
        _check_room(2 * scale**2, squared_unit, "epsilon")
        return 2 * scale**2


def sigma_squared(
    *, squared_sensitivity: Fraction | int, rho: Fraction, share: Fraction = Fraction(1), squared_unit: int = 1
) -> Fraction:
    """Compute the noise parameter sigma^2 = Delta^2 / (2 rho share), exactly, for a budget share.

    Raises `ArgumentError` for sigma < 1/16, which hides nothing, and for sigma > 2**50, where counters would wrap
    around. If a record counts more than 1, `squared_unit` is the square of that count, by which counters wrap around
    earlier.

    >>> sigma_squared(squared_sensitivity=20, rho=Fraction(1))
    Fraction(10, 1)
    """
    result = Fraction(squared_sensitivity) / (2 * rho * share)
    if result < MIN_SIGMA_SQUARED:
        raise ArgumentError(
            "rho",
            f"must be at most {float(squared_sensitivity / share / MIN_SIGMA_SQUARED / 2):g} for these bounds and "
            f"budget shares, got {float(rho):g}. With less noise (sigma below 1/16), counters would be nearly exact",
            "E107",
        )
    _check_room(result, squared_unit, "rho")
    return result


def _check_room(parameter: Fraction, squared_unit: int, spent: str) -> None:
    if parameter * squared_unit > MAX_SIGMA_SQUARED:
        limit = f"2**{math.isqrt(MAX_SIGMA_SQUARED.numerator // squared_unit).bit_length()}"
        raise ArgumentError(
            "",
            f"{spent} is too small for these contribution bounds: sigma would exceed {limit}. Use smaller bounds or a "
            f"larger {spent}",
            "E108",
        )


MAX_WINDOWS = (1 << 32) - 1


def squared_l2_sensitivity(
    *, cells_per_item: int, has_signs: bool, bounds: Bounds, relation: NeighboringRelation, reach: Fraction | int = 1
) -> Fraction:
    """Compute the largest squared L2 change of all counters by one privacy unit.

    With C the total weight a unit may contribute to a sketch (or max_norm), a row changes by at most

    * C when a unit is added or removed: all its weight in one cell,
    * sqrt(2) C when it is replaced and its cells only grow: C leaves one cell and enters another,
    * 2 C when it is replaced and cells may grow or shrink, because sketch or weights have signs: C in one cell turns
      into -C.

    All cells_per_item rows can change together, and so can max_keys sketches and `reach` windows, whose changes are
    orthogonal: each factor multiplies the square. In timeline rows the changes of windows add up. Their weights are not
    negative, hence the same factors apply, and `reach` is `RowMechanism.squared_reach`.

    Args:
      cells_per_item: counters that an item touches (the depth; 1 for an exact histogram).
      has_signs: whether an item may count negatively in a cell.
      bounds: contribution bounds of a unit.
      relation: the relation between neighboring inputs.
      reach: squared change of all releases by a unit, divided by its squared change of a single release: the unit's
        reachable windows.
    """
    _validate.whole(low=1, high=MAX_WINDOWS, cells_per_item=cells_per_item)
    squared_reach = check_reach(reach)
    row = change_factor(relation, has_signs=has_signs or bounds.signed)
    return row * int(cells_per_item) * bounds.squared_length * squared_reach  # int: a numpy integer could overflow


def sensitivity(
    *, cells_per_item: int, has_signs: bool, bounds: Bounds, relation: NeighboringRelation, reach: Fraction | int = 1
) -> Sensitivity:
    """Compute the largest change of a table by one privacy unit, arguments as in `squared_l2_sensitivity`."""
    squared = squared_l2_sensitivity(
        cells_per_item=cells_per_item, has_signs=has_signs, bounds=bounds, relation=relation, reach=reach
    )
    if bounds.total_weight is None:
        return Sensitivity(squared)
    return Sensitivity(squared, total_factor(relation) * int(cells_per_item) * bounds.total_weight * Fraction(reach))


def check_reach(reach: Fraction | int) -> Fraction:
    """Convert a reach to an exact fraction, or raise if it is below 1."""
    if not isinstance(reach, Fraction):
        _validate.whole(low=1, high=MAX_WINDOWS, reach=reach)
    elif reach < 1:
        raise ValueError(f"reach must be at least 1, got {reach}")
    return Fraction(reach) if isinstance(reach, Fraction) else Fraction(int(reach))


def change_factor(relation: NeighboringRelation, *, has_signs: bool = False) -> int:
    """Compute the largest squared change by a unit, divided by the squared change of adding it.

    The factor is at least 2 if a unit is replaced, for a single number too: the replacement may be in another window,
    period or release. The proof in `privacy.loss.composition` requires that a removal costs at most half a replacement.
    """
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        return 1
    return 4 if has_signs else 2


def total_factor(relation: NeighboringRelation) -> int:
    """Compute the largest sum of absolute changes by a unit, divided by the sum from adding it, for any signs.

    The factor is 2 if a unit is replaced, for a single number too, as in `change_factor`.
    """
    return 1 if relation is NeighboringRelation.ADD_OR_REMOVE_ONE else 2


def one_count(relation: NeighboringRelation, reach: int = 1) -> Sensitivity:
    """Compute the sensitivity of unit counts: a unit is in at most one of them, in each of `reach` windows."""
    return Sensitivity(Fraction(change_factor(relation) * reach), Fraction(total_factor(relation) * reach))
