"""`QueryReleases`: questions about two releases."""

from __future__ import annotations

import math
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import CountSketch, IntegerDomain, PrivacySpec, PublicKeys, Record, ReleaseTerms, SketchSpec, release
from beam_dpsketch.transforms import Answer, PrivateTopK, QueryReleases, Question, ReleaseOf
from beam_dpsketch.transforms.queries import ASKED_OF_TWO
from tests.helpers.pipelines import seen_by_sink

SPEC = SketchSpec(depth=3, width=64)
ITEMS = ("a", "b", "c")


def released(items: list[str]) -> Any:
    return release(CountSketch(SPEC).accumulate(items), ReleaseTerms(PrivacySpec(1.0)))


def answered(releases: list[Any], questions: list[Question]) -> list[Any]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        of = pipeline | "Releases" >> beam.Create(releases, reshuffle=False)
        return pipeline | "Questions" >> beam.Create(questions, reshuffle=False) | QueryReleases(of)

    answers = seen_by_sink(build)
    assert all(isinstance(answer, Answer) for answer in answers)
    return [next(answer.value for answer in answers if answer.question == question) for question in questions]


def test_answers_are_those_of_both_releases() -> None:
    june, july = released(["a"] * 500 + ["b"] * 100), released(["a"] * 100 + ["b"] * 500 + ["c"] * 50)
    other = ReleaseOf("June")
    asked = [
        *(Question(method, (other, 0.9), key="July") for method in ("inner_product", "distance", "cosine")),
        Question("movers", (other, 2, ITEMS), key="July"),
        Question("second_moment", (0.9,), key="July"),
        Question("minus", (other,), key="July"),
    ]
    *answers, difference = answered([("June", june), ("July", july)], asked)
    assert answers == [
        july.inner_product(june, 0.9),
        july.distance(june, 0.9),
        july.cosine(june, 0.9),
        july.movers(june, 2, ITEMS),
        july.second_moment(0.9),
    ]
    # 400 is 50 deviations: of the estimates of both, in a sketch in which nothing collides much.
    assert [(change.item, math.copysign(1, change.change)) for change in sorted(answers[3])] == [("a", -1), ("b", 1)]
    assert difference.estimate(ITEMS).tolist() == july.minus(june).estimate(ITEMS).tolist()
    assert difference.privacy == july.minus(june).privacy


@pytest.mark.parametrize("missing", ["June", "July"])
def test_without_either_release_there_is_no_answer(missing: str) -> None:
    there = [(key, released(["a"])) for key in ("June", "July") if key != missing]
    questions = [Question(method, (ReleaseOf("June"),), key="July") for method in ASKED_OF_TWO]
    assert answered(there, questions) == [None] * len(questions)


def test_a_release_from_elsewhere_is_the_other_one() -> None:
    before, after = released(["a"] * 9), released(["b"] * 9)
    questions = [Question("distance", (before,)), Question("distance", (before,), key="July")]
    assert answered([after, ("July", after)], questions) == [after.distance(before)] * 2


def test_lists_of_a_search_are_asked_for_their_releases() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        pairs = pipeline | "Data" >> beam.Create([("June", 3)] * 2000 + [("July", 4)] * 3000)
        months = PublicKeys(["June", "July"])
        top = PrivateTopK.PerKey(IntegerDomain(0, 9), PrivacySpec(1.0), k=1, unit=Record(), keys=months)
        asked = pipeline | "Questions" >> beam.Create([Question("movers", (ReleaseOf("June"), 2), key="July")])
        return asked | QueryReleases(pairs | top)

    (answer,) = seen_by_sink(build)
    assert [change.item for change in answer.value] == [4, 3]
    assert [change.change for change in answer.value] == pytest.approx([3000, -2000], abs=100)


@pytest.mark.parametrize("arguments", [(), ("June",), (10, ReleaseOf("June")), (ReleaseOf("June"), ReleaseOf("May"))])
@pytest.mark.parametrize("method", ASKED_OF_TWO)
def test_the_other_release_comes_first_and_is_the_only_one(method: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=f"arguments of '{method}' must begin with the other release") as caught:
        Question(method, arguments, key="July")
    assert "May" not in str(caught.value)


@pytest.mark.parametrize("method", ["estimate", "second_moment", "combine"])
def test_questions_about_one_release_name_no_other(method: str) -> None:
    expected = (ValueError, "must be one of") if method == "combine" else (TypeError, "must not name a release")
    with pytest.raises(expected[0], match=expected[1]):
        Question(method, (ReleaseOf("June"),), key="July")


def test_a_release_is_not_compared_with_itself() -> None:
    for key in ("July", None):
        with pytest.raises(ValueError, match="key and ReleaseOf must name two releases"):
            Question("distance", (ReleaseOf(key),), key=key)
