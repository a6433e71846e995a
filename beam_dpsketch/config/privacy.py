"""Read what a release may spend, and whom it protects: `privacy`, `side_counters`, `unit`, `norm`, `records`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch.config.blocks import make, plain, read_block, refuse_others, take_one
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.scalars import read_fraction
from beam_dpsketch.config.settings import AUTO, NORM, OF, PRIVACY, RECORD, RECORDS, SIDE_COUNTERS, UNIT
from beam_dpsketch.ledger.ledger import payer_of
from beam_dpsketch.privacy.aside.side_counters import SideCounters
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.norm.bounds import AutoNorm, NormBound
from beam_dpsketch.records.units import PrivacyId, Record, Unit

_USE = "give epsilon and delta, as epsilon: 2 and delta: 1.0e-6, or rho"
_WHOM = "give privacy_id, the field that says whose a record is; or take unit: record, which protects no person"
_HOW_MUCH = "give norm, as norm: {max_norm: 10} or norm: auto; or records"
_SHARE, _BOTH = "share: 1/4 and of: {epsilon: 2, delta: 1.0e-6}", "ledger: spent.db and account: visits"
_ALONE = "not a setting of unit: {record: ...}; put max_weight and signed into record, or take privacy_id"


def read_side_counters(settings: Any, path: str = "side_counters") -> SideCounters | None:
    """Return the parts of rho for the side counters; `None` for the word `none`."""
    if settings == "none":
        return None
    return make(path, SideCounters, read_block(settings, path, SIDE_COUNTERS))


def read_privacy(settings: Any, path: str = "privacy") -> PrivacySpec:
    """Return what a release may spend: epsilon and delta, or rho, or a share of them.

    Each share is a release of its own. Nobody but the reader of the settings checks that the shares of all releases
    sum to at most 1.

    >>> read_privacy({"share": "1/4", "of": {"rho": 0.2}}).rho
    Fraction(1, 20)
    """
    given = read_block(settings, path, PRIVACY, share=_read_part, of=_read_budget, side_counters=read_side_counters)
    paying: dict[str, Any] = {name: given.pop(name) for name in ("ledger", "account") if name in given}
    spent = _read_spent(given, path)
    if not paying:
        return spent
    ledger, account = (_take(paying, name, path, _BOTH) for name in ("ledger", "account"))
    payer = make(path, payer_of, {"account": account, "address": ledger}, {"address": join(path, "ledger")})
    return spent.paid_by(payer)


def _read_spent(given: dict[str, Any], path: str) -> PrivacySpec:
    if "share" not in given and "of" not in given:
        return _read_whole(given, path)
    refuse_others(given, path, ("share", "of", "side_counters"), "not a setting next to share; put it into of")
    share, whole = (_take(given, name, path, _SHARE) for name in ("share", "of"))
    spent: PrivacySpec = whole.share(share, given.get("side_counters", whole.side_counters))
    return spent


def _read_whole(given: dict[str, Any], path: str) -> PrivacySpec:
    take_one(given, path, ("epsilon", "rho"), _USE)
    return make(path, PrivacySpec, given)


def _read_budget(settings: Any, path: str) -> PrivacySpec:
    return _read_whole(read_block(settings, path, OF), path)


def _read_part(value: Any, path: str) -> Fraction:
    share = read_fraction(value, path)
    if not 0 < share <= 1:
        raise refusal(path, "must be above 0 and at most 1, as 1/4")
    return share


def _take(given: Mapping[str, Any], name: str, path: str, both: str) -> Any:
    if name not in given:
        raise refusal(join(path, name), f"is missing; give both, as {both}", "E802")
    return given[name]


def read_norm(settings: Any, path: str = "norm") -> NormBound | AutoNorm:
    """Return the bound of a norm; `auto`, or `{auto: {...}}`, lets the data choose it."""
    given = plain(settings, path)
    if given == "auto":
        return AutoNorm()
    if isinstance(given, dict) and "auto" in given:
        return read_block(given, path, NORM.only(["auto"]), auto=_read_auto)["auto"]
    return make(path, NormBound, read_block(given, path, NORM.without("auto")))


def read_records(settings: Any, path: str = "records") -> RecordBounds:
    """Return the bound of a number of records."""
    return make(path, RecordBounds, read_block(settings, path, RECORDS))


def read_unit(settings: Any, path: str = "unit") -> Unit:
    """Return whom a release protects: `record`, `{record: {...}}`, or an id with `norm` or `records`."""
    given = plain(settings, path)
    if given == "record":
        return Record()
    if not isinstance(given, dict):
        raise refusal(path, _WHOM)
    given = read_block(given, path, UNIT, norm=read_norm, records=read_records, record=_read_record)
    if take_one(given, path, ("privacy_id", "record"), _WHOM) == "record":
        refuse_others(given, path, ["record"], _ALONE)
        return given["record"]
    bounds = given.pop(take_one(given, path, ("norm", "records"), _HOW_MUCH))
    return make(path, PrivacyId, {"field": given.pop("privacy_id"), "bounds": bounds, **given})


def _read_auto(settings: Any, path: str) -> AutoNorm:
    return make(path, AutoNorm, read_block(settings, path, AUTO))


def _read_record(settings: Any, path: str) -> Record:
    return make(path, Record, read_block(settings, path, RECORD))
