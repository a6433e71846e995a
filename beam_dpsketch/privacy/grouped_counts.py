"""Grouped counts: publish the noisy counts of items that are large enough, so that which items there are shows nobody.

Guarantee: a run that publishes grouped counts is delta-approximate rho-zCDP for the unit.

The rule. A unit counts for at most k = max_items items, chosen from its own records alone. Its records of other items
are dropped from the counts. The count of an item is n > 0, and Z is its own discrete Gaussian of parameter sigma^2. If
n + Z >= T, it is published as n + Z; else it leaves no trace. An item that nobody counts for is never considered.

Under `RecordBounds` a unit adds at most C = max_contributions_per_partition * max_weight to an item, so the squares of
what it adds sum to at most k C^2. Under a `NormBound` with max_norm b they sum to b^2 at most. With L^2 that sum,
`sensitivity` gives sigma^2 = L^2 / (2 rho) where a unit is added or removed, and L^2 / rho where it is replaced.

T = max over j of (c_j + t_j), where c_j is the most that a unit of j items adds to one of them, and P(Z >= t_j) <=
delta / j. Where c_j does not depend on j this is c + t_k: C + t_k, or b + t_k. Under a norm with max_per_item = 1, the
unit's items have equal counts of min(1, b / sqrt(j)). T = 1 + t would not do for C > 1.

Proof, a unit u is added. Let N be the j <= k items that u alone counts for. Each has n <= c_j <= T - t_j, so it is
published with probability at most delta / j, and no item of N is published, with probability at least 1 - delta. Given
that, the output is that of a mechanism which never looks at N: of each other item the noisy count, which is dropped if
it is below T. Dropping is post-processing. The counts differ by what u adds, of length L at most, which costs L^2 /
(2 sigma^2) = rho (Canonne, Kamath and Steinke 2020). Each item has noise of its own, so the condition changes nothing
in other items. On the other input take the whole space as the event. One rho pays for choice and counts, because the
statistic that decides is the count that is published.

Replaced, u by u': the same two events are used, each on its own input, so delta does not double. Given both, each count
changes by what u' adds minus what u adds. Neither is negative, so the squares of the changes sum to 2 L^2 at most.
Signed weights are refused: they could make it 4 L^2, and a deletion could hide that an item is of one unit alone.

A unit that reaches several windows, each within the bounds, has delta / windows, and noise of windows times the
variance in each. Bun and Steinke 2016 (arXiv:1605.02065), section 8, defines approximate zCDP.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION, Bounds
from beam_dpsketch.privacy.gaussian_tail import least_quantile
from beam_dpsketch.privacy.norm_bounding import SCALE_BITS

MAX_THRESHOLD = 1 << 62
_MIN_DELTA = Fraction(1, 10**60)  # far above what the bounds of tails round up to


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupRule:
    """What decides which items are published.

    Args:
      delta: the probability that an item is published on account of one unit alone, over all its items and windows.
      max_items: for how many items a unit counts; with keys, for how many pairs of key and item. On bounded input under
        a norm, each window counts as another item.
    """

    delta: Fraction
    max_items: int

    def __post_init__(self) -> None:
        _validate.open_unit_interval(delta=self.delta)
        object.__setattr__(self, "delta", _validate.exact(delta=self.delta))
        if self.delta < _MIN_DELTA:
            raise ValueError("delta of Groups must be at least 1e-60; 1e-8 is usual")
        _validate.whole_fields(self, "max_items", low=1, high=MAX_CONTRIBUTION)

    def threshold(self, bounds: Bounds, sigma_squared: Fraction, window_count: int = 1) -> int:
        """Return T. Under a norm, T and the root of sigma_squared are in units of 2**-SCALE_BITS."""
        delta = self.delta / window_count
        unit, sizes = 4**SCALE_BITS if bounds.has_norm else 1, _sizes(self.max_items)
        largest = {
            math.isqrt(math.floor(bounds.squared_most_of_one_item(before + 1) * unit)): size
            for before, size in itertools.pairwise([0, *sizes])
        }  # of sizes with the same c_j, the last one has the largest t_j
        result = max(count + least_quantile(sigma_squared, delta / size) for count, size in largest.items())
        if result > MAX_THRESHOLD:
            raise ValueError("rho is too small for these bounds to publish any item: raise it, or lower the bounds")
        return result


def _sizes(largest: int) -> list[int]:
    """Return numbers of items up to the largest: all small ones, then steps of about the root of 2."""
    steps = {*range(1, 17), *(round(2 ** (step / 2)) for step in range(9, 63))}
    return sorted({size for size in steps if size < largest} | {largest})
