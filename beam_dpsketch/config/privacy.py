"""Read what a release may spend: `privacy` and its `side_counters`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, read_block, refuse_others, take_one
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.scalars import read_choice, read_exact, read_fraction, read_number, read_or_none
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


OF: Mapping[str, Reader] = {
    "epsilon": read_number,
    "delta": read_number,
    "rho": read_exact,
    "relation": read_choice(RELATIONS),
}


def read_privacy(settings: Any, path: str = "privacy") -> PrivacySpec:
    """Return what a release may spend: epsilon and delta, or rho, or a share of them.

    Each share is a release of its own. Nobody but the reader of the settings checks that the shares of all releases
    sum to at most 1.

    >>> read_privacy({"share": "1/4", "of": {"rho": 0.2}}).rho
    Fraction(1, 20)
    """
    given = read_block(settings, path, PRIVACY)
    if "share" not in given and "of" not in given:
        return _read_whole(given, path)
    refuse_others(given, path, ("share", "of", "side_counters"), "not a setting next to share; put it into of")
    share, whole = (_take(given, name, path) for name in ("share", "of"))
    counters = {name: each for name, each in given.items() if name == "side_counters"}
    spent = {"rho": share * whole.rho, "delta": whole.shown_delta, "relation": whole.relation}
    return make(path, PrivacySpec, {**spent, **counters})


def _read_whole(given: dict[str, Any], path: str) -> PrivacySpec:
    if take_one(given, path, ("epsilon", "rho"), _USE) == "epsilon" and "delta" not in given:
        raise refusal(join(path, "delta"), "is missing; take less than 1 / the number of people, as 1.0e-6", "E802")
    return make(path, PrivacySpec, given)


def _read_budget(settings: Any, path: str) -> PrivacySpec:
    return _read_whole(read_block(settings, path, OF), path)


def _read_part(value: Any, path: str) -> Fraction:
    share = read_fraction(value, path)
    if not 0 < share <= 1:
        raise refusal(path, "must be above 0 and at most 1, as 1/4")
    return share


def _take(given: Mapping[str, Any], name: str, path: str) -> Any:
    if name not in given:
        raise refusal(
            join(path, name), "is missing; give both, as share: 1/4 and of: {epsilon: 2, delta: 1.0e-6}", "E802"
        )
    return given[name]


PRIVACY: Mapping[str, Reader] = {**OF, "side_counters": read_side_counters, "share": _read_part, "of": _read_budget}
