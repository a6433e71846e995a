"""Selectors, weights and bad records: what cannot be counted contributes nothing and stops nothing."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from beam_dpsketch import AssumePublicKeys, CountSketch, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.exact.domains.weights import parse_weights
from beam_dpsketch.exact.reading.selectors import Selectors, make_getter, select_all
from beam_dpsketch.transforms import BoundContributions, BoundedRecord, PrivateFrequencies
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import SPEC, exact, run

PRIVACY = PrivacySpec(rho=0.1)
WEIGHTED = RecordBounds(1, max_weight=10)


class Visit(NamedTuple):
    user: Any
    page: Any


@dataclasses.dataclass
class Plain:
    page: str


class Mishap:
    """Reading any field fails, with the secret in the message."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


def test_a_selector_reads_fields_of_any_kind_of_record() -> None:
    by_name = make_getter("page")
    for record in (beam.Row(page="p"), Visit("u", "p"), {"page": "p"}, Plain("p")):
        assert by_name(record) == "p"
    for record in (beam.Row(user="u"), {"user": "u"}, {}, None, 3, "text", ("a", "b"), Mishap()):
        assert by_name(record) is None
    assert make_getter(None)("itself") == "itself"
    assert make_getter(len)("four") == 4
    assert make_getter(len)(None) is None
    assert make_getter(lambda record: record["page"])({}) is None


def _item_of(element: Any) -> Any:
    return element["item"]


class Unfriendly(dict[str, Any]):
    """A dict whose values cannot be got."""

    def get(self, *_: Any) -> Any:
        raise RuntimeError("secret")


@pytest.mark.parametrize("selector", [None, "item", _item_of])
def test_many_elements_are_read_as_each_alone(selector: Any) -> None:
    """Also where all are dicts, some without the field."""
    dicts = [{"item": 1}, {}, {"item": None}, {"other": 2}]
    for elements in ([], dicts, [*dicts, Unfriendly(item=3)], [*dicts, beam.Row(item=3), None, "text"]):
        assert select_all(selector, elements) == list(map(make_getter(selector), elements))


def test_whole_weights_are_kept_exactly_and_others_left_out() -> None:
    weights = [1, -2, 3.0, np.int8(4), np.float32(5), 1 << 80, -(1 << 80), (1 << 63) - 1]
    values, mask = parse_weights(weights)
    assert mask.all()
    assert values.tolist() == [1, -2, 3, 4, 5, (1 << 63) - 1, 1 - (1 << 63), (1 << 63) - 1]
    _, mask = parse_weights([None, True, np.True_, 0.5, float("nan"), float("inf"), "1", 1j, np.timedelta64(1, "D")])
    assert not mask.any()
    assert [len(part) for part in parse_weights([])] == [0, 0]


@pytest.mark.parametrize("other", [0, None, 1.0, 1 << 63, np.int64(1), "text"])
@pytest.mark.parametrize("weight", [-(1 << 63), 1 - (1 << 63), (1 << 63) - 1, -7])
def test_a_weight_is_the_same_beside_any_other(weight: int, other: Any) -> None:
    """Net weights wrap around: if one record changed the least weight of others, it would move all their units."""
    alone, _ = parse_weights([weight])
    assert parse_weights([weight, other])[0][0] == alone[0] == parse_weights(pa.array([weight]))[0][0]


@pytest.mark.parametrize("kind", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_weight_columns_of_every_integer_type_are_read_exactly(kind: str) -> None:
    limits = np.iinfo(kind)
    values, mask = parse_weights(pa.array([limits.min, None, 7, limits.max], kind))
    assert mask.tolist() == [True, False, True, True]
    assert values.tolist() == [max(limits.min, 1 - (1 << 63)), 0, 7, min(limits.max, (1 << 63) - 1)]


def test_weight_columns_of_floats_count_where_they_are_whole() -> None:
    values, mask = parse_weights(pa.array([1.0, 2.5, None, float("nan"), float("-inf"), -3.0, 1e300], pa.float64()))
    assert mask.tolist() == [True, False, False, False, False, True, True]
    assert values[mask].tolist() == [1, -3, (1 << 63) - 1]
    assert parse_weights(pa.array([2, 3], pa.float32()))[0].tolist() == [2, 3]
    assert not parse_weights(pa.nulls(2))[1].any()


def test_elements_lists_what_was_given() -> None:
    assert Selectors(item="a", key=len).columns == {"item": "a", "key": len}


def first(record: Any) -> Any:
    return record[0]


def second(record: Any) -> Any:
    return record[1]


BAD = [
    None,
    3,
    "text",
    (),
    ("u",),
    (None, "p"),
    ("u", None),
    ("u", 1.5),
    ("u", True),
    ({}, "p"),
    ("u", ["p"]),
    object(),
]


@pytest.mark.pipeline
def test_bad_records_with_an_id_contribute_and_stop_nothing() -> None:
    good = [("user 1", "good"), ("user 2", "good")]
    counters = exact(
        [*BAD, *good, *BAD], PrivateFrequencies(SPEC, PRIVACY, item=second, privacy_unit=PrivacyId(first, WEIGHTED))
    )
    # "text"[0] and "text"[1] are a fine id and item.
    np.testing.assert_array_equal(counters, CountSketch(SPEC).accumulate(["good", "good", "e"]).counters)


@pytest.mark.pipeline
def test_bad_records_without_an_id_contribute_and_stop_nothing() -> None:
    bad = [{}, {"page": None}, {"page": 1.5}, {"page": "p"}, {"page": "p", "n": "1"}, None, 3, beam.Row(n=1)]
    good = [{"page": "good", "n": 2}, beam.Row(page="good", n=3)]
    counters = exact(
        bad + good + bad, PrivateFrequencies(SPEC, PRIVACY, item="page", weight="n", privacy_unit=Record(max_weight=10))
    )
    np.testing.assert_array_equal(counters, CountSketch(SPEC).accumulate(["good"], [5]).counters)
    counters = exact([None, 1.5, "good", 1j, {}, True], PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record()))
    np.testing.assert_array_equal(counters, CountSketch(SPEC).accumulate(["good"]).counters)


