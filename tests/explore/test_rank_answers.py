"""The page answers about ranks as Python does: to 12 digits, and the very positions of quantiles.

What a release of ranks says of itself for the page: enough, small, and nothing but the release.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import ArgumentError, IntegerDomain, IPv4Domain, TimestampDomain, TreeSpec
from beam_dpsketch.explore.content import encoded
from tests.helpers import rank_cases

_ANSWER = """({ reading, questions }) => {
  const reader = new { factor: FactorReader, tree: TreeReader }[reading.type](reading);
  const ofPositions = (kind) => (...texts) => reader[kind](...texts.map(BigInt));
  const answers = {
    parse: (text) => {
      try {
        return reader.domain.parse(text);
      } catch (error) {
        if (error instanceof Refusal) {
          return null;
        }
        throw error;
      }
    },
    show: (position) => reader.domain.show(BigInt(position)),
    quantile: (share) => reader.quantile(share),
    total: () => reader.total,
    rank: ofPositions("rank"),
    cdf: ofPositions("cdf"),
    weight: ofPositions("weight"),
    range: ofPositions("range"),
  };
  return questions.map(([kind, given]) => answers[kind](...given));
}"""


@pytest.mark.browser
@pytest.mark.parametrize("name", rank_cases.RELEASES)
def test_answers_are_those_of_python(name: str, run_js: Callable[[str, Any], Any]) -> None:
    reading, questions = rank_cases.rank_cases(name)
    asked = [question[:2] for question in questions]
    answers = run_js(_ANSWER, {"reading": reading, "questions": [list(each) for each in asked]})
    wrong = [
        (*question, answer)
        for question, answer in zip(questions, answers, strict=True)
        if not _is_same(question[0], question[2], answer, total=questions[-1][2])
    ]
    assert not wrong, f"{len(wrong)} of {len(questions)}: {wrong[:5]}"


def _is_same(kind: str, expected: Any, answer: Any, total: float) -> bool:
    if kind == "show":
        return bool(answer == expected or ("e" in answer + expected and float(answer) == float(expected)))
    if kind in ("parse", "total"):
        return bool(answer == expected)
    if kind == "quantile":
        ends = ((int(answer[end]), [*map(int, expected[end])]) for end in ("lower", "upper"))
        is_within = all(min(around) <= end <= max(around) for end, around in ends)
        return expected["estimate"] in (None, answer["estimate"]) and is_within
    most = max(*expected.values(), *((total, 1.0) if kind in ("range", "weight") else ()))  # differences of ranks
    return all(abs(answer[each] - expected[each]) <= 1e-12 * most for each in ("estimate", "lower", "upper"))


MOST = 3_000_000


def size_of(released: Any) -> int:
    return len(json.dumps(encoded(released.reading(0.95)), allow_nan=False))


def test_a_release_of_usual_size_takes_at_most_3_mb() -> None:
    values, data = IntegerDomain(0, (1 << 17) - 1), np.arange(1 << 17)
    assert (1 << 17) * 8 < size_of(rank_cases.factor(values, data)) < MOST
    for domain in (IPv4Domain(), IntegerDomain(0, (1 << 20) - 1)):
        everywhere = np.linspace(0, domain.size - 1, 1 << 20).astype(np.uint64)
        for spec in (TreeSpec.for_memory(domain), TreeSpec.for_ranks(domain)):
            released = rank_cases.tree(spec, everywhere)
            assert 485_000 < len(released.to_bytes()) < 495_000
            assert size_of(released) < MOST


@pytest.mark.parametrize("name", ["a factor of 100", "exact levels", "a factor on top"])
def test_confidence_is_in_the_deviations_alone(name: str) -> None:
    released = rank_cases.RELEASES[name]()
    low, high = (encoded(released.reading(confidence)) for confidence in (0.5, 0.99))
    for reading, confidence in ((low, 0.5), (high, 0.99)):
        deviations = reading.pop("deviations")
        assert deviations["two_sided"] == pytest.approx(NormalDist().inv_cdf((1 + confidence) / 2))
        assert deviations["one_sided"] == pytest.approx(NormalDist().inv_cdf(confidence), abs=1e-12)
        assert deviations["inside"] >= deviations["two_sided"]
    assert low == high
    with pytest.raises(ArgumentError, match="confidence"):
        released.reading(1.0)


@pytest.mark.parametrize("name", ["a factor of 1024", "a factor on top", "64 bits"])
def test_it_says_the_same_of_a_release_that_was_stored(name: str) -> None:
    released = rank_cases.RELEASES[name]()
    stored = type(released).from_bytes(released.to_bytes())
    assert encoded(stored.reading(0.9)) == encoded(released.reading(0.9))
    known = stored.with_total(40_000.0, force=True).reading(0.9)
    assert (stored.reading(0.9)["known_total"], known["known_total"]) == (None, 40_000.0)


def test_a_factor_says_its_weights_and_how_noisy_its_rows_are() -> None:
    released = rank_cases.RELEASES["a factor of 1024"]()
    reading = released.reading(0.9)
    np.testing.assert_array_equal(reading["weights"], released.weights)
    factor = reading["factor"]
    for name, numbers in (("coefficients", released.spec.factor.coefficients), ("gains", released.spec.factor.gains)):
        runs = factor[name]
        np.testing.assert_array_equal(np.repeat(runs["values"], runs["lengths"]), numbers)
        assert (np.diff(runs["values"]) != 0).all()
    drawn = 9 * released.spec.factor.squared_length
    assert factor["row_variance"] == pytest.approx(drawn, rel=1e-3)


def test_a_tree_says_which_nodes_it_opened_and_their_weights() -> None:
    released = rank_cases.RELEASES["addresses"]()
    levels = released.reading(0.9)["levels"]
    assert [level["shift"] for level in levels] == [released.spec.shift(number) for number in range(len(levels))]
    for above, below in itertools.pairwise(levels):
        children = below["weights"].reshape(-1, 1 << below["bits"]).sum(axis=1)
        np.testing.assert_allclose(children, above["weights"][above["expanded"]], atol=1e-6)


def test_domains_say_what_their_values_are() -> None:
    assert IntegerDomain(-5, (1 << 63)).reading() == {
        "type": "integer",
        "parsed": "whole numbers",
        "size": "9223372036854775814",
        "low": "-5",
    }
    assert IPv4Domain().reading() == {"type": "ipv4", "parsed": "IPv4 addresses", "size": "4294967296"}
    day = datetime.datetime(1970, 1, 2)
    times = TimestampDomain(day, day + datetime.timedelta(days=1), datetime.timedelta(hours=1)).reading()
    assert times["size"] == "25"
    assert (times["start"], times["end"], times["step"]) == ("86400000000", "172800000000", "3600000000")
