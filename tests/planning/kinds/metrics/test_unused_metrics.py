"""A metric that counts nothing of a whole table, or of a bundle, is told by its name, and the others are not."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    InputWarning,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    release_frame,
)
from beam_dpsketch.exact.reading import unreadable
from beam_dpsketch.exact.reading.unreadable import MANY
from beam_dpsketch.exact.sketches.metrics import JoinedSketches
from beam_dpsketch.transforms import PrivateMetrics
from tests.helpers import laws
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import FN_API

METRICS = {
    "pages": Metric(ItemFrequencies(SketchSpec(width=16)), "page"),
    "waits": Metric(Quantiles(IntegerDomain(0, 9)), "wait"),
    "towns": Metric(ItemFrequencies(ListedItems(["Oslo", "Rome"])), "town"),
}
UNITS: dict[str, Any] = {
    "record": Record(),
    "records": PrivacyId("user", RecordBounds(2)),
    "norm": PrivacyId("user", NormBound(2)),
}
KEYS = {"none": None, "open": AssumePublicKeys("page")}
ROWS: list[dict[str, Any]] = [
    {"user": number % 50, "page": "a", "wait": None, "town": "planted-4711"} for number in range(2 * MANY)
]
every_unit = pytest.mark.parametrize("privacy_unit", UNITS)
every_keys = pytest.mark.parametrize("keys", KEYS)


@pytest.fixture(autouse=True)
def _nothing_logged_before() -> Iterator[None]:
    unreadable._log_once.cache_clear()
    yield
    unreadable._log_once.cache_clear()


def table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    return columns.set_column(2, "wait", columns["wait"].cast(pa.int64()))


def warned(privacy_unit: str, keys: str, rows: list[dict[str, Any]]) -> list[str]:
    """The warnings of a release of a table."""
    declared = ReleaseSpec(
        Metrics(METRICS), PrivacySpec(rho=1), in_keys(UNITS[privacy_unit], KEYS[keys]), keys=KEYS[keys]
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", InputWarning)
        release_frame(table(rows), declared)
    return sorted(str(each.message) for each in found)


def logged(privacy_unit: str, keys: str, elements: list[Any], caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged of a pipeline whose elements are one bundle."""
    private = PrivateMetrics.of(
        ReleaseSpec(Metrics(METRICS), PrivacySpec(rho=1), in_keys(UNITS[privacy_unit], KEYS[keys]), keys=KEYS[keys])
    )
    with caplog.at_level(logging.WARNING, logger="beam_dpsketch"), beam.Pipeline(runner=FN_API) as pipeline:
        pipeline | beam.Create(elements, reshuffle=False) | private
    return sorted(each.getMessage() for each in caplog.records if each.name.startswith("beam_dpsketch"))


def names(messages: list[str]) -> list[str]:
    """Which arguments have nothing."""
    assert all("No element counts for this metric" in each or " of the rows have " in each for each in messages)
    assert "4711" not in "".join(messages)
    return [message.partition(":")[0] for message in messages]


NOTHING = ["metrics.towns.item='town'", "metrics.waits.item='wait'"]


@every_unit
@every_keys
def test_a_column_without_a_usable_value_is_told(privacy_unit: str, keys: str) -> None:
    assert names(warned(privacy_unit, keys, ROWS)) == NOTHING
    assert names(warned(privacy_unit, keys, [*ROWS, {**ROWS[0], "town": "Oslo"}])) == NOTHING
    assert names(warned(privacy_unit, keys, [*ROWS, {**ROWS[0], "town": "Oslo", "wait": 3}])) == NOTHING[:1]
    assert warned(privacy_unit, keys, [{**ROWS[0], "town": "Oslo", "wait": 3}] * 2) == []
    assert names(warned(privacy_unit, keys, ROWS[:1])) == NOTHING


@pytest.mark.pipeline
@pytest.mark.parametrize("form", ["rows", "tables"])
@pytest.mark.parametrize(("privacy_unit", "keys"), [("record", "none"), ("norm", "none"), ("records", "open")])
def test_a_field_without_a_usable_value_is_logged(
    privacy_unit: str, keys: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    elements: list[Any] = ROWS if form == "rows" else [table(ROWS)]
    assert names(logged(privacy_unit, keys, elements, caplog)) == NOTHING


@pytest.mark.pipeline
def test_an_id_that_nobody_has_drops_all(caplog: pytest.LogCaptureFixture) -> None:
    private = PrivateMetrics(METRICS, PrivacySpec(rho=1), privacy_unit=PrivacyId("usr", RecordBounds(1)))
    with caplog.at_level(logging.WARNING, logger="beam_dpsketch"), beam.Pipeline(runner=FN_API) as pipeline:
        pipeline | beam.Create(ROWS, reshuffle=False) | private
    (of_id,) = [each.getMessage() for each in caplog.records if "usr" in each.getMessage()]
    assert ". No element counts. Usable values are" in of_id


def check_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert names(logged("record", "none", ROWS, caplog)) == NOTHING


test_that_only_records_without_any_item_are_looked_at_is_found = pytest.mark.pipeline(
    laws.mutants({"all": laws.put(JoinedSketches, "any_counts", lambda spec, keys: len(keys) > 0)}, check_logged)
)
