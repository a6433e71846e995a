"""Settings of every kind of release, records with all that tables hold, and what a pipeline makes of them."""

from __future__ import annotations

import datetime
import random
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
from apache_beam.utils.secret import Secret

from beam_dpsketch.config import read_release
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.frames.steps.plan import columns_of, resolve, tally_of
from beam_dpsketch.frames.steps.sums import ExactSums
from beam_dpsketch.frames.steps.tables import open_table
from beam_dpsketch.frames.steps.windows import windows_of
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.rows.base import private_transform
from beam_dpsketch.transforms.steps.thresholded_counts import CountPairs
from beam_dpsketch.transforms.steps.windows import plan_of
from tests.helpers.pipelines import exact_sums, numbers_by_key, seen_by_sink

CHANGE = datetime.datetime(2026, 3, 29, 1, tzinfo=datetime.UTC)
"""The change to summer time in Oslo."""
SECRET = b"planted-secret-4711-4711-4711-4711-4711"


class PlantedSecret(Secret):
    """A secret that tests may know."""

    def get_secret_bytes(self) -> bytes:
        return SECRET


def keyed(name: str) -> KeyedRandomness:
    """The randomness of the transform whose release id is this name."""
    return KeyedRandomness(SECRET, encode((name,)))


def records(number: int = 1500, *, seed: int = 4711) -> pa.Table:
    """Visits of few heavy people and many others, with nulls, unlisted keys, weights of 0 and values out of range."""
    rng, times = random.Random(seed), random.Random(seed)
    rows = []
    for _ in range(number):
        person = int(rng.expovariate(0.05))
        rows.append(
            {
                "person": rng.choice([None, f"p{person}", *[f"p{person}"] * 18]),
                "number": person,
                "city": rng.choice([None, "Oslo", "Rome", "Bern", "x" * 70, *(f"village {n}" for n in range(9))]),
                "country": rng.choice(["NO", "IT", "CH", None, "unlisted"]),
                "minutes": rng.choice([None, rng.randrange(-20, 300), rng.randrange(60)]),
                "amount": rng.choice([None, 0, -3, *range(1, 9)]),
                "visited": times.choice([None, *[CHANGE + datetime.timedelta(hours=times.randrange(-60, 60))] * 9]),
            }
        )
    rows[77]["country"] = "rare"
    return pa.Table.from_pylist(rows)


TABLE = records()
_RHO: dict[str, Any] = {"privacy": {"rho": 0.5}}
_LOSING: dict[str, Any] = {"privacy": {"epsilon": 3, "delta": "2e-3", "relation": "replace_one"}}


def _person(field: str = "person", **bounds: Any) -> dict[str, Any]:
    return {"privacy_unit": {"privacy_id": field, **bounds}}


_TWO = _person(records={"max_records": 2})
_WEIGHTED = {"max_records": 3, "max_keys": 2, "max_weight": 4}
_NORM = _person(norm={"max_norm": "5/2"})
_CITIES: dict[str, Any] = {"kind": "frequencies", "item": "city", **_RHO, "spec": {"depth": 3, "width": 32}}
_MINUTES = {"item": "minutes", "domain": {"type": "integer", "low": 0, "high": 240}, **_RHO}
_NUMBERS: dict[str, Any] = {"kind": "statistics", "item": "minutes", "variance": True, **_RHO}
_NUMBERS["domain"] = {"type": "float", "low": -0.5, "high": 61, "step": 1e-6}
_LISTED: dict[str, Any] = {"keys": {"public": ["NO", "IT", "FR"], "field": "country"}}
_ASSUMED: dict[str, Any] = {"keys": {"assume_public": True, "field": "country"}}
_DAYS = {"time": "visited", "bucket": "day", "zone": "Europe/Oslo", "start": "2026-03-28", "end": "2026-03-31"}
_MONTH = {**_DAYS, "bucket": "month", "start": "2026-03-01", "end": "2026-04-01"}
_LISTED_DAYS: dict[str, Any] = {"keys": {"field": [_DAYS, "country"], "public": ["NO", "FR"]}}
_PAIRS: dict[str, Any] = {"keys": {"field": ["country", "number"], "public": [["NO", 3], ["IT", 1], ["FR", 3]]}}
_HOURS: dict[str, Any] = {"keys": {"field": ["country", {**_DAYS, "bucket": "hour"}], "assume_public": True}}
_SELECTED: dict[str, Any] = {"keys": {"select": {"delta": "1e-3"}, "field": "country"}}
_TEXTS: dict[str, Any] = {
    "kind": "top_k",
    "k": 3,
    "item": "city",
    "domain": {"type": "text", "max_bytes": 6},
    **_LOSING,
    **_LISTED,
}
_GROUPS = {"kind": "top_k", "k": 3, "item": "city", "domain": {"type": "text", "max_bytes": 12}}
_GROUPS |= {"method": {"threshold": {"delta": "1e-3"}}, **_LOSING}

