"""Ranks, searches and statistics of numbers, addresses, times and words: what is special to each of them."""

from __future__ import annotations

import datetime
import functools
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    ArgumentError,
    AssumePublicKeys,
    DyadicCountSketch,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TextDomain,
    TimestampDomain,
    TreeSpec,
)
from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.planning.kinds.layouts import layout_of
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import PrivateQuantiles, PrivateStatistics, PrivateTopK
from tests.helpers.noise import without_noise
from tests.helpers.pipelines import run
from tests.helpers.tree_pipelines import exact_vectors

PRIVACY = PrivacySpec(rho=1.0, summary_counts=None)
DELAYS = IntegerDomain(-60, 195)
DAY = datetime.datetime(2024, 5, 1)


ROWS = [
    {"carrier": carrier, "delay": delay, "tail": f"N{number % 5}"}
    for number, (carrier, delay) in enumerate(
        [("AA", -60), ("AA", 0), ("BB", 7), ("BB", 5000), ("AA", -5000), ("CC", 1), ("AA", 0), ("BB", None)]
    )
]


def vector_of(values: Any, domain: Any = DELAYS, weights: Any = None) -> np.ndarray:
    spec = layout_of(domain)
    return raw_type(spec)(spec).accumulate(values, weights).to_vector()


BOUND = RecordBounds(max_records=50)


DOMAINS = {
    "floats": (FloatDomain(0.0, 1.0, step=0.125), [0.1, 0.5, 7.0, -1.0], pa.float64()),
    "whole floats": (FloatDomain(0.0, 9.0, step=0.5), [1, 5, 8], pa.int32()),
    "times": (
        TimestampDomain(DAY, DAY + datetime.timedelta(days=1)),
        [DAY, DAY + datetime.timedelta(hours=3), DAY - datetime.timedelta(days=9)],
        pa.timestamp("ns"),
    ),
    "addresses": (IPv4Domain(), ["10.0.0.1", "1.2.3.4", "1.2.3.4"], pa.string()),
    "numbers of addresses": (IPv4Domain(), [17, 17, 1 << 31], pa.uint32()),
    "integers": (DELAYS, [1, 2, 2, 900], pa.int16()),
}


BY_RECORD, BY_USER = Record(), PrivacyId("user", RecordBounds(1))
BY_SIGNED_USER = PrivacyId("user", RecordBounds(1, signed=True))


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "privacy_unit",
    [BY_RECORD, BY_SIGNED_USER, pytest.param(BY_USER, marks=pytest.mark.slow)],
    ids=["record", "signed", "privacy id"],
)
@pytest.mark.parametrize("name", DOMAINS)
def test_values_of_every_domain_are_read_from_columns_and_rows(name: str, privacy_unit: Any) -> None:
    domain, values, kind = DOMAINS[name]
    rows = [{"value": value, "user": number} for number, value in enumerate([*values, None])]
    transform = PrivateQuantiles(domain, PRIVACY, item="value", privacy_unit=privacy_unit)
    column = pa.array([row["value"] for row in rows], kind)
    users = [np.arange(len(rows)) + 100 * form for form in (1, 2)]  # another set in each form, so that none is bounded
    tables = [pa.table({"value": column, "user": each}) for each in users]
    expected = vector_of(values, domain)
    np.testing.assert_array_equal(exact_vectors([*rows, tables[0], tables[1].to_pandas()], transform), 3 * expected)
    if privacy_unit is BY_RECORD:
        np.testing.assert_array_equal(
            exact_vectors([row["value"] for row in rows], PrivateQuantiles(domain, PRIVACY, privacy_unit=Record())),
            expected,
        )


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("domain", "column", "privacy_unit"),
    [
        (DELAYS, pa.array(["text"]), BY_RECORD),
        (DELAYS, pa.array([DAY]), BY_USER),
        (FloatDomain(0, 1, 0.5), pa.array(["0.5"]), BY_RECORD),
        (IPv4Domain(), pa.array([b"\1\2\3\4"]), BY_USER),
        (TimestampDomain(DAY, DAY + datetime.timedelta(1)), pa.array([1_714_521_600]), BY_RECORD),
        (DELAYS, pa.array([[1]]), BY_USER),
        (DELAYS, pa.array([True]), BY_RECORD),
        (TextDomain(5), pa.array([b"bytes"]), BY_RECORD),
        (TextDomain(5), pa.array([b"bytes"]), PrivacyId("user", NormBound(1))),
    ],
)
def test_a_column_none_of_whose_values_could_count_is_an_error(
    domain: Any, column: pa.Array, privacy_unit: Any
) -> None:
    make: Any = globally if isinstance(domain, TextDomain) else functools.partial(PrivateQuantiles, privacy=PRIVACY)
    transform = make(domain, item="value", privacy_unit=privacy_unit)
    message = rf"item='value' must contain .* \({type(domain).__name__}\), got"
    with pytest.raises(Exception, match=message):
        run([pa.table({"value": column, "user": [1]})], transform)


