"""A rehearsal: exact and bounded numbers by brute force, private ones within their intervals, and nothing spent."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import re
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    Clipping,
    InputWarning,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    LogDomain,
    Metric,
    Metrics,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacyIdCount,
    PrivacySpec,
    PrivacyWarning,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    RecordCount,
    ReleaseSpec,
    SketchSpec,
    Statistics,
    TextDomain,
    ThresholdedCounts,
    Thresholding,
    TimestampDomain,
    TopKSearch,
    rehearse,
    release_frame,
)
from beam_dpsketch.cli.main import main
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.bounding.record_rule import RecordRule
from beam_dpsketch.frames.rehearsal import Rehearsal, Rehearsed
from beam_dpsketch.frames.steps import tables
from tests.helpers.keyed_units import in_keys

RNG = np.random.default_rng(7)
PERSON, CITY = RNG.integers(0, 500, 6000), RNG.zipf(1.7, 6000) % 12
COUNTRY, PAID = RNG.choice(["NO", "SE", "DK"], 6000, p=[0.6, 0.3, 0.1]), RNG.integers(0, 90, 6000)
TABLE = pa.table({"person": PERSON, "city": [f"city {n}" for n in CITY], "country": COUNTRY, "paid": PAID})
PEOPLE, MUCH = PrivacyId("person", RecordBounds(4)), PrivacySpec(rho=50)
CITIES, SKETCH = TABLE["city"].to_pylist(), ItemFrequencies(SketchSpec(width=512))
LISTED = ItemFrequencies(ListedItems([f"city {n}" for n in range(12)]))


def of(count: Any, privacy_unit: Any = PEOPLE, privacy: Any = MUCH, item: str = "city", **more: Any) -> ReleaseSpec:
    return ReleaseSpec(
        count, privacy, in_keys(privacy_unit, more.get("keys") or (count.by_item or None)), item=item, **more
    )


FORMS: dict[str, Any] = {"table": lambda: TABLE, "pandas": TABLE.to_pandas, "reader": TABLE.to_reader}


@pytest.mark.parametrize("form", FORMS)
def test_exact_numbers_are_those_of_all_records(form: str) -> None:
    found = rehearse(FORMS[form](), of(SKETCH), k=5)
    assert [(row.asked, row.exact) for row in found.rows] == Counter(CITIES).most_common(5)
    kept = sum(min(count, 4) for count in Counter(PERSON.tolist()).values())
    assert found.clipped_share == pytest.approx(1 - kept / 6000)
    assert found.keys is None
    assert all(0 <= row.bounded <= row.exact and row.key is None for row in found.rows)
    for row in found.rows:  # 20 are 20 deviations of an estimate and more: a false alarm below 1e-80
        assert abs(row.private - row.bounded) < 20


def test_a_norm_scales_what_a_person_has() -> None:
    found = rehearse(
        TABLE, of(ItemFrequencies(ListedItems([f"city {n}" for n in range(12)])), PrivacyId("person", NormBound(5)))
    )
    lengths: dict[int, Counter[int]] = {}
    for person, city in zip(PERSON.tolist(), CITY.tolist(), strict=True):
        lengths.setdefault(person, Counter())[city] += 1
    expected: Counter[str] = Counter()
    for cities in lengths.values():
        factor = min(1, 5 / math.sqrt(sum(n**2 for n in cities.values())))
        for city, n in cities.items():
            expected[f"city {city}"] += n * factor
    assert {row.asked: row.bounded for row in found.rows} == pytest.approx(
        {row.asked: expected[row.asked] for row in found.rows}, rel=1e-3
    )


@pytest.mark.parametrize(
    "bounds", [RecordBounds(2), AutoNorm(share=Fraction(1, 2)), NormBound(Fraction(7, 2), norm="l1")], ids=repr
)
def test_the_release_has_what_the_bounds_keep(bounds: Any) -> None:
    """One norm and one choice of records for both: with little noise they agree.

    Half of so large an epsilon leaves the choice of a norm without noise: any of its counts is off with a probability
    below 1e-10. The noise of answers has a deviation below 2. 60 are 30 of these: below 1e-190.
    """
    privacy = PrivacySpec(epsilon=200, delta=1e-6)
    found = rehearse(TABLE, of(LISTED, PrivacyId("person", bounds), privacy))
    for row in found.rows:
        assert abs(row.private - row.bounded) < 60


def test_keys_stand_in_order_of_their_weight() -> None:
    """345 people and more vote for each key that is chosen: it is left out with a probability below 1e-100."""
    found = rehearse(TABLE, of(SKETCH, keys=PublicKeys(["SE", "NO", "FI"], "country")), k=2)
    assert [row.key for row in found.rows] == ["NO", "NO", "SE", "SE"]
    assert found.keys == (2, 2, 1)
    assert [row.exact for row in found.rows[:2]] == [
        n for _, n in Counter(np.array(CITIES)[COUNTRY == "NO"]).most_common(2)
    ]
    chosen = of(SKETCH, PrivacyId("person", RecordBounds(4, max_keys=3)), keys=KeySelection(1e-7, "country"))
    words = "Keys: 3 of the 3 keys of the sample are released, with 100.0 % of what the bounds keep."
    assert words in str(rehearse(TABLE, chosen))


def test_searches_are_asked_for_the_true_items() -> None:
    """A number has a deviation below 4: 60 are 15 of these, and a false alarm has a probability below 1e-40."""
    count = ThresholdedCounts(TextDomain(7), 3, Thresholding(1e-7))
    found = rehearse(TABLE, of(count, PrivacyId("person", NormBound(6, max_keys=9))), k=3)
    assert [(row.asked, row.exact) for row in found.rows] == Counter(CITIES).most_common(3)
    assert all(abs(row.private - row.bounded) < 60 for row in found.rows)


def test_items_that_groups_do_not_release_are_said_so() -> None:
    """The item of one person is released with a probability of at most delta, 1e-10."""
    rare = pa.table({"person": list(range(1000)), "city": ["Oslo"] * 999 + ["rare"]})
    found = rehearse(
        rare,
        of(ThresholdedCounts(TextDomain(7), 3, Thresholding(1e-10)), PrivacyId("person", RecordBounds(1, max_keys=1))),
    )
    assert math.isnan(found.rows[1].private)
    assert str(found).splitlines()[2].endswith("-  not released")
    assert "List: the release finds 1 of these 2 items." in str(found)


def test_quantiles_are_those_of_the_values() -> None:
    found = rehearse(TABLE, of(Quantiles(IntegerDomain(0, 89)), item="paid"), quantiles=(0.25, 0.5, 1.0))
    exact = np.quantile(PAID, (0.25, 0.5, 1.0), method="inverted_cdf")
    assert [(row.asked, row.exact) for row in found.rows] == [*zip((0.25, 0.5, 1.0), exact.tolist(), strict=True)]
    assert all(row.lower <= row.private <= row.upper for row in found.rows)


def test_weights_count() -> None:
    declared = of(SKETCH, Record(max_weight=50), weight="paid")
    sums = pd.DataFrame({"city": CITIES, "paid": PAID}).groupby("city")["paid"].sum().sort_values(ascending=False)
    found = rehearse(TABLE, declared, k=3)
    assert [(row.asked, row.exact) for row in found.rows] == [*sums.head(3).items()]
    assert found.clipped_share == pytest.approx(1 - np.minimum(PAID, 50).sum() / PAID.sum())


HOLES = pa.table(
    {
        "person": [None if n % 17 == 0 else int(who) for n, who in enumerate(PERSON)],
        "city": [None if n % 13 == 0 else city for n, city in enumerate(CITIES)],
        "country": [None if n % 11 == 0 else str(where) for n, where in enumerate(COUNTRY)],
        "paid": [None if n % 19 == 0 else int(paid) - 5 for n, paid in enumerate(PAID)],
    }
)
LISTED_5 = [f"city {n}" for n in range(5)]
KINDS: dict[str, Any] = {
    "sketch": (SKETCH, {}),
    "listed": (ItemFrequencies(ListedItems(LISTED_5)), {}),
    "groups": (ThresholdedCounts(TextDomain(7), 12, Thresholding(1e-7)), {"max_keys": 12}),
}
ROOM = NormBound(900, max_weight=100)
KEYS = {"None": None, "listed": PublicKeys(["NO", "SE"], "country"), "open": AssumePublicKeys("country")}
UNITS: dict[str, Any] = {
    "records": lambda more: PrivacyId("person", RecordBounds(9, max_weight=100, **more)),
    "norm": lambda more: PrivacyId("person", dataclasses.replace(ROOM, **more)),
    "record": lambda more: Record(max_weight=100),
}


@functools.cache
def counted_by_hand(is_listed: bool, keys: str, has_ids: bool) -> tuple[dict[Any, Counter[str]], int]:
    """The weights of items by key, and how many rows cannot be counted."""
    expected: dict[Any, Counter[str]] = defaultdict(Counter)
    unused, listed = 0, ("NO", "SE") if keys == "listed" else ("NO", "SE", "DK")
    for who, city, where, paid in zip(*(HOLES[name].to_pylist() for name in HOLES.column_names), strict=True):
        read = (city, paid, *[where] * (keys != "None"), *[who] * has_ids)
        is_counted = (not is_listed or city in LISTED_5) and (keys == "None" or where in listed)
        if None in read or not is_counted:
            unused += 1
        else:
            expected[None if keys == "None" else where][city] += paid
    return expected, unused


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("form", ["table", "pandas"])
@pytest.mark.parametrize(
    ("kind", "privacy_unit"), [(k, u) for k in KINDS for u in UNITS if (k, u) != ("groups", "record")]
)
def test_exact_numbers_are_those_of_all_records_that_can_be_counted(
    kind: str, privacy_unit: str, form: str, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts of 1,000 rows, with values that are missing.

    A private number has a deviation below 570: 6,000 are over 10 of these, and a false alarm is below 1e-20.
    """
    monkeypatch.setattr(tables, "ROWS", 1000)
    count, more = KINDS[kind]
    declared = of(count, UNITS[privacy_unit](more), weight="paid", keys=KEYS[keys])
    with pytest.warns(InputWarning, match="negative values, which count as 0"):
        found = rehearse(HOLES if form == "table" else HOLES.to_pandas(), declared, k=12)
    expected, unused = counted_by_hand(kind == "listed", keys, privacy_unit != "record")
    assert found.unused == unused
    assert found.records == 6000
    assert found.outside == 0
    for key, weights in expected.items():
        rows = [row for row in found.rows if row.key == key]
        assert [(row.asked, row.exact) for row in rows] == weights.most_common()
        assert not any(abs(row.private - row.bounded) > 6000 for row in rows)  # NaN where groups release nothing


