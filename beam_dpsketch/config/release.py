"""Read all of a release: what is counted, in which fields, for whom, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, plain, read_block, refuse_others, take_one
from beam_dpsketch.config.keys import read_keys, read_method
from beam_dpsketch.config.layouts import read_domain, read_items, read_spec, read_tree
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.privacy import read_privacy
from beam_dpsketch.config.scalars import read_choice, read_text, read_whole
from beam_dpsketch.config.units import read_unit
from beam_dpsketch.config.windows import read_horizon, read_windows
from beam_dpsketch.domains import BytesDomain
from beam_dpsketch.errors import AllAtOnce
from beam_dpsketch.kinds.grouped_counts import GroupedCounts
from beam_dpsketch.kinds.sketched import ItemFrequencies, Quantiles, TopKSearch
from beam_dpsketch.records.count import Count
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.units import Record, Unit
from beam_dpsketch.sketches.spec import SketchSpec

_COMMON = ("kind", "item", "weight", "privacy", "unit", "keys")
KINDS: Mapping[str, tuple[str, ...]] = {
    "frequencies": (*_COMMON, "windows", "horizon", "spec", "items"),
    "quantiles": (*_COMMON, "windows", "horizon", "domain", "tree"),
    "top_k": (*_COMMON, "windows", "domain", "tree", "k", "method"),
}


def _read_k(value: Any, path: str) -> int:
    k = read_whole(value, path)
    if k < 1:
        raise refusal(path, f"must be at least 1, got {k}")
    return k


RELEASE: Mapping[str, Reader] = {
    "kind": read_choice({name: name for name in KINDS}),
    "item": read_text,
    "weight": read_text,
    "privacy": read_privacy,
    "unit": read_unit,
    "keys": read_keys,
    "windows": read_windows,
    "horizon": read_horizon,
    "spec": read_spec,
    "items": read_items,
    "domain": read_domain,
    "tree": lambda value, path: value,
    "k": _read_k,
    "method": read_method,
}
_REQUIRED = {
    "kind": "one of frequencies, quantiles, top_k",
    "item": "the field that is counted, as item: city",
    "privacy": "what the release may spend, as privacy: {epsilon: 2, delta: 1.0e-6}",
    "unit": "whom the release protects, as unit: {privacy_id: person, norm: {max_norm: 10}}, or unit: record",
}
_DOMAIN = {"domain": "the values there can be, as domain: {type: integer, low: 0, high: 99}"}
_K = {"k": "how many values are wanted, as k: 10"}
_SEARCHES: Mapping[str, type[Count]] = {"quantiles": Quantiles, "top_k": TopKSearch}
_ALSO_REQUIRED: Mapping[str, Mapping[str, str]] = {"frequencies": {}, "quantiles": _DOMAIN, "top_k": {**_DOMAIN, **_K}}


def read_release(settings: Any, path: str = "") -> ReleaseSpec:
    """Return what settings declare of a release, checked together.

    Args:
      settings: a dict, JSON or YAML text, a named tuple or a row; `docs/settings.md` lists the settings.
      path: where they are, which errors put before the path of a setting; empty for a file of their own.

    Raises:
      ConfigError: a setting is unknown, missing, of another type, out of range, or does not go with the others.

    >>> settings = "{kind: frequencies, item: city, privacy: {rho: 1}, unit: record}"
    >>> str(read_release(settings).plan()).split(":")[0]
    'count_sketch'
    """
    given = _read_settings(plain(settings, path), path)
    kind = given.pop("kind")
    counts = ("spec", "items", "domain", "tree", "k", "method")
    counted: dict[str, Any] = {name: given.pop(name) for name in counts if name in given}
    if "horizon" in given:
        given["windows"] = given.pop("horizon")
    count = _read_count(kind, counted, path)
    return make(path, _declare, {"count": count, **given}, places_of_arguments(given["unit"], path))


def _read_settings(written: Any, path: str) -> dict[str, Any]:
    """Return the settings that a kind has, each read for itself; refuse those that do not go together."""
    kind = str(written.get("kind")).lower() if isinstance(written, dict) else ""
    with AllAtOnce() as checks:
        required = {**_REQUIRED, **_ALSO_REQUIRED.get(kind, {})}
        given = checks.do(read_block, written, path, RELEASE, required) or {}
        if kind in KINDS:
            words = f"not a setting of kind {kind}, which has {', '.join(KINDS[kind][1:])}"
            checks.do(refuse_others, [name for name in written if name in RELEASE], path, KINDS[kind], words)
        for pair in (("windows", "horizon"), ("tree", "method"), ("spec", "items")):
            if given.keys() & set(pair):
                checks.do(take_one, given, path, pair, f"give {pair[0]} or {pair[1]}")
        if kind == "quantiles" and isinstance(given.get("domain"), BytesDomain):
            words = "text and bytes have no order for quantiles; take top_k"
            checks.refuse(refusal(join(path, "domain.type"), words, "E808"))
    return given


def _read_count(kind: str, given: dict[str, Any], path: str) -> Count:
    """Return what kind of release it is, with its usual layout where none is given."""
    if "tree" in given:
        given["domain"] = read_tree(given.pop("tree"), given["domain"], join(path, "tree"), search=kind == "top_k")
    if kind == "frequencies":
        return ItemFrequencies(given.get("items") or given.get("spec", SketchSpec()))
    return make(path, GroupedCounts if "method" in given else _SEARCHES[kind], given)


def _declare(**given: Any) -> ReleaseSpec:
    """Return the declaration; refuse arguments that do not go together, and those under which nothing works."""
    declared = ReleaseSpec(**given)
    declared.resolved  # noqa: B018  # is worked out here, and used by what makes the release
    return declared


def places_of_arguments(of: Unit, path: str = "") -> dict[str, str]:
    """Return the paths of the arguments that are refused where they do not go with others."""
    unit = join(path, "unit")
    inner = join(unit, "record" if isinstance(of, Record) else "norm" if of.bounds.has_norm else "records")
    names = ("max_weight", "max_keys", "max_partitions", "signed")
    return {
        **{name: join(unit, name) for name in ("max_windows", "period")},
        "window_count": join(unit, "max_windows"),
        **{name: join(inner, name) for name in names},
        "bounds.max_partitions": join(inner, "max_partitions"),
        "bounds": inner,
        "keys": join(path, "keys"),
        "keys.share": join(path, "keys.select.share"),
        "rho": join(join(path, "privacy"), "rho"),
        "delta": join(join(path, "privacy"), "delta"),
    }