def test_the_statement_says_what_was_asked_for() -> None:
    spec = TreeSpec.for_memory(DELAYS, arity=4, leaf_share=Fraction(1, 2))
    transform = PrivateQuantiles(
        spec,
        PrivacySpec(rho=0.5, relation=ADD_OR_REMOVE_ONE, summary_counts=None),
        item="delay",
        privacy_unit=PrivacyId("tail", BOUND),
    )
    (released,) = run(ROWS, transform)
    assert isinstance(released, ReleasedDyadicCountSketch)
    statement = released.privacy
    assert released.spec == spec
    assert (statement.rho, statement.bounds, statement.privacy_unit) == (Fraction(1, 2), BOUND, PrivacyUnit.PRIVACY_ID)
    # Delta_l^2 = C^2 for exact levels; rho_l = rho / 6 above and rho / 2 at the leaves.
    assert statement.sigma_squared_per_level == (Fraction(2500 * 6),) * 3 + (Fraction(2500 * 2),)
    assert statement.disclosed is Disclosure.NONE


def test_answers_are_near_the_truth() -> None:
    """sigma^2 = 2 a level; the error of a rank is far below 4 x 12 x 14 sigma with probability > 1 - 1e-9."""
    (released,) = run([10] * 3000 + [20] * 1000, PrivateQuantiles(DELAYS, PRIVACY, privacy_unit=Record()))
    assert released.quantile([0.1, 0.5, 0.9]).estimate == (10, 10, 20)
    assert released.rank([9, 10, 19, 20]) == pytest.approx([0, 3000, 3000, 4000], abs=200)
    (empty,) = run([], PrivateQuantiles(DELAYS, PRIVACY, privacy_unit=Record()))
    assert empty.total_weight().estimate < 200


def test_at_most_the_bounds_of_each_privacy_id_are_kept() -> None:
    rows = [{"user": "one", "value": value % 200} for value in range(1000)] + [{"user": "two", "value": 3}]
    bounds = RecordBounds(max_records=7)
    transform = PrivateQuantiles(DELAYS, PRIVACY, item="value", privacy_unit=PrivacyId("user", bounds))
    assert exact_vectors(rows, transform).sum() == 8
    tree = PrivateQuantiles(TreeSpec.for_memory(DELAYS), PRIVACY, item="value", privacy_unit=PrivacyId("user", bounds))
    levels = DyadicCountSketch.from_vector(TreeSpec.for_memory(DELAYS), exact_vectors(rows, tree)).levels
    assert {int(level.counters.sum()) for level in levels} == {8}


def test_accumulators_of_ranks_survive_their_bytes() -> None:
    for domain, count in ((DELAYS, 3), (DELAYS, 5000), (IPv4Domain(), 100), (IPv4Domain(), 90_000)):
        recipe = SketchInput(layout_of(domain), RecordBounds(1))
        accumulator = SketchAccumulator(recipe)
        for value in range(count):
            accumulator.add(value % 190)
        again = SketchAccumulator.from_bytes(recipe, accumulator.to_bytes())
        assert again.to_sketch() == accumulator.to_sketch()


OF_EPSILON = PrivacySpec(epsilon=3, delta=1e-6, noise="gaussian")
WORDS = ["to"] * 4000 + ["tea"] * 3000 + ["", "ten"] * 2000 + ["t"] * 1000
ADDRESSES = ["10.0.0.1"] * 4000 + ["10.0.0.2"] * 3000 + ["9.9.9.9"] * 2000


def found(top: Any) -> list[Any]:
    return [row.item for row in top]


def test_the_heaviest_addresses_are_found() -> None:
    (top,) = run(ADDRESSES, PrivateTopK(IPv4Domain(), OF_EPSILON, k=2, privacy_unit=Record()))
    assert found(top) == ["10.0.0.1", "10.0.0.2"]
    assert isinstance(top.release, ReleasedDyadicCountSketch)
    spec = top.release.spec
    assert spec == TreeSpec.for_memory(IPv4Domain(), arity=16, leaf_share=Fraction(1, 2))
    assert top.release.top_k(2) == top
    assert top.to_rows() == top.release.top_k(2).to_rows()
    assert top.release.privacy.rho == OF_EPSILON.rho