def test_records_without_an_id_are_not_what_the_bounds_took() -> None:
    half = pa.table({"person": [None] * 300 + list(range(700)), "city": ["Oslo"] * 1000})
    found = rehearse(half, of(SKETCH))
    assert (found.clipped_share, found.unused, found.rows[0].exact) == (0, 300, 700)
    words = "Not counted: 300 of 1,000 records, where a value is missing, of another type or not listed."
    assert words in str(found)


def test_deletions_leave_open_what_the_bounds_took() -> None:
    privacy_unit = PrivacyId("person", RecordBounds(4, max_weight=9, signed=True))
    table = pa.table({"person": [1, 2, 3], "city": ["Oslo", "Oslo", "Rome"], "w": [3, -7, 2]})
    found = rehearse(table, of(SKETCH, privacy_unit, weight="w"))
    assert found.clipped_share is None
    assert [(row.asked, row.exact, row.bounded) for row in found.rows] == [("Rome", 2, 2), ("Oslo", -4, -4)]
    unknown = "With deletions, the share that the bounds removed is unknown. A release reports: Clipping: not measured"
    assert unknown in str(found)
    unsigned = of(SKETCH, PrivacyId("person", RecordBounds(4, max_weight=9)), weight="w")
    with pytest.warns(InputWarning, match="negative values"):
        assert rehearse(table, unsigned).clipped_share == 0  # and not 3 in place of -2


