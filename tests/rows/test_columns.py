"""Rows of each kind of question have the columns that the page lists, and the values that the release answers."""

from __future__ import annotations

import base64
import datetime
import functools
import typing
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import DyadicCountSketch, IntegerDomain, PrivacySpec, ReleaseTerms, TreeSpec, release, rows
from beam_dpsketch.answers.questions import Ask
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.rows.schema import answer_rows, to_release_row
from tests.helpers.plain_rows import (
    DOMAINS,
    KEYED,
    NUMBERS,
    PRIVACY,
    PRIVACY_COLUMNS,
    TYPES,
    UNIT,
    WINDOWS,
    Seen,
    hourly,
    seen,
    visits,
)

LITTLE_NOISE = {"rho": 300}
"""53 delays of weight 2 are each 10 deviations above the limit of a list, so it is never empty: below 1e-20."""
WHOLE = ("total_weight", "records", "privacy_units")
ORDERED = ("delay", "km", "ip", "when")
VALUES: dict[str, list[Any]] = {
    "delay": [-10, 0, 30, 60],
    "km": [0, 0.5, 1.25, 3],
    "ip": ["0.0.0.0", "10.0.0.1", "10.0.0.2", "255.255.255.255"],
    "when": ["2024-01-01", "2024-01-01T01:00:00", "2024-01-01T02:00:00", "2024-01-01T03:00:00"],
    "city": ["Osl", "Bern", "no such city"],
    "mark": [{"hex": "4f736c6f"}, {"hex": "42"}],
}
SHARES: Any = dict.fromkeys(("clipped", "clipped_at_least", "clipped_upper_estimate"), float | None)
TOLD = {"notes": str, "clipping": str, **SHARES}
RELEASE_COLUMNS = {"kind": str, "release": bytes, **TOLD, **PRIVACY_COLUMNS, "statement": str}


def questions(field: str) -> dict[str, dict[str, Any]]:
    """Return a question of each kind about a field."""
    values = VALUES[field]
    whole = {kind: {kind: True} for kind in WHOLE if field == "delay"}
    if field not in ORDERED:
        return {"items": {"items": values}, "top_k": {"top_k": 2}, **whole}
    return {
        "quantiles": {"quantiles": [0, 0.5, 1], "confidence": 0.9},
        "ranks": {"ranks": values},
        "ranges": {"ranges": [values[:2], values[2:]]},
        "histogram": {"histogram": values},
        "cdf": {"cdf": values},
        "items": {"items": values},
        "top_k": {"top_k": 2},
        **whole,
    }


def columns(kind: str, field: str) -> dict[str, Any]:
    """Return the columns of the answers, by hand."""
    value, cut = TYPES[field], {} if field in ORDERED else {"truncated": bool}
    between = {"range_low": value, "range_high": value, **NUMBERS}
    return {
        "quantiles": {"quantile": float, "estimate": value | None, "lower": value, "upper": value},
        "ranks": {"value": value, **NUMBERS},
        "ranges": between,
        "histogram": between,
        "cdf": {"value": value, **NUMBERS},
        "items": {"item": value, **NUMBERS, **cut},
        "top_k": {"place": int, "item": value, **NUMBERS, **cut},
        "total_weight": NUMBERS,
        "records": NUMBERS,
        "privacy_units": NUMBERS,
    }[kind] | {**TOLD, **PRIVACY_COLUMNS}


def answers(pipeline: beam.Pipeline, field: str) -> Mapping[str, beam.PCollection]:
    """Ask the release of a field all kinds of questions."""
    domain = DOMAINS[field]
    arguments = {"item": field, "domain": domain, "privacy": LITTLE_NOISE}
    if field in ORDERED:
        found = {"releases": visits(pipeline) | rows.PrivateQuantiles(**arguments, privacy_unit=UNIT)}
    else:
        top = rows.PrivateTopK(
            **arguments, privacy_unit=KEYED, k=2, method={"threshold": {"delta": 1e-8}}, ask="releases"
        )
        found = {"releases": visits(pipeline) | top}
    for kind, ask in questions(field).items():
        found[kind] = found["releases"] | rows.QueryReleases(ask, domain=None if kind in WHOLE else domain)
    return found


@functools.cache
def asked(field: str) -> dict[str, Seen]:
    return seen(lambda pipeline: answers(pipeline, field))


def fields(*names: str) -> Any:
    """Return the cases of some fields; all but the first are slow."""
    marks = [[], *([pytest.mark.slow] for _ in names[1:])]
    cases = [pytest.param(name, marks=mark) for name, mark in zip(names, marks, strict=True)]
    return pytest.mark.parametrize("field", cases)


