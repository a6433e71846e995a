"""Selection: release keys only if enough units have them, so that they show nobody.

Guarantee: a run that selects keys is delta-approximate rho-zCDP for the unit, where rho covers sketches and
selection.

The rule. A unit votes for at most k = max_keys of its keys, chosen from its own records alone. With j the least class
at or above the number of its keys, each vote counts w_j = floor(grid / sqrt(j)). So the squares of a unit's votes sum
to at most grid^2. A key with votes n is released if n + Z >= T, with Z its own discrete Gaussian of parameter sigma^2;
and T = max over j of (w_j + t_j), where P(Z >= t_j) <= delta / j. A key is considered only if at least `min_units`
units vote for it, and T grows by (min_units - 1) grid. Units that are in a key without a vote never count.

Proof, a unit u is added. Let N be the keys of u that are not considered without u: at most j. In one of them the
others have at most (min_units - 1) grid, so u brings it to T - t_j at most, and it is released with probability at most
delta / j. So no key of N is released, with probability at least 1 - delta. Given that, the output is that of a
mechanism which never looks at N: of each other key a bit n + Z >= T, and a noisy sketch that is dropped if the bit is
0. The bits cost the sum of w_j^2 / (2 sigma^2), the sketches what they cost alone; both add. Each key has noise of its
own, so the condition changes nothing in other keys. On the other input take the whole space as the event.

Replaced, u with j keys by u' with j' keys, m of them common. The same two events are used, each on its own input, so
delta does not double. Under `RecordBounds` keys are bounded one by one. A common key then costs `same` in its sketch,
and nothing in votes beyond (w - w')^2; any other key costs `move`, an addition or a removal. The cost of all is

    m same + (j + j' - 2 m) move + (1 / (2 sigma^2)) ((j - m) w_j^2 + (j' - m) w_j'^2 + m (w_j - w_j')^2),

and rho is its maximum over all j, j' <= k and m. It is linear in m, so m = 0 and m = min(j, j') suffice. Where a
sketch has signs, same = 4 move: then votes are free up to half of rho, because a unit that pays for moving does not
pay for staying. `sketch_share` solves this one maximum for the sketch. Where a unit is added or removed, j' = 0.

Under a `NormBound` a unit may put its whole norm on a common key and still vote in k others, so rho adds: 2 grid^2
bounds the squares of the votes that change under a replacement.

A unit that reaches several windows, each within the bounds, has delta / windows and noise of windows times the variance
in each. Bun and Steinke 2016 (arXiv:1605.02065), section 8, defines approximate zCDP. Gopi et al. 2020
(arXiv:2002.03578) weight votes by the root of their number. `two_rounds` and
`noise.geometric_table` have rules that release more keys.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION, NeighboringRelation
from beam_dpsketch.privacy.mechanism import change_factor
from beam_dpsketch.privacy.noise.gaussian_bounds import least_quantile

USUAL_VOTE_SHARE = Fraction(1, 4)
ONE_ROUND = ("gaussian", "geometric")
METHODS = (*ONE_ROUND, "two_rounds")
_GRID, _LEAST_WEIGHT = 48, 3
MAX_THRESHOLD = 1 << 62
MIN_DELTA = Fraction(1, 10**60)  # over 2**31 keys and 2**32 windows, `gaussian_bounds` has bits for that
_CLASSES = {1, 2, 3, 4, 6, 8, *(round(2 ** (step / 2)) for step in range(7, 63))}  # steps of about the root of 2
_FINE_CLASSES = {*range(1, 17), *(round(2 ** (step / 8)) for step in range(33, 249))}
_FINER = 10  # of two rounds: the table of "geometric" is as long as its grid, and one round keeps the same


@named("SelectionRule")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionRule:
    """What decides which keys are released.

    Args:
      delta: the probability that a key is released on account of one unit alone, over all its keys and windows.
      max_keys: for how many keys a unit votes; on bounded input with windows under a norm, for how many pairs of key
        and window. Over a horizon, keys are chosen once for all windows.
      share: the part of rho for the votes; `None` takes what is free, or 1/4 of what is left if that is more.
      min_units: how many units must vote for a key.
      method: "two_rounds", which releases most keys where a unit votes for several; "gaussian", one round; or
        "geometric", which releases most where a unit votes for one key, and spends an epsilon. `None` becomes what
        suits: see `suited`.
    """

    counts_items: ClassVar[bool] = False
    delta: Fraction
    max_keys: int
    share: Fraction | None = None
    min_units: int = 1
    method: str | None = None

    def __post_init__(self) -> None:
        _validate.open_unit_interval(delta=self.delta)
        object.__setattr__(self, "delta", _validate.exact(delta=self.delta))
        if self.delta < MIN_DELTA:
            raise ArgumentError("delta", "must be at least 1e-60", "E309")
        if self.share is not None:
            _validate.open_unit_interval(share=self.share)
            object.__setattr__(self, "share", _validate.exact(share=self.share))
        _validate.whole_fields(self, "max_keys", "min_units", low=1, high=MAX_CONTRIBUTION)
        if self.method is not None:
            _validate.one_of(METHODS, method=self.method)

    @property
    def has_two_rounds(self) -> bool:
        """Whether votes are cast twice, as `two_rounds` has them."""
        return self.method == "two_rounds"

    def votes(self, *_: Any) -> SelectionRule:
        """Return the rule of votes, which is this with any noise."""
        return self

    def suited(self, relation: NeighboringRelation, *, rho_adds: bool, is_bounded: bool) -> SelectionRule:
        """Return the rule with two rounds, if the method is open and they may be; refuse them where they may not.

        Args:
          relation: the relation between neighboring inputs.
          rho_adds: whether votes and sketches pay for a replaced unit apart: under a norm, over a horizon, keys alone.
          is_bounded: whether there is an end to the input.
        """
        adds_units = relation is NeighboringRelation.ADD_OR_REMOVE_ONE
        may_be = self.max_keys > 1 and self.min_units == 1 and is_bounded and (adds_units or rho_adds)
        if self.has_two_rounds and not may_be:
            raise ArgumentError(
                "keys.method",
                'must not be "two_rounds" for one key each, with min_units, on unbounded input, or under REPLACE_ONE '
                'with $RecordBounds inside a release. Leave it out, or use "gaussian"',
                "E313",
            )
        return dataclasses.replace(self, method="two_rounds") if self.method is None and may_be else self

    @property
    def grid(self) -> int:
        """What one vote of a unit with a single key counts."""
        least = max(_GRID, _LEAST_WEIGHT * (math.isqrt(self.max_keys - 1) + 1))
        return _FINER * least if self.has_two_rounds else least

    @property
    def classes(self) -> tuple[tuple[int, int], ...]:
        """The classes j, ascending, each with its weight w_j."""
        known = _FINE_CLASSES if self.has_two_rounds else _CLASSES
        sizes = sorted({size for size in known if size < self.max_keys} | {self.max_keys})
        return tuple((size, math.isqrt(self.grid**2 // size)) for size in sizes)

    def threshold(self, sigma_squared: Fraction, window_count: int = 1) -> int:
        """Return T, given the parameter of the noise that is drawn."""
        delta = self.delta / window_count
        votes = max(weight + least_quantile(sigma_squared, delta / size) for size, weight in self.classes)
        result = votes + (self.min_units - 1) * self.grid
        if result > MAX_THRESHOLD:
            raise ArgumentError(
                "", "min_units is too large, or the part of rho for the votes too small, to release any key", "E310"
            )
        return result


class SketchCost(NamedTuple):
    """What the sketches of a unit's keys can cost, in parts of what they cost in all.

    Attributes:
      move: of a key that a unit enters or leaves, over that of a key in which it is replaced; 1 if units are added.
      is_joint: whether one norm covers all keys, so that any one key can cost it all.
    """

    move: Fraction
    is_joint: bool


def votes_sigma_squared(grid: int, rho: Fraction, relation: NeighboringRelation) -> Fraction:
    """Return the noise parameter of votes that cost this rho, for units that reach one window."""
    return Fraction(grid**2, 1) * change_factor(relation) / (2 * rho)


def sketch_share(
    rule: SelectionRule, share: Fraction, left: Fraction, cost: SketchCost, relation: NeighboringRelation
) -> Fraction:
    """Return the largest part of rho that sketches may have if votes have the part `share`."""
    if cost.is_joint or rule.has_two_rounds:
        return left - share
    per_square = share / (change_factor(relation) * rule.grid**2)  # 1 / (2 sigma^2), in parts of rho
    return min((left - per_square * votes) / part for part, votes in _cases(rule, cost, relation))


def free_share(rule: SelectionRule, left: Fraction, cost: SketchCost, relation: NeighboringRelation) -> Fraction:
    """Return the largest part of rho for votes that takes nothing from the sketches."""
    if cost.is_joint or rule.has_two_rounds:
        return Fraction(0)
    per_square = min(left * (1 - part) / votes for part, votes in _cases(rule, cost, relation) if votes)
    return per_square * change_factor(relation) * rule.grid**2


def _cases(rule: SelectionRule, cost: SketchCost, relation: NeighboringRelation) -> Iterator[tuple[Fraction, int]]:
    """Yield, for each j, j' and m, the part of the sketches' cost, and the sum of squares of the votes that change."""
    classes = [(0, 0), *rule.classes]
    for mine, weight in rule.classes:
        for theirs, other in classes if relation is NeighboringRelation.REPLACE_ONE else classes[:1]:
            for common in {0, min(mine, theirs)}:
                moved = mine + theirs - 2 * common
                squares = (mine - common) * weight**2 + (theirs - common) * other**2 + common * (weight - other) ** 2
                yield (common + moved * cost.move) / rule.max_keys, squares