def test_items_are_named_as_the_domain_counts_them() -> None:
    """Texts that begin alike are one item, and numbers outside of a domain are its ends."""
    texts = pa.table({"city": ["Oslonger"] * 50 + ["Oslo"] * 40 + ["Rome"] * 30})
    found = rehearse(texts, of(ThresholdedCounts(TextDomain(3), 2, Thresholding(1e-7)), Record()))
    assert [(row.asked, row.exact, row.listed) for row in found.rows] == [("Osl", 90, True), ("Rom", 30, True)]
    odd = pd.DataFrame({"city": ["\ud800"] * 2})  # no text that can be written
    assert [
        row.asked for row in rehearse(odd, of(ThresholdedCounts(TextDomain(8), 2, Thresholding(1e-7)), Record())).rows
    ] == ["\ud800"]
    numbers = pa.table({"city": [5000] * 5 + [7] * 4 + [300]})
    found = rehearse(numbers, of(TopKSearch(IntegerDomain(0, 100), 2), Record()))
    assert [(row.asked, row.exact) for row in found.rows] == [(100, 6), (7, 4)]
    assert "Outside of the domain: 6 values of 10 records, which count at its ends." in str(found)
    incomes = pa.table({"city": [0.0, 0.0, 5e9, 3.0, 100.0, 100]})
    assert rehearse(incomes, of(Quantiles(LogDomain(1, 100)), Record())).outside == 3


