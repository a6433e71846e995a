"""`QueryReleases`: one kind of question to each release of a collection."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    CountSketch,
    DyadicCountSketch,
    IntegerDomain,
    ListedItems,
    PrivacySpec,
    PublicKeys,
    Record,
    ReleaseTerms,
    SketchSpec,
    TextDomain,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.answers.questions import QUESTIONS
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram, ThresholdedItems
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.statement.clipping import COLUMNS
from beam_dpsketch.transforms import Ask, PrivateQuantiles, PrivateTopK, QueryReleases
from tests.helpers import trees
from tests.helpers.pipelines import seen_by_sink

SPEC = TreeSpec.for_memory(IntegerDomain(0, 99))
QUIET = (Fraction(1, 4),) * len(SPEC.levels)


def tree(items: list[int]) -> Any:
    return trees.without_noise(DyadicCountSketch(SPEC).accumulate(items), sigma_squared_per_level=QUIET)


def answered(releases: list[Any], *asks: Ask) -> list[dict[str, Any]]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        released = pipeline | "Releases" >> beam.Create(releases, reshuffle=False)
        return [released | f"{n}" >> QueryReleases(ask) for n, ask in enumerate(asks)] | beam.Flatten()

    return seen_by_sink(build)


def expected(ask: Ask, released: Any) -> list[dict[str, Any]]:
    """The rows of an answer, each with the clipping of its release."""
    answer = ask.answer(released)
    return [{**row, **answer.clipping.columns()} for row in answer.rows]


TREE_ASKS = [
    Ask("quantiles", (0.25, 0.5), 0.9),
    Ask("ranks", (15,)),
    Ask("ranges", ((0, 10), (11, 99))),
    Ask("histogram", (0, 15, 99)),
    Ask("cdf", 4),
    Ask("items", (10, 20)),
    Ask("top_k", 2),
    Ask("total_weight"),
]
NUMBER_ASKS = [Ask("count"), Ask("total"), Ask("mean", confidence=0.9), Ask("variance"), Ask("std")]


@pytest.mark.parametrize("ask", TREE_ASKS, ids=lambda ask: ask.kind)
def test_rows_are_those_of_the_release(ask: Ask) -> None:
    asked = tree([10] * 500 + [20] * 500)
    rows = answered([asked], ask)
    assert sorted(rows, key=str) == sorted(expected(ask, asked), key=str)
    assert rows


@pytest.mark.parametrize("ask", NUMBER_ASKS, ids=lambda ask: ask.kind)
def test_rows_about_numbers_are_those_of_the_release(ask: Ask) -> None:
    sums = NumberSums(StatisticsSpec(IntegerDomain(0, 99), variance=True)).accumulate([10] * 500 + [20] * 500)
    asked = release(sums, ReleaseTerms(PrivacySpec(rho=1.0)))
    assert answered([asked], ask) == expected(ask, asked)


def test_every_kind_of_question_but_those_of_side_counters_is_asked_here() -> None:
    assert {ask.kind for ask in [*TREE_ASKS, *NUMBER_ASKS]} == {*QUESTIONS} - {"records", "privacy_units"}


def test_each_key_has_its_own_rows() -> None:
    releases = [("a", tree([1] * 500)), (7, tree([2] * 500)), (0.5, tree([3] * 500))]
    rows = answered(releases, Ask("quantiles", (0.5,)))
    assert {row["key"]: row["estimate"] for row in rows} == {"a": 1, 7: 2, 0.5: 3}
    assert {*rows[0]} == {"key", "quantile", "estimate", "lower", "upper", *COLUMNS}


def test_no_release_at_all_has_no_rows() -> None:
    assert answered([], Ask("total_weight")) == []


def test_flat_sketches_and_words_are_asked_too() -> None:
    flat = release(
        CountSketch(SketchSpec(depth=3, width=64)).accumulate(["x"] * 50), ReleaseTerms(PrivacySpec(rho=1.0))
    )
    spec = ThresholdedItems.of(TextDomain(3), [b"to\3"])
    words = ReleasedCounts(spec, np.array([900]), trees.statement(1))
    listed = release(
        ListedHistogram(ListedItems(["x", "y"])).accumulate(["x"] * 50), ReleaseTerms(PrivacySpec(rho=1.0))
    )
    (row,) = answered([listed], Ask("top_k", 1))
    assert (row["item"], row["estimate"]) == ("x", listed.estimate("x"))
    rows = answered([flat], Ask("top_k", 1, candidates=("x", "y")))
    assert [(row["place"], row["item"], row["estimate"]) for row in rows] == [(1, "x", flat.estimate(["x"])[0])]
    rows = answered([("k", words)], Ask("items", ("to",)), Ask("top_k", 1))
    assert [(row["key"], row["item"], row["estimate"]) for row in rows] == [("k", "to", 900)] * 2


def test_releases_and_lists_of_the_same_pipeline_are_asked() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        pairs = pipeline | "Data" >> beam.Create([("a", 5)] * 3000 + [("b", 90)] * 3000)
        keys = PublicKeys(["a", "b"])
        quantiles = PrivateQuantiles(IntegerDomain(0, 99), PrivacySpec(rho=1.0), privacy_unit=Record(), keys=keys)
        top = PrivateTopK(IntegerDomain(0, 99), PrivacySpec(rho=1.0), k=1, privacy_unit=Record(), keys=keys)
        medians = pairs | quantiles | QueryReleases(Ask("quantiles", (0.5,)))
        items = pairs | top | QueryReleases(Ask("items", (5,)))
        return (medians, items) | beam.Flatten()

    rows = seen_by_sink(build)
    assert {row["key"]: row["estimate"] for row in rows if "quantile" in row} == {"a": 5, "b": 90}
    assert {row["key"]: row["estimate"] for row in rows if "item" in row} == pytest.approx({"a": 3000, "b": 0}, abs=300)


def test_a_release_that_does_not_answer_is_refused() -> None:
    flat = release(CountSketch(SketchSpec(depth=1, width=4)), ReleaseTerms(PrivacySpec(rho=1.0)))
    with pytest.raises(Exception, match=r"A release of kind frequencies does not answer quantiles\. Use items, top_k"):
        answered([flat], Ask("quantiles", (0.5,)))
