"""The planner: what a release of quantiles will cost and how good it will be, before any data is read."""

from __future__ import annotations

from fractions import Fraction

from beam_dpsketch.domains import Domain
from beam_dpsketch.planning.tree_plan import REMEDY, TreePlan
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import DEFAULT_BOUNDS, ContributionBounds, NeighboringRelation
from beam_dpsketch.sketches.tree_spec import DEFAULT_MEMORY, TreeSpec


def plan(
    domain: Domain,
    n: int,
    rho: Fraction | float,
    memory: int = DEFAULT_MEMORY,
    *,
    bounds: ContributionBounds = DEFAULT_BOUNDS,
    neighboring: NeighboringRelation = NeighboringRelation.REPLACE_ONE,
) -> TreePlan:
    """The layout, bytes, noise and expected rank error for about n records; `print` it.

    Refuses memory that is too small for the levels, and settings under which ranks would be wrong by a tenth of n.

    >>> from beam_dpsketch import IntegerDomain
    >>> round(plan(IntegerDomain(0, 65_535), n=100_000, rho=1.0).rank_deviation["any"], 2)
    5.86
    """
    spec = TreeSpec.for_memory(domain, memory)
    planned = TreePlan.of(spec, PrivacySpec(rho, neighboring), n, bounds=bounds)
    if planned.is_mostly_noise:
        raise ValueError(
            f"rho={float(planned.privacy.rho):g} with {planned.memory} bytes gives ranks wrong by about "
            f"{min(planned.rank_deviation.values()):.0f} of {n}; {REMEDY}"
        )
    return planned
