"""Release settings, checked together, and blocks with more structure than one value object."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from beam_dpsketch.config import settings as table
from beam_dpsketch.config.forms import (
    ITEMS_FORM,
    Block,
    Reader,
    make,
    read_block,
    read_choice,
    read_list,
    refuse_others,
    take_one,
)
from beam_dpsketch.config.paths import join, refusal, shown
from beam_dpsketch.config.plain import plain
from beam_dpsketch.errors import AllAtOnce
from beam_dpsketch.exact.declared.count import Count
from beam_dpsketch.exact.declared.public import AssumePublicKeys, Keys, KeySelection, PublicKeys, TimeColumn, TimeRange
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.units import PrivacyId, Record, Unit
from beam_dpsketch.exact.domains import DOMAINS, BytesDomain, Domain
from beam_dpsketch.exact.domains.calendar import Calendar
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.ledger.ledger import payer_of
from beam_dpsketch.planning.kinds import KINDS, METRIC_KINDS
from beam_dpsketch.planning.kinds.layouts import with_factor
from beam_dpsketch.planning.kinds.metrics import Metric
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, search_over_time
from beam_dpsketch.planning.kinds.thresholded_counts import Thresholding, top_k
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import RecordBounds
from beam_dpsketch.privacy.norm.bounds import AutoNorm, NormBound
from beam_dpsketch.privacy.summary_counts import SummaryCounts

_USE = "set epsilon and delta, such as epsilon: 2 and delta: 1.0e-6, or rho"
_LEDGER = "ledger: spent.db and account: visits"
_WHOM = "set privacy_id, the field with the privacy id, or use privacy_unit: record, which protects single records only"
_HOW_MUCH = "set norm, such as norm: {max_norm: 10} or norm: auto, or records"
_ALONE = (
    "cannot be combined with privacy_unit: {record: ...}. Move max_weight and signed into record, or use privacy_id"
)
_WHICH = (
    "set public, the list of keys to release; select, such as select: {delta: 1.0e-8}, for keys with enough privacy "
    "ids; or assume_public: true, if the keys in the data are public"
)
_TYPES = read_choice({kind.type_name: kind for kind in DOMAINS})
_LEVELS = table.TREE_BLOCK.only(("levels", "seed", "hash_version"))
_ACCURACY = table.SPEC_BLOCK.without("depth", "width", "hash_version")
_LAYOUTS: Mapping[str, Callable[..., Any]] = {
    "factorization": with_factor,
    "histogram": TreeSpec.histogram,
    "tree": TreeSpec.for_memory,
}


def read_release(settings: Any, path: str = "") -> ReleaseSpec:
    """Read release settings, and check them together.

    Args:
      settings: a dict, JSON or YAML text, a named tuple or a row. `docs/settings.md` lists the settings.
      path: path of the block, prefixed to the paths in errors. Empty for a file that contains only the release.

    Raises:
      ConfigError: a setting is unknown, missing, out of range, has another type, or conflicts with the others.

    >>> settings = "{kind: frequencies, item: city, privacy: {rho: 1}, privacy_unit: record}"
    >>> read_release(settings).item
    'city'
    """
    given = _read_settings(plain(settings, path), path)
    kind = given.pop("kind")
    if "horizon" in given:
        given["windows"] = given.pop("horizon")
    own = [name for name, entry in table.RELEASE_BLOCK.entries.items() if entry.kinds]
    counted = {name: given.pop(name) for name in own if name in given}
    count = _read_count(kind, counted, path)
    return make(path, _declare, {"count": count, **given}, places_of_arguments(given["privacy_unit"], path))


def _read_settings(written: Any, path: str) -> dict[str, Any]:
    """Read each setting of the kind, and refuse conflicting settings."""
    kind = str(written.get("kind", "")).lower() if isinstance(written, dict) else ""
    with AllAtOnce() as checks:
        known = table.RELEASE_BLOCK.of_kind(kind)
        # `refuse_others` below reports settings of other kinds, and a kind that is unknown may need others.
        others = {name: entry._replace(needed="") for name, entry in table.RELEASE_BLOCK.entries.items()}
        needed = {name: entry for name, entry in known.entries.items() if kind in ("", *KINDS) or not entry.without}
        block = Block(table.RELEASE_BLOCK.name, {**others, **needed})
        given = checks.do(read_block, written, path, block, **_READERS) or {}
        if kind in KINDS:
            words = f"is not a setting of kind {kind}. Supported: {', '.join(known.without('kind').entries)}"
            names = [name for name in written if name in table.RELEASE_BLOCK.entries]
            if KINDS[kind].is_search and "horizon" in names:
                names.remove("horizon")
                checks.refuse(search_over_time().at(places={"windows": join(path, "horizon")}))
            checks.do(refuse_others, names, path, known.entries, words)
        for pair in table.RELEASE_BLOCK.either:
            if given.keys() & set(pair):
                checks.do(take_one, given, path, pair, f"remove {pair[0]} or {pair[1]}")
        if kind == "quantiles" and isinstance(given.get("domain"), BytesDomain):
            words = "quantiles require an ordered domain, and text and bytes have no order. Use top_k"
            checks.refuse(refusal(join(path, "domain.type"), words, "E808"))
    return given


def _read_count(kind: str, given: dict[str, Any], path: str) -> Count:
    """Build the count, with its default layout if the settings have none."""
    if "tree" in given:
        given["domain"] = read_tree(given.pop("tree"), given["domain"], join(path, "tree"), search=kind == "top_k")
    if (layout := given.pop("layout", None)) is not None:
        given["domain"] = make(path, _LAYOUTS[layout], {"domain": given["domain"]})
    if kind == "frequencies":
        return ItemFrequencies(given.get("listed_items") or given.get("spec", SketchSpec()))
    return make(path, top_k if kind == "top_k" else {**KINDS, **METRIC_KINDS}[kind], given)


def _read_metrics(settings: Any, path: str) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for place, (name, metric) in enumerate(read_list(settings, path, _read_metric)):
        if name in found:
            raise refusal(f"{path}[{place}].name", "must differ from the names of other metrics", "E513")
        found[name] = metric
    return found


def _read_metric(settings: Any, path: str) -> tuple[str, Metric]:
    given = plain(settings, path)
    kind = str(given.get("kind")).lower() if isinstance(given, dict) else ""
    read = read_block(
        given, path, table.METRIC_BLOCK.of_kind(kind) if kind in METRIC_KINDS else table.METRIC_BLOCK, **_READERS
    )
    of_metric: dict[str, Any] = {name: read.pop(name) for name in ("item", "share") if name in read}
    name, kind = read.pop("name"), read.pop("kind")
    return name, make(path, Metric, {"count": _read_count(kind, read, path), **of_metric})


def _declare(**given: Any) -> ReleaseSpec:
    """Build the declaration. Refuse conflicting arguments and unusable combinations."""
    declared = ReleaseSpec(**given)
    declared.resolved  # noqa: B018  # computed here to raise its errors, and used by the release later
    return declared


def places_of_arguments(of: Unit, path: str = "") -> dict[str, str]:
    """Map arguments to their settings paths, for errors about conflicts."""
    privacy_unit = join(path, "privacy_unit")
    inner = join(privacy_unit, "record" if isinstance(of, Record) else "norm" if of.bounds.has_norm else "records")
    names = ("max_norm", "max_weight", "max_keys", "signed")
    return {
        **{name: join(privacy_unit, name) for name in ("max_windows", "period")},
        "window_count": join(privacy_unit, "max_windows"),
        **{name: join(inner, name) for name in names},
        "bounds.max_keys": join(inner, "max_keys"),
        "bounds": inner,
        "keys": join(path, "keys"),
        "keys.share": join(path, "keys.select.share"),
        "keys.method": join(path, "keys.select.method"),
        **{name: join(join(path, "privacy"), name) for name in ("epsilon", "rho", "delta", "noise", "summary_counts")},
        **{name: join(path, name) for name in ("method", "time.every", "time.window_size", "input")},
    }


def read_summary_counts(settings: Any, path: str = "summary_counts") -> SummaryCounts | None:
    """Read budget shares for the summary counts, or `None` for the word `none`."""
    return None if settings == "none" else make(path, SummaryCounts, read_block(settings, path, table.SUMMARY_BLOCK))


def read_privacy(settings: Any, path: str = "privacy") -> PrivacySpec:
    """Read the release's privacy budget: epsilon and delta, or rho, or a share of either.

    Each share is a separate release. Nothing checks that the shares of all releases sum to at most 1, so check it when
    you write the settings.

    >>> read_privacy({"rho": 0.2, "share": "1/4"}).rho
    Fraction(1, 20)
    """
    given = read_block(settings, path, table.PRIVACY_BLOCK, summary_counts=read_summary_counts)
    paying: dict[str, Any] = {name: given.pop(name) for name in ("ledger", "account") if name in given}
    share = given.pop("share", None)
    take_one(given, path, ("epsilon", "rho"), _USE)
    spent: PrivacySpec = make(path, PrivacySpec, given, {"delta": join(path, "delta")})
    if share is not None:
        spent = make(path, spent.share, {"share": share}, {"noise": join(path, "noise")})
    if not paying:
        return spent
    ledger, account = (_take(paying, name, path, _LEDGER) for name in ("ledger", "account"))
    payer = make(path, payer_of, {"account": account, "address": ledger}, {"address": join(path, "ledger")})
    return spent.paid_by(payer)


def _take(given: Mapping[str, Any], name: str, path: str, both: str) -> Any:
    if name not in given:
        raise refusal(join(path, name), f"is missing. Set both, such as {both}", "E802")
    return given[name]


def read_norm(settings: Any, path: str = "norm") -> NormBound | AutoNorm:
    """Read a clipping norm. `auto` or `{auto: {...}}` chooses it from the data."""
    given = plain(settings, path)
    if given == "auto":
        return AutoNorm()
    if isinstance(given, dict) and "auto" in given:
        chosen: AutoNorm = read_block(given, path, table.NORM_BLOCK.only(["auto"]))["auto"]
        return chosen
    return make(path, NormBound, read_block(given, path, table.NORM_BLOCK.without("auto")))


def read_records(settings: Any, path: str = "records") -> RecordBounds:
    """Read the record bounds."""
    return make(path, RecordBounds, read_block(settings, path, table.RECORDS_BLOCK))


def read_privacy_unit(settings: Any, path: str = "privacy_unit") -> Unit:
    """Read the privacy unit: `record`, `{record: {...}}`, or a privacy id with `norm` or `records`."""
    given = plain(settings, path)
    if given == "record":
        return Record()
    if not isinstance(given, dict):
        raise refusal(path, _WHOM)
    given = read_block(given, path, table.UNIT_BLOCK, norm=read_norm)
    if take_one(given, path, ("privacy_id", "record"), _WHOM) == "record":
        refuse_others(given, path, ["record"], _ALONE)
        return given["record"]
    bounds = given.pop(take_one(given, path, ("norm", "records"), _HOW_MUCH))
    return make(path, PrivacyId, {"field": given.pop("privacy_id"), "bounds": bounds, **given})


def read_keys(settings: Any, path: str = "keys") -> Keys:
    """Read a `keys` block: `public`, `select` or `assume_public`, with the `field` of the key."""
    given = read_block(settings, path, table.KEYS_BLOCK)
    where: dict[str, Any] = {name: given[name] for name in ("field", "opaque_bytes") if name in given}
    columns = where["field"] if isinstance(where["field"], list) else [where["field"]]
    ways = table.KEYS_BLOCK.either[0]
    if all(isinstance(each, Calendar) for each in columns) and given.keys().isdisjoint(ways):
        given["public"] = None
    way = take_one(given, path, ways, _WHICH)
    if way == "public":
        public = {"keys": given["public"], "field": where["field"]}
        return make(path, PublicKeys, public, {"keys": join(path, "public")})
    if way == "select":
        return make(join(path, "select"), KeySelection, {**given["select"], **where})
    return make(path, AssumePublicKeys, where)


def read_windows(settings: Any, path: str = "windows") -> TimeRange:
    """Read a time range: `{start: ..., end: ...}`, or a list with start and end."""
    given = plain(settings, path)
    if isinstance(given, list):
        if len(given) != 2:
            raise refusal(path, f"must contain two times, the start and the end, got {len(given)}")
        given = {name: time for name, time in zip(("start", "end"), given, strict=True) if time is not None}
    return make(path, TimeRange, read_block(given, path, table.WINDOWS_BLOCK))


def read_horizon(settings: Any, path: str = "horizon") -> Horizon:
    """Read the declared windows for a continual release."""
    return make(path, Horizon, read_block(settings, path, table.HORIZON_BLOCK))


def read_time(settings: Any, path: str = "time") -> TimeColumn:
    """Read the time column of a table: `{field: ..., every: ...}`, or its name alone."""
    given = plain(settings, path)
    return make(
        path, TimeColumn, read_block({"field": given} if isinstance(given, str) else given, path, table.TIME_BLOCK)
    )


def read_csv(settings: Any, path: str = "csv") -> Spelling:
    """Read number and time formats for CSV files: `{thousands: ",", decimal: ".", date_format: "%d/%m/%Y"}`."""
    return make(path, Spelling, read_block(settings, path, table.CSV_BLOCK))


def read_domain(settings: Any, path: str = "domain") -> Domain | BytesDomain:
    """Read the domain of values: `{type: integer, low: 0, high: 99}`, or a type name without settings."""
    given = plain(settings, path)
    given = {"type": given} if isinstance(given, str) else given
    if not isinstance(given, dict):
        raise refusal(path, f"expected a block, such as {{type: integer, low: 0, high: 100}}, got {shown(given)}")
    if "type" not in given:
        raise refusal(join(path, "type"), f"is missing. Set one of {', '.join(table.DOMAIN_TYPES)}", "E802")
    chosen = _TYPES(given["type"], join(path, "type"))
    block = table.DOMAIN_TYPES[chosen.type_name]
    others = table.DOMAIN_BLOCK.entries.keys() - block.entries.keys()
    words = f"is not a setting of type {given['type']}. Supported: {', '.join(block.without('type').entries) or 'none'}"
    refuse_others(given, path, given.keys() - others, words)
    read = read_block(given, path, block)
    return make(path, chosen, {name: value for name, value in read.items() if name != "type"})


def read_spec(settings: Any, path: str = "spec") -> SketchSpec:
    """Read a sketch layout from depth and width, or from the required accuracy."""
    given = read_block(settings, path, table.SPEC_BLOCK)
    if not given.keys() & _ACCURACY.required.keys():
        return make(path, SketchSpec, given)
    refuse_others(given, path, _ACCURACY.entries, "cannot be combined with relative_error, which sets depth and width")
    read_block(settings, path, _ACCURACY)
    return make(path, SketchSpec.for_accuracy, given)


def read_listed_items(settings: Any, path: str = "listed_items") -> ListedItems:
    """Read the listed items, which have exact counters."""
    return make(path, ListedItems, {"items": ITEMS_FORM.read(settings, path)}, {"items": path})


def read_tree(settings: Any, domain: Any, path: str = "tree", *, search: bool = False) -> TreeSpec:
    """Read a tree layout over a domain, from a memory size or from its levels.

    Args:
      settings: the block.
      domain: domain of the values.
      path: its path, for errors.
      search: whether the tree is for a top-K list. Its default layout depends on `memory` and `seed` alone, and any
        other setting requires `arity`.
    """
    if not domain.is_ordered:
        raise refusal(path, "is not supported for text and bytes, which have no order. Remove it", "E804")
    given = read_block(settings, path, table.TREE_BLOCK)
    if "levels" in given or "hash_version" in given:
        refuse_others(given, path, _LEVELS.entries, "cannot be combined with levels, which define the whole layout")
        read_block(settings, path, _LEVELS)
        return make(path, functools.partial(TreeSpec, domain=domain), given)
    if search and given.keys() <= {"memory", "seed"}:
        return make(path, functools.partial(TreeSpec.for_search, domain), given)
    if search and "arity" not in given:
        words = "is missing. A tree of a top-K list requires it with settings other than memory and seed. Set arity: 16"
        raise refusal(join(path, "arity"), words, "E802")
    return make(path, functools.partial(TreeSpec.for_memory, domain), given)


def read_method(settings: Any, path: str = "method") -> Thresholding:
    """Read the method of a top-K list: `threshold`, or `{threshold: {delta: 1.0e-8}}`."""
    method: Thresholding = read_block(
        {"threshold": {}} if settings == "threshold" else settings, path, table.METHOD_BLOCK
    )["threshold"]
    return method


_READERS: Mapping[str, Reader] = {
    "privacy": read_privacy,
    "privacy_unit": read_privacy_unit,
    "keys": read_keys,
    "windows": read_windows,
    "time": read_time,
    "spec": read_spec,
    "listed_items": read_listed_items,
    "domain": read_domain,
    "tree": lambda value, path: value,
    "method": read_method,
    "metrics": _read_metrics,
}
"""Readers of blocks with more structure than one value object."""