def test_the_most_frequent_words_are_found_short_ones_too() -> None:
    """Counts differ by 1,000 and more, at a sigma of 3: a miss has probability < 1e-9."""
    (top,) = run(WORDS, PrivateTopK(TextDomain(5), OF_EPSILON, k=5, privacy_unit=Record()))
    assert isinstance(top.release, ReleasedCounts)
    assert found(top)[:2] == ["to", "tea"]
    assert set(found(top)) == {"to", "tea", "", "ten", "t"}
    assert top.truncated == frozenset()


def test_explain_says_what_will_be_found_and_never_refuses() -> None:
    keyed = PrivateTopK(IPv4Domain(), OF_EPSILON, k=3, privacy_unit=Record(), keys=AssumePublicKeys())
    for transform in (globally(IPv4Domain()), keyed):
        assert "with which a value is found with 95 % probability\n" in transform.explain()
        assert "Give the number of records to see how many values reach the limit" in transform.explain()
        assert re.search(
            r"\n  10,000 Zipf-distributed records .*\d values reach the limit\n", transform.explain(10_000)
        )
        assert "answers would be mostly noise" in transform.explain(1)


def globally(domain: Any = TextDomain(5), k: Any = 3, privacy_unit: Any = Record(), **arguments: Any) -> Any:  # noqa: B008
    return PrivateTopK(domain, OF_EPSILON, k=k, privacy_unit=privacy_unit, **arguments)


@pytest.mark.slow
def test_any_layout_of_a_tree_can_be_searched() -> None:
    spec = TreeSpec.for_memory(IPv4Domain(), arity=4)
    (top,) = run(ADDRESSES, globally(spec, k=1))
    assert top.release.spec == spec
    assert found(top) == ADDRESSES[:1]


CARRIERS = ["AA", "AA", "BB", "BB", "AA", "CC", "AA", "BB"]
MINUTES = [-60, 0, 7, 5000, -5000, 1, 0, None]
FLIGHTS = [
    {"carrier": carrier, "delay": delay, "tail": f"N{number % 5}"}
    for number, (carrier, delay) in enumerate(zip(CARRIERS, MINUTES, strict=True))
]
UNITS = {"record": Record(), "privacy id": PrivacyId("tail", RecordBounds(50, max_keys=3))}


def of(keys: Any = None, privacy_unit: Any = UNITS["record"], **more: Any) -> PrivateStatistics[Any]:
    return PrivateStatistics(DELAYS, PRIVACY, privacy_unit=privacy_unit, item="delay", variance=True, keys=keys, **more)


def told(released: ReleasedStatistics) -> tuple[float, ...]:
    return released.count().estimate, released.total().estimate, released.mean().estimate or 0.0


@pytest.mark.parametrize(
    "keys", [PublicKeys(["AA", "BB"], "carrier"), AssumePublicKeys("carrier"), KeySelection(1e-8, "carrier")]
)
def test_each_key_has_its_answers(keys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two keys has 40 units, more than selection needs: it is left out with a probability below 1e-9."""
    without_noise(monkeypatch)
    spent = PrivacySpec(rho=50, summary_counts=None)
    rows = [{"carrier": ["AA", "BB"][n % 2], "delay": n % 50, "tail": f"N{n}"} for n in range(400)]
    privacy_unit = PrivacyId("tail", RecordBounds(1, max_keys=1))
    found = dict(run(rows, PrivateStatistics(DELAYS, spent, privacy_unit=privacy_unit, item="delay", keys=keys)))
    assert {key: told(each) for key, each in found.items()} == {
        "AA": pytest.approx((200, 4800, 24)),
        "BB": pytest.approx((200, 5000, 25)),
    }


def test_what_is_said_before_the_data_are_read() -> None:
    words = of().explain(1000)
    assert re.search(
        r"^Statistics    count, sum and squares of whole numbers -60 to 195; sums do not collide$", words, re.M
    )
    assert re.search(r"^  a mean of 1,000 records +±[\d.]+, and ±[\d.]+ near an end of the value range$", words, re.M)
    shown = {"counters": 4, "domain": "whole numbers -60 to 195", "variance": True}
    assert shown.items() <= of().display_data().items()
    with pytest.raises(ArgumentError, match=r"item='delay' is 'late' \(str\).* \[dpsketch-E612\]"):
        of().check([{"delay": "late"}])


def test_a_variance_that_was_not_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (released,) = run(FLIGHTS, PrivateStatistics(DELAYS, PRIVACY, privacy_unit=Record(), item="delay"))
    for ask in (released.variance, released.std):
        with pytest.raises(ArgumentError, match=r"variance is not in this release\. .* \[dpsketch-E722\]"):
            ask()
