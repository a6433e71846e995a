"""A frame gives the exact counters of a pipeline, and under one secret the same release, byte for byte."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RecordRule
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.frames import releasing
from beam_dpsketch.frames.steps import sums, tables
from beam_dpsketch.noise import run as engine_run
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.release_id import GLOBAL_END, GLOBAL_START
from tests.helpers import laws
from tests.helpers.frame_cases import (
    CONFIGS,
    FORMS,
    ORDER,
    TABLE,
    bytes_of_frame,
    counters_of_frame,
    keyed,
    of_pipeline,
)
from tests.helpers.laws import Fault

HALVES = [TABLE.slice(0, 700), TABLE.slice(700)]
RECORDS, NORM, CHOSEN = "records, weights, listed keys", "chosen norm", "single records, chosen keys"
FAST = [RECORDS, NORM, CHOSEN, "groups", "statistics, norm, assumed keys", "days and countries", "groups, months"]
FAST += ["listed pairs", "single records, hours and countries"]


@pytest.fixture(scope="module")
def piped() -> tuple[dict[str, Any], dict[str, Any]]:
    """The exact counters and the bytes that a pipeline makes of the table in two parts, by settings and key."""
    return of_pipeline(FAST, HALVES, counted=[RECORDS, NORM])


@pytest.mark.pipeline
@pytest.mark.parametrize("name", FAST)
def test_counters_and_releases_are_those_of_a_pipeline(name: str, piped: Any) -> None:
    """The noise of a secret is a function of all counters: other counters would have other noise."""
    if name in piped[0]:
        assert counters_of_frame(name, TABLE) == piped[0][name]
    assert bytes_of_frame(name, TABLE) == piped[1][name]


@pytest.mark.slow
@pytest.mark.pipeline
def test_counters_and_releases_of_every_second_setting_are_those_of_a_pipeline() -> None:
    names = [*CONFIGS][::2]
    counters, released = of_pipeline(names, HALVES, counted=names)
    assert {name: counters_of_frame(name, TABLE) for name in names} == counters
    assert {name: bytes_of_frame(name, TABLE) for name in names} == released


few_and_all = pytest.mark.parametrize(
    "names", [FAST, pytest.param([*CONFIGS], marks=pytest.mark.slow)], ids=["few", "all"]
)


@few_and_all
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_gives_the_same_releases(form: str, names: list[str]) -> None:
    for name in names:
        assert bytes_of_frame(name, FORMS[form]()) == bytes_of_frame(name, TABLE), name


@few_and_all
@pytest.mark.parametrize("form", ["pandas", "a table"])
def test_order_and_parts_of_rows_do_not_matter(form: str, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: bytes_of_frame(name, TABLE) for name in names}
    monkeypatch.setattr(tables, "ROWS", 113)
    monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 200)
    monkeypatch.setattr(engine_run, "COUNTERS", 100)
    shuffled = TABLE.take(pa.array(ORDER))
    for name in names:
        assert bytes_of_frame(name, shuffled.to_pandas() if form == "pandas" else shuffled) == expected[name], name


def test_the_window_of_a_table_is_the_global_window() -> None:
    window = GlobalWindow()
    assert (window.start.micros, window.end.micros) == (GLOBAL_START, GLOBAL_END)


def other_parts(change: Callable[[list[Any]], list[Any]], name: str) -> Fault:
    parts = laws.around(tables, "_read_parts", lambda exact, *given: iter(change([*exact(*given)])))
    return laws.together(laws.put(tables, "ROWS", 100), parts).found("", name, True)


def with_data(exact: Any, *given: Any) -> dict[Any, KeyedSums]:
    found = exact(*given).items()
    return {window: each.ordered(np.flatnonzero(each.numbers.any(axis=1))) for window, each in found}


def another_relation(exact: Any, parts: Any, calibration: Any, secrets: Any, **row: Any) -> Any:
    terms = calibration.terms
    relation = REPLACE_ONE if terms.privacy.relation is ADD_OR_REMOVE_ONE else ADD_OR_REMOVE_ONE
    privacy = terms.privacy.without_budget()
    object.__setattr__(privacy, "relation", relation)
    return exact(parts, Calibration.of(calibration.spec, dataclasses.replace(terms, privacy=privacy)), secrets, **row)


def below_the_threshold(exact: Any, counts: Any, declared: Any, counting: Any, *others: Any) -> Any:
    planted = counting._replace(note=dataclasses.replace(counting.note, threshold=1))
    return exact(counts, declared, planted, *others)


def in_counters(name: str, owner: Any, attribute: str, faulty: Any) -> Fault:
    return laws.around(owner, attribute, faulty, "", name, True)


def in_noise(name: str, owner: Any, attribute: str, faulty: Any) -> Fault:
    return laws.around(owner, attribute, faulty, "", name, False)


SIXTEENTH = Fraction(1, 16)
FAULTS = {
    "the last part is lost": other_parts(lambda parts: parts[:-1], CHOSEN),
    "the last part of groups is lost": other_parts(lambda parts: parts[:-1], "groups"),
    "a part counts twice": other_parts(lambda parts: [*parts, parts[-1]], RECORDS),
    "nothing is bounded": in_counters(RECORDS, RecordRule, "_keep", lambda _, rule, records: (records, None)),
    "other records are kept": in_counters(
        RECORDS, sums, "KeyedPriorities", lambda exact, _: exact(lambda: keyed("another"))
    ),
    "weights are not read": in_counters(
        RECORDS,
        sums,
        "read_table",
        lambda exact, reader, columns, *given: exact(reader, columns._replace(weights=None), *given),
    ),
    "a key without data is missing": in_counters(RECORDS, sums.ExactSums, "by_window", with_data),
    "nothing is counted aside": in_counters(
        NORM, Bounded, "_side_rows", lambda *given: np.zeros((0, len(given[-1].side_names)), dtype=np.int64)
    ),
    "scaled by another norm": in_counters(
        NORM, sums, "rule_of_norm", lambda exact, given, terms, norm: exact(given, terms, norm - SIXTEENTH)
    ),
    "noise of another norm": in_noise(
        NORM, Calibration, "with_norm", lambda exact, given, norm: exact(given, norm and norm - SIXTEENTH)
    ),
    "noise of another secret": in_noise(
        RECORDS, engine_run, "release_randomness", lambda exact, secret, *of: exact(secret.derive(b"another"), *of)
    ),
    "another relation": in_noise(RECORDS, engine_run, "release_parts", another_relation),
    "another statement": in_noise(CHOSEN, ReleaseSpec, "discloses", lambda *_, **__: Disclosure.WINDOWS),
    "another part of the run": in_noise(
        "groups", engine_run, "part_name", lambda exact, which, *_: exact(which, GLOBAL_START, GLOBAL_END - 1)
    ),
    "no votes are needed": in_noise(
        CHOSEN, engine_run, "find_chosen", lambda _, choice, votes, secrets: np.ones(len(votes), dtype=bool)
    ),
    "groups below the threshold": in_noise("groups", releasing, "release_counts", below_the_threshold),
}


@pytest.fixture(scope="module")
def exact() -> dict[str, Any]:
    return {name: counters_of_frame(name, TABLE) for name in FAST}


def check(name: str, in_counters: bool, exact: dict[str, Any], piped: Any) -> None:
    """Data, secrets and so all choices are fixed: a fault is found always or never."""
    changed, differs = counters_of_frame(name, TABLE) != exact[name], bytes_of_frame(name, TABLE) != piped[1][name]
    assert (changed, differs) != (in_counters, True), "found by both"


test_planted_faults_are_found = pytest.mark.pipeline(laws.mutants(FAULTS, check, words="found by both"))


def test_objects_of_a_pandas_column_count_the_same_in_any_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["a", 1, b"x", None, 2.5, 2.0, ("t", 1), True, 1 << 63, -1, float("nan"), [3], "ä"]
    frame = pd.DataFrame(
        {
            "person": pd.Series([values[place * 5 % 13] for place in range(260)], dtype=object),
            "city": pd.Series(values * 20, dtype=object),
            "country": pd.Series([values[place * 7 % 13] for place in range(260)], dtype=object),
        }
    )
    names = ["records", "norm, chosen keys", "single records, chosen keys", "groups"]
    counted = {}
    for rows in (1000, 3):
        monkeypatch.setattr(tables, "ROWS", rows)
        counted[rows] = [counters_of_frame(name, frame) for name in names]
    assert counted[1000] == counted[3]
    assert any(counted[3][0][None])


def test_a_chosen_norm_drops_further_items_of_a_person_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threshold is for four items of a person: fifty that count would make delta a lie."""
    alone = pa.table({"person": ["p"] * 50, "city": [f"village {number}" for number in range(50)]})
    assert len(counters_of_frame("groups, chosen norm", alone)) == 4

    def of_terms_alone(sketch_input: Any, terms: Any, max_norm: Fraction) -> NormRule:
        return NormRule(terms.under(max_norm).bounds, sketch_input)

    monkeypatch.setattr(sums, "rule_of_norm", of_terms_alone)
    assert len(counters_of_frame("groups, chosen norm", alone)) == 50
