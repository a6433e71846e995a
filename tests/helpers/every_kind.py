"""Elements of every kind a transform reads, through every path, and the counters without Beam."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from beam_dpsketch import (
    AssumePublicKeys,
    CountMin,
    CountSketch,
    IntegerDomain,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
)
from beam_dpsketch.transforms import PrivateFrequencies, PrivateStatistics
from tests.helpers.pipelines import BUNDLE_BASED, COUNT_MIN, FN_API, SPEC, ExactCounters


class Visit(NamedTuple):
    user: str
    page: str
    seconds: int


VISITS = [Visit(f"user {i % 7}", f"page {i % i_step}", i % 5 - 1) for i_step in (3, 11) for i in range(1, 40)]
WIDE = RecordBounds(max_records=1000, max_weight=10, signed=True)
SINGLE = Record(max_weight=10, signed=True)
PRIVACY = PrivacySpec(rho=0.1)
TABLE = pa.Table.from_pylist([visit._asdict() for visit in VISITS])
HALVES = [TABLE.slice(0, 30), TABLE.slice(30)]
KINDS: dict[str, list[Any]] = {
    "rows": [beam.Row(**visit._asdict()) for visit in VISITS],
    "named tuples": VISITS,
    "dicts": [visit._asdict() for visit in VISITS],
    "tables": HALVES,
    "record batches": [batch for half in HALVES for batch in half.to_batches()],
    "data frames": [half.to_pandas() for half in HALVES],
    "dictionary columns": [
        half.set_column(1, "page", half["page"].combine_chunks().dictionary_encode()) for half in HALVES
    ],
}
KEYED = ("rows", "tables")
SECONDS = IntegerDomain(0, 2)
NAMES = {"item": "page", "weight": "seconds"}
ITEMS: dict[str, list[Any]] = {
    "text": ["a", "b", "a", "ä", ""],
    "integers": [1, 2, 1, -5, 1 << 40, (1 << 63) - 1],
    "bytes": [b"a", b"", b"a"],
    "tuples": [("a", 1), ("a", 2), ("a", 1), (b"", ("x",))],
}
RUNNERS = {
    "bundle based": (BUNDLE_BASED, ()),
    "two processes": (FN_API, ("--direct_running_mode=multi_processing", "--direct_num_workers=2")),
    "portable": ("PortableRunner", ("--job_endpoint=embed", "--environment_type=LOOPBACK")),
    "direct": ("DirectRunner", ()),
}


def of_visits(visits: list[Visit], sketch: CountSketch | CountMin) -> list[list[int]]:
    """The counters without Beam."""
    items, weights = [visit.page for visit in visits], [visit.seconds for visit in visits]
    return sketch.accumulate(items, weights).counters.tolist()


def of_seconds(visits: list[Visit]) -> list[int]:
    """The squares from the low end, what they leave of 4, and those from the high end, of seconds from 0 to 2."""
    kept = [(min(max(visit.seconds, 0), 2), visit.seconds) for visit in visits]
    added = [(weight * x**2, weight * (4 - x**2 - (2 - x) ** 2), weight * (2 - x) ** 2) for x, weight in kept]
    return [sum(column) for column in zip(*added, strict=True)]


def expected(kinds: Iterable[str]) -> dict[str, Any]:
    """The counters of every branch."""
    counters: dict[str, Any] = {}
    users = sorted({visit.user for visit in VISITS})
    for kind in kinds:
        counters[f"{kind}, unbounded"] = of_visits(VISITS, CountSketch(SPEC))
        counters[f"{kind}, bounded"] = of_visits(VISITS, CountMin(COUNT_MIN))
        counters[f"{kind}, numbers"] = of_seconds(VISITS)
        for user in users if kind in KEYED else ():
            of_user = [visit for visit in VISITS if visit.user == user]
            counters[f"{kind}, of {user}, unbounded"] = of_visits(of_user, CountSketch(SPEC))
            counters[f"{kind}, of {user}, bounded"] = of_visits(of_user, CountSketch(SPEC))
    for user in users:
        counters[f"pairs, of {user}, bounded"] = counters[f"rows, of {user}, bounded"]
    for name, items in ITEMS.items():
        counters[name] = CountSketch(SPEC).accumulate(items).counters.tolist()
    return counters


def branches(kinds: Iterable[str], pipeline: beam.Pipeline) -> beam.PCollection:
    """These kinds of element through every path, as (name, counters)."""
    outputs = []

    def branch(name: str, elements: list[Any], transform: beam.PTransform) -> None:
        counters = pipeline | f"Create {name}" >> beam.Create(elements) | name >> ExactCounters(transform)
        outputs.append(counters | f"Name {name}" >> beam.Map(named, name))

    by_user = PrivacyId("user", WIDE)
    of_one_key = PrivacyId("user", dataclasses.replace(WIDE, max_keys=1))
    for kind in kinds:
        elements = KINDS[kind]
        branch(f"{kind}, unbounded", elements, PrivateFrequencies(SPEC, PRIVACY, **NAMES, privacy_unit=SINGLE))
        branch(f"{kind}, bounded", elements, PrivateFrequencies(COUNT_MIN, PRIVACY, **NAMES, privacy_unit=by_user))
        numbers = PrivateStatistics(
            SECONDS, PRIVACY, variance=True, item="seconds", weight="seconds", privacy_unit=by_user
        )
        branch(f"{kind}, numbers", elements, numbers)
        for name, privacy_unit in {"unbounded": SINGLE, "bounded": of_one_key}.items() if kind in KEYED else ():
            keyed = PrivateFrequencies(SPEC, PRIVACY, **NAMES, privacy_unit=privacy_unit, keys=AssumePublicKeys("user"))
            branch(f"{kind}, of *, {name}", elements, keyed)
    pairs = PrivateFrequencies(SPEC, PRIVACY, **NAMES, privacy_unit=of_one_key, keys=AssumePublicKeys())
    branch("pairs, of *, bounded", [(visit.user, visit) for visit in VISITS], pairs)
    for name, items in ITEMS.items():
        branch(name, items, PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record()))
    return outputs | beam.Flatten()


def named(counters: Any, name: str) -> tuple[str, Any]:
    if isinstance(counters, tuple):
        key, counters = counters
        name = name.replace("*", key)
    return name, counters
