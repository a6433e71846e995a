"""Thresholded counts: noisy counts of items with enough votes, or with a large enough count.

Guarantee: a run that publishes them is delta-approximate rho-zCDP for the unit, with the (epsilon, delta) curve of
Gaussian noise if its noise is Gaussian.

COUNTS. A unit counts for at most k = max_items items, chosen from its own records alone. Its records with other items
are dropped from the counts. Let n > 0 be the count of an item, and Z its own noise: a discrete Gaussian with parameter
sigma^2, or a discrete Laplace. If n + Z >= T, then n + Z is published. Otherwise the item leaves no trace. An item
without a contributing unit is never considered.

Under `RecordBounds` a unit adds at most C = max_records * max_weight to an item, hence its squared contributions sum to
at most k C^2. Under a `NormBound` with max_norm b they sum to at most b^2. With L^2 that sum, `mechanism` gives sigma^2
= L^2 / (2 rho) if a unit is added or removed, and L^2 / rho if it is replaced.

With Laplace noise, the contributions of a unit sum to at most k C, or to b under an L1 norm, and `mechanism` gives the
scale. Then the rest below costs a pure epsilon in place of rho.

T = max over j of (c_j + t_j), where c_j is the largest contribution to an item by a unit with j items, and P(Z >= t_j)
<= delta / j. If c_j does not depend on j, this is c + t_k: C + t_k, or b + t_k. Under a norm with max_per_item = 1, the
unit's items have equal counts, min(1, b / sqrt(j)). T = 1 + t would be wrong for C > 1.

Proof for adding a unit u. Let N be the j <= k items for which u alone counts. Each has n <= c_j <= T - t_j, hence it is
published with probability at most delta / j, and with probability at least 1 - delta no item in N is published. Given
that event, the output is that of a mechanism which never reads N: the noisy count of each other item, dropped if below
T. Dropping is post-processing. The counts differ by the contribution of u, whose length is at most L, which costs L^2 /
(2 sigma^2) = rho (Canonne, Kamath and Steinke 2020). Each item has independent noise, hence conditioning changes
nothing in other items. On the other input, use the whole space as the event. A single rho pays for selection and
counts, because the statistic that decides is the published count.

Proof for replacing u by u'. Use the same two events, each on its own input, hence delta does not double. Given both,
each count changes by the contribution of u' minus the contribution of u. Neither is negative, hence the squared changes
sum to at most 2 L^2. Signed weights are refused: they could make the sum 4 L^2, and a deletion could hide that an item
belongs to one unit.

A unit that reaches several windows, each within the bounds, has delta / windows, and the noise variance is multiplied
by the number of windows. Bun and Steinke 2016 (arXiv:1605.02065), section 8, defines approximate zCDP.

VOTES OR COUNTS. With Gaussian noise and k > 1, a unit also votes for exactly the items that it counts for, under the
rule in `two_rounds` if allowed, and otherwise in the single round of `selection`. Votes have the fraction q of rho and
half of delta. Counts have (1 - q) rho, and T uses the other half of delta. An item with a vote is published, as n + Z,
if its votes pass or n + Z >= T. Hence n + Z can be 0 or below, and an unpublished item has n + Z < T. If a unit counts
once for each of its items, a count is already a vote, and a budget share for votes only adds noise. Therefore counts
alone decide up to 15 items, and for max_items = 1 under any bounds. From 16 items on, two rounds publish more items.

Proof for adding u. N is again the j items for which u alone votes and counts. Fix the noise of all other items. Items
in N pass by their votes with probability at most delta / 2 together (`two_rounds`, step 2, for every N1 on other
items), and by their counts with j delta / (2 j), by independent noise. Hence with probability at least 1 - delta no
item in N is published, for any value of the other noise. Thin this event to exactly 1 - delta. Given it, the output is
post-processing of votes and counts for other items. These votes cost q rho by the proofs for votes. These counts have
independent noise, and cost (1 - q) rho. Both compose adaptively, both parts are Gaussian, and so is the curve of their
sum.

Proof for replacing. Squares change by 2 G^2 in votes with length G, and by 2 L^2 in counts, which `change_factor`
covers in each part. Use both events, each on its own input, hence delta does not double.

Violations: votes without a budget share, all of delta for both ways, votes for items beyond max_items, and items
published without a vote.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION, Bounds, NeighboringRelation
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.selection import MAX_THRESHOLD, MIN_DELTA, ONE_ROUND, SelectionRule

VOTES_SHARE = {"gaussian": Fraction(3, 20), "two_rounds": Fraction(1, 4)}
"""Budget share for votes, q, by voting method."""
MOST_COUNTED_ONCE = 15
"""Largest max_items at which counts alone publish more, if units count once per item."""


@named("GroupRule")
@dataclasses.dataclass(frozen=True, kw_only=True)
class ThresholdRule:
    """Rule that decides which items are published.

    Args:
      delta: the probability that an item is published because of a single unit, over all its items and windows.
      max_items: number of items for which a unit counts; with keys, number of pairs of key and item. On bounded input
        under a norm, each window counts as another item.
      method: "gaussian", one round of votes, or "two_rounds", if units vote.
    """

    counts_items: ClassVar[bool] = True
    delta: Fraction
    max_items: int
    method: str = ONE_ROUND[0]

    def __post_init__(self) -> None:
        _validate.open_unit_interval(delta=self.delta)
        object.__setattr__(self, "delta", _validate.exact(delta=self.delta))
        if self.delta < 2 * MIN_DELTA:
            raise ArgumentError(
                "delta", f"must be at least 2e-60, got {float(self.delta):g}. Use 1e-8, for example", "E309"
            )
        _validate.whole_fields(self, "max_items", low=1, high=MAX_CONTRIBUTION)

    def suited(self, relation: NeighboringRelation, **facts: Any) -> ThresholdRule:
        """Switch to two voting rounds if `SelectionRule.suited` allows them."""
        open_rule = SelectionRule(delta=self.delta, max_keys=self.max_items)
        return dataclasses.replace(self, method=open_rule.suited(relation, **facts).method or ONE_ROUND[0])

    def votes(self, bounds: Bounds, noise: Noise) -> SelectionRule | None:
        """Build the rule for votes next to counts with this noise, or `None` if counts alone decide."""
        if noise is not Noise.GAUSSIAN:
            return None
        if bounds.has_norm:  # independent of a max_norm chosen from the data
            counts_are_votes = bounds.as_dict()["max_per_item"] == 1
        else:
            counts_are_votes = bounds.squared_most_of_one_item(1) == 1
        if self.max_items <= (MOST_COUNTED_ONCE if counts_are_votes else 1):
            return None
        share = VOTES_SHARE[self.method]
        return SelectionRule(delta=self.delta / 2, max_keys=self.max_items, share=share, method=self.method)

    def threshold(
        self, bounds: Bounds, tail: Callable[[Fraction], int], scale_bits: int = 0, window_count: int = 1
    ) -> int:
        """Compute T, in units of 2**-scale_bits.

        Args:
          bounds: contribution bounds per unit.
          tail: function from a probability to a t with P(Z >= t) at most that probability, in the same units.
          scale_bits: precision of the noise grid.
          window_count: reachable windows per unit.
        """
        delta = self.delta / window_count
        unit, sizes = 4**scale_bits, _sizes(self.max_items)
        largest = {
            math.isqrt(math.floor(bounds.squared_most_of_one_item(before + 1) * unit)): size
            for before, size in itertools.pairwise([0, *sizes])
        }  # for equal c_j, the last size has the largest t_j
        result = max(count + tail(delta / size) for count, size in largest.items())
        if result > MAX_THRESHOLD:
            raise ArgumentError(
                "",
                "No item could be released under these bounds. Use a larger epsilon or rho, or smaller bounds",
                "E109",
            )
        return result


def _sizes(largest: int) -> list[int]:
    """List item numbers up to the largest: all small numbers, then steps of about sqrt(2)."""
    steps = {*range(1, 17), *(round(2 ** (step / 2)) for step in range(9, 63))}
    return sorted({size for size in steps if size < largest} | {largest})
