"""How much privacy a release may spend, and the ledger of a pipeline that makes several.

rho (zero-concentrated differential privacy) is what is spent and adds up; (epsilon, delta) is derived from it. rho
is an exact fraction, so parts of a budget sum to the whole and not to a little more.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.privacy import zcdp
from beam_dpsketch.privacy.contributions import NeighboringRelation


@dataclasses.dataclass(frozen=True)
class PrivacySpec:
    """The privacy loss one release may cause, under a neighbouring relation.

    Guarantee: the release is rho-zCDP, and so (epsilon, delta)-DP with epsilon = `epsilon(delta)` for every delta.

    Args:
      rho: finite and above 0; a float means its decimal spelling, so 0.1 is 1/10 exactly.
      neighboring: `REPLACE_ONE`, or `ADD_OR_REMOVE_ONE`, which halves the noise of CountSketch.

    >>> PrivacySpec(rho=0.1).rho
    Fraction(1, 10)
    """

    rho: Fraction
    neighboring: NeighboringRelation

    def __init__(
        self, rho: Fraction | float, neighboring: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    ) -> None:
        _validate.instance(NeighboringRelation, neighboring=neighboring)
        object.__setattr__(self, "rho", _validate.exact(rho=rho))
        object.__setattr__(self, "neighboring", neighboring)

    @classmethod
    def from_epsilon_delta(
        cls, epsilon: float, delta: float, neighboring: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    ) -> PrivacySpec:
        """The largest rho that is (epsilon, delta)-DP by the tight zCDP conversion, rounded down.

        >>> float(round(PrivacySpec.from_epsilon_delta(epsilon=1.0, delta=1e-6).rho, 4))
        0.0244
        """
        return cls(Fraction(zcdp.rho(epsilon=epsilon, delta=delta)), neighboring)

    def epsilon(self, delta: float) -> float:
        """The epsilon at this delta, rounded up."""
        return zcdp.epsilon(rho=self.rho, delta=delta)


class PrivacyBudget:
    """The rho of one pipeline, spent while the pipeline is built.

    >>> budget = PrivacyBudget(rho=1.0)
    >>> budget.spend(0.25).rho, budget.remaining
    (Fraction(1, 4), Fraction(3, 4))
    """

    def __init__(
        self, rho: Fraction | float, neighboring: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    ) -> None:
        self._total = PrivacySpec(rho, neighboring)
        self._remaining = self._total.rho

    @classmethod
    def from_epsilon_delta(
        cls, epsilon: float, delta: float, neighboring: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    ) -> PrivacyBudget:
        """A budget of the largest rho that is (epsilon, delta)-DP."""
        return cls(PrivacySpec.from_epsilon_delta(epsilon, delta).rho, neighboring)

    @property
    def remaining(self) -> Fraction:
        """The rho not yet spent."""
        return self._remaining

    def spend(self, rho: Fraction | float) -> PrivacySpec:
        """Takes rho out of the budget for one release; `BudgetExceededError` if less is left."""
        spent = PrivacySpec(rho, self._total.neighboring)
        if spent.rho > self._remaining:
            raise BudgetExceededError(
                f"rho={float(spent.rho):g} exceeds the {float(self._remaining):g} left of a budget of "
                f"{float(self._total.rho):g}; spend less in this or an earlier release, or start with a larger budget"
            )
        self._remaining -= spent.rho
        return spent

    def __repr__(self) -> str:
        return f"<PrivacyBudget of rho={float(self._total.rho):g}, {float(self._remaining):g} left>"