def released(field: str) -> Any:
    (row,) = asked(field)["releases"].rows
    return ReleasedSketch.from_bytes(row["release"])


def of_column(kind: Any) -> set[Any]:
    return {*typing.get_args(kind)} or {kind}


@fields("delay", *[*DOMAINS][1:])
def test_columns_are_those_of_the_question_and_the_domain(field: str) -> None:
    assert asked(field)["releases"].columns == RELEASE_COLUMNS
    for kind in questions(field):
        found = asked(field)[kind]
        assert found.columns == columns(kind, field)
        assert [*found.columns] == [*columns(kind, field)]
        assert found.rows or (kind, field) == ("top_k", "when")
        for row in found.rows:
            known = {name: type(each) for name, each in row.items() if each is not None}
            typed = {name: {float} if name in SHARES else of_column(found.columns[name]) for name in known}
            assert all(kind in typed[name] for name, kind in known.items())
            assert {*row} - {*known} <= {*SHARES}


def instant(value: Any) -> Any:
    """Return what a column of a release's own answers becomes."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value if isinstance(value, (int, float, str, bytes)) else str(value)


def read(field: str, value: Any) -> Any:
    """Return a value of a question as the release takes it."""
    if field == "when":
        return datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
    return bytes.fromhex(value["hex"]) if field == "mark" else value


def triple(interval: Any, place: int) -> tuple[Any, ...]:
    return tuple(instant(getattr(interval, name)[place]) for name in ("estimate", "lower", "upper"))


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["estimate"], row["lower"], row["upper"]


@fields(*ORDERED)
def test_values_are_those_that_the_release_answers(field: str) -> None:
    """The methods of the release are asked here, not `Ask`."""
    release, values = released(field), [read(field, value) for value in VALUES[field]]
    quantiles = release.quantile([0, 0.5, 1], 0.9)
    for row in asked(field)["quantiles"].rows:
        assert shown(row) == triple(quantiles, [0, 0.5, 1].index(row["quantile"]))
    points = [instant(value) for value in values]
    for kind, found in (("ranks", release.rank_interval(values)), ("cdf", release.cdf_interval(values))):
        rows_found = asked(field)[kind].rows
        assert sorted(row["value"] for row in rows_found) == sorted(points)
        for row in rows_found:
            assert shown(row) == triple(found, points.index(row["value"]))
    ranges = release.range_interval(values[::2], values[1::2])
    for row in asked(field)["ranges"].rows:
        place = points[::2].index(row["range_low"])
        assert row["range_high"] == points[1::2][place]
        assert shown(row) == triple(ranges, place)
    bins = release.histogram(values)
    for row in asked(field)["histogram"].rows:
        place = points.index(row["range_low"])
        assert row["range_high"] == points[place + 1]
        assert shown(row) == triple(bins, place)
    for kind in questions(field).keys() & WHOLE:
        (row,) = asked(field)[kind].rows
        assert shown(row) == tuple(getattr(release, kind)())


@fields("delay", *[*DOMAINS][1:])
def test_items_are_those_that_the_release_answers(field: str) -> None:
    release, values = released(field), [read(field, value) for value in VALUES[field]]
    found = release.interval(values)
    for row in asked(field)["items"].rows:
        place = [instant(value) for value in found.item].index(row["item"])
        assert shown(row) == pytest.approx(triple(found, place), rel=0, abs=0, nan_ok=True)
    top = release.top_k(2)
    ranked = sorted(asked(field)["top_k"].rows, key=lambda row: row["place"])
    assert [row["place"] for row in ranked] == [*range(1, len(top.item) + 1)]
    for place, row in enumerate(ranked):
        assert row["item"] == instant(top.item[place])
        assert shown(row) == triple(top, place)
        assert row.get("truncated", False) == (top.item[place] in (top.truncated or ()))
    if field == "city":
        assert (ranked[0]["item"], ranked[0]["truncated"]) == ("Osl", True)


@pytest.mark.slow
def test_flat_sketches_and_listed_items_have_items_of_the_type_that_is_asked_for() -> None:
    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        found: dict[str, Any] = {
            "text": rows.PrivateFrequencies("city", PRIVACY, UNIT, ask={"items": ["Oslo", "Bern"]}),
            "numbers": rows.PrivateFrequencies("zip", PRIVACY, UNIT, ask={"items": [4000, 4001]}),
            "bytes": rows.PrivateFrequencies("mark", PRIVACY, UNIT, ask={"items": [{"hex": "00"}]}),
            "chosen": rows.PrivateFrequencies("city", PRIVACY, UNIT, ask={"top_k": 1, "candidates": ["Oslo", "Bern"]}),
            "listed": rows.PrivateFrequencies("city", PRIVACY, UNIT, listed_items=["Oslo", "Bern"], ask={"top_k": 2}),
            "all": rows.PrivateFrequencies("city", PRIVACY, "record", ask={"total_weight": True}),
        }
        return {name: visits(pipeline, name) | private for name, private in found.items()}

    found = seen(build)
    kinds = {name: each.columns["item"] for name, each in found.items() if name != "all"}
    assert kinds == {"text": str, "numbers": int, "bytes": bytes, "chosen": str, "listed": str}
    assert [row["item"] for row in found["chosen"].rows] == ["Oslo"]
    assert "truncated" not in found["text"].columns
    (total,) = found["all"].rows
    assert abs(total["estimate"] - 120) < 40  # sigma is below 5


@pytest.mark.slow
def test_keys_and_windows_are_columns() -> None:
    listed = {"text": ("city", ["Oslo", "Rome"]), "number": ("zip", [4000, 4001]), "bytes": ("mark", None)}

    def build(pipeline: beam.Pipeline) -> Mapping[str, beam.PCollection]:
        found = {}
        for name, (field, public) in listed.items():
            keys = {"field": field, **({"public": public} if public else {"assume_public": True})}
            found[name] = visits(pipeline, name) | rows.PrivateFrequencies(
                "ip", PRIVACY, KEYED, {"depth": 3, "width": 16}, keys=keys
            )
        timed = hourly(visits(pipeline))
        privacy_unit = {**KEYED, "max_windows": 2}
        keys = {"public": ["Oslo", "Rome"], "field": "city"}
        both = timed | rows.PrivateQuantiles(
            "delay", DOMAINS["delay"], PRIVACY, privacy_unit, keys=keys, windows=WINDOWS, encoding="base64"
        )
        median = {"quantiles": [0.5]}
        return {
            **found,
            "both": both,
            "asked": both | rows.QueryReleases(median, DOMAINS["delay"]),
            "at once": timed
            | rows.PrivateQuantiles("km", DOMAINS["km"], PRIVACY, privacy_unit, keys=keys, windows=WINDOWS, ask=median),
            "found": timed
            | rows.PrivateTopK("ip", DOMAINS["ip"], 1, PRIVACY, {**UNIT, "max_windows": 2}, windows=WINDOWS),
        }

    found = seen(build)
    assert {name: found[name].columns["key"] for name in listed} == {"text": str, "number": int, "bytes": bytes}
    assert {row["key"] for row in found["number"].rows} == {4000, 4001}
    assert {row["key"] for row in found["bytes"].rows} == {b"Oslo\xff", b"Bern\xff", b"Rome\xff"}
    opens = [Timestamp(WINDOWS["start"] + hour * 3600).to_rfc3339() for hour in (0, 1, 2)]
    places = {(key, *opens[hour : hour + 2]) for key in ("Oslo", "Rome") for hour in (0, 1)}
    for name in ("both", "asked", "at once"):
        assert [*found[name].columns][:3] == ["key", "window_start", "window_end"]
        assert {(row["key"], row["window_start"], row["window_end"]) for row in found[name].rows} == places
        assert len(found[name].rows) == 4
    assert found["both"].columns["release"] is str
    for row in found["both"].rows:
        release: Any = ReleasedSketch.from_bytes(base64.b64decode(row["release"]))
        (answer,) = (each for each in found["asked"].rows if each["release_id"] == row["release_id"])
        assert (answer["key"], answer["window_start"]) == (row["key"], row["window_start"])
        assert answer["estimate"] == release.quantile(0.5).estimate
        assert row["statement"] == release.privacy.text()
    assert [*found["found"].columns][:3] == ["window_start", "window_end", "place"]
    assert {row["window_start"] for row in found["found"].rows} == {*opens[:2]}


def test_notes_of_a_release_are_in_rows_of_it_and_of_its_answers() -> None:
    domain = IntegerDomain(0, 1000)
    raw = DyadicCountSketch(TreeSpec.for_memory(domain)).accumulate([5000] * 3000)
    it = release(raw, ReleaseTerms(PrivacySpec(rho=1.0)), KeyedRandomness(b"the same noise in every run of it", b""))
    ask = Ask("histogram", (0, 10, 20))
    assert to_release_row({}, it).notes == "at_range_end"
    for row in answer_rows({}, it, ask, ["lower", "notes"]):
        assert row == beam.Row(lower=0.0, notes="at_range_end,within_noise")
