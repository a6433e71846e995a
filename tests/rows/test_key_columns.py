"""Rows have a column for each column of a key, through files and questions, and QueryTimeline asks each key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam

from beam_dpsketch import read_releases, rows
from tests.helpers.plain_rows import DOMAINS, HORIZON, VISITS, seen, visits

HOURS = {"time": "when", "bucket": "hour", "zone": "Asia/Kathmandu", "start": "2024-01-01", "end": "2024-01-02"}
KEYS = {"field": ["city", HOURS, "zip"], "assume_public": True}
TYPES = {"city": "text", "hour": "text", "zip": "integer"}
PRIVACY = {"rho": 100}
UNIT = {"privacy_id": "person", "records": {"max_records": 2, "max_keys": 4}}
"""Each person has two records: nothing is dropped."""
ONE = {"privacy_id": "person", "records": {"max_records": 2, "max_keys": 1}, "max_windows": 2}


def clock(seconds: int) -> str:
    minutes = (seconds - 1_704_067_200) // 60 + 5 * 60 + 45
    return f"2024-01-01T{minutes // 60:02}:00+05:45"


def test_rows_have_a_column_for_each_column_of_a_key(tmp_path: Path) -> None:
    """Errors of counts have deviations below 0.5, so one of 5 has a probability below 1e-20."""
    exact: dict[Any, int] = {}
    for each in VISITS:
        key = each.city, clock(each.seconds), each.zip
        exact[key] = exact.get(key, 0) + 1

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        read = visits(pipeline)
        made = read | rows.PrivateFrequencies("city", PRIVACY, UNIT, listed_items=["Oslo", "Bern", "Rome"], keys=KEYS)
        public = {"field": HOURS | {"bucket": "day"}}
        row = read | rows.PrivateContinualFrequencies("city", HORIZON, PRIVACY, ONE, listed_items=["Oslo"], keys=public)
        return {
            "asked": made | rows.QueryReleases({"total_weight": True}),
            "written": made | rows.WriteReleases(f"{tmp_path}/made"),
            "days": row | rows.QueryTimeline({"items": ["Oslo"]}, HORIZON),
        }

    found = seen(build)
    assert [*found["asked"].columns][:4] == ["city", "hour", "zip", "estimate"]
    assert [*found["asked"].columns.values()][:3] == [str, str, int]
    estimates = {(row["city"], row["hour"], row["zip"]): row["estimate"] for row in found["asked"].rows}
    assert estimates.keys() == exact.keys() == {key for key, _ in read_releases(f"{tmp_path}/made*")}

    assert all(abs(estimates[key] - exact[key]) < 5 for key in exact)
    assert {row["key"] for row in found["days"].rows} == {"2024-01-01"}

    back = seen(lambda pipeline: {"back": pipeline | rows.ReadReleases(f"{tmp_path}/made*", key=TYPES)})["back"]
    assert {(row["city"], row["hour"], row["zip"]) for row in back.rows} == exact.keys()


def test_metrics_in_rows_have_columns_for_their_keys() -> None:
    """Each person has two records. Errors of counts have deviations below 0.5, as above."""
    metrics: list[Any] = [{"name": "people", "kind": "privacy_ids"}, {"name": "visits", "kind": "count"}]
    metrics.append({"name": "delay", "kind": "statistics", "item": "delay", "domain": DOMAINS["delay"]})
    keys = {"field": ["city", "zip"], "assume_public": True}
    asked = {"people": {"count": True}, "visits": {"count": True}, "delay": {"mean": True}}

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        made = visits(pipeline) | rows.PrivateMetrics(PRIVACY, UNIT, metrics, keys=keys)
        return {name: made | name >> rows.QueryReleases({**ask, "metric": name}) for name, ask in asked.items()}

    found = seen(build)
    exact: dict[str, Counter[Any]] = {name: Counter() for name in ("people", "visits")}
    exact["visits"].update((each.city, each.zip) for each in VISITS)
    exact["people"].update((city, code) for city, code, _ in {(each.city, each.zip, each.person) for each in VISITS})
    for name, answers in found.items():
        assert [*answers.columns][:3] == ["city", "zip", "estimate"]
        estimates = {(row["city"], row["zip"]): row["estimate"] for row in answers.rows}
        assert estimates.keys() == exact["visits"].keys()
        assert all(abs(estimates[key] - count) < 5 for key, count in exact.get(name, {}).items())