def test_a_list_that_misses_items_is_said_so() -> None:
    """Its noise is far above all counts: 2 of 60,000 values are found by chance in fewer than 1 of 1e9 rehearsals."""
    rare = pa.table({"city": [11_111] * 3 + [44_444] * 2})
    found = rehearse(rare, of(TopKSearch(IntegerDomain(0, 1 << 60), 2), Record(), PrivacySpec(rho=1e-4)))
    assert [row.listed for row in found.rows] == [False, False]
    assert str(found).splitlines()[1].endswith(", not in the list")
    assert "List: the release finds 0 of these 2 items." in str(found)


def test_keys_that_are_not_released_are_said_so() -> None:
    """100 people are chosen and one is not, each with a probability above 1 - 1e-9."""
    trips = pa.table({"person": list(range(301)), "city": ["Oslo"] * 301, "country": ["NO"] * 300 + ["SE"]})
    chosen = of(SKETCH, PrivacyId("person", RecordBounds(1)), PrivacySpec(rho=5), keys=KeySelection(1e-10, "country"))
    found = rehearse(trips, chosen)
    assert found.keys == (2, 1, 300 / 301)
    assert "Keys: 1 of the 2 keys of the sample are released, with 99.7 % of what the bounds keep." in str(found)


@pytest.mark.parametrize(("of_others", "state"), [(9, "estimated"), (1, "not detected")])
def test_several_keys_have_the_weakest_state(of_others: int, state: str) -> None:
    """1,500 of NO lose two thirds: noise of about 1 hides it below 1e-100. None of SE does, or all."""
    weights = [9] * 1500 + [of_others] * 500
    table = pa.table({"city": ["a"] * 2000, "country": ["NO"] * 1500 + ["SE"] * 500, "w": weights})
    found = rehearse(table, of(SKETCH, Record(max_weight=3), weight="w", keys=PublicKeys(["NO", "SE"], "country")))
    assert found.clipping.state.value == state
    assert f"A release reports: {found.clipping}" in str(found)
    assert found.as_dict()["clipping"] == found.clipping.as_dict()


def test_quantiles_may_be_an_iterator_and_are_checked_first() -> None:
    declared = of(Quantiles(IntegerDomain(0, 89)), item="paid", keys=PublicKeys(["NO", "SE"], "country"))
    found = rehearse(TABLE, declared, quantiles=iter((0.25, 0.5)))
    assert [(row.key, row.asked) for row in found.rows] == [(key, q) for key in ("NO", "SE") for q in (0.25, 0.5)]
    assert [row.asked for row in rehearse(TABLE, declared, quantiles=0.5).rows] == [0.5, 0.5]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="quantiles must be between 0 and 1"):
        rehearse([], declared, quantiles=(50,))


def test_it_warns_as_a_release_does() -> None:
    with pytest.raises(ArgumentError, match="item='city' has no value in any row, so no row would count"):
        rehearse(pa.table({"city": pa.nulls(200, pa.int64())}), of(Quantiles(IntegerDomain(0, 9)), Record()))
    one_odd = pd.DataFrame({"city": pd.Series([7] * 199 + ["7,5"], dtype=object)})
    with pytest.warns(InputWarning, match="item='city': under 1 % of the values cannot be read as whole numbers"):
        rehearse(one_odd, of(Quantiles(IntegerDomain(0, 9)), Record()))
    with pytest.warns(PrivacyWarning, match="gives little protection"):
        rehearse(TABLE, of(SKETCH))


def test_names_cannot_steer_a_terminal_and_columns_are_as_wide_as_values() -> None:
    odd = pa.table({"city": ["a\nb\x1b[31m"] * 9 + ["Rome"]})
    lines = str(rehearse(odd, of(SKETCH, Record()))).splitlines()
    assert lines[1].startswith("a\\nb\\x1b[31m  ")
    assert len({line.rindex("  ") for line in lines[:3]}) == 1
    long = pa.table({"city": ["x" * 40] * 3 + ["x" * 41] * 2})
    lines = str(rehearse(long, of(SKETCH, Record()))).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["x" * 40, "x" * 37 + "..."]
    day = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    hours = pa.table({"city": [day + datetime.timedelta(hours=n) for n in range(24)]})
    domain = TimestampDomain(day, day + datetime.timedelta(days=1), datetime.timedelta(minutes=1))
    found = rehearse(hours, of(Quantiles(domain), Record()), quantiles=[0.5])
    assert str(found).splitlines()[1].split()[1:3] == ["2024-01-01", "11:00:00+00:00"]


