"""What the tests of several engines publish and check."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import GlobalWindows

from beam_dpsketch import Horizon, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from tests.engines.conftest import Engine
from tests.helpers.max_windows import BOUNDS, FIXED, assert_within, per_key
from tests.helpers.pipelines import FN_API, SPEC, ExactCounters, Sink, seen_by_sink
from tests.helpers.stream_cases import PER_KEY, outputs

SECRET, OF_TESTS = "SECRET_OF_TESTS", "planted-secret-4711-" * 3
TERMS = {"release_id": "visits", "secret": EnvironmentSecret(SECRET)}
TIGHT = RecordBounds(max_records=2, max_keys=3)


def assert_greedy_id_is_bounded(source: Any, engine: Engine) -> None:
    """One id with too many records everywhere: two windows of each period count, and the bounds hold in each."""
    transform = ExactCounters(per_key(weight="weight", period=300))
    found = outputs(source, transform, 60, *engine.options, runner=engine.runner)
    totals = {place: counters[0][0] for place, counters in found.items()}
    assert_within(totals, FIXED, BOUNDS, 2, 300)


def assert_nothing_lost(found: Any, without: Any, with_late: Any, *, dropped: bool) -> None:
    """Compares counters by place; the late record is in none, or, if it need not be dropped, in those of its window."""
    assert found.keys() == without.keys()
    counted = [place for place in found if not np.array_equal(found[place], without[place])]
    print("the late record counted in", counted)
    assert [place for place in counted if dropped or not np.array_equal(found[place], with_late[place])] == []


class Published(Sink):
    """Writes each element at once, and passes it on."""

    def process(self, element: Any) -> Any:
        super().process(element)
        yield element


def published(folder: Path) -> dict[Any, list[Any]]:
    """All that the sink has of each window and key."""
    found: dict[Any, list[Any]] = {}
    for path in (folder / "sink").iterdir():
        start, (key, value) = pickle.loads(path.read_bytes())
        found.setdefault((start, key), []).append(value)
    return found


def frequencies(idempotent: bool) -> beam.PTransform:
    transform = PrivateFrequencies(SPEC, PrivacySpec(rho=0.1), **PER_KEY, privacy_unit=PrivacyId("user", TIGHT))
    return transform.with_idempotent_noise(**TERMS) if idempotent else transform


class Rows(beam.PTransform):
    """(`None`, row) over time with idempotent noise, of elements in any windows."""

    def __init__(self, horizon: Horizon) -> None:
        super().__init__()
        self._horizon = horizon

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        transform = PrivateFrequencies(
            SPEC, PrivacySpec(rho=0.1), windows=self._horizon, privacy_unit=Record(), item="page"
        ).with_idempotent_noise(release_id="rows", secret=EnvironmentSecret(SECRET))
        return pcoll | "NoWindows" >> beam.WindowInto(GlobalWindows()) | transform | "Keyed" >> beam.Map(without_key)


def without_key(row: Any) -> tuple[None, Any]:
    return None, row


def assert_rows(folder: Path, source: Any, horizon: Horizon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row is there, with one value: the noise that a batch in memory draws for all that was sent."""
    monkeypatch.setenv(SECRET, OF_TESTS)
    there = {drawn(row) for _, row in seen_by_sink(lambda pipeline: source(pipeline) | Rows(horizon), runner=FN_API)}
    rows = [row for values in published(folder).values() for row in values]
    assert {*map(drawn, rows)} == there
    assert sorted(number for number, _ in {(row.number, row.to_bytes()) for row in rows}) == [
        *range(horizon.rows.row_count)
    ]


def drawn(row: Any) -> tuple[int, bytes, Any]:
    """What noise decides of a row: a stream has other words than a batch, of late records."""
    return row.number, row.counters.tobytes(), row.privacy.release_ids


def assert_second_values(idempotent: bool, folder: Path) -> None:
    """Some windows and keys are published twice: with the same bytes, or always with others."""
    values = {place: [each.to_bytes() for each in releases] for place, releases in published(folder).items()}
    twice = [each for each in values.values() if len(each) > 1]
    print(f"{len(twice)} of {len(values)} windows and keys published twice,", end=" ")
    print(f"{sum(len(set(each)) > 1 for each in twice)} of them with two values")
    assert twice
    assert all(len(set(each)) == (1 if idempotent else len(each)) for each in values.values())
