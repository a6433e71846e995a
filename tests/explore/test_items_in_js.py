"""Golden answers about items: scripts of the page and Python agree to 12 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import item_cases
from tests.helpers.item_cases import REFUSED

pytestmark = pytest.mark.browser

DIGITS = 1e-12
ASK = """(releases) => {
  const readers = { flat: FlatReader, listed: ListedReader, groups: GroupsReader };
  return releases.map(({ reading, asked }) => {
    const reader = new readers[reading.type](reading);
    return asked.map(([kind, given]) => {
      try {
        const { estimate, lower, upper } = reader[kind](...given);
        return [estimate, lower, upper].map(String);
      } catch (error) {
        if (error instanceof Refusal) return "refused";
        throw error;
      }
    });
  });
}"""


def agree(found: Any, expected: Any) -> bool:
    """Whether answers are equal to 12 digits of the largest of their three numbers, or both refused."""
    if REFUSED in (found, expected):
        return found == expected
    numbers = [float(each) for each in found]
    most = max((abs(each) for each in expected if math.isfinite(each)), default=0.0)
    return all(
        one == two or (math.isnan(one) and math.isnan(two)) or abs(one - two) <= DIGITS * most
        for one, two in zip(numbers, expected, strict=True)
    )


def test_scripts_answer_as_python_does(run_js: Callable[[str, Any], Any]) -> None:
    cases = [*item_cases.cases()]
    payload = [{"reading": each.reading, "asked": [question[:2] for question in asked]} for each, asked in cases]
    differing = [
        (release.name, each.kind, each.arguments, found, each.answer)
        for (release, asked), answers in zip(cases, run_js(ASK, payload), strict=True)
        for each, found in zip(asked, answers, strict=True)
        if not agree(found, each.answer)
    ]
    assert differing[:5] == []
    assert sum(len(asked) for _, asked in cases) > 5000
    assert {REFUSED in (each.answer for each in asked) for _, asked in cases} == {True, False}


@pytest.mark.parametrize(
    ("found", "expected", "equal"),
    [
        (["1", "0", "2"], [1.0, 0.0, 2.0], True),
        (["1.0000000000001", "0", "2"], [1.0, 0.0, 2.0], True),
        (["1.00000000001", "0", "2"], [1.0, 0.0, 2.0], False),
        (["NaN", "0", "Infinity"], [math.nan, 0.0, math.inf], True),
        (["NaN", "0", "2"], [1.0, 0.0, 2.0], False),
        (["1", "0", "Infinity"], [1.0, 0.0, 2.0], False),
        (REFUSED, [1.0, 0.0, 2.0], False),
        (REFUSED, REFUSED, True),
    ],
)
def test_answers_that_differ_are_seen(found: Any, expected: Any, equal: bool) -> None:
    assert agree(found, expected) == equal
