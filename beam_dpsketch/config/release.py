"""Read all of a release, checked together; and which releases there are: `keys`, `windows`, `horizon`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from beam_dpsketch.config.blocks import Block, Reader, make, plain, read_block, read_list, refuse_others, take_one
from beam_dpsketch.config.layouts import read_domain, read_items, read_method, read_spec, read_tree
from beam_dpsketch.config.paths import join, refusal, shown
from beam_dpsketch.config.privacy import read_privacy, read_unit
from beam_dpsketch.config.scalars import WHOLE
from beam_dpsketch.config.settings import CSV, HORIZON, KEYS, METRIC, RELEASE, SELECT, TIME_COLUMN, WINDOWS
from beam_dpsketch.domains import BytesDomain
from beam_dpsketch.domains.spelling import Spelling
from beam_dpsketch.errors import AllAtOnce
from beam_dpsketch.kinds import KINDS
from beam_dpsketch.kinds.grouped_counts import top_k
from beam_dpsketch.kinds.layouts import with_factor
from beam_dpsketch.kinds.metrics.kind import Metric
from beam_dpsketch.kinds.sketched import ItemFrequencies, search_over_time
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.count import Count
from beam_dpsketch.records.public import AssumePublicKeys, Keys, KeySelection, PublicKeys, TimeColumn, TimeRange
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.units import Record, Unit
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

_LAYOUTS: Mapping[str, Callable[..., Any]] = {
    "factor": with_factor,
    "histogram": TreeSpec.histogram,
    "tree": TreeSpec.for_memory,
}
_WHICH = (
    "give public, the list of keys to release; or select, as select: {delta: 1.0e-8}, for those that enough people "
    "are in; or assume_public: true, if the keys in the data may be published"
)


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
    if "horizon" in given:
        given["windows"] = given.pop("horizon")
    own = [name for name, entry in RELEASE.entries.items() if entry.kinds]
    counted = {name: given.pop(name) for name in own if name in given}
    count = _read_count(kind, counted, path)
    return make(path, _declare, {"count": count, **given}, places_of_arguments(given["unit"], path))


def _read_settings(written: Any, path: str) -> dict[str, Any]:
    """Return the settings that a kind has, each read for itself; refuse those that do not go together."""
    kind = str(written.get("kind")).lower() if isinstance(written, dict) else ""
    with AllAtOnce() as checks:
        known = RELEASE.of_kind(kind)
        block = RELEASE
        if kind in KINDS:  # the settings of other kinds are refused below
            others = {name: entry._replace(needed="") for name, entry in RELEASE.entries.items()}
            block = Block(RELEASE.name, {**others, **known.entries})
        given = checks.do(read_block, written, path, block, **_READERS) or {}
        if kind in KINDS:
            words = f"not a setting of kind {kind}, which has {', '.join(known.without('kind').entries)}"
            names = [name for name in written if name in RELEASE.entries]
            if KINDS[kind].is_search and "horizon" in names:
                names.remove("horizon")
                checks.refuse(search_over_time().at(places={"windows": join(path, "horizon")}))
            checks.do(refuse_others, names, path, known.entries, words)
        for pair in RELEASE.either:
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
    if (layout := given.pop("layout", None)) is not None:
        given["domain"] = make(path, _LAYOUTS[layout], {"domain": given["domain"]})
    if kind == "frequencies":
        return ItemFrequencies(given.get("items") or given.get("spec", SketchSpec()))
    return make(path, top_k if kind == "top_k" else KINDS[kind], given)


def _read_metrics(settings: Any, path: str) -> dict[str, Metric]:
    """Return metrics by their names."""
    found: dict[str, Metric] = {}
    for place, (name, metric) in enumerate(read_list(settings, path, _read_metric)):
        if name in found:
            raise refusal(f"{path}[{place}].name", "is the name of another metric too", "E513")
        found[name] = metric
    return found


def _read_metric(settings: Any, path: str) -> tuple[str, Metric]:
    given = plain(settings, path)
    kind = str(given.get("kind")).lower() if isinstance(given, dict) else ""
    read = read_block(given, path, METRIC.of_kind(kind) if kind in KINDS else METRIC, **_READERS)
    of_metric: dict[str, Any] = {name: read.pop(name) for name in ("item", "share") if name in read}
    name, kind = read.pop("name"), read.pop("kind")
    return name, make(path, Metric, {"count": _read_count(kind, read, path), **of_metric})


def _declare(**given: Any) -> ReleaseSpec:
    """Return the declaration; refuse arguments that do not go together, and those under which nothing works."""
    declared = ReleaseSpec(**given)
    declared.resolved  # noqa: B018  # is worked out here, and used by what makes the release
    return declared


def places_of_arguments(of: Unit, path: str = "") -> dict[str, str]:
    """Return the paths of the arguments that are refused where they do not go with others."""
    unit = join(path, "unit")
    inner = join(unit, "record" if isinstance(of, Record) else "norm" if of.bounds.has_norm else "records")
    names = ("max_norm", "max_weight", "max_keys", "signed")
    return {
        **{name: join(unit, name) for name in ("max_windows", "period")},
        "window_count": join(unit, "max_windows"),
        **{name: join(inner, name) for name in names},
        "bounds.max_keys": join(inner, "max_keys"),
        "bounds": inner,
        "keys": join(path, "keys"),
        "keys.share": join(path, "keys.select.share"),
        "keys.method": join(path, "keys.select.method"),
        **{name: join(join(path, "privacy"), name) for name in ("epsilon", "rho", "delta", "noise")},
        **{name: join(path, name) for name in ("method", "time.every", "time.window_size", "input")},
    }


def read_keys(settings: Any, path: str = "keys") -> Keys:
    """Return which keys are released: `public`, `select` or `assume_public`, with `field`."""
    given = read_block(settings, path, KEYS, select=_read_select, assume_public=_read_true)
    way = take_one(given, path, KEYS.either[0], _WHICH)
    where: dict[str, Any] = {name: given[name] for name in ("field", "opaque_bytes") if name in given}
    if way == "public":
        return make(
            path, PublicKeys, {"keys": given["public"], "field": where["field"]}, {"keys": join(path, "public")}
        )
    if way == "select":
        return make(join(path, "select"), KeySelection, {**given["select"], **where})
    return make(path, AssumePublicKeys, where)


def _read_select(settings: Any, path: str) -> dict[str, Any]:
    return read_block(settings, path, SELECT)


def _read_true(value: Any, path: str) -> bool:
    if value is not True and value != "true":
        raise refusal(path, f"expected true, or public or select in its place; got {shown(value)}")
    return True


def read_windows(settings: Any, path: str = "windows") -> TimeRange:
    """Return a range of time: `{start: ..., end: ...}`, or a list of the two."""
    given = plain(settings, path)
    if isinstance(given, list):
        if len(given) != 2:
            raise refusal(path, f"expected two times, the start and the end, got {len(given)}")
        given = {name: time for name, time in zip(("start", "end"), given, strict=True) if time is not None}
    return make(path, TimeRange, read_block(given, path, WINDOWS))


def read_horizon(settings: Any, path: str = "horizon") -> Horizon:
    """Return the declared windows of continual release."""
    return make(path, Horizon, read_block(settings, path, HORIZON))


def read_time(settings: Any, path: str = "time") -> TimeColumn:
    """Return where a table holds its times: `{field: ..., every: ...}`, or the name of the column alone."""
    given = plain(settings, path)
    return make(path, TimeColumn, read_block({"field": given} if isinstance(given, str) else given, path, TIME_COLUMN))


def read_csv(settings: Any, path: str = "csv") -> Spelling:
    """Return how CSV files spell numbers and times: `{thousands: ",", decimal: ".", date_format: "%d/%m/%Y"}`."""
    return make(path, Spelling, read_block(settings, path, CSV))


def _read_k(value: Any, path: str) -> int:
    k = WHOLE.read(value, path)
    if k < 1:
        raise refusal(path, f"must be at least 1, got {k}")
    return int(k)


_READERS: Mapping[str, Reader] = {
    "privacy": read_privacy,
    "unit": read_unit,
    "keys": read_keys,
    "windows": read_windows,
    "horizon": read_horizon,
    "time": read_time,
    "csv": read_csv,
    "spec": read_spec,
    "items": read_items,
    "domain": read_domain,
    "tree": lambda value, path: value,
    "k": _read_k,
    "method": read_method,
    "metrics": _read_metrics,
}