@pytest.mark.pipeline
def test_bad_pairs_and_keys_contribute_nothing_and_stop_nothing() -> None:
    bad = [None, 3, ("a",), ("a", "b", "c"), (None, "p"), (1.5, "p"), (True, "p"), ([], "p"), ("a", None), ("a", 2.5)]
    transform = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record(), keys=AssumePublicKeys())
    counters = exact([*bad, ("a", "good"), *bad], transform)
    assert list(counters) == ["a"]
    np.testing.assert_array_equal(counters["a"], CountSketch(SPEC).accumulate(["good"]).counters)
    with_id = PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=in_keys(PrivacyId(lambda value: "u", WEIGHTED), ()), keys=AssumePublicKeys()
    )
    counters = exact([*bad, ("a", "good"), *bad], with_id)
    np.testing.assert_array_equal(counters["a"], CountSketch(SPEC).accumulate(["good"]).counters)


BATCHES = [
    pa.table(
        {"user": ["u", None, "v", "w"], "page": ["good", "p", None, "good"], "n": pa.array([1, 1, 1, None], "int8")}
    ),
    pa.table({"user": pa.array([], "string"), "page": pa.array([], "string"), "n": pa.array([], "int8")}),
    pa.table({"user": pa.nulls(2), "page": pa.nulls(2), "n": pa.nulls(2)}),
    pa.table(
        {
            "user": ["x", "y"],
            "page": pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["good", None])),
            "n": [2, 1],
        }
    ),
    pd.DataFrame({"user": ["a", None], "page": ["good", "p"], "n": [3, 1]}),
    pd.DataFrame({"user": [], "page": [], "n": []}, dtype=object),
]


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("with_id", [False, True])
def test_nulls_in_columns_and_empty_batches_contribute_nothing(with_id: bool) -> None:
    unit = PrivacyId("user", WEIGHTED) if with_id else Record(max_weight=10)
    expected = CountSketch(SPEC).accumulate(["good"], [1 + 2 + 3])
    if not with_id:
        expected.accumulate(["p"], [2])
    globally = PrivateFrequencies(SPEC, PRIVACY, item="page", weight="n", privacy_unit=unit)
    counters = exact(BATCHES, globally)
    np.testing.assert_array_equal(counters, expected.counters)
    batches = [batch.assign(k="k") if isinstance(batch, pd.DataFrame) else with_key(batch) for batch in BATCHES]
    per_key = PrivateFrequencies(
        SPEC, PRIVACY, item="page", weight="n", privacy_unit=in_keys(unit, "k"), keys=AssumePublicKeys("k")
    )
    np.testing.assert_array_equal(exact(batches, per_key)["k"], expected.counters)


def with_key(batch: pa.Table) -> pa.Table:
    return batch.append_column("k", pa.array(["k"] * len(batch), pa.string()))


@pytest.mark.pipeline
def test_bounded_contributions_show_key_item_and_clamped_weight() -> None:
    rows = [
        {"user": "u", "page": ("a", 1), "n": 50, "k": 7},
        {"user": "v", "page": b"raw", "n": 2.0, "k": "seven"},
        {"user": None, "page": "p", "n": 1, "k": 7},
    ]
    bounded = BoundContributions(in_keys(PrivacyId("user", WEIGHTED), "k"), item="page", weight="n", key="k")
    kept = run(rows, bounded)
    assert set(kept) == {BoundedRecord(7, ("a", 1), 10), BoundedRecord("seven", b"raw", 2)}
    assert all(isinstance(contribution, BoundedRecord) for contribution in kept)
    assert run(["x"], BoundContributions(PrivacyId(str, WEIGHTED))) == [BoundedRecord(None, "x", 1)]


@pytest.mark.parametrize("weights", [[1 << 80, -(1 << 80)], pa.array([1e30, -1e30]), [1 << 63, -(1 << 63)]])
def test_an_insert_and_a_delete_clipped_to_64_bits_still_cancel(weights: Any) -> None:
    values, whole = parse_weights(weights)
    assert whole.all()
    assert values[0] > 1 << 61
    assert values.sum() == 0
