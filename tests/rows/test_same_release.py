"""Plain settings count the same records as the transforms of Python: counters without noise are equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    Horizon,
    IntegerDomain,
    ListedItems,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
    TimeRange,
    rows,
    transforms,
)
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.transforms.outputs import TopK
from tests.helpers.continual import without_noise
from tests.helpers.pipelines import seen_by_sink
from tests.helpers.plain_rows import HORIZON, HOUR, PRIVACY, START, WINDOWS, hourly, seen, visits

UNIT = {"privacy_id": "person", "records": {"max_records": 9}}
KEYED = {"privacy_id": "person", "records": {"max_records": 9, "max_keys": 2}}
ONE, ALL = RecordBounds(9), RecordBounds(9, max_keys=2)
SPEND, KEYS = PrivacySpec(rho=3), PublicKeys(["Oslo", "Rome"], "city")
PUBLIC = {"public": ["Oslo", "Rome"], "field": "city"}
DELAYS, TEXT = IntegerDomain(-10, 60), TextDomain(3)
DELAY_SETTINGS, TEXT_SETTINGS = {"type": "integer", "low": -10, "high": 60}, {"type": "text", "max_bytes": 3}
HOURS = Horizon(START, HOUR, 2)
RANGE = TimeRange(START, START + 2 * HOUR)

Pair = tuple[Callable[[], beam.PTransform], Callable[[], beam.PTransform]]
GLOBAL: dict[str, Pair] = {
    "frequencies": (
        lambda: rows.PrivateFrequencies("city", PRIVACY, UNIT, spec={"depth": 3, "width": 16}),
        lambda: transforms.PrivateFrequencies(
            SketchSpec(depth=3, width=16), SPEND, privacy_unit=PrivacyId("person", ONE), item="city"
        ),
    ),
    "items of keys": (
        lambda: rows.PrivateFrequencies("ip", PRIVACY, KEYED, listed_items=["10.0.0.1"], keys=PUBLIC),
        lambda: transforms.PrivateFrequencies(
            ListedItems(["10.0.0.1"]), SPEND, privacy_unit=PrivacyId("person", ALL), item="ip", keys=KEYS
        ),
    ),
    "top_k": (
        lambda: rows.PrivateTopK(
            "city", TEXT_SETTINGS, 1, PRIVACY, KEYED, ask="releases", method={"threshold": {"delta": 1e-8}}
        ),
        lambda: transforms.PrivateTopK(
            TEXT, SPEND, privacy_unit=PrivacyId("person", ALL), item="city", k=1, method=Thresholding(1e-8)
        ),
    ),
    "over time": (
        lambda: rows.PrivateContinualFrequencies(
            "city", HORIZON, PRIVACY, {**UNIT, "max_windows": 2}, listed_items=["Oslo", "Bern"]
        ),
        lambda: transforms.PrivateFrequencies(
            ListedItems(["Oslo", "Bern"]),
            SPEND,
            windows=HOURS,
            privacy_unit=PrivacyId("person", ONE, max_windows=2),
            item="city",
        ),
    ),
}
HOURLY: dict[str, Pair] = {
    "quantiles of keys and windows": (
        lambda: rows.PrivateQuantiles(
            "delay", DELAY_SETTINGS, PRIVACY, {**KEYED, "max_windows": 2}, keys=PUBLIC, windows=WINDOWS
        ),
        lambda: transforms.PrivateQuantiles(
            DELAYS, SPEND, privacy_unit=PrivacyId("person", ALL, max_windows=2), item="delay", keys=KEYS, windows=RANGE
        ),
    )
}


def counters(found: Any) -> list[float]:
    return list(np.ravel(found.counters).tolist())


def of_element(element: Any) -> list[Any]:
    """Return the key and the counters of what a transform of Python gives."""
    key, found = element if isinstance(element, tuple) else (None, element)
    return [key, counters(found.release if isinstance(found, TopK) else found)]


def of_row(row: dict[str, Any]) -> list[Any]:
    """Return the key and the counters of a row."""
    kind: Any = TimelineRow if "row" in row else ReleasedSketch
    return [row.get("key"), counters(kind.from_bytes(row["release"]))]


def in_order(found: list[list[Any]]) -> list[list[Any]]:
    return sorted(found, key=repr)


@pytest.mark.slow
def test_counters_are_those_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        read = visits(pipeline)
        found = {name: read | private() for name, (private, _) in GLOBAL.items()}
        return {**found, **{name: hourly(read) | private() for name, (private, _) in HOURLY.items()}}

    def python(pipeline: beam.Pipeline) -> beam.PCollection:
        read, found = visits(pipeline), []
        for name, (_, private) in {**GLOBAL, **HOURLY}.items():
            released = (hourly(read) if name in HOURLY else read) | name >> private()
            everywhere = released | f"Global {name}" >> beam.WindowInto(beam.window.GlobalWindows())
            found.append(everywhere | f"Name {name}" >> beam.Map(lambda each, name=name: (name, of_element(each))))
        return found | beam.Flatten()

    with monkeypatch.context() as patched:
        without_noise(patched)
        by_settings = {name: [*map(of_row, found.rows)] for name, found in seen(plain).items()}
        by_hand: dict[str, list[Any]] = {}
        for name, element in seen_by_sink(python):
            by_hand.setdefault(name, []).append(element)
    assert {name: len(found) for name, found in by_hand.items()} == {
        "frequencies": 1, "items of keys": 2, "top_k": 1, "over time": 2, "quantiles of keys and windows": 4
    }  # fmt: skip
    for name, found in by_hand.items():
        assert in_order(by_settings[name]) == in_order(found)
        assert all(any(numbers) for _, numbers in found)