def test_a_sample_is_bounded_once() -> None:
    """Twice would be two choices of records: the bounded numbers of one, and the noise of another."""
    with pytest.MonkeyPatch.context() as patch:
        calls: list[Any] = []
        bound = RecordRule.bound
        patch.setattr(RecordRule, "bound", lambda rule, records: (calls.append(1), bound(rule, records))[1])
        rehearse(TABLE, of(SKETCH))
    assert len(calls) == 1


def test_of_several_metrics_the_loss_is_that_of_the_one_that_lost_most() -> None:
    """9 pages of one visit each have a length of 3: all count. 9 numbers at 1/3 add 3 to one sum and 6 to the other."""
    table = pa.table({"person": [1] * 9, "page": list(range(9)), "minutes": [3] * 9})
    metrics = {
        "pages": Metric(ItemFrequencies(ListedItems(range(9))), "page"),
        "mean": Metric(Statistics(IntegerDomain(0, 9)), "minutes"),
    }
    found = rehearse(table, ReleaseSpec(Metrics(metrics), MUCH, PrivacyId("person", NormBound(3))))
    assert found.clipped_share == pytest.approx(1 - 3 / (3**2 + 6**2) ** 0.5, abs=1e-3)
    assert "for the metric that lost most" in str(found)


def test_nothing_is_spent() -> None:
    part = PrivacyBudget(rho=1).spend(share=1)
    declared = of(SKETCH, privacy=part)
    rehearse(TABLE, declared)
    rehearse(TABLE, declared)
    release_frame(TABLE, declared)
    with pytest.raises(ValueError, match="has already paid for another release"):
        release_frame(TABLE, declared)


def test_it_says_that_the_sample_must_be_public() -> None:
    words = str(rehearse(TABLE, of(SKETCH)))
    assert words.splitlines()[-1].startswith(
        "Exact and bounded numbers are of the sample, which must be public or made up"
    )
    empty = rehearse(TABLE.slice(0, 0), of(SKETCH))
    assert (empty.rows, empty.clipped_share) == ((), 0.0)
    assert "Not counted: 0 of 0 records" in str(empty)


