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

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, Disclosure
from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.frames import noise, releasing, shards, sums, tables
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.record_rule import RecordRule
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.statement.release_id import GLOBAL_END, GLOBAL_START
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

HALVES = [TABLE.slice(0, 700), TABLE.slice(700)]
RECORDS, NORM, CHOSEN = "records, weights, listed keys", "chosen norm", "single records, chosen keys"
FAST = [RECORDS, NORM, CHOSEN, "groups"]


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
def test_all_counters_and_releases_are_those_of_a_pipeline() -> None:
    names = [*CONFIGS]
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
    monkeypatch.setattr(shards, "BLOCK", 200)
    monkeypatch.setattr(noise, "_COUNTERS", 100)
    shuffled = TABLE.take(pa.array(ORDER))
    for name in names:
        assert bytes_of_frame(name, shuffled.to_pandas() if form == "pandas" else shuffled) == expected[name], name


def test_the_window_of_a_table_is_the_global_window() -> None:
    window = GlobalWindow()
    assert (window.start.micros, window.end.micros) == (GLOBAL_START, GLOBAL_END)


def the_last_part_is_lost(patch: pytest.MonkeyPatch) -> None:
    _change_parts(patch, lambda parts: parts[:-1])


def a_part_counts_twice(patch: pytest.MonkeyPatch) -> None:
    _change_parts(patch, lambda parts: [*parts, parts[-1]])


def _change_parts(patch: pytest.MonkeyPatch, change: Callable[[list[Any]], list[Any]]) -> None:
    exact = tables._read_parts
    patch.setattr(tables, "ROWS", 100)
    patch.setattr(tables, "_read_parts", lambda *given: iter(change([*exact(*given)])))


def nothing_is_bounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordRule, "_keep", lambda self, records: records)


def other_records_are_kept(patch: pytest.MonkeyPatch) -> None:
    another = keyed("another")
    patch.setattr(sums, "KeyedPriorities", lambda _, by_secret=sums.KeyedPriorities: by_secret(lambda: another))


def weights_are_not_read(patch: pytest.MonkeyPatch) -> None:
    exact = sums.read_table
    patch.setattr(
        sums, "read_table", lambda reader, columns, *given: exact(reader, columns._replace(weights=None), *given)
    )


def a_key_without_data_is_missing(patch: pytest.MonkeyPatch) -> None:
    exact = sums.ExactSums.by_key

    def wrong(self: Any) -> dict[Any, SketchAccumulator]:
        return {key: each for key, each in exact(self).items() if each.to_vector().any()}

    patch.setattr(sums.ExactSums, "by_key", wrong)


def nothing_is_counted_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Bounded, "_side_rows", lambda _, given: np.zeros((0, len(given.side_names)), dtype=np.int64))


def scaled_by_another_norm(patch: pytest.MonkeyPatch) -> None:
    exact = sums.rule_of_norm
    patch.setattr(sums, "rule_of_norm", lambda given, terms, norm: exact(given, terms, norm - Fraction(1, 16)))


def noise_of_another_norm(patch: pytest.MonkeyPatch) -> None:
    exact = Calibration.with_norm
    patch.setattr(Calibration, "with_norm", lambda given, norm: exact(given, norm and norm - Fraction(1, 16)))


def noise_of_another_secret(patch: pytest.MonkeyPatch) -> None:
    exact = noise.release_randomness
    patch.setattr(noise, "release_randomness", lambda secret, name: exact(secret.derive(b"another"), name))


def another_relation(patch: pytest.MonkeyPatch) -> None:
    exact = noise.release_parts

    def wrong(parts: Any, calibration: Any, secrets: Any) -> Any:
        terms = calibration.terms
        relation = REPLACE_ONE if terms.privacy.relation is ADD_OR_REMOVE_ONE else ADD_OR_REMOVE_ONE
        privacy = terms.privacy.without_budget()
        object.__setattr__(privacy, "relation", relation)
        return exact(parts, Calibration.of(calibration.spec, dataclasses.replace(terms, privacy=privacy)), secrets)

    patch.setattr(noise, "release_parts", wrong)


def another_statement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReleaseSpec, "discloses", lambda _, windows_are_public: Disclosure.WINDOWS)


def another_part_of_the_run(patch: pytest.MonkeyPatch) -> None:
    exact = noise.part_name
    patch.setattr(noise, "part_name", lambda which: exact(which, GLOBAL_START, GLOBAL_END - 1))


def no_votes_are_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(noise, "find_chosen", lambda choice, votes, secrets: np.ones(len(votes), dtype=bool))


def groups_below_the_threshold(patch: pytest.MonkeyPatch) -> None:
    exact = noise.release_counts

    def wrong(counts: Any, resolved: Any, secret: Any) -> Any:
        counting = resolved.calibrated
        planted = counting._replace(note=dataclasses.replace(counting.note, threshold=1))
        return exact(counts, dataclasses.replace(resolved, calibrated=planted), secret)

    patch.setattr(releasing, "release_counts", wrong)


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("plant", "name", "in_counters"),
    [
        (the_last_part_is_lost, CHOSEN, True),
        (the_last_part_is_lost, "groups", True),
        (a_part_counts_twice, RECORDS, True),
        (nothing_is_bounded, RECORDS, True),
        (other_records_are_kept, RECORDS, True),
        (weights_are_not_read, RECORDS, True),
        (a_key_without_data_is_missing, RECORDS, True),
        (nothing_is_counted_aside, NORM, True),
        (scaled_by_another_norm, NORM, True),
        (noise_of_another_norm, NORM, False),
        (noise_of_another_secret, RECORDS, False),
        (another_relation, RECORDS, False),
        (another_statement, CHOSEN, False),
        (another_part_of_the_run, "groups", False),
        (no_votes_are_needed, CHOSEN, False),
        (groups_below_the_threshold, "groups", False),
    ],
)
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], name: str, in_counters: bool, piped: Any, monkeypatch: Any
) -> None:
    """Data, secrets and so all choices are fixed: a fault is found always or never."""
    exact = counters_of_frame(name, TABLE)
    plant(monkeypatch)
    assert (counters_of_frame(name, TABLE) == exact) != in_counters
    assert bytes_of_frame(name, TABLE) != piped[1][name]


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
