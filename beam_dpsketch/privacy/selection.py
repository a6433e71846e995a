"""Key selection: release only keys that enough units have, to protect every single unit.

Guarantee: a run that selects keys is delta-approximate rho-zCDP for the unit, where rho covers sketches and selection.

The rule. A unit votes for at most k = max_keys of its keys, chosen from its own records alone. With j the least class
at or above its number of keys, each vote counts w_j = floor(grid / sqrt(j)). Hence the squares of a unit's votes sum to
at most grid^2. A key with votes n is released if n + Z >= T, with Z its own discrete Gaussian with parameter sigma^2;
and T = max over j of (w_j + t_j), where P(Z >= t_j) <= delta / j. A key is considered only if at least `min_units`
units vote for it, and T grows by (min_units - 1) grid. Units that are in a key without a vote never count.

Proof for adding a unit u. Let N be the keys of u that are not considered without u: at most j. In such a key the other
units have at most (min_units - 1) grid, hence u brings it to at most T - t_j, and it is released with probability at
most delta / j. Hence no key in N is released, with probability at least 1 - delta. Given that event, the output is that
of a mechanism which never reads N: for each other key a bit n + Z >= T, and a noisy sketch that is dropped if the bit
is 0. The bits cost the sum of w_j^2 / (2 sigma^2), and the sketches cost as much as without selection. Both costs add.
Each key has independent noise, hence conditioning changes nothing in other keys. On the other input, use the whole
space as the event.

Proof for replacing u with j keys by u' with j' keys, m of them common. Use the same two events, each on its own input,
hence delta does not double. Under `RecordBounds` each key is bounded separately. A common key then costs `same` in its
sketch, and at most (w - w')^2 in votes. Any other key costs `move`, an addition or a removal. The total cost is

    m same + (j + j' - 2 m) move + (1 / (2 sigma^2)) ((j - m) w_j^2 + (j' - m) w_j'^2 + m (w_j - w_j')^2),

and rho is its maximum over all j, j' <= k and m. It is linear in m, hence m = 0 and m = min(j, j') suffice. For a
sketch with signs, same = 4 move. Votes are then free up to half of rho, because a unit that pays for moving does not
pay for staying. `sketch_share` solves this one maximum for the sketch. If a unit is added or removed, j' = 0.

Under a `NormBound` a unit may put its whole norm on a common key and still vote in k others, hence rho adds: 2 grid^2
bounds the squared votes that change under a replacement.

A unit that reaches several windows, each within the bounds, has delta / windows and, in each window, the noise variance
times the number of windows. Bun and Steinke 2016 (arXiv:1605.02065), section 8, defines approximate zCDP. Gopi et al.
2020 (arXiv:2002.03578) weight votes by the root of their number. The rules in `two_rounds` and `noise.geometric_table`
release more keys.
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
MIN_DELTA = Fraction(1, 10**60)  # `gaussian_bounds` is precise enough over 2**31 keys and 2**32 windows
_CLASSES = {1, 2, 3, 4, 6, 8, *(round(2 ** (step / 2)) for step in range(7, 63))}  # steps of about sqrt(2)
_FINE_CLASSES = {*range(1, 17), *(round(2 ** (step / 8)) for step in range(33, 249))}
_FINER = 10  # two rounds only: "geometric" needs a table of grid length


@named("SelectionRule")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionRule:
    """Rule that decides which keys are released.

    Args:
      delta: the probability that a key is released because of a single unit, over all its keys and windows.
      max_keys: number of keys for which a unit votes; on bounded input with windows under a norm, number of pairs of
        key and window. Over a horizon, keys are selected once for all windows.
      share: budget share for the votes. `None` uses the free share, or 1/4 of the remaining rho if that is more.
      min_units: least number of units that must vote for a key.
      method: "two_rounds", which releases most keys if a unit votes for several; "gaussian", one round; or "geometric",
        which releases most if a unit votes for a single key, and spends an epsilon. `None` selects it, see `suited`.
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
            raise ArgumentError("delta", f"must be at least 1e-60, got {float(self.delta):g}", "E309")
        if self.share is not None:
            _validate.open_unit_interval(share=self.share)
            object.__setattr__(self, "share", _validate.exact(share=self.share))
        _validate.whole_fields(self, "max_keys", "min_units", low=1, high=MAX_CONTRIBUTION)
        if self.method is not None:
            _validate.one_of(METHODS, method=self.method)

    @property
    def has_two_rounds(self) -> bool:
        """Whether votes are cast twice, as in `two_rounds`."""
        return self.method == "two_rounds"

    def votes(self, *_: Any) -> SelectionRule:
        return self

    def suited(self, relation: NeighboringRelation, *, rho_adds: bool, is_bounded: bool) -> SelectionRule:
        """Choose two rounds if the method is open and they are allowed, or raise if they are required but not allowed.

        Args:
          relation: the relation between neighboring inputs.
          rho_adds: whether votes and sketches pay separately for a replaced unit: under a norm, over a horizon, or keys
            alone.
          is_bounded: whether the input is bounded.
        """
        adds_units = relation is NeighboringRelation.ADD_OR_REMOVE_ONE
        may_be = self.max_keys > 1 and self.min_units == 1 and is_bounded and (adds_units or rho_adds)
        if self.has_two_rounds and not may_be:
            raise ArgumentError(
                "keys.method",
                'must not be "two_rounds" with max_keys of 1, with min_units above 1, on unbounded input, or under '
                'REPLACE_ONE with $RecordBounds inside a release. Omit it, or use "gaussian"',
                "E313",
            )
        return dataclasses.replace(self, method="two_rounds") if self.method is None and may_be else self

    @property
    def grid(self) -> int:
        """Count of a vote by a unit with a single key."""
        least = max(_GRID, _LEAST_WEIGHT * (math.isqrt(self.max_keys - 1) + 1))
        return _FINER * least if self.has_two_rounds else least

    @property
    def classes(self) -> tuple[tuple[int, int], ...]:
        """Classes j, ascending, each with its weight w_j."""
        known = _FINE_CLASSES if self.has_two_rounds else _CLASSES
        sizes = sorted({size for size in known if size < self.max_keys} | {self.max_keys})
        return tuple((size, math.isqrt(self.grid**2 // size)) for size in sizes)

    def threshold(self, sigma_squared: Fraction, window_count: int = 1) -> int:
        """Compute T from the parameter of the drawn noise."""
        delta = self.delta / window_count
        votes = max(weight + least_quantile(sigma_squared, delta / size) for size, weight in self.classes)
        result = votes + (self.min_units - 1) * self.grid
        if result > MAX_THRESHOLD:
            raise ArgumentError(
                "", "No key could be released. Use a smaller min_units, or a larger budget share for the votes", "E310"
            )
        return result


class SketchCost(NamedTuple):
    """Relative cost of a unit's key in the sketches, as a fraction of the cost of all its keys.

    Attributes:
      move: cost of a key that a unit enters or leaves, divided by the cost of a key in which it is replaced, or 1 if
        units are added.
      is_joint: whether a single norm covers all keys, in which case any single key can cost the whole.
    """

    move: Fraction
    is_joint: bool


def votes_sigma_squared(grid: int, rho: Fraction, relation: NeighboringRelation) -> Fraction:
    """Compute the noise parameter of votes that cost this rho, for units that reach a single window."""
    return Fraction(grid**2, 1) * change_factor(relation) / (2 * rho)


def sketch_share(
    rule: SelectionRule, share: Fraction, left: Fraction, cost: SketchCost, relation: NeighboringRelation
) -> Fraction:
    """Compute the largest budget share for sketches if votes have the share `share`."""
    if cost.is_joint or rule.has_two_rounds:
        return left - share
    per_square = share / (change_factor(relation) * rule.grid**2)  # 1 / (2 sigma^2), as a fraction of rho
    return min((left - per_square * votes) / part for part, votes in _cases(rule, cost, relation))


def free_share(rule: SelectionRule, left: Fraction, cost: SketchCost, relation: NeighboringRelation) -> Fraction:
    """Compute the largest budget share for votes that does not reduce the share for sketches."""
    if cost.is_joint or rule.has_two_rounds:
        return Fraction(0)
    per_square = min(left * (1 - part) / votes for part, votes in _cases(rule, cost, relation) if votes)
    return per_square * change_factor(relation) * rule.grid**2


def _cases(rule: SelectionRule, cost: SketchCost, relation: NeighboringRelation) -> Iterator[tuple[Fraction, int]]:
    """Yield, for each j, j' and m, the cost fraction of the sketches and the sum of squared vote changes."""
    classes = [(0, 0), *rule.classes]
    for mine, weight in rule.classes:
        for theirs, other in classes if relation is NeighboringRelation.REPLACE_ONE else classes[:1]:
            for common in {0, min(mine, theirs)}:
                moved = mine + theirs - 2 * common
                squares = (mine - common) * weight**2 + (theirs - common) * other**2 + common * (weight - other) ** 2
                yield (common + moved * cost.move) / rule.max_keys, squares
