"""`ListedItems` through every transform: counters are those of a `Counter` restricted to the list."""

from __future__ import annotations

import logging
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.transforms.display import DisplayData

from beam_dpsketch import (
    ElementsWarning,
    ListedItems,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleasedListedItems,
)
from beam_dpsketch.exact.reading import unreadable
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, exact, run

PRIVACY = PrivacySpec(rho=0.5, side_counters=None)
PAGES = ListedItems(["page 7", "absent", "page 0", "page 9", "page 7"])


ALIKE = [1, "1", b"1", (1,), ("1", (b"1",)), (1 << 64) - 1, -1]
LOOSE = [*ALIKE, 1, np.int64(1), True, 1.0, None, "absent", (True,), [1], ("1", (b"1",)), -2]


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
@pytest.mark.parametrize("unit", [Record(), PrivacyId(lambda element: 7, RecordBounds(99))], ids=["record", "id"])
def test_items_that_look_alike_are_different(unit: Any, runner: str) -> None:
    transform = PrivateFrequencies(ListedItems(ALIKE), PRIVACY, item=first, unit=unit)
    elements = [(item,) for item in LOOSE]
    assert exact(elements, transform, runner=runner).tolist() == [3, 1, 1, 1, 2, 1, 1]


def first(element: Any) -> Any:
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
    transform = PrivateFrequencies(ListedItems([1, 3]), PRIVACY, item="item", unit=Record())
    assert exact([COLUMNS[name]], transform).tolist() == [2, 0]


def test_unlisted_items_use_up_none_of_the_bounds() -> None:
    rows = [beam.Row(user="u", page=f"unlisted {number}", n=5) for number in range(50)]
    rows += [beam.Row(user="u", page="page 7", n=2)] * 3
    bounded = PrivateFrequencies(PAGES, PRIVACY, unit=PrivacyId("user", RecordBounds(2)), item="page")
    assert exact(rows, bounded).tolist() == [2, 0, 0, 0]
    weighted = PrivacyId("user", RecordBounds(3, max_weight=9))
    bounded = PrivateFrequencies(PAGES, PRIVACY, unit=weighted, item="page", weight="n")
    assert exact(rows, bounded).tolist() == [6, 0, 0, 0]


def test_a_release_answers_and_states_what_was_asked_for() -> None:
    """Each counter is off by more than 14 sigma with probability < 1e-40."""
    rows = [beam.Row(user=f"u{number % 300}", page="page 7") for number in range(900)]
    transform = PrivateFrequencies(PAGES, PRIVACY, unit=PrivacyId("user", RecordBounds(3)), item="page")
    for released in (*run(rows, transform), *run(rows, transform, runner=BUNDLE_BASED)):
        assert isinstance(released, ReleasedListedItems)
        assert released.spec == PAGES
        assert released.privacy.sigma_squared == 9
        assert abs(released.estimate("page 7") - 900) < 14 * 3
        assert [row.item for row in released.top_k(1)] == ["page 7"]
        assert "on each counter, with sigma = 3 times what one record changes" in str(released.privacy)


def test_a_bundle_without_a_listed_item_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable._log_once.cache_clear()
    transform = PrivateFrequencies(PAGES, PRIVACY, unit=PrivacyId("user", RecordBounds(99)), item="page")
    with caplog.at_level(logging.WARNING):
        run([beam.Row(user="u", page="unlisted")] * 99 + [beam.Row(user="u", page="page 7")], transform)
        assert not [record for record in caplog.records if "a listed value" in record.message]
        run([beam.Row(user="u", page="Jenny")] * 300, transform)
    (logged,) = [
        record.message for record in caplog.records if "no element of a bundle has a listed value" in record.message
    ]
    assert "item='page'" in logged
    assert "Jenny" not in logged


CHECKED = PrivateFrequencies(PAGES, PRIVACY, unit=Record(), item="page")


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
    message = r"item='page' is 'other' \(str\), which is not one of the ListedItems: such a record is dropped"
    with pytest.warns(ElementsWarning, match=message) as caught:
        assert CHECKED.check(sample) is CHECKED
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("value", [None, 1.5, True, ["page 7"]])
def test_sample_items_that_cannot_be_counted_are_still_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="element 1 of the sample: item='page' is"):
        CHECKED.check([{"page": "page 7"}, {"page": value}])


def test_it_is_shown_and_explained_without_its_items() -> None:
    transform = PrivateFrequencies(ListedItems(["Jenny", "Joe"]), PRIVACY, unit=Record(), item="page")
    data = {item.key: item.value for item in DisplayData.create_from(transform).items}
    assert (data["sketch"], data["counters"]) == ("listed_items", 2)
    assert "depth" not in data
    for explained in (transform.explain(), transform.explain(n=1000)):
        assert "listed_items: 1 table, 2 counters" in explained
        assert "95 % intervals of about +- 1.96 from the noise alone; nothing collides." in explained
        assert "made-up data" not in explained
        assert "much noise" not in explained
    assert "Answers would have much noise" in transform.explain(n=10)
    assert "Jenny" not in f"{data} {transform!r} {transform.explain(9)}"
