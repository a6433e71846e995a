"""Settings that can be used: of single blocks, with their readers, and of whole releases."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from beam_dpsketch import IntegerDomain, config
from beam_dpsketch.config import read_tree

PRIVACY = {"epsilon": 2, "delta": 1e-6}
UNIT = {"privacy_id": "person", "norm": {"max_norm": 10}}
KEY = "00112233445566778899aabbccddeeff"
_NUMBERS = IntegerDomain(0, 255)
_WEEKS = {"time": "at", "bucket": "week", "start": "2026-11-16", "end": "2026-11-23"}

BLOCKS: list[tuple[Callable[[Any], Any], Any]] = [
    (config.read_privacy, PRIVACY),
    (config.read_privacy, {"rho": "1/10", "delta": "1e-8", "relation": "replace_one", "summary_counts": "none"}),
    (config.read_privacy, {**PRIVACY, "share": "1/4", "summary_counts": "none"}),
    (config.read_privacy, {"rho": "1/10", "ledger": "spent.db", "account": "visits"}),
    (config.read_summary_counts, {"units": 0.1, "records": "none", "weight": "1/7", "clipping": 0.2}),
    (config.read_summary_counts, {"records": "1/30"}),
    (config.read_privacy_unit, "record"),
    (config.read_privacy_unit, {"record": {"max_weight": 5, "signed": True}}),
    (config.read_privacy_unit, {**UNIT, "max_windows": 7, "period": "7d", "opaque_bytes": True}),
    (config.read_privacy_unit, {"privacy_id": "device", "norm": "auto"}),
    (config.read_norm, {"max_norm": 3, "max_weight": 5, "max_per_item": 1, "signed": True, "max_distinct_items": 99}),
    (config.read_norm, {"max_norm": "5/2", "max_keys": 4, "norm": "l1"}),
    (config.read_privacy, {"epsilon": 2}),
    (config.read_privacy, {"epsilon": 2, "delta": 1e-7, "noise": "gaussian"}),
    (config.read_norm, "auto"),
    (config.read_norm, {"auto": {"optimize_for": "rarer_items", "max_keys": 7}}),
    (
        config.read_norm,
        {
            "auto": {
                "share": 0.1,
                "item_share": "1/9",
                "max_weight": 3,
                "max_per_item": 2,
                "signed": True,
                "max_distinct_items": 9,
                "norm": "l1",
            }
        },
    ),
    (config.read_records, {"max_records": 10}),
    (config.read_records, {"max_records": 1, "max_keys": 3, "max_weight": 2, "signed": True}),
    (config.read_keys, {"public": ["a", 2, {"hex": "00ff"}, ["b", 3]], "field": "country"}),
    (config.read_keys, {"public": ["b"], "field": "zip"}),
    (config.read_keys, {"public": [["b", 3]], "field": ["zip", _WEEKS, "city"]}),
    (
        config.read_keys,
        {
            "field": {
                "time": "when",
                "bucket": "month",
                "zone": "Asia/Kathmandu",
                "start": "2026-11-01",
                "end": "2026-12-01",
            }
        },
    ),
    (config.read_keys, {"select": {"delta": 1e-8}, "field": "country", "opaque_bytes": True}),
    (config.read_keys, {"select": {"delta": 1e-9, "share": 0.1, "min_units": 3, "method": "gaussian"}, "field": "zip"}),
    (config.read_keys, {"assume_public": True, "field": "country", "opaque_bytes": True}),
    (config.read_keys, {"assume_public": True, "field": "zip"}),
    (config.read_windows, {"start": "2024-01-01", "end": "2024-02-01T12:00:00+02:00"}),
    (config.read_windows, {"start": 0, "end": 3600, "max_releases": 20_000}),
    (config.read_horizon, {"start": "2024-01-01T00:00:00Z", "window_size": "1h", "windows": 24}),
    (config.read_horizon, {"start": 0, "window_size": 60, "windows": 3, "mechanism": "tree"}),
    (config.read_csv, {"thousands": ".", "decimal": ",", "date_format": "%d.%m.%Y"}),
    (config.read_csv, {"thousands": " "}),
    (config.read_time, "day"),
    (config.read_time, {"field": "day", "every": "1d"}),
    (config.read_time, {"field": "time", "every": 60, "window_size": "1h"}),
    (config.read_method, {"threshold": {"delta": 1e-8}}),
    (config.read_method, {"threshold": {"delta": 1e-9}}),
    (config.read_domain, "ipv4"),
    (config.read_domain, {"type": "integer", "low": -5, "high": 5}),
    (config.read_domain, {"type": "integer", "low": 0, "high": 9}),
    (config.read_domain, {"type": "float", "low": 0, "high": 1, "step": 0.1}),
    (config.read_domain, {"type": "float", "low": -1, "high": 2, "step": 0.5}),
    (config.read_domain, {"type": "log", "low": 1, "high": 1e6}),
    (config.read_domain, {"type": "log", "low": 0.5, "high": 9, "relative_step": 0.1}),
    (config.read_domain, {"type": "timestamp", "start": "2024-01-01", "end": "2025-01-01"}),
    (config.read_domain, {"type": "timestamp", "start": 0, "end": 86400, "step": "1h"}),
    (config.read_domain, {"type": "text", "max_bytes": 16}),
    (config.read_domain, {"type": "text", "max_bytes": 8}),
    (config.read_domain, {"type": "bytes", "max_bytes": 16}),
    (config.read_domain, {"type": "bytes", "max_bytes": 8}),
    (config.read_spec, {}),
    (config.read_spec, {"kind": "count_min", "depth": 3, "width": 64, "seed": 7, "hash_version": 1}),
    (config.read_spec, {"item_hash": "blake2b", "item_key": KEY}),
    (config.read_spec, {"relative_error": 0.01, "failure_probability": 0.01, "kind": "count_min", "seed": 3}),
    (config.read_listed_items, ["Oslo", "Bern", 3]),
    (config.read_listed_items, ["Oslo"]),
    (functools.partial(read_tree, domain=_NUMBERS), {"memory": 2000, "seed": 3}),
    (
        functools.partial(read_tree, domain=IntegerDomain(0, 1 << 30)),
        {"memory": 100_000, "arity": 4, "depth": 3, "sketch": "count_min", "exact_levels": False, "leaf_share": "1/2"},
    ),
    (
        functools.partial(read_tree, domain=_NUMBERS),
        {
            "levels": [
                {"bits": 4, "sketch": "exact", "depth": 1, "width": 16, "share": "1/4"},
                {"bits": 4, "sketch": "count_sketch", "depth": 5, "width": 32, "share": 0.75},
            ],
            "seed": 2,
            "hash_version": 1,
        },
    ),
]
"""Together they change every field of every value object: `test_fields.py` checks it."""


def release(kind: str, **settings: Any) -> dict[str, Any]:
    """Return the settings of a release of people."""
    return {"kind": kind, "item": "place", "privacy": PRIVACY, "privacy_unit": UNIT, **settings}


_PUBLIC = {"public": ["a", "b"], "field": "country"}
_HORIZON = {"start": "2024-01-01", "window_size": "1d", "windows": 31}
_TWENTY = {"type": "integer", "low": 0, "high": 20}
_WEIGHTS = {"privacy_id": "person", "norm": {"max_norm": 10, "max_weight": 5}}
_METRICS: list[dict[str, Any]] = [
    {"name": "mean", "kind": "statistics", "item": "minutes", "domain": _TWENTY, "variance": True, "share": "1/2"},
    {"name": "places", "kind": "frequencies", "item": "place", "listed_items": ["Oslo", "Bern"], "share": "1/4"},
    {"name": "ranks", "kind": "quantiles", "item": "minutes", "domain": _TWENTY, "share": "1/4"},
]
RELEASES: list[dict[str, Any]] = [
    release("frequencies", privacy={"rho": 0.1}),
    release("frequencies", spec={"width": 512}, weight="amount", privacy_unit=_WEIGHTS),
    release("frequencies", listed_items=["Oslo", "Bern"], keys=_PUBLIC),
    release("frequencies", horizon=_HORIZON, privacy_unit="record"),
    release("frequencies", horizon=_HORIZON, keys=_PUBLIC),
    release("quantiles", domain=_TWENTY, windows=["2024-01-01", "2024-01-02"]),
    release("quantiles", domain=_TWENTY, tree={"memory": 2000}, keys=_PUBLIC),
    release(
        "quantiles", domain=_TWENTY, horizon=_HORIZON, privacy_unit={"privacy_id": "person", "norm": {"max_norm": 3}}
    ),
    release("quantiles", domain=_TWENTY, horizon=_HORIZON, keys=_PUBLIC),
    release("top_k", domain="ipv4", k=5, tree={"memory": 100_000}),
    release("top_k", domain={"type": "text", "max_bytes": 8}, k=10, keys=_PUBLIC),
    release(
        "top_k",
        domain={"type": "text", "max_bytes": 8},
        k=10,
        method={"threshold": {"delta": 1e-8}},
        privacy_unit={"privacy_id": "person", "norm": {"max_norm": 10, "max_keys": 5}},
    ),
    release("statistics", domain=_TWENTY, variance=True, keys=_PUBLIC, weight="amount", privacy_unit=_WEIGHTS),
    release("statistics", domain={"type": "float", "low": -1, "high": 1, "step": 0.1}),
    release("statistics", domain=_TWENTY, horizon=_HORIZON, keys=_PUBLIC),
    {"kind": "metrics", "metrics": _METRICS, "privacy": PRIVACY, "privacy_unit": UNIT, "keys": _PUBLIC},
    {
        "kind": "metrics",
        "metrics": [{**_METRICS[0], "share": 1}],
        "privacy": PRIVACY,
        "privacy_unit": UNIT,
        "horizon": _HORIZON,
    },
]

TABLES: list[dict[str, Any]] = [
    release(
        "frequencies",
        windows=["2024-01-01", "2024-01-03"],
        time={"field": "day", "every": "1d"},
        data_set="visits of 2024",
        date=True,
    ),
    release("quantiles", domain=_TWENTY, horizon=_HORIZON, time="day", unreadable="drop", csv={"decimal": ","}),
]
"""Settings of tables, which a pipeline refuses."""
