"""Read what a release may spend: `privacy` and its `side_counters`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, read_block, take_one
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.scalars import read_choice, read_exact, read_number, read_or_none
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.side_counters import SideCounters

RELATIONS = {relation.name.lower(): relation for relation in NeighboringRelation}
_SHARE = read_or_none(read_exact)
SIDE_COUNTERS: Mapping[str, Reader] = {"units": _SHARE, "records": _SHARE, "weight": _SHARE, "clipped": _SHARE}
_USE = "give epsilon and delta, as epsilon: 2 and delta: 1.0e-6, or rho"


def read_side_counters(settings: Any, path: str = "side_counters") -> SideCounters | None:
    """Return the parts of rho for the side counters; `None` for the word `none`."""
    if settings == "none":
        return None
    return make(path, SideCounters, read_block(settings, path, SIDE_COUNTERS))


PRIVACY: Mapping[str, Reader] = {
    "epsilon": read_number,
    "delta": read_number,
    "rho": read_exact,
    "relation": read_choice(RELATIONS),
    "side_counters": read_side_counters,
}


def read_privacy(settings: Any, path: str = "privacy") -> PrivacySpec:
    """Return what a release may spend: epsilon and delta, or rho."""
    given = read_block(settings, path, PRIVACY)
    if take_one(given, path, ("epsilon", "rho"), _USE) == "epsilon" and "delta" not in given:
        raise refusal(join(path, "delta"), "is missing; take less than 1 / the number of people, as 1.0e-6")
    return make(path, PrivacySpec, given)
