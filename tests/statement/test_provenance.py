"""Provenance names the origin of a release, is attached after the draw, and changes neither noise nor equality."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch import ArgumentError, ConfigError, Horizon, Released, SketchTimeline
from beam_dpsketch import __version__ as version
from beam_dpsketch.config import read_release
from beam_dpsketch.exact.sketches import CountMin
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.explore import explore
from beam_dpsketch.frames.releasing import release_frame, release_table
from beam_dpsketch.frames.steps.plan import plan_of_table
from beam_dpsketch.frames.steps.windows import windows_of
from beam_dpsketch.ledger.entries import Account
from beam_dpsketch.ledger.limits import LossLimit
from beam_dpsketch.rows.base import private_transform
from beam_dpsketch.statement import provenance
from beam_dpsketch.statement.provenance import Provenance
from beam_dpsketch.transforms import FileSecret
from tests.helpers.by_hand import released, row
from tests.helpers.frame_cases import CONFIGS, TABLE, keyed
from tests.helpers.pipelines import run

VISITS = pa.table({"person": ["a", "b", "c"], "city": ["Oslo"] * 3, "page": ["x"] * 3, "n": [1, 2, 1]})
SETTINGS = {
    "kind": "frequencies",
    "item": "city",
    "weight": "n",
    "keys": {"field": ["page", "city"], "public": [["x", "Oslo"]]},
    "privacy_unit": {"privacy_id": "person", "records": {"max_records": 1, "max_keys": 1, "max_weight": 3}},
    "privacy": {"rho": 1},
}
TODAY = datetime.datetime.now(datetime.UTC).date().isoformat()
HOSTILE = "</script><b>visits</b> & 'more' \"text\""
MADE = Provenance(privacy_id="person", items=("city",), version="1")


def of(found: Any) -> Provenance:
    (made,) = found.privacy.provenance
    return made


def by_hand(*made: Provenance, **changes: Any) -> Any:
    return released(CountMin, SketchSpec(depth=1, width=2), [[3, 4]], provenance=made, **changes)


def test_a_release_names_its_columns_data_set_version_settings_and_date() -> None:
    made = of(release_frame(VISITS, {**SETTINGS, "data_set": "visits of 2026", "date": True})["x", "Oslo"])
    declared = read_release(SETTINGS)
    assert made == Provenance(
        settings=declared.identify(declared.terms, windows_of(declared, plan_of_table(declared)).edges).hex(),
        privacy_id="person",
        items=("city",),
        weight="n",
        keys=("page", "city"),
        data_set="visits of 2026",
        version=version,
        date=TODAY,
    )


def test_metrics_name_only_counted_columns() -> None:
    count, statistics = {"name": "all", "kind": "count"}, {"name": "mean", "kind": "statistics", "item": "n"}
    metrics = [count, {**statistics, "domain": {"type": "integer", "low": 0, "high": 9}}]
    unit = {"privacy_id": "person", "records": {"max_records": 1}}
    settings = {"kind": "metrics", "metrics": metrics, "privacy_unit": unit, "privacy": {"rho": 1}}
    assert of(release_frame(VISITS, settings)).items == ("n",)


def test_unnamed_hostile_and_long_columns_have_printable_names() -> None:
    declared = read_release(SETTINGS)
    long = "c" * 600
    for item, name in (
        (len, "(a callable)"),
        (None, "(the element)"),
        ("\x1b[2J\n", "\\x1b[2J\\n"),
        ("\ud800", "\\ud800"),
        (long, f"{long[:497]}..."),
    ):
        made = Provenance.of(dataclasses.replace(declared, item=item), declared.terms, ())
        assert made.items == (name,)


@pytest.mark.parametrize("kind", CONFIGS)
def test_declaring_provenance_changes_no_other_setting(kind: str) -> None:
    declared = CONFIGS[kind]
    changed = private_transform(declared).with_provenance("visits", date=True)._declared
    assert (changed.data_set, changed.date) == ("visits", True)
    assert changed.identify(changed.terms) == declared.identify(declared.terms)
    assert dataclasses.replace(changed, data_set="", date=False) == declared


@pytest.mark.parametrize("name", ["records, weights, listed keys", "groups", "statistics, norm, assumed keys"])
def test_under_one_secret_another_version_and_text_have_the_same_noise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = CONFIGS[name]
    before, _ = release_table(TABLE, declared, keyed(name))
    monkeypatch.setattr(provenance, "__version__", "9.9.9")
    after, _ = release_table(TABLE, dataclasses.replace(declared, data_set="other words"), keyed(name))
    assert before == after
    for one, other in zip(all_of(before), all_of(after), strict=True):
        assert one.privacy.release_ids == other.privacy.release_ids
        assert one.counters.tolist() == other.counters.tolist()
        assert (of(other).version, of(other).data_set) == ("9.9.9", "other words")
        assert one.to_bytes() != other.to_bytes()
        assert hash(one) == hash(other)


def all_of(found: Any) -> list[Any]:
    return [each for inner in found.values() for each in all_of(inner)] if isinstance(found, dict) else [found]


def test_the_date_is_refused_with_replayable_noise_before_anything_is_spent() -> None:
    declared = read_release({**SETTINGS, "date": True})
    with pytest.raises(ArgumentError, match=r"^date must not be set with replayable noise"):
        release_table(VISITS, declared, keyed("visits"))
    private = private_transform(declared).with_idempotent_noise(release_id="a", secret=FileSecret("none"))
    with pytest.raises(ArgumentError, match="E126"):
        run(VISITS.to_pylist(), private)


@pytest.mark.pipeline
def test_a_pipeline_attaches_the_same_as_a_frame() -> None:
    settings = {**SETTINGS, "data_set": "visits"}
    private = private_transform(read_release(SETTINGS)).with_provenance("visits", date=True)
    ((key, release),) = run(VISITS.to_pylist(), private)
    frame = of(release_frame(VISITS, settings)[key])
    assert of(release) == dataclasses.replace(frame, date=TODAY)


@pytest.mark.parametrize("text", ["two\nlines", "x" * 501, "\x1b[2J", "\ud800"])
def test_long_and_unprintable_texts_are_refused_everywhere_and_never_repeated(text: str) -> None:
    makers = (
        lambda: read_release({**SETTINGS, "data_set": text}),
        lambda: private_transform(read_release(SETTINGS)).with_provenance(text),
        lambda: Provenance(data_set=text),
        lambda: Account(name="a", limit=LossLimit(rho=1), data_set=text),
    )
    for make in makers:
        with pytest.raises((ArgumentError, ConfigError), match="data_set") as caught:
            make()
        assert text not in str(caught.value)


def test_a_combination_keeps_equal_provenance_and_lists_both_otherwise() -> None:
    other = dataclasses.replace(MADE, date="2026-11-30")
    first, ids = by_hand(MADE), {"release_ids": (bytes(48),)}
    assert first.combine(by_hand(MADE, **ids)).privacy.provenance == (MADE,)
    both = first.combine(by_hand(other, **ids))
    assert both.privacy.provenance == (MADE, other)
    assert Released.from_bytes(both.to_bytes()).privacy.provenance == (MADE, other)
    assert "Made          by beam_dpsketch 1, with settings  | " in both.privacy.details()


def test_many_combined_releases_are_summarized_in_text_and_complete_in_json() -> None:
    made = [dataclasses.replace(MADE, data_set=f"day {day}") for day in range(7)]
    privacy = by_hand(*made).privacy
    assert "day 0 | day 1 | day 2 | day 3 | day 4 | and 2 more" in privacy.text()
    assert [
        {**each, "items": ("city",), "keys": ()} for each in json.loads(json.dumps(privacy.as_dict()))["provenance"]
    ] == [*map(dataclasses.asdict, made)]


def test_texts_are_escaped_in_html_and_on_the_page() -> None:
    release = by_hand(dataclasses.replace(MADE, data_set=HOSTILE))
    assert HOSTILE in release.privacy.text()
    for page in (release.privacy._repr_html_(), explore([release])):
        assert HOSTILE not in page
    assert "\\u003c/script>\\u003cb>visits" in explore([release])


def test_rows_of_a_timeline_may_differ_in_their_date() -> None:
    dated = [dataclasses.replace(MADE, date=f"2026-11-{30 - number}") for number in range(2)]
    assert row(provenance=(dated[0],)) == row(provenance=(dated[1],))
    settings = {
        **{name: SETTINGS[name] for name in ("kind", "item")},
        "privacy": {"rho": 1},
        "privacy_unit": {"privacy_id": "person", "records": {"max_records": 1}, "max_windows": 1},
        "horizon": {"start": "2026-01-01", "window_size": "1d", "windows": 2},
        "time": "at",
        "data_set": "visits",
    }
    table = VISITS.append_column("at", [["2026-01-01", "2026-01-02", "2026-01-02"]])
    rows = release_frame(table, settings)
    timeline = SketchTimeline(rows, Horizon(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), 86400, 2))
    assert of(timeline.between(0, 1)).data_set == "visits"
