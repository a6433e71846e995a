"""Grouped counts: publish the noisy counts of items that enough units vote for, or whose counts are large enough.

Guarantee: a run that publishes them is delta-approximate rho-zCDP for the unit, with the (epsilon, delta) curve of
Gaussian noise if its noise is Gaussian.

COUNTS. A unit counts for at most k = max_items items, chosen from its own records alone. Its records of other items
are dropped from the counts. The count of an item is n > 0, and Z is its own noise: a discrete Gaussian of parameter
sigma^2, or a discrete Laplace. If n + Z >= T, it is published as n + Z; else it leaves no trace. An item that nobody
counts for is never considered.

Under `RecordBounds` a unit adds at most C = max_per_key * max_weight to an item, so the squares of
what it adds sum to at most k C^2. Under a `NormBound` with max_norm b they sum to b^2 at most. With L^2 that sum,
`mechanism` gives sigma^2 = L^2 / (2 rho) where a unit is added or removed, and L^2 / rho where it is replaced.

With Laplace noise, what a unit adds sums to at most k C, or to b under a norm of order 1, and `mechanism` gives the
scale. Then the rest below costs a pure epsilon in the place of rho.

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

VOTES OR COUNTS. With Gaussian noise and k above 1, a unit also votes for all items that it counts for, and for no
others, by the rule of `two_rounds` where that may be, else by the one round of `selection`. Votes have the part q of
rho and half of delta; counts have (1 - q) rho, and T is that of the other half. An item with a vote is published, as
n + Z, if its votes pass or n + Z >= T. So n + Z can be 0 or below, and an item that is not published has n + Z < T.
Where a unit counts once for each of its items, a count is a vote already, and a part of rho for votes only costs: up to
15 items, and for one item under any bounds, counts alone decide. From 16 on two rounds publish more items.

Proof, u is added. N are again the j items that u alone votes and counts for. Fix the noise of all other items. Items of
N pass by their votes with probability at most delta / 2 together (`two_rounds`, step 2, for every N1 on other items),
and by their counts with j delta / (2 j), by noise of their own. So none is published, with probability at least
1 - delta for any value of the other noise. Thin this event to 1 - delta exactly. Given it, all is post-processing of
votes and counts of other items. These votes cost q rho as the proofs of votes say. These counts have noise of their
own, and cost (1 - q) rho. Both compose adaptively, both parts are Gaussian, and so is the curve of their sum.

Replaced: squares change by 2 G^2 in votes of length G, and by 2 L^2 in counts, which `change_factor` pays for in each
part. Both events are used, so delta does not double.

What breaks it: votes without a part of rho, all of delta for both ways, votes for items beyond max_items, and an item
that is published without a vote.
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
"""The part of rho for votes, q, by their method."""
MOST_COUNTED_ONCE = 15
"""Of units that count once for each item: up to how many items counts alone publish more."""


@named("GroupRule")
@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupRule:
    """What decides which items are published.

    Args:
      delta: the probability that an item is published on account of one unit alone, over all its items and windows.
      max_items: for how many items a unit counts; with keys, for how many pairs of key and item. On bounded input under
        a norm, each window counts as another item.
      method: "gaussian", one round of votes, or "two_rounds", where units vote.
    """

    counts_items: ClassVar[bool] = True
    delta: Fraction
    max_items: int
    method: str = ONE_ROUND[0]

    def __post_init__(self) -> None:
        _validate.open_unit_interval(delta=self.delta)
        object.__setattr__(self, "delta", _validate.exact(delta=self.delta))
        if self.delta < 2 * MIN_DELTA:
            raise ArgumentError("delta", "must be at least 2e-60; 1e-8 is usual", "E309")
        _validate.whole_fields(self, "max_items", low=1, high=MAX_CONTRIBUTION)

    def suited(self, relation: NeighboringRelation, **facts: Any) -> GroupRule:
        """Return the rule with two rounds of votes where `SelectionRule.suited` allows them."""
        open_rule = SelectionRule(delta=self.delta, max_keys=self.max_items)
        return dataclasses.replace(self, method=open_rule.suited(relation, **facts).method or ONE_ROUND[0])

    def votes(self, bounds: Bounds, noise: Noise) -> SelectionRule | None:
        """Return the rule of the votes next to counts with this noise; `None` where counts alone decide."""
        if noise is not Noise.GAUSSIAN:
            return None
        if bounds.has_norm:  # which of them the data choose must not decide
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
        """Return T, in units of 2**-scale_bits.

        Args:
          bounds: of each unit.
          tail: returns, for a probability, a t so large that P(Z >= t) is at most that, in the same units.
          scale_bits: of the grid of the noise.
          window_count: how many windows a unit can reach.
        """
        delta = self.delta / window_count
        unit, sizes = 4**scale_bits, _sizes(self.max_items)
        largest = {
            math.isqrt(math.floor(bounds.squared_most_of_one_item(before + 1) * unit)): size
            for before, size in itertools.pairwise([0, *sizes])
        }  # of sizes with the same c_j, the last one has the largest t_j
        result = max(count + tail(delta / size) for count, size in largest.items())
        if result > MAX_THRESHOLD:
            raise ArgumentError(
                "", "rho is too small for these bounds to publish any item: raise it, or lower the bounds", "E109"
            )
        return result


def _sizes(largest: int) -> list[int]:
    """Return numbers of items up to the largest: all small ones, then steps of about the root of 2."""
    steps = {*range(1, 17), *(round(2 ** (step / 2)) for step in range(9, 63))}
    return sorted({size for size in steps if size < largest} | {largest})
