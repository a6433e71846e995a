"""Zipf items with the exponent 1.1 that DataSketches characterizes frequent items with, one record a person.

There are 2^16 items, ranked by probability, and 300,000 records. The questions are the counts of the 100 most frequent
and of 100 random items. Each of our methods competes with libraries that have the same prior knowledge.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import release_frame
from benchmarks.public import peers
from benchmarks.public.contest import (
    DATASKETCHES,
    DELTA,
    EPSILON,
    OPENDP,
    OURS,
    PIPELINE_DP,
    PLAIN,
    Answers,
    Ask,
    Contest,
    Entry,
    Question,
)

SEED, RECORDS, EXPONENT, ASKED, UNIVERSE = 7, 300_000, 1.1, 100, 1 << 16
NO_LIST, LATER = "Zipf, no list", "Zipf, a list after the release"
TOP, RANDOM = f"counts of the top {ASKED}", f"counts of {ASKED} random items"


def contests(records: int = RECORDS, universe: int = UNIVERSE) -> Iterator[Contest]:
    generator = np.random.default_rng(SEED)
    weights = np.arange(1, universe + 1) ** -EXPONENT
    values = generator.choice(universe, records, p=weights / weights.sum())
    exact = np.bincount(values, minlength=universe)
    top = np.argsort(-exact, kind="stable")[:ASKED]
    asked = {TOP: top, RANDOM: generator.choice(universe, ASKED, replace=False)}
    questions = [Question(name, exact[items]) for name, items in asked.items()]
    table, rows = pa.table({"item": values}), [(place, item, 0) for place, item in enumerate(values.tolist())]
    occurring = dict(enumerate(exact.tolist()))
    occurring = {item: count for item, count in occurring.items() if count}

    def answers(counts: dict[int, Any]) -> dict[str, Answers]:
        found = {name: [counts.get(item, 0.0) for item in items.tolist()] for name, items in asked.items()}
        return {name: Answers(np.array(each, dtype=float)) for name, each in found.items()}

    def ours(**settings: Any) -> Ask:
        settings |= {"item": "item", "privacy_unit": "record", "privacy": {"epsilon": EPSILON, "delta": DELTA}}

        def ask() -> dict[str, Answers]:
            released: Any = release_frame(table, settings)
            found = {name: Answers.of(released.interval(items.tolist())) for name, items in asked.items()}
            return {name: each._replace(estimate=np.nan_to_num(each.estimate)) for name, each in found.items()}

        return ask

    def pipeline_dp(public: Any) -> Ask:
        def ask() -> dict[str, Answers]:
            found = peers.pipeline_dp(rows, ["COUNT"], public, keys=1, each=1)
            return answers({item: each.count for item, each in found.items()})

        return ask

    def plain() -> dict[str, Answers]:
        noisy = peers.noisy(exact, 1, 1.0)
        return {name: Answers(*(side[items] for side in noisy if side is not None)) for name, items in asked.items()}

    def sketched(name: str, *size: int) -> Ask:
        def ask() -> dict[str, Answers]:
            sketch = getattr(importlib.import_module("datasketches"), name)(*size)
            for item in values.tolist():
                sketch.update(item)
            return answers({item: sketch.get_estimate(item) for items in asked.values() for item in items.tolist()})

        return ask

    histogram = Entry(PLAIN, {f"a count of each of {universe:,} items": plain})
    integers = {"type": "integer", "low": 0, "high": universe - 1}
    thresholds = {
        law: lambda law=law: answers(peers.thresholded(occurring, 1, 1, law)) for law in ("Laplace", "Gaussian")
    }
    yield Contest(
        "Zipf, public list",
        questions,
        (
            Entry(OURS, {"listed items": ours(kind="frequencies", listed_items=list(range(universe)))}),
            Entry(PIPELINE_DP, {"public partitions": pipeline_dp(range(universe))}),
            histogram,
        ),
    )
    yield Contest(
        NO_LIST,
        questions,
        (
            Entry(OURS, {"thresholded counts": ours(kind="top_k", k=ASKED, domain=integers, method="threshold")}),
            Entry(PIPELINE_DP, {"private partition selection": pipeline_dp(None)}),
            Entry(OPENDP, thresholds),
            Entry(DATASKETCHES, {"frequent_items_sketch(12)": sketched("frequent_items_sketch", 12)}),
        ),
    )
    yield Contest(
        LATER,
        questions,
        (
            Entry(OURS, {"CountSketch": ours(kind="frequencies")}),
            histogram,
            Entry(DATASKETCHES, {"count_min_sketch(5, 8192)": sketched("count_min_sketch", 5, 8192)}),
        ),
    )
