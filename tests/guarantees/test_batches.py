"""Batches as elements: bounds hold for a privacy id and window, however its records are spread over batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import AssumePublicKeys, IntegerDomain, PrivacyId, PrivacySpec, Record, RecordBounds, SketchSpec
from beam_dpsketch.records.bounding.priorities import RandomPriorities
from beam_dpsketch.records.bounding.record_rule import RecordRule
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies, PrivateQuantiles, PrivateTopK

TWO = RecordBounds(max_per_key=2)
PRIVACY = PrivacySpec(rho=1.0)
COLUMNS = {"user": ["a", "a", "b"], "item": [1, 2, 3], "n": [1, 1, 1], "key": ["k", "k", "k"]}


class _Windowed(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        yield window.start.micros // 1_000_000, element.item


@pytest.mark.one_fast_case
@pytest.mark.parametrize("make", [pa.RecordBatch.from_pydict, pa.Table.from_pydict, pd.DataFrame])
def test_the_bound_is_of_id_and_window_and_not_of_the_batch(make: Any) -> None:
    """Three batches in each of two windows; id a has 6 records in each window and keeps 2, id b 3 and keeps 2."""
    timed = [TimestampedValue(make(COLUMNS), time) for time in (0, 1, 2, 10, 11, 12)]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create(timed)
            | beam.Map(lambda batch: batch)
            | beam.WindowInto(FixedWindows(10))
            | BoundContributions(PrivacyId("user", TWO), item="item")
            | beam.ParDo(_Windowed())
            | "Together" >> beam.WindowInto(GlobalWindows())
        )
        assert_that(found, _four_in_each_window)


def _four_in_each_window(found: list[Any]) -> None:
    assert Counter(window for window, _ in found) == {0: 4, 10: 4}, len(found)
    assert Counter(item == 3 for _, item in found) == {True: 4, False: 4}, len(found)


@pytest.mark.parametrize("argument", ["item", "weight", "privacy_id", "key"])
def test_callables_are_refused_on_batches(argument: str) -> None:
    selector: dict[str, Any] = {"item": "item", "weight": "n", "privacy_id": "user", "key": "key", argument: len}
    transform = PrivateFrequencies(
        SketchSpec(depth=1, width=8),
        PRIVACY,
        item=selector["item"],
        weight=selector["weight"],
        unit=PrivacyId(selector["privacy_id"], RecordBounds(1, max_keys=1, max_weight=1)),
        keys=AssumePublicKeys(selector["key"]),
    )
    with (
        pytest.raises(Exception, match=f"{argument} must be a column name where elements are batches"),
        beam.Pipeline(runner="FnApiRunner") as pipeline,
    ):
        _ = pipeline | beam.Create([pa.table(COLUMNS)]) | transform


@pytest.mark.one_fast_case
@pytest.mark.parametrize("make", [pa.RecordBatch.from_pydict, pa.Table.from_pydict, pd.DataFrame])
def test_every_transform_takes_batches(make: Any) -> None:
    domain, elements = IntegerDomain(0, 9), [make(COLUMNS), make(COLUMNS)]
    transforms = {
        "frequencies": PrivateFrequencies(SketchSpec(depth=1, width=8), PRIVACY, item="item", unit=Record()),
        "quantiles": PrivateQuantiles(domain, PRIVACY, item="item", unit=PrivacyId("user", TWO)),
        "top": PrivateTopK(domain, PRIVACY, k=1, item="item", unit=PrivacyId("user", TWO)),
    }
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        batches = pipeline | beam.Create(elements)
        for name, transform in transforms.items():
            assert_that(batches | name >> transform, lambda found: len(found) == 1 or 1 / 0, label=f"check {name}")


UNITS = st.lists(st.sampled_from(["a", "b", "c", "a much longer privacy id"]), max_size=20)


@settings(deadline=None)
@given(UNITS, st.integers(1, 4), st.integers(1, 4))
def test_what_keeps_all_drops_nothing(units: list[str], records: int, partitions: int) -> None:
    bounds = RecordBounds(max_per_key=records, max_keys=partitions)
    bound = RecordRule(bounds, RandomPriorities(salt=1))
    words = np.array([hash(unit) & 0xFFFF for unit in units], dtype=np.uint64)
    table = pa.table({"unit": pa.array([unit.encode() for unit in units], pa.large_binary())})
    table = table.append_column("item", pa.array(np.arange(len(units))))
    most = max(Counter(units).values(), default=0)
    if bound.keeps_all(words):
        assert len(bound.prune(table)) == len(units)
        assert most <= min(records, partitions)
    assert not RecordRule(RecordBounds(1, signed=True), RandomPriorities(salt=1)).keeps_all(words)
