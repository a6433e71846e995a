"""`QueryReleases`: questions as elements."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import (
    CountSketch,
    DyadicCountSketch,
    IntegerDomain,
    PrefixSpec,
    PrefixTree,
    PrivacySpec,
    PublicKeys,
    Record,
    ReleaseTerms,
    SketchSpec,
    TextDomain,
    TreeSpec,
    release,
)
from beam_dpsketch.transforms import PrivateQuantiles, PrivateTopK, QueryReleases
from beam_dpsketch.transforms.queries import ASKED, Answer, Question
from tests.helpers import trees
from tests.helpers.pipelines import seen_by_sink

SPEC = TreeSpec.for_memory(IntegerDomain(0, 99))
QUIET = (Fraction(1, 4),) * len(SPEC.levels)


def tree(items: list[int]) -> Any:
    return trees.without_noise(DyadicCountSketch(SPEC).accumulate(items), sigma_squared_per_level=QUIET)


def answered(releases: list[Any], questions: list[Question]) -> dict[tuple[str, Any], Any]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        released = pipeline | "Releases" >> beam.Create(releases, reshuffle=False)
        return pipeline | "Questions" >> beam.Create(questions, reshuffle=False) | QueryReleases(released)

    answers = seen_by_sink(build)
    assert all(isinstance(answer, Answer) for answer in answers)
    assert {answer.question for answer in answers} == set(questions)
    assert len(answers) == len(questions)
    return {(answer.question.method, answer.question.key): answer.value for answer in answers}


def test_the_only_release_answers_questions_without_key() -> None:
    asked = tree([10] * 500 + [20] * 500)
    questions = [
        Question("quantile", (0.25,)),
        Question("rank", (15,)),
        Question("total"),
        Question("range_count", (0, 10)),
        Question("cdf", (10,)),
        Question("quantile_interval", (0.5, 0.9)),
        Question("top_k", (2,)),
        Question("histogram", ((0, 15, 99),)),
        Question("rank", (15,), key="no such key"),
    ]
    answers = answered([asked], questions)
    for question in questions[:-1]:
        assert answers[question.method, None] == getattr(asked, question.method)(*question.arguments)
    assert answers["quantile", None] == 10
    assert answers["rank", None] == pytest.approx(500)
    assert answers["rank", "no such key"] is None


def test_each_key_has_its_own_release_and_unknown_keys_have_no_answer() -> None:
    releases = [("a", tree([1] * 500)), (7, tree([2] * 500)), (("t", 1), tree([3] * 500))]
    questions = [Question("quantile", (0.5,), key=key) for key in ("a", 7, ("t", 1), "unknown", None)]
    answers = answered(releases, questions)
    assert [answers["quantile", key] for key in ("a", 7, ("t", 1))] == [1, 2, 3]
    assert answers["quantile", "unknown"] is None
    assert answers["quantile", None] is None


def test_no_release_at_all_has_no_answers() -> None:
    assert answered([], [Question("total")]) == {("total", None): None}


def test_flat_sketches_and_words_are_asked_too() -> None:
    flat = release(CountSketch(SketchSpec(depth=3, width=64)).accumulate(["x"] * 50), ReleaseTerms(PrivacySpec(1.0)))
    words = trees.without_noise(PrefixTree(PrefixSpec.for_memory(TextDomain(3))).accumulate(["to"] * 900))
    answers = answered([flat], [Question("estimate", (("x",),)), Question("top_k", (1, ("x", "y")))])
    assert answers["estimate", None].tolist() == flat.estimate(["x"]).tolist()
    assert answers["top_k", None] == flat.top_k(1, ["x", "y"])
    decoded = answered([flat], [Question("decode", (("x", "y"),))])["decode", None]
    assert decoded.as_rows() == flat.decode(["x", "y"]).as_rows()
    answers = answered([("k", words)], [Question("estimate", (("to",),), key="k"), Question("top_k", (1,), key="k")])
    assert answers["estimate", "k"].tolist() == [900]
    assert answers["top_k", "k"] == words.top_k(1)


def test_releases_of_the_same_pipeline_are_asked() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        pairs = pipeline | "Data" >> beam.Create([("a", 5)] * 3000 + [("b", 90)] * 3000)
        quantiles = PrivateQuantiles.PerKey(
            IntegerDomain(0, 99), PrivacySpec(1.0), unit=Record(), keys=PublicKeys(["a", "b"])
        )
        questions = [Question("quantile", (0.5,), key=key) for key in ("a", "b", "c")]
        asked = pipeline | "Questions" >> beam.Create(questions)
        return asked | QueryReleases(pairs | quantiles)

    answers = {answer.question.key: answer.value for answer in seen_by_sink(build)}
    assert answers == {"a": 5, "b": 90, "c": None}


def test_top_k_lists_are_asked_for_their_release() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        words = pipeline | "Data" >> beam.Create(["to"] * 3000)
        top = words | PrivateTopK.Globally(TextDomain(3), PrivacySpec(1.0), k=1, unit=Record())
        asked = pipeline | "Questions" >> beam.Create([Question("estimate", (("to",),))])
        return asked | QueryReleases(top)

    (answer,) = seen_by_sink(build)
    assert answer.value == pytest.approx([3000], abs=300)


@pytest.mark.parametrize("method", ["counters", "to_bytes", "combine", "__reduce__", "_levels", "", "Quantile"])
def test_methods_that_are_no_question_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match="method must be one of 'estimate'"):
        Question(method)


def test_arguments_are_a_tuple() -> None:
    with pytest.raises(TypeError, match="arguments must be a tuple, got float"):
        Question("quantile", 0.5)  # type: ignore[arg-type]


def test_every_question_is_a_method_of_some_release() -> None:
    kinds = [tree([]), release(CountSketch(SketchSpec(depth=1, width=4)), ReleaseTerms(PrivacySpec(1.0)))]
    assert all(any(callable(getattr(kind, method, None)) for kind in kinds) for method in ASKED)
