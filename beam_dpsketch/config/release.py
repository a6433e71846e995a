"""Read all of a release: what is counted, in which fields, for whom, and what it may spend."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, TypeAlias, cast

from beam_dpsketch.config.blocks import Reader, make, read_block, refuse_others, take_one
from beam_dpsketch.config.keys import read_keys, read_method
from beam_dpsketch.config.layouts import read_domain, read_items, read_spec, read_tree
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.privacy import read_privacy
from beam_dpsketch.config.scalars import read_choice, read_text, read_whole
from beam_dpsketch.config.units import read_unit
from beam_dpsketch.config.windows import read_horizon, read_windows
from beam_dpsketch.domains import BytesDomain, Domain
from beam_dpsketch.planning.advice import USUAL_WANTED_ERROR
from beam_dpsketch.planning.plan import CountsPlan, Plan
from beam_dpsketch.planning.planner import check_declared, plan_declared
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.declaring import declare_frequencies, declare_quantiles, declare_top_k
from beam_dpsketch.records.grouping import Groups
from beam_dpsketch.records.over_time import check_over_time, row_terms
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.units import Record, Unit
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.prefix import PrefixSpec
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

Kind: TypeAlias = Literal["frequencies", "quantiles", "top_k"]
Counted: TypeAlias = "SketchSpec | ListedItems | Domain | BytesDomain | TreeSpec | PrefixSpec"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleaseConfig:
    """The arguments of a private transform, read from settings; the names are those of the arguments.

    Attributes:
      kind: "frequencies", "quantiles" or "top_k"; with `keys` there is a release for each key, with `horizon` one for
        each window.
      spec: the first argument: `SketchSpec` or `ListedItems` for frequencies, a domain or a layout over it otherwise.
      privacy, unit, item, weight, keys, windows, horizon, k, method: as of the transforms; `None` if not given.
    """

    kind: Kind
    spec: Counted
    privacy: PrivacySpec
    unit: Unit
    item: str
    weight: str | None = None
    keys: Keys | None = None
    windows: TimeRange | None = None
    horizon: Horizon | None = None
    k: int | None = None
    method: Groups | None = None

    @functools.cached_property
    def declaration(self) -> Declaration:
        """What the transform declares; a domain has its usual layout."""
        declared = (self.privacy, self.unit, self.item, self.weight, self.keys, self.windows)
        if self.kind == "frequencies":
            return declare_frequencies(cast(Any, self.spec), *declared)
        if self.kind == "quantiles":
            return declare_quantiles(cast(Any, self.spec), *declared)
        return declare_top_k(self.method, cast(Any, self.spec), *declared)

    @property
    def terms(self) -> DeclaredTerms:
        """What the release promises, as far as it is known before the windows are."""
        return self.declaration.terms() if self.horizon is None else row_terms(self.declaration, self.horizon.rows)

    def plan(self, n: int | None = None, *, wanted_error: Fraction | float = USUAL_WANTED_ERROR) -> Plan | CountsPlan:
        """Return what to expect of the release, in the words of `explain` of the transforms, before any data is read.

        Args:
          n: about how many records (or what weight) count in one release, and per key, in that of one key.
          wanted_error: an error as a share of the weight that counts; the words say how many people it needs.

        >>> settings = "{kind: frequencies, item: city, privacy: {rho: 1}, unit: record}"
        >>> str(read_release(settings).plan()).split(":")[0]
        'count_sketch'
        """
        search = self.kind == "top_k"
        return plan_declared(self.declaration, self.terms, n, search=search, wanted_error=wanted_error)


_COMMON = ("kind", "item", "weight", "privacy", "unit", "keys")
KINDS: Mapping[str, tuple[str, ...]] = {
    "frequencies": (*_COMMON, "windows", "horizon", "spec", "items"),
    "quantiles": (*_COMMON, "windows", "horizon", "domain", "tree"),
    "top_k": (*_COMMON, "windows", "domain", "tree", "k", "method"),
}
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
    "k": read_whole,
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
_ALSO_REQUIRED: Mapping[str, Mapping[str, str]] = {"frequencies": {}, "quantiles": _DOMAIN, "top_k": {**_DOMAIN, **_K}}


def read_release(settings: Any, path: str = "") -> ReleaseConfig:
    """Return the arguments of a private transform, checked together.

    Args:
      settings: a dict, JSON or YAML text, a named tuple or a row; `docs/settings.md` lists the settings.
      path: where they are, which errors put before the path of a setting; empty for a file of their own.

    Raises:
      ConfigError: a setting is unknown, missing, of another type, out of range, or does not go with the others.
    """
    given = read_block(settings, path, RELEASE, _REQUIRED)
    kind: Kind = given["kind"]
    refuse_others(given, path, KINDS[kind], f"not a setting of kind {kind}, which has {', '.join(KINDS[kind][1:])}")
    for name, words in _ALSO_REQUIRED[kind].items():
        if name not in given:
            raise refusal(join(path, name), f"is missing; {words}")
    for pair in (("windows", "horizon"), ("tree", "method"), ("spec", "items")):
        if given.keys() & set(pair):
            take_one(given, path, pair, f"give {pair[0]} or {pair[1]}")
    if kind == "quantiles" and isinstance(given["domain"], BytesDomain):
        raise refusal(join(join(path, "domain"), "type"), "text and bytes have no order for quantiles; take top_k")
    if "k" in given and given["k"] < 1:
        raise refusal(join(path, "k"), f"must be at least 1, got {given['k']}")
    config = _config(kind, given, path)
    make(path, _declare, {"config": config}, _places(config, path))
    return config


def _config(kind: Kind, given: dict[str, Any], path: str) -> ReleaseConfig:
    """Return the arguments, with one of spec, items, domain and tree as the first."""
    spec, items, domain = given.pop("spec", SketchSpec()), given.pop("items", None), given.pop("domain", None)
    if "tree" in given:
        domain = read_tree(given.pop("tree"), domain, join(path, "tree"), search=kind == "top_k")
    counted = items or spec if kind == "frequencies" else domain
    return ReleaseConfig(spec=cast(Any, counted), **given)


def _declare(config: ReleaseConfig) -> None:
    """Refuse arguments that do not go together; the transforms do the same, with what they know of the windows."""
    if config.horizon is not None:
        check_over_time(config.declaration, config.horizon.windows)
    config.declaration.check_max_partitions()
    check_declared(config.declaration, config.terms)


def _places(config: ReleaseConfig, path: str) -> dict[str, str]:
    """Return where the arguments are that messages about several of them begin with."""
    unit = join(path, "unit")
    bounds = "norm" if config.unit.bounds.has_norm else "records"
    inner = join(unit, "record" if isinstance(config.unit, Record) else bounds)
    names = ("max_weight", "max_keys", "max_partitions", "signed")
    return {
        **{name: join(unit, name) for name in ("max_windows", "period")},
        "window_count": join(unit, "max_windows"),
        **{name: join(inner, name) for name in names},
        "bounds.max_partitions": join(inner, "max_partitions"),
        "bounds": inner,
        "keys": join(path, "keys"),
        "rho": join(join(path, "privacy"), "rho"),
        "delta": join(join(path, "privacy"), "delta"),
    }