SETTINGS: dict[str, dict[str, Any]] = {
    "records": {**_CITIES, **_TWO},
    "records, ids are numbers": {**_CITIES, **_person("number", records={"max_records": 2})},
    "records, weights, listed keys": {**_CITIES, **_LISTED, "weight": "amount", **_person(records=_WEIGHTED)},
    "records, deletions": {
        **_CITIES,
        "weight": "amount",
        **_person(records={"max_records": 3, "max_weight": 2, "signed": True}),
    },
    "records, chosen keys": {**_CITIES, **_LOSING, **_SELECTED, **_person(records=_WEIGHTED)},
    "norm": {**_CITIES, **_NORM},
    "norm, weights, assumed keys": {
        **_CITIES,
        **_ASSUMED,
        "weight": "amount",
        **_person(norm={"max_norm": 6, "max_weight": 5, "signed": True, "max_per_item": 7}),
    },
    "norm, chosen keys": {**_CITIES, **_LOSING, **_SELECTED, **_person(norm={"max_norm": 4, "max_keys": 2})},
    "chosen norm": {**_CITIES, **_person(norm="auto")},
    "chosen norm, weights, listed keys": {
        **_CITIES,
        **_LISTED,
        "weight": "amount",
        **_person(norm={"auto": {"max_weight": 4}}),
    },
    "count_min of single records": {
        **_CITIES,
        "spec": {"kind": "count_min", "depth": 2, "width": 16},
        "privacy_unit": "record",
    },
    "single records, weights, assumed keys": {
        **_CITIES,
        **_ASSUMED,
        "weight": "amount",
        "privacy_unit": {"record": {"max_weight": 3, "signed": True}},
    },
    "single records, chosen keys": {**_CITIES, **_LOSING, **_SELECTED, "privacy_unit": "record"},
    "a pure epsilon": {
        **_CITIES,
        **_LISTED,
        **_person(records=_WEIGHTED),
        "weight": "amount",
        "privacy": {"epsilon": 1},
    },
    "an L1 norm": {
        **_CITIES,
        "weight": "amount",
        "privacy": {"epsilon": 1, "delta": "1e-6"},
        **_person(norm={"max_norm": "7/2", "norm": "l1", "max_weight": 3, "signed": True}),
    },
    "listed items": {"kind": "frequencies", "item": "city", "listed_items": ["Oslo", "Rome", "Paris"], **_RHO, **_NORM},
    "no summary counts": {**_CITIES, "privacy": {"rho": 1, "summary_counts": "none"}, **_TWO},
    "quantiles": {"kind": "quantiles", **_MINUTES, **_TWO},
    "quantiles, norm, listed keys": {"kind": "quantiles", **_MINUTES, **_LISTED, **_NORM},
    "quantiles, chosen norm": {
        "kind": "quantiles",
        **_MINUTES,
        **_person(norm={"auto": {"optimize_for": "rarer_items"}}),
    },
    "quantiles, chosen keys": {
        "kind": "quantiles",
        **_MINUTES,
        **_LOSING,
        **_SELECTED,
        **_person(records=_WEIGHTED),
        "weight": "amount",
    },
    "quantiles of a tree, norm, listed keys": {
        "kind": "quantiles",
        **_MINUTES,
        **_LISTED,
        **_NORM,
        "tree": {"memory": 4000},
    },
    "top-K of text, chosen norm, listed keys": {**_TEXTS, **_person(norm="auto")},
    "top-K of numbers": {"kind": "top_k", "k": 3, **_MINUTES, "tree": {"memory": 4000}, "privacy_unit": "record"},
    "top-K of text": {**_TEXTS, **_NORM},
    "statistics": {**_MINUTES, "kind": "statistics", "privacy_unit": "record"},
    "statistics, weights, listed keys": {
        **_NUMBERS,
        **_LISTED,
        "weight": "amount",
        **_person(records={**_WEIGHTED, "signed": True}),
    },
    "statistics, norm, assumed keys": {**_NUMBERS, **_ASSUMED, **_NORM},
    "statistics, chosen norm, listed keys": {**_NUMBERS, **_LISTED, **_person(norm="auto")},
    "statistics, chosen keys": {**_NUMBERS, **_LOSING, **_SELECTED, **_person(records=_WEIGHTED), "weight": "amount"},
    "statistics, a pure epsilon": {**_NUMBERS, **_TWO, "privacy": {"epsilon": 1}},
    "days and countries": {**_NUMBERS, **_LISTED_DAYS, **_person(records=_WEIGHTED), "weight": "amount"},
    "listed pairs": {**_CITIES, **_PAIRS, **_NORM},
    "single records, hours and countries": {**_CITIES, **_HOURS, "privacy_unit": "record"},
    "groups, months": {**_GROUPS, "keys": {"field": _MONTH}, **_person(norm={"max_norm": 3, "max_keys": 4})},
    "groups": {**_GROUPS, **_person(norm={"max_norm": 3, "max_keys": 4})},
    "groups, chosen norm": {**_GROUPS, **_person(norm={"auto": {"max_keys": 4}})},
    "groups, chosen total weight, listed keys": {
        **_GROUPS,
        **_LISTED,
        "weight": "amount",
        **_person(norm={"auto": {"max_keys": 4, "norm": "l1", "max_weight": 5}}),
    },
    "groups, records, listed keys": {**_GROUPS, **_LISTED, **_person(records=_WEIGHTED)},
    "groups, weights, assumed keys": {
        **_GROUPS,
        **_ASSUMED,
        "weight": "amount",
        "privacy_unit": {"record": {"max_weight": 5}},
    },
}
CONFIGS = {name: read_release(settings) for name, settings in SETTINGS.items()}


