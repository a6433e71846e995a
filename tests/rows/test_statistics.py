"""Rows of sums, means and variances: what is not known is null, through every door that has a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.transforms.fully_qualified_named_transform import FullyQualifiedNamedTransform
from apache_beam.typehints.schemas import typing_to_runner_api

from beam_dpsketch import Horizon, SketchTimeline, rows
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.rows.expansion import GLOB, OPTIONS, RowsExpansion
from tests.helpers.noise import without_noise
from tests.helpers.other_languages import call
from tests.helpers.pipelines import seen_by_sink
from tests.helpers.plain_rows import (
    DOMAINS,
    HORIZON,
    HOUR,
    KEYED,
    NUMBERS,
    START,
    UNIT,
    VISITS,
    WINDOWS,
    hourly,
    seen,
    visits,
)

KINDS = ("count", "total", "mean", "variance", "std")
DELAY, PRIVACY = DOMAINS["delay"], {"rho": 3}
PUBLIC = {"public": ["Oslo", "Nowhere"], "field": "city"}
OSLO = [each.delay for each in VISITS if each.city == "Oslo"]
UNSURE = float | None


def private(**settings: Any) -> rows.PrivateStatistics:
    return rows.PrivateStatistics("delay", DELAY, PRIVACY, settings.pop("privacy_unit", UNIT), **settings)


@pytest.fixture
def exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases without noise: a count of nothing is 0, so nothing is known of its mean."""
    without_noise(monkeypatch)


@pytest.mark.usefixtures("exactly")
def test_a_mean_that_cannot_be_told_is_null() -> None:
    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        released = visits(pipeline) | private(privacy_unit=KEYED, keys=PUBLIC, variance=True)
        asked = {kind: released | rows.QueryReleases({kind: True}) for kind in KINDS}
        return {"releases": released, **asked}

    found = seen(build)
    for kind in KINDS:
        unsure = {} if kind in ("count", "total") else {"estimate": UNSURE}
        assert [*found[kind].columns.items()][:4] == [("key", str), *{**NUMBERS, **unsure}.items()]
        of_key = {row["key"]: row for row in found[kind].rows}
        assert of_key.keys() == {"Oslo", "Nowhere"}
        assert isinstance(of_key["Oslo"]["estimate"], float)
        if unsure:
            assert of_key["Nowhere"]["estimate"] is None
            assert "too_few_records" in of_key["Nowhere"]["notes"].split(",")
            assert "too_few_records" not in of_key["Oslo"]["notes"].split(",")
    (mean,) = [row for row in found["mean"].rows if row["key"] == "Nowhere"]
    assert json.loads(json.dumps(mean))["estimate"] is None
    assert (mean["lower"], mean["upper"]) == (DELAY["low"], DELAY["high"])
    (row,) = [row for row in found["releases"].rows if row["key"] == "Oslo"]
    assert row["kind"] == "statistics"
    assert "(unit: the contribution of one record)" in row["statement"]
    assert isinstance(ReleasedStatistics.from_bytes(row["release"]), ReleasedStatistics)


@pytest.mark.usefixtures("exactly")
def test_a_question_with_the_release_is_that_of_query_releases() -> None:
    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        read = hourly(visits(pipeline))
        privacy_unit = {**UNIT, "max_windows": 2}
        return {"answers": read | private(ask={"mean": True}, privacy_unit=privacy_unit, windows=WINDOWS)}

    found = seen(build)["answers"]
    assert [*found.columns][:5] == ["window_start", "window_end", "estimate", "lower", "upper"]
    assert found.columns["estimate"] == UNSURE
    assert len(found.rows) == 2


@pytest.mark.usefixtures("exactly")
def test_a_timeline_answers_with_the_means_of_its_windows() -> None:
    privacy_unit = {**UNIT, "max_windows": 2}

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        released = visits(pipeline) | rows.PrivateContinualStatistics("delay", DELAY, HORIZON, PRIVACY, privacy_unit)
        return {"rows": released, "means": released | rows.QueryTimeline({"mean": True}, HORIZON, over="prefixes")}

    found = seen(build)
    timeline = SketchTimeline(
        [TimelineRow.from_bytes(row["release"]) for row in found["rows"].rows], Horizon(START, HOUR, 2)
    )
    expected = [timeline.between(0, last).mean().estimate for last in (0, 1)]
    means = sorted(found["means"].rows, key=lambda row: row["window_end"])
    assert [row["estimate"] for row in means] == expected
    assert found["means"].columns["estimate"] == UNSURE


def test_the_column_is_nullable_in_the_schema_of_other_languages() -> None:
    means = visits(beam.Pipeline("FnApiRunner")) | private(ask={"mean": True})
    schema = typing_to_runner_api(means.element_type).row_type.schema
    nullable = {field.name: field.type.nullable for field in schema.fields}
    assert (nullable["estimate"], nullable["lower"], nullable["notes"]) == (True, False, False)


@pytest.fixture
def service() -> Iterator[RowsExpansion]:
    """A service for other languages, whose workers are threads of this process."""
    options = PipelineOptions([*OPTIONS, f"--environment_type={python_urns.EMBEDDED_PYTHON}"])
    with FullyQualifiedNamedTransform.with_filter(GLOB):
        yield RowsExpansion(options, is_worker=True)


@pytest.mark.pipeline
@pytest.mark.usefixtures("exactly")
def test_other_languages_get_means_and_nulls(service: RowsExpansion) -> None:
    given = {
        "item": "delay",
        "domain": json.dumps(DELAY),
        "privacy": json.dumps(PRIVACY),
        "privacy_unit": json.dumps({"privacy_id": "person", "records": {"max_records": 2, "max_keys": 1}}),
        "keys": json.dumps(PUBLIC),
        "variance": True,
        "ask": '{"mean": true}',
    }

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        some = [beam.Row(person=each.person, city=each.city, delay=each.delay) for each in VISITS]
        means = pipeline | beam.Create(some) | call(service, "PrivateStatistics", **given)
        return means | beam.Map(lambda row: (row.key, row.estimate))

    found = dict(seen_by_sink(build))
    assert found["Nowhere"] is None
    assert isinstance(found["Oslo"], float)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ask": {"quantiles": [0.5]}}, "A release of kind statistics does not answer quantiles"),
        ({"ask": {"variance": True}}, "ask.variance: requires the setting variance: true"),
        ({"variance": 0.1}, "variance: expected true or false, got 0.1"),
    ],
)
def test_what_the_release_would_not_answer_is_refused_before_it_is_made(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        private(**settings)
