"""Privacy columns are never below the truth, in any spelling that JSON may have; questions are checked when made."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import IntegerDomain, IPv4Domain, PrivacySpec, ReleaseTerms, TimestampDomain, release
from beam_dpsketch.answers.questions import PRIVACY_COLUMNS, QUESTIONS, Ask, even_values, privacy_fields
from beam_dpsketch.exact.sketches import CountSketch
from beam_dpsketch.exact.sketches.spec import SketchSpec

RELEASED = release(CountSketch(SketchSpec(depth=1, width=4)), ReleaseTerms(PrivacySpec(rho=1)))
exact = st.fractions(Fraction(1, 10**12), 50, max_denominator=10**15)


def is_rounded_up(shown: float, loss: Any) -> bool:
    """Whether a column, with ten digits as some writers of JSON cut it, is not below a loss, and close to it."""
    loss = loss if isinstance(loss, Fraction) else Fraction(repr(loss))
    return all(
        loss <= Fraction(spelled) <= loss * (1 + Fraction(1, 10**7)) for spelled in (repr(shown), f"{shown:.10g}")
    )


@given(exact, exact)
def test_losses_are_rounded_up(rho: Fraction, delta: Fraction) -> None:
    statement = dataclasses.replace(RELEASED.privacy, rho=rho, reported_delta=float(min(delta, Fraction(1, 2))))
    found = privacy_fields(statement)
    assert is_rounded_up(found["rho"], rho)
    assert is_rounded_up(found["delta"], statement.reported_delta)
    assert is_rounded_up(found["epsilon"], statement.reported_epsilon)
    assert found["keys_delta"] == 0
    assert {name: type(value) for name, value in found.items()} == PRIVACY_COLUMNS
    json.dumps(found, allow_nan=False)


def test_rounding_to_the_nearest_would_be_found() -> None:
    assert not is_rounded_up(float(f"{1 / 3:.9g}"), Fraction(1, 3))
    assert is_rounded_up(0.333333334, Fraction(1, 3))


@pytest.mark.parametrize(
    ("kind", "confidence"), [("median", 0.9), ("ranks", 0), ("ranks", 1), ("total_weight", math.nan)]
)
def test_wrong_questions_are_refused(kind: Any, confidence: float) -> None:
    with pytest.raises((ValueError, TypeError)):
        Ask(kind, None, confidence)


def test_releases_say_what_they_do_not_answer() -> None:
    answered = {kind for kind in QUESTIONS if Ask(kind).is_answered_by(RELEASED)}
    assert answered == {"items", "top_k", "total_weight", "records", "privacy_units"}
    with pytest.raises(ValueError, match=r"A release of kind frequencies does not answer quantiles\. Use items, top_k"):
        Ask("quantiles", (0.5,)).answer(RELEASED)


@pytest.mark.parametrize(
    ("domain", "parts", "values"),
    [
        (IntegerDomain(0, 9), 2, [4, 9]),
        (IntegerDomain(0, 2), 100, [0, 1, 2]),
        (IntegerDomain(0, (1 << 64) - 1), 1, [(1 << 64) - 1]),
    ],
    ids=range(3),
)
def test_even_values_are_the_ends_of_equal_parts(domain: Any, parts: int, values: list[Any]) -> None:
    assert even_values(domain, parts) == values


def test_even_values_of_addresses_and_times_end_with_the_last() -> None:
    assert str(even_values(IPv4Domain(), 4)[0]) == "63.255.255.255"
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    day = datetime.timedelta(days=1)
    assert len(even_values(TimestampDomain(start, start + 4 * day, day), 2)) == 2