def test_the_command_prints_a_rehearsal_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sample.parquet"
    pq.write_table(TABLE, path)
    asked = [
        "rehearse",
        str(path),
        "--kind",
        "frequencies",
        "--item",
        "city",
        "--privacy-unit",
        "record",
        "--rho",
        "50",
    ]
    assert main([*asked, "--show", "2"]) == 0
    printed, said = capsys.readouterr()
    assert "gives little protection" in said
    assert [line.split()[1] for line in printed.splitlines()[1:3]] == [
        name.split()[1] for name, _ in Counter(CITIES).most_common(2)
    ]
    assert main([*asked, "--show", "2", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["asked"], row["exact"]) for row in found["rows"]] == [
        (name, float(n)) for name, n in Counter(CITIES).most_common(2)
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["sample.parquet"]
    assert main([*asked[:4], "--item", "cty", "--privacy-unit", "record", "--rho", "1"]) == 2
    assert "item: 'cty' is not a column of the table" in capsys.readouterr().err


@pytest.mark.parametrize("variance", [False, True])
def test_numbers_are_rehearsed_by_key(variance: bool) -> None:
    """rho = 50 leaves a sigma below 3 on each sum, so a correct release fails with a probability below 1e-20."""
    domain, keys = IntegerDomain(10, 70), PublicKeys(["NO", "SE", "DK", "FI"], "country")
    found = rehearse(
        TABLE,
        of(Statistics(domain, variance), PrivacyId("person", RecordBounds(4, max_keys=3)), keys=keys, item="paid"),
    )
    names = ["count", "total", "mean", *(["variance", "std"] if variance else [])]
    assert [(row.key, row.asked) for row in found.rows] == [(key, name) for key in ("NO", "SE", "DK") for name in names]
    for key in ("NO", "SE", "DK"):
        exact = {row.asked: row.exact for row in found.rows if row.key == key}
        numbers = np.clip(PAID[key == COUNTRY], 10, 70)
        assert exact["count"] == len(numbers)
        assert exact["total"] == pytest.approx(numbers.sum())
        assert exact["mean"] == pytest.approx(numbers.mean())
        assert exact.get("variance", numbers.var()) == pytest.approx(numbers.var())
        assert exact.get("std", numbers.std()) == pytest.approx(numbers.std())
        (mean,) = [row for row in found.rows if (row.key, row.asked) == (key, "mean")]
        assert abs(mean.private - mean.bounded) < 5
    assert found.outside == np.count_nonzero((PAID < 10) | (PAID > 70))


def test_metrics_are_rehearsed_by_name() -> None:
    """Exact numbers of each are those of all records; a record that counts for one metric counts.

    rho = 50 leaves a sigma below 26 on the count of a city: 300 are 11 of these, and a false alarm is below 1e-25.
    """
    missing = np.arange(6000) % 4 == 0
    table = TABLE.append_column("ms", pa.array(PAID, mask=missing))
    metrics = {
        "mean": Metric(Statistics(IntegerDomain(10, 70)), "ms"),
        "median": Metric(Quantiles(IntegerDomain(0, 100)), "ms"),
        "cities": Metric(LISTED, "city"),
    }
    for keys in None, PublicKeys(["NO", "SE"], "country"):
        people = PrivacyId("person", RecordBounds(100, max_keys=2 if keys else None))
        found = rehearse(table, ReleaseSpec(Metrics(metrics), MUCH, people, keys=keys), k=2, quantiles=[0.5])
        first = COUNTRY == "NO" if keys else COUNTRY != ""
        assert [row.metric for row in found.rows if row.key == found.rows[0].key] == [
            *["mean"] * 3,
            "median",
            *["cities"] * 2,
        ]
        exact = {(row.metric, row.asked): row for row in found.rows if row.key == found.rows[0].key}
        numbers = np.clip(PAID[first & ~missing], 10, 70)
        assert exact["mean", "count"].exact == exact["mean", "count"].bounded == len(numbers)
        assert exact["mean", "total"].exact == pytest.approx(numbers.sum())
        assert exact["median", 0.5].exact == exact["median", 0.5].bounded
        of_cities = Counter(city for city, is_first in zip(CITIES, first, strict=True) if is_first).most_common(2)
        assert [(row.asked, row.exact) for row in found.rows if row.metric == "cities"][:2] == of_cities
        assert all(abs(row.private - row.bounded) < 300 for row in exact.values() if row.metric == "cities")
        assert (found.unused, found.clipped_share) == (int((COUNTRY == "DK").sum()) if keys else 0, 0)
        assert re.search(r"^mean: count ", str(found), re.MULTILINE)
        assert found.as_dict()["rows"][0]["metric"] == "mean"


@pytest.mark.parametrize("bounds", [NormBound(2), NormBound(1), RecordBounds(4, max_keys=1)])
def test_privacy_ids_are_rehearsed(bounds: Any) -> None:
    """Each person has a record in both keys. rho = 50 leaves a sigma below 0.25: errors of 2 are below 1e-14."""
    table = pa.table({"who": [n // 2 for n in range(200)], "country": ["NO", "SE"] * 100, "day": [7] * 200})
    keys, metrics = PublicKeys([("NO", 7), ("SE", 7)], ["country", "day"]), {"people": PrivacyIdCount()}
    count = Metrics({name: Metric(each) for name, each in {**metrics, "visits": RecordCount()}.items()})
    rows = rehearse(table, ReleaseSpec(count, PrivacySpec(rho=50), PrivacyId("who", bounds), keys=keys)).rows
    found = {row.key: row for row in rows if row.metric == "people"}
    assert {key: row.exact for key, row in found.items()} == {("NO", 7): 100, ("SE", 7): 100}
    total = sum(row.bounded for row in found.values())
    assert total == pytest.approx({1: 141.4, None: 100}.get(getattr(bounds, "max_norm", None), 200), abs=0.1)
    assert all(abs(row.private - row.bounded) < 2 for row in found.values())


def test_a_mean_that_cannot_be_told_is_said_so() -> None:
    row = Rehearsed(None, "mean", 20.5, 20.5, None, 0.0, 90.0)
    found = Rehearsal((row,), records=1, unused=0, outside=0, clipped_share=0.0, clipping=Clipping())
    assert re.search(r"^mean +20.5 +20.5 +-  0 to 90$", str(found), re.MULTILINE)
    assert json.loads(json.dumps(found.as_dict()))["rows"][0]["private"] is None
