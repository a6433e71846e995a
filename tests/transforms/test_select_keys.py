"""Keys as a list of their own: every form of records, one decision for each key, all of rho for the votes."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    BudgetExceededError,
    Calendar,
    KeySelection,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    TimeRange,
)
from beam_dpsketch.noise.keys import choose_keys_alone
from beam_dpsketch.transforms import EnvironmentSecret, SelectKeys
from tests.helpers.pipelines import run

pytestmark = pytest.mark.pipeline

DATA = [(f"user {number}", "common") for number in range(400)] + [("user 0", "rare")]
FOUND = KeySelection(1e-12, "key")
UNIT = PrivacyId("user", RecordBounds(1, max_keys=2))
SECRET = EnvironmentSecret("SELECT_KEYS_SECRET")


def rows() -> list[Any]:
    return [beam.Row(user=user, key=key) for user, key in DATA]


FORMS: dict[str, Callable[[], list[Any]]] = {
    "rows": rows,
    "dicts": lambda: [{"user": user, "key": key} for user, key in DATA],
    "frame": lambda: [pd.DataFrame(DATA, columns=["user", "key"])],
    "tables": lambda: [pa.table({"user": [user], "key": [key]}) for user, key in DATA],
}


def selected(elements: list[Any], transform: SelectKeys, expected: list[Any], **created: Any) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = pipeline | beam.Create(elements, **created) | transform
        assert_that(found, equal_to(expected))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bounds", [RecordBounds(3, max_keys=2), NormBound(2, max_keys=2)], ids=["records", "norm"])
@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
def test_keys_that_many_vote_for_are_found(form: str, bounds: Any) -> None:
    """One key has 399 votes and more, 390 sigmas above the threshold; the other is released with 1e-12, by delta."""
    transform = SelectKeys(PrivacySpec(rho=0.5), privacy_unit=PrivacyId("user", bounds), keys=FOUND)
    selected(FORMS[form](), transform, ["common"])


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("rho", "privacy_unit"),
    [(2.5, UNIT), (1000, PrivacyId("user", NormBound(2, max_keys=2))), (4608, Record())],
    ids=["records", "norm", "record"],
)
@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
def test_a_rho_that_only_votes_can_spend_works(rho: float, privacy_unit: Any) -> None:
    """No counter is released, so none needs noise: votes of 48 have sigma 0.5 at rho = 4608, the largest."""
    for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
        transform = SelectKeys(PrivacySpec(rho=rho, relation=relation), privacy_unit=privacy_unit, keys=FOUND)
        assert f"rho = {rho:g}" in transform.explain()
        assert "sketch" not in transform.display_data()
    selected(rows(), transform, ["common"])


@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
def test_pairs_need_no_item() -> None:
    """The value of a pair may be of any type: only its key is read."""
    pairs = [(key, {"user": user}) for user, key in DATA]
    selected(pairs, SelectKeys(PrivacySpec(rho=0.5), privacy_unit=UNIT, keys=KeySelection(1e-12)), ["common"])


@pytest.mark.parametrize("privacy_unit", [UNIT, Record()], ids=["ids", "records"])
def test_a_key_of_several_columns_is_chosen(privacy_unit: Any) -> None:
    days = Calendar("at", "day", start="2026-11-16", end="2026-11-18")
    transform = SelectKeys(PrivacySpec(rho=2), privacy_unit=privacy_unit, keys=KeySelection(1e-12, [days, "key"]))
    elements = [beam.Row(user=user, key=key, at="2026-11-17T08:00:00") for user, key in DATA]
    selected(elements, transform, [("2026-11-17", "common")])


@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
def test_single_records_vote_for_one_key() -> None:
    selected(rows(), SelectKeys(PrivacySpec(rho=0.5), privacy_unit=Record(), keys=FOUND), ["common"])


@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
def test_keys_are_chosen_in_each_window() -> None:
    elements = [TimestampedValue(row, number % 2 * 100) for number, row in enumerate(rows())]
    windows = TimeRange(0, 200)
    transform = SelectKeys(PrivacySpec(rho=0.5), privacy_unit=UNIT, keys=FOUND, windows=windows)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        elements = pipeline | beam.Create(elements) | beam.Map(lambda each: each) | beam.WindowInto(FixedWindows(100))
        assert_that(elements | transform, equal_to(["common", "common"]))


def test_no_data_gives_no_keys() -> None:
    kind = beam.Row(user="", key="")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        empty = pipeline | beam.Create([kind]) | beam.Filter(lambda _: False)
        assert_that(empty | SelectKeys(PrivacySpec(rho=0.5), privacy_unit=UNIT, keys=FOUND), equal_to([]))


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
def test_all_of_rho_pays_for_the_votes(relation: Any) -> None:
    privacy = PrivacySpec(epsilon=2, delta=1e-6, relation=relation)
    transform = SelectKeys(privacy, privacy_unit=UNIT, keys=KeySelection(5e-7, "key"))
    terms = transform._declared.terms
    note = choose_keys_alone(terms).note
    moved = 1 if relation is ADD_OR_REMOVE_ONE else 2  # units whose votes change
    rounds = [(480**2, Fraction(1, 5)), (2400**2, Fraction(4, 5))]
    assert note.method == "two_rounds"
    assert note.sigma_squared == sum(square * moved / (2 * terms.privacy.rho * part) for square, part in rounds)
    assert 1.9999 < terms.epsilon <= 2
    explained = " ".join(transform.explain().split())
    assert "Privacy       epsilon = 2, delta = 1e-06 (rho = " in transform.explain()
    assert ("for replacing the records of one privacy id\n" in transform.explain()) == (relation is REPLACE_ONE)
    assert "with probability at most 5e-07 (included in delta); method=" in explained
    assert note.words("privacy id") in explained


@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
def test_replays_choose_the_same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 keys, each is chosen with a probability of 0.16 to 0.5: all agree by chance with less than 1e-13."""
    monkeypatch.setitem(os.environ, "SELECT_KEYS_SECRET", "00112233445566778899aabbccddeeff" * 2)
    keys = KeySelection(1e-6, "key")
    transform = SelectKeys(PrivacySpec(rho=0.5, delta=0.01), privacy_unit=Record(), keys=keys)
    note = choose_keys_alone(transform._declared.terms).note
    elements = [{"key": key} for key in range(100) for _ in range(note.half // note.grid)]
    first, again, other = (
        set(run(elements, transform.with_idempotent_noise(release_id=release_id, secret=SECRET)))
        for release_id in ("a", "a", "b")
    )
    assert 0 < len(first) < 100
    assert first == again != other


def test_the_budget_pays_for_the_delta_once() -> None:
    budget = PrivacyBudget(rho=1.0, keys_delta=1e-7)
    first, second = (
        SelectKeys(budget.spend(rho=0.25), privacy_unit=UNIT, keys=KeySelection(1e-7, "key"))
        for _ in ("first", "second")
    )
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        elements = pipeline | beam.Create([beam.Row(user="", key="")])
        _ = elements | "First" >> first
        assert budget.remaining.keys_delta == 0
        with pytest.raises(BudgetExceededError, match="keys_delta"):
            _ = elements | "Second" >> second


def test_a_norm_cannot_be_chosen_from_the_data() -> None:
    select = SelectKeys(
        PrivacySpec(rho=1.0), privacy_unit=PrivacyId("user", AutoNorm(max_keys=3)), keys=KeySelection(1e-7, "key")
    )
    with pytest.raises(ValueError, match="dpsketch-E221"):
        run([{"user": 1, "key": "a"}], select)