def transform(name: str) -> Any:
    """The private transform of these settings, whose noise is made of the secret."""
    made = private_transform(CONFIGS[name])
    return made.with_idempotent_noise(release_id=name, secret=PlantedSecret())


class _Sums(beam.PTransform):
    """The steps of a private transform before the noise."""

    def __init__(self, private: Any) -> None:
        super().__init__()
        self._private = private

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        declared = self._private._declared
        if not declared.count.by_item:
            return exact_sums(pcoll, self._private)
        plan = plan_of(pcoll, declared)
        found = pcoll | "Counts" >> CountPairs(declared, plan, self._private._noise(pcoll, plan.terms))
        return found["counts"]


def counters(summed: Any) -> Any:
    """All exact counters: of the sketch, then those aside; a row of grouped counts is itself."""
    return summed if isinstance(summed, tuple) else summed.to_sums().numbers[0].tolist()


def of_pipeline(names: list[str], elements: list[Any], counted: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The exact counters of some settings, and the released bytes of all, each by key."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        read, outputs = pipeline | beam.Create(elements), []
        for name in names:
            private, is_keyed = transform(name), CONFIGS[name].keys is not None
            is_pair = is_keyed or CONFIGS[name].count.by_item
            if name in counted:
                sums = read | f"Sums {name}" >> _Sums(private)
                outputs.append(sums | f"Counters {name}" >> beam.Map(_sums_of, name, is_pair))
            outputs.append(read | name >> private | f"Bytes {name}" >> beam.Map(_release_of, name, is_keyed))
        return outputs | beam.Flatten()

    found: tuple[dict[str, Any], dict[str, Any]] = ({name: {} for name in counted}, {name: {} for name in names})
    for which, name, key, value in seen_by_sink(build):
        assert key not in found[which][name]
        found[which][name][key] = value
    return found


def _sums_of(output: Any, name: str, is_pair: bool) -> tuple[int, str, Any, Any]:
    key, summed = output if is_pair else (None, output)
    return 0, name, key, counters(summed)


def _release_of(output: Any, name: str, is_keyed: bool) -> tuple[int, str, Any, Any]:
    key, released = output if is_keyed else (None, output)
    return 1, name, key, getattr(released, "release", released).to_bytes()


def counters_of_frame(name: str, table: Any) -> dict[Any, Any]:
    """The exact counters that a table leads to, by key, or by pair of key and item."""
    return {key: each for (_, key), each in exact_of_frame(CONFIGS[name], name, table).items()}


def exact_of_frame(declared: ReleaseSpec, name: str, table: Any) -> dict[tuple[int, Any], Any]:
    """The exact counters that a table leads to, by the start of a window and what is counted in it."""
    resolved, plan = resolve(declared)
    windows, opened = windows_of(declared, plan), open_table(table, columns_of(declared).values())
    secret = keyed(name).derive(declared.identify(resolved.terms, windows.edges))
    parts, tally = [opened.empty, *opened.parts], tally_of(declared, opened)
    sums = ExactSums(resolved, plan, windows, parts, tally, lambda: None, secret)
    contributed = sums.contributed()
    if declared.count.by_item:
        pairs = sums.by_pair(contributed).items()
        return {(window.start, pair): count for window, counts in pairs for pair, count in counts.items()}
    found = sums.by_window(contributed).items()
    return {(window.start, key): each.tolist() for window, sums in found for key, each in numbers_by_key(sums).items()}


def bytes_of_frame(name: str, table: Any) -> dict[Any, bytes]:
    """The bytes of what `release_frame` makes of a table, with the secret in place of entropy."""
    released, _ = release_table(table, CONFIGS[name], keyed(name))
    by_key = released if CONFIGS[name].keys is not None else {None: released}
    return {key: each.to_bytes() for key, each in by_key.items()}


def arrow_parts() -> pa.RecordBatchReader:
    """The table as a stream of batches of 97 rows, with names and countries as dictionaries of each batch."""
    batches = []
    for start in range(0, len(TABLE), 97):
        part = TABLE.slice(start, 97).combine_chunks()
        for name in ("city", "country"):
            part = part.set_column(part.schema.get_field_index(name), name, part[name].dictionary_encode())
        batches += part.combine_chunks().to_batches()
    return pa.RecordBatchReader.from_batches(batches[0].schema, batches)


def pandas_frame() -> pd.DataFrame:
    """The table in pandas: columns of numbers with nulls are floats there, and others objects."""
    return TABLE.to_pandas().astype({"city": object, "country": "category"})


def polars_frame() -> Any:
    """The table in Polars, with a column of categories; skips the test without Polars."""
    import pytest

    polars = pytest.importorskip("polars")
    return polars.from_arrow(TABLE).with_columns(polars.col("country").cast(polars.Categorical))


FORMS: dict[str, Any] = {
    "a table": lambda: TABLE,
    "a stream of batches": arrow_parts,
    "a record batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "pandas": pandas_frame,
    "Polars": polars_frame,
}
ORDER = np.random.default_rng(7).permutation(len(TABLE))
