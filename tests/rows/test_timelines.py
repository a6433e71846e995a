"""`QueryTimeline` answers about windows of rows over time, by key and run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import Horizon, SketchTimeline, rows
from beam_dpsketch.answers.over_time import TimelineRow
from tests.helpers.plain_rows import HOUR, START, UNIT, VISITS, by_hand, seen, visits

HORIZON = {"start": START, "window_size": "30m", "windows": 4}
WHERE = Horizon(START, HOUR / 2, 4)
ASK = {"items": ["Oslo", "Bern"]}
PUBLIC = {"public": ["10.0.0.0", "10.0.0.1"], "field": "ip"}


def private(**settings: Any) -> rows.PrivateContinualFrequencies:
    privacy_unit = {"privacy_id": "person", "records": {"max_records": 2, "max_keys": 2}}
    privacy_unit = {**(privacy_unit if "keys" in settings else UNIT), "max_windows": 4}
    return rows.PrivateContinualFrequencies(
        "city", HORIZON, {"rho": 3}, privacy_unit, listed_items=["Oslo", "Bern"], **settings
    )


def edges(row: dict[str, Any]) -> tuple[int, int]:
    """Return which windows an answer is about."""
    first, last = (Timestamp.from_rfc3339(row[name]) for name in ("window_start", "window_end"))
    return int(first - START) // 1800, int(last - START) // 1800


def test_answers_are_those_of_the_timeline_over_windows_prefixes_and_ranges() -> None:
    ranges = [{"start": START + 1800, "end": START + 5400}, [START, START + 7200]]

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        read = visits(pipeline)
        released = read | private()
        keyed = read | private(keys=PUBLIC, encoding="base64")
        return {
            "rows": released,
            "windows": released | rows.QueryTimeline(ASK, HORIZON),
            "prefixes": released | rows.QueryTimeline(ASK, HORIZON, over="prefixes"),
            "ranges": released | rows.QueryTimeline(ASK, HORIZON, over=ranges),
            "keyed rows": keyed,
            "keyed": keyed | rows.QueryTimeline(ASK, HORIZON, over=ranges, label="Keyed"),
        }

    found = seen(build)
    assert [*found["rows"].columns][:5] == ["window_start", "window_end", "kind", "row", "release"]
    timeline = SketchTimeline([TimelineRow.from_bytes(row["release"]) for row in found["rows"].rows], WHERE)
    asked = {
        "windows": [(0, 1), (1, 2), (2, 3), (3, 4)],
        "prefixes": [(0, 1), (0, 2), (0, 3), (0, 4)],
        "ranges": [(1, 3), (0, 4)],
    }
    for name, wanted in asked.items():
        assert sorted(edges(row) for row in found[name].rows) == sorted(wanted * 2)
        for row in found[name].rows:
            first, last = edges(row)
            (answer,) = timeline.between(first, last - 1).interval([row["item"]])
            assert (row["estimate"], row["lower"], row["upper"]) == tuple(answer)[1:]
    assert [*found["keyed"].columns][:3] == ["key", "window_start", "window_end"]
    assert found["keyed rows"].columns["release"] is str
    assert sorted({(row["key"], edges(row)) for row in found["keyed"].rows}) == [
        (key, where) for key in PUBLIC["public"] for where in [(0, 4), (1, 3)]
    ]
    assert len(found["keyed"].rows) == 8
    assert found["windows"].columns["window_start"] is str


def released() -> list[dict[str, Any]]:
    return seen(lambda pipeline: {"rows": visits(pipeline) | private()})["rows"].rows


def ask(given: Iterable[dict[str, Any]], over: Any = "windows") -> list[dict[str, Any]]:
    """Ask some rows."""
    listed = [*map(by_hand, given)]
    return seen(
        lambda pipeline: {"answers": pipeline | beam.Create(listed) | rows.QueryTimeline(ASK, HORIZON, over=over)}
    )["answers"].rows


@pytest.mark.slow
def test_rows_twice_count_once_and_runs_are_kept_apart() -> None:
    """Two runs have two timelines, each with the answers of its own rows."""
    first, second = released(), released()
    answers = ask([*first, *first, *second])
    assert len(answers) == 2 * 4 * 2
    runs = {row["release_id"][:32] for row in [*first, *second]}
    assert len(runs) == 2
    for run in runs:
        of_run = [row for row in answers if row["release_id"].startswith(run)]
        assert sorted(edges(row) for row in of_run) == [(n, n + 1) for n in range(4) for _ in range(2)]


@pytest.mark.slow
def test_incomplete_timelines_answer_about_closed_windows_and_refuse_others() -> None:
    early = [row for row in released() if row["row"] < 2]
    assert sorted({edges(row) for row in ask(early)}) == [(0, 1), (1, 2)]
    assert sorted({edges(row) for row in ask(early, "prefixes")}) == [(0, 1), (0, 2)]
    with pytest.raises(Exception, match=r"Windows 0 to 2 are not all released yet\. Windows 0 to 1 are available"):
        ask(early, [{"start": START, "end": START + 5400}])


def test_the_visits_are_in_all_windows() -> None:
    assert {int(each.seconds - START) // 1800 for each in VISITS} == {0, 1, 2, 3}
