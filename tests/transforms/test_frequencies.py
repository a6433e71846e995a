"""`PrivateFrequencies` as its users see it, of any items and of listed ones: keys, windows, statements, labels."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.transforms import window
from apache_beam.transforms.display import DisplayData

from beam_dpsketch import (
    REPLACE_ONE,
    AssumePublicKeys,
    CountSketch,
    InputWarning,
    ListedItems,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
)
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.flat import ReleasedCountMin, ReleasedCountSketch
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.reading import unreadable
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers.pipelines import BUNDLE_BASED, COUNT_MIN, FN_API, SPEC, ExactCounters, exact, run, seen_by_sink
from tests.helpers.streams import WithStart
from tests.helpers.timed import at_times

PRIVACY = PrivacySpec(rho=0.5, summary_counts=None)
ONE = RecordBounds(1)


def first(value: tuple[Any, Any]) -> Any:
    return value[0]


def second(value: tuple[Any, Any]) -> Any:
    return value[1]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_a_release_states_what_was_asked_for(relation: NeighboringRelation) -> None:
    """sigma^2 = Delta^2 / (2 rho); to exchange one costs Count-Min twice and CountSketch four times Delta^2."""
    replaced, privacy = relation is REPLACE_ONE, PrivacySpec(rho=0.5, relation=relation, summary_counts=None)
    bounds = RecordBounds(max_records=4, max_weight=2)
    transform = PrivateFrequencies(COUNT_MIN, privacy, item=second, privacy_unit=PrivacyId(first, bounds))
    (released,) = run([("u", "x")], transform)
    assert isinstance(released, ReleasedCountMin)
    statement = released.privacy
    assert released.spec == COUNT_MIN
    assert (statement.rho, statement.bounds, statement.window_count) == (Fraction(1, 2), bounds, 1)
    assert statement.relation is relation
    assert statement.privacy_unit is PrivacyUnit.PRIVACY_ID
    assert statement.disclosed is Disclosure.NONE
    assert statement.sigma_squared == (2 if replaced else 1) * 3 * 8**2  # Delta^2 = depth C^2
    (released,) = run(["x"], PrivateFrequencies(SPEC, privacy, privacy_unit=Record()))
    assert isinstance(released, ReleasedCountSketch)
    assert released.privacy.privacy_unit is PrivacyUnit.RECORD
    assert released.privacy.sigma_squared == (4 if replaced else 1) * 3


PUBLIC = ["a", 1, b"a", ("a", 1), "absent"]


WIDE = PrivacyId(lambda item: f"all of {item}", RecordBounds(10, max_keys=5))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", [Record(), WIDE], ids=["record", "id"])
def test_listed_keys_all_get_a_release_and_others_none(privacy_unit: Any) -> None:
    pairs = [("a", "x"), ("a", "y"), (1, "x"), (np.int64(1), "y"), (b"a", "z"), (("a", 1), "x"), ("other", "x")]
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, keys=PublicKeys(PUBLIC))
    counters = exact(pairs, transform)
    expected = {"a": ["x", "y"], 1: ["x", "y"], b"a": ["z"], ("a", 1): ["x"], "absent": []}
    assert set(counters) == set(PUBLIC)
    assert {type(key) for key in counters} == {str, int, bytes, tuple}
    for key, items in expected.items():
        np.testing.assert_array_equal(counters[key], CountSketch(SPEC).accumulate(items).counters)
    outputs = dict(run(pairs, transform, runner=BUNDLE_BASED))
    assert set(outputs) == set(PUBLIC)
    for released in outputs.values():
        assert released.counters.any()
        assert released.privacy.disclosed is Disclosure.NONE


def test_keys_that_are_not_listed_use_up_none_of_the_partitions() -> None:
    pairs = [(f"unlisted {i}", "x") for i in range(50)] + [("listed", "x")]
    transform = PrivateFrequencies(
        SPEC,
        PRIVACY,
        privacy_unit=PrivacyId(lambda item: "one", RecordBounds(1, max_keys=1)),
        keys=PublicKeys(["listed", "other"]),
    )
    counters = exact(pairs, transform)
    assert np.abs(counters["listed"]).sum() == SPEC.depth
    assert not counters["other"].any()


TIMES = [(("u", "x"), 1), (("u", "y"), 2), (("v", "x"), 3), (("u", "x"), 61), (("w", "x"), 200)]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_fixed_windows_have_one_release_each(runner: str) -> None:
    """It protects an id within each of them."""
    transform = PrivateFrequencies(SPEC, PRIVACY, item=second, privacy_unit=PrivacyId(first, ONE))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = at_times(pipeline, TIMES, window.FixedWindows(60))
        releases = elements | transform | beam.ParDo(WithStart())
        counters = elements | "Exact" >> ExactCounters(transform) | "CountersWindow" >> beam.ParDo(WithStart())
        return (releases, counters) | beam.Flatten()

    seen: dict[float, list[Any]] = defaultdict(list)
    for start, output in seen_by_sink(build, runner=runner):
        seen[start].append(output)
    assert set(seen) == {0, 60, 180}
    units = {}
    for start, outputs in seen.items():
        (released,) = (output for output in outputs if isinstance(output, ReleasedSketch))
        (counters,) = (output for output in outputs if not isinstance(output, ReleasedSketch))
        units[start] = int(np.abs(counters).max(axis=1).sum())
        assert released.privacy.privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW
        assert released.privacy.disclosed is Disclosure.WINDOWS
        assert released.privacy.window_count == 1
    # One record of u and one of v in the first window; u again in the second.
    assert units[60] == units[180] == SPEC.depth
    assert units[0] >= SPEC.depth


def test_keys_in_windows_are_bounded_and_released_in_each() -> None:
    transform = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=PrivacyId(str, RecordBounds(1, max_keys=2)), keys=AssumePublicKeys()
    )
    outputs = seen_by_sink(
        lambda pipeline: (
            at_times(pipeline, [(("a", "x"), 1), (("b", "x"), 2), (("a", "x"), 61)], window.FixedWindows(60))
            | transform
            | beam.ParDo(WithStart())
        )
    )
    assert sorted((start, key) for start, (key, _) in outputs) == [(0, "a"), (0, "b"), (60, "a")]
    assert {released.privacy.disclosed for _, (_, released) in outputs} == {Disclosure.WINDOWS | Disclosure.KEYS}


def test_sliding_windows_charge_a_record_for_each_it_is_in() -> None:
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record())
    outputs = seen_by_sink(lambda pipeline: at_times(pipeline, [("x", 100)], window.SlidingWindows(60, 25)) | transform)
    assert len(outputs) in (2, 3)
    for released in outputs:
        assert released.privacy.window_count == 3
        assert released.privacy.sigma_squared == 3 * 3


def test_two_labelled_transforms_share_a_pipeline_and_no_noise() -> None:
    wide = SketchSpec(depth=3, width=200)
    transform = PrivateFrequencies(wide, PRIVACY, privacy_unit=Record())

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        words = pipeline | beam.Create(["x"])
        return (words | "One" >> transform, words | "Two" >> transform) | beam.Flatten()

    first_release, second_release = seen_by_sink(build)
    assert not np.array_equal(first_release.counters, second_release.counters)


def test_display_data_show_settings_and_neither_seed_nor_keys() -> None:
    secret = SketchSpec(depth=3, width=16, seed=987_654_321, item_hash="blake2b", item_key=b"sixteen  secrets")
    transform = PrivateFrequencies(secret, PRIVACY, privacy_unit=Record(), keys=PublicKeys(["planted key"]))
    items = {item.key: item.value for item in DisplayData.create_from(transform).items}
    assert {"sketch": "count_sketch", "depth": 3, "width": 16, "rho": 0.5, "max_records": "1"}.items() <= items.items()
    assert items["relation"] == "ADD_OR_REMOVE_ONE"
    shown = str(items)
    assert not any(word in shown for word in ("987654321", "secrets", "planted"))


WHOLE = "whole \U00010000"
NOT_UTF_8 = ["\ud800", ("a", "\udfff"), "\ud800\udc00"]


def key_of(number: int) -> Any:
    return [WHOLE, *NOT_UTF_8][number]


@pytest.mark.parametrize("privacy_unit", [Record(), PrivacyId(str, RecordBounds(1, max_keys=1))], ids=["record", "id"])
def test_records_with_a_key_that_utf_8_cannot_hold_are_dropped(privacy_unit: Any) -> None:
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, keys=AssumePublicKeys(key_of))
    assert list(exact(range(4), transform)) == [WHOLE]
    for key in NOT_UTF_8:
        with pytest.raises(ValueError, match="keys must be encodable in UTF-8"):
            PublicKeys([key])


PAGES = ListedItems(["page 7", "absent", "page 0", "page 9", "page 7"])


ALIKE = [1, "1", b"1", (1,), ("1", (b"1",)), (1 << 64) - 1, -1]
LOOSE = [*ALIKE, 1, np.int64(1), True, 1.0, None, "absent", (True,), [1], ("1", (b"1",)), -2]


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize(
    "privacy_unit", [Record(), PrivacyId(lambda element: 7, RecordBounds(99))], ids=["record", "id"]
)
def test_items_that_look_alike_are_different(privacy_unit: Any, runner: str) -> None:
    transform = PrivateFrequencies(ListedItems(ALIKE), PRIVACY, item=_first, privacy_unit=privacy_unit)
    elements = [(item,) for item in LOOSE]
    assert exact(elements, transform, runner=runner).tolist() == [3, 1, 1, 1, 2, 1, 1]


def _first(element: Any) -> Any:
    return element[0]


COLUMNS: dict[str, Any] = {
    "floats where one is missing": pd.DataFrame({"item": [1.0, None, 2.0, 1.0]}),
    "objects": pd.DataFrame({"item": pd.Series([1, "x", True, 1], dtype=object)}),
    "categories": pd.DataFrame({"item": pd.Categorical([1, 2, 1, None])}),
    "small numbers": pa.table({"item": pa.array([1, 2, None, 1], pa.uint8())}),
    "runs": pa.table({"item": pa.RunEndEncodedArray.from_arrays([2, 3], [1, 2])}),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_read_like_rows(name: str) -> None:
    transform = PrivateFrequencies(ListedItems([1, 3]), PRIVACY, item="item", privacy_unit=Record())
    assert exact([COLUMNS[name]], transform).tolist() == [2, 0]


def test_unlisted_items_use_up_none_of_the_bounds() -> None:
    rows = [beam.Row(user="u", page=f"unlisted {number}", n=5) for number in range(50)]
    rows += [beam.Row(user="u", page="page 7", n=2)] * 3
    bounded = PrivateFrequencies(PAGES, PRIVACY, privacy_unit=PrivacyId("user", RecordBounds(2)), item="page")
    assert exact(rows, bounded).tolist() == [2, 0, 0, 0]
    weighted = PrivacyId("user", RecordBounds(3, max_weight=9))
    bounded = PrivateFrequencies(PAGES, PRIVACY, privacy_unit=weighted, item="page", weight="n")
    assert exact(rows, bounded).tolist() == [6, 0, 0, 0]


def test_a_release_answers_and_states_what_was_asked_for() -> None:
    """Each counter is off by more than 14 sigma with probability < 1e-40."""
    rows = [beam.Row(user=f"u{number % 300}", page="page 7") for number in range(900)]
    transform = PrivateFrequencies(PAGES, PRIVACY, privacy_unit=PrivacyId("user", RecordBounds(3)), item="page")
    for released in (*run(rows, transform), *run(rows, transform, runner=BUNDLE_BASED)):
        assert isinstance(released, ReleasedListedItems)
        assert released.spec == PAGES
        assert released.privacy.sigma_squared == 9
        assert abs(released.estimate("page 7") - 900) < 14 * 3
        assert [row.item for row in released.top_k(1)] == ["page 7"]
        assert "sigma = 3 (unit: the contribution of one record) per counter" in released.privacy.details()


def test_a_bundle_without_a_listed_item_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable._log_once.cache_clear()
    transform = PrivateFrequencies(PAGES, PRIVACY, privacy_unit=PrivacyId("user", RecordBounds(99)), item="page")
    with caplog.at_level(logging.WARNING):
        run([beam.Row(user="u", page="unlisted")] * 99 + [beam.Row(user="u", page="page 7")], transform)
        assert not [record for record in caplog.records if "a listed value" in record.message]
        run([beam.Row(user="u", page="Jenny")] * 300, transform)
    (logged,) = [
        record.message for record in caplog.records if "no element of a bundle has a listed value" in record.message
    ]
    assert "item='page'" in logged
    assert "Jenny" not in logged


CHECKED = PrivateFrequencies(PAGES, PRIVACY, privacy_unit=Record(), item="page")


@pytest.mark.parametrize(
    "sample",
    [
        [{"page": "page 7"}, {"page": "other"}, {"page": "another"}],
        pa.table({"page": ["page 7", "other", "another"]}),
        pd.DataFrame({"page": ["page 7", "other", "another"]}),
    ],
    ids=["dicts", "table", "frame"],
)
def test_sample_items_that_are_not_listed_are_warned_of_once(sample: Any) -> None:
    message = r"item='page' is 'other' \(str\), which is not in ListedItems. Such records are dropped"
    with pytest.warns(InputWarning, match=message) as caught:
        assert CHECKED.check(sample) is CHECKED
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("value", [None, 1.5, True, ["page 7"]])
def test_sample_items_that_cannot_be_counted_are_still_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="element 1 of the sample: item='page' is"):
        CHECKED.check([{"page": "page 7"}, {"page": value}])


def test_it_is_shown_and_explained_without_its_items() -> None:
    transform = PrivateFrequencies(ListedItems(["Jenny", "Joe"]), PRIVACY, privacy_unit=Record(), item="page")
    data = {item.key: item.value for item in DisplayData.create_from(transform).items}
    assert (data["sketch"], data["counters"]) == ("listed_items", 2)
    assert "depth" not in data
    for explained in (transform.explain(), transform.explain(n=1000)):
        assert "Counters      listed items: 2 counters, 8 bytes" in explained
        assert re.search(r"\n  noise only +±1\.96; listed items do not collide\n", explained)
        assert "imulated data" not in explained
        assert "mostly noise" not in explained
    assert "answers would be mostly noise" in transform.explain(n=10)
    assert "Jenny" not in f"{data} {transform!r} {transform.explain(9)}"
