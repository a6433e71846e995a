"""A norm that the data choose, privately: what part of rho buys the choice, and what is chosen for."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.privacy import mechanism
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, NormBound
from beam_dpsketch.privacy.sensitivity import change_factor

_LARGEST_SPEND = Fraction(1, 2)


@dataclasses.dataclass(frozen=True)
class AutoNorm(Bounds):
    """Choose the `max_norm` of a `NormBound` from the data; a part of rho pays for the choice.

    Guarantee: the choice costs `spend` times rho, and the counters cost the rest. The parts sum to rho exactly. The
    choice is a function of a noisy histogram: how many units there are of each length. `privacy.norm_choice` has the
    proof and the rule.

    Args:
      spend: the part of rho that buys the choice, above 0 and at most 1/2; a float means its decimal spelling. Take
        1/10 if there are only a few thousand units.
      item_share: how much of a scaled unit's length one item holds that is asked for, above 0 and at most 1. Such an
        item should come out as exact as can be. 7/100 suits an item of 3 to 5 % of all records. A smaller one suits
        rarer items, and gives a smaller norm.
      max_weight: as in `NormBound`, like all that follow.
      max_per_item: as there.
      signed: as there.
      resource_limit: as there.

    >>> AutoNorm(spend=0.1).spend
    Fraction(1, 10)
    """

    spend: Fraction = Fraction(1, 20)
    _: dataclasses.KW_ONLY
    item_share: Fraction = Fraction(7, 100)
    max_weight: int = NormBound.max_weight
    max_per_item: int | None = None
    signed: bool = False
    resource_limit: int | None = None

    def __post_init__(self) -> None:
        spend, item_share = _validate.exact(spend=self.spend), _validate.exact(item_share=self.item_share)
        if spend > _LARGEST_SPEND:
            raise ValueError(f"spend must be at most 1/2, the part of rho for the choice; got {float(spend):g}")
        if item_share > 1:
            raise ValueError(f"item_share must be at most 1, the whole of a unit's length; got {float(item_share):g}")
        object.__setattr__(self, "spend", spend)
        object.__setattr__(self, "item_share", item_share)
        checked = self.bound(1)
        for name in ("max_per_item", "resource_limit"):
            object.__setattr__(self, name, getattr(checked, name))  # Python integers, if they were numpy's
        if checked.says_max_weight:
            object.__setattr__(self, "max_weight", checked.max_weight)

    @property
    def squared_length(self) -> Fraction:
        """That of the least norm which may be chosen, 1."""
        return Fraction(1)

    @property
    def shown_length(self) -> str:
        """How long one unit may be, in words."""
        return f"a length that {float(100 * self.spend):g} % of rho chooses"

    @property
    def not_scaled(self) -> str:
        """Where the length can be read, in words."""
        return "the statement of the release will name it"

    def bound(self, max_norm: int | Fraction) -> NormBound:
        """Return the bound with this norm."""
        return NormBound(
            max_norm,
            max_weight=self.max_weight,
            max_per_item=self.max_per_item,
            signed=self.signed,
            resource_limit=self.resource_limit,
        )

    def sigma_squared(self, rho: Fraction, relation: NeighboringRelation) -> Fraction:
        """Return the noise parameter of each count of the histogram, where rho pays for choice and counters.

        A unit that is added or removed changes one count by 1, and one that is replaced changes two.
        Refuses a rho that is so large that sigma would be below 0.5.
        """
        return mechanism.sigma_squared(squared_sensitivity=change_factor(relation), rho=rho, share=self.spend)
