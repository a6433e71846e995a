"""The page answers about ranks as Python does: to 12 digits, and the very positions of quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
        return answer["estimate"] == expected["estimate"] and is_within
    most = max(*expected.values(), *((total, 1.0) if kind in ("range", "weight") else ()))  # differences of ranks
    return all(abs(answer[each] - expected[each]) <= 1e-12 * most for each in ("estimate", "lower", "upper"))
