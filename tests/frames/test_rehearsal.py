"""A rehearsal: exact and bounded numbers by brute force, private ones within their intervals, and nothing spent."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import (
    AutoNorm,
    GroupedCounts,
    Groups,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    TextDomain,
    TopKSearch,
    rehearse,
    release_frame,
)
from beam_dpsketch.cli.main import main

RNG = np.random.default_rng(7)
PERSON, CITY = RNG.integers(0, 500, 6000), RNG.zipf(1.7, 6000) % 12
COUNTRY, PAID = RNG.choice(["NO", "SE", "DK"], 6000, p=[0.6, 0.3, 0.1]), RNG.integers(0, 90, 6000)
TABLE = pa.table({"person": PERSON, "city": [f"city {n}" for n in CITY], "country": COUNTRY, "paid": PAID})
PEOPLE, MUCH = PrivacyId("person", RecordBounds(4)), PrivacySpec(rho=50)
CITIES, SKETCH = TABLE["city"].to_pylist(), ItemFrequencies(SketchSpec(width=512))
LISTED = ItemFrequencies(ListedItems([f"city {n}" for n in range(12)]))


def of(count: Any, unit: Any = PEOPLE, privacy: Any = MUCH, item: str = "city", **more: Any) -> ReleaseSpec:
    return ReleaseSpec(count, privacy, unit, item=item, **more)


FORMS: dict[str, Any] = {"table": lambda: TABLE, "pandas": TABLE.to_pandas, "reader": TABLE.to_reader}


@pytest.mark.parametrize("form", FORMS)
def test_exact_numbers_are_those_of_all_records(form: str) -> None:
    found = rehearse(FORMS[form](), of(SKETCH), k=5)
    assert [(row.asked, row.exact) for row in found.rows] == Counter(CITIES).most_common(5)
    kept = sum(min(count, 4) for count in Counter(PERSON.tolist()).values())
    assert found.taken == pytest.approx(1 - kept / 6000)
    assert found.keys is None
    assert all(0 <= row.bounded <= row.exact and row.key is None for row in found.rows)
    for row in found.rows:  # sigma is below 2, so a correct release fails with a probability below 1e-20
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
    "bounds", [RecordBounds(2), AutoNorm(spend=Fraction(1, 2)), NormBound(Fraction(7, 2), order=1)], ids=repr
)
def test_the_release_has_what_the_bounds_keep(bounds: Any) -> None:
    """One norm and one choice of records for both: with little noise they agree.

    Half of so large an epsilon leaves the choice of a norm without noise: any of its counts is off with a probability
    below 1e-10. The noise of answers has a deviation below 2.
    """
    privacy = PrivacySpec(epsilon=200, delta=1e-6)
    found = rehearse(TABLE, of(LISTED, PrivacyId("person", bounds), privacy))
    for row in found.rows:
        assert abs(row.private - row.bounded) < 60


def test_keys_stand_in_order_of_their_weight() -> None:
    found = rehearse(TABLE, of(SKETCH, keys=PublicKeys(["SE", "NO", "FI"], "country")), k=2)
    assert [row.key for row in found.rows] == ["NO", "NO", "SE", "SE"]
    assert found.keys == (2, 2)
    assert [row.exact for row in found.rows[:2]] == [
        n for _, n in Counter(np.array(CITIES)[COUNTRY == "NO"]).most_common(2)
    ]
    chosen = of(SKETCH, PrivacyId("person", RecordBounds(4, max_keys=3)), keys=KeySelection(1e-7, "country"))
    assert "Keys: 3 of the 3 keys of the sample are released." in str(rehearse(TABLE, chosen))


@pytest.mark.parametrize(
    "count", [TopKSearch(TextDomain(7), 3), GroupedCounts(TextDomain(7), 3, Groups(1e-7))], ids=["tree", "groups"]
)
def test_searches_are_asked_for_the_true_items(count: Any) -> None:
    unit = PrivacyId("person", NormBound(6, max_keys=9)) if count.by_item else PrivacyId("person", NormBound(6))
    found = rehearse(TABLE, of(count, unit), k=3)
    assert [(row.asked, row.exact) for row in found.rows] == Counter(CITIES).most_common(3)
    assert all(abs(row.private - row.bounded) < 60 for row in found.rows)


def test_items_that_groups_do_not_release_are_said_so() -> None:
    rare = pa.table({"person": list(range(1000)), "city": ["Oslo"] * 999 + ["rare"]})
    found = rehearse(rare, of(GroupedCounts(TextDomain(7), 3, Groups(1e-7)), PrivacyId("person", RecordBounds(1))))
    assert math.isnan(found.rows[1].private)
    assert str(found).splitlines()[2].endswith("-   not released")


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
    assert found.taken == pytest.approx(1 - np.minimum(PAID, 50).sum() / PAID.sum())


def test_nothing_is_spent() -> None:
    part = PrivacyBudget(rho=1).spend(share=1)
    declared = of(SKETCH, privacy=part)
    rehearse(TABLE, declared)
    rehearse(TABLE, declared)
    release_frame(TABLE, declared)
    with pytest.raises(ValueError, match="has paid for another release"):
        release_frame(TABLE, declared)


def test_it_says_that_the_sample_must_be_public() -> None:
    words = str(rehearse(TABLE, of(SKETCH)))
    assert words.splitlines()[-1].startswith(
        "Exact and bounded numbers are of the sample, which must be public or made up"
    )
    empty = rehearse(TABLE.slice(0, 0), of(SKETCH))
    assert (empty.rows, empty.taken) == ((), 0.0)


def test_the_command_prints_a_rehearsal_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sample.parquet"
    pq.write_table(TABLE, path)
    asked = ["rehearse", str(path), "--kind", "frequencies", "--item", "city", "--unit", "record", "--rho", "50"]
    assert main([*asked, "--show", "2"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines()[1:3]] == [
        name.split()[1] for name, _ in Counter(CITIES).most_common(2)
    ]
    assert main([*asked, "--show", "2", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["asked"], row["exact"]) for row in found["rows"]] == [
        (name, float(n)) for name, n in Counter(CITIES).most_common(2)
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["sample.parquet"]
    assert main([*asked[:4], "--item", "cty", "--unit", "record", "--rho", "1"]) == 2
    assert "item: 'cty' is not a column of the table" in capsys.readouterr().err
