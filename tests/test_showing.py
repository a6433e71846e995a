"""Public objects show their numbers in few digits, and keep them exact."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from beam_dpsketch import (
    AutoNorm,
    FloatDomain,
    Interval,
    KeySelection,
    NormBound,
    PrivacyBudget,
    PrivacySpec,
    ReleaseTerms,
    SummaryCounts,
    Thresholding,
    plan,
)
from beam_dpsketch.answers.rows import Frequency
from beam_dpsketch.privacy.contributions import PrivacyUnit

TERMS = ReleaseTerms(PrivacySpec(epsilon=1, delta=1e-7), NormBound(Fraction(7, 2)), privacy_unit=PrivacyUnit.PRIVACY_ID)


@pytest.mark.parametrize(
    "shown",
    [
        AutoNorm(Fraction(1, 3)),
        Frequency("a", 1 / 3, -math.inf, 54334.19999916091),
        Thresholding(Fraction(1, 3)),
        Interval(1e6 / 3, 59.800000000000004, 2e7 / 3),
        KeySelection(Fraction(1, 3)),
        PrivacyBudget(epsilon=1, delta=1e-6, keys_delta=1e-7),
        PrivacyBudget(epsilon=1, delta=1e-6).remaining,
        PrivacyBudget(epsilon=1, delta=1e-6).spend(share=1 / 3),
        SummaryCounts(units=Fraction(1, 3)),
        TERMS,
        plan(FloatDomain(0, 10, 0.1), TERMS, 12345),
    ],
    ids=lambda shown: type(shown).__name__,
)
def test_no_fraction_and_no_long_number_is_shown(shown):
    assert "Fraction" not in repr(shown)
    assert re.search(r"\d\.\d{10}", repr(shown)) is None


def test_what_is_shown_is_plain():
    assert repr(NormBound(Fraction(7, 2), max_weight=3)).startswith("NormBound(max_norm=3.5, max_weight=3, ")
    assert repr(Interval(59.800000000000004, 54334.19999916091, 123456789.1)) == (
        "Interval(estimate=59.8, lower=54334.2, upper=123456789)"
    )
    assert repr(PrivacySpec(rho=1)) == (
        "<PrivacySpec of epsilon = 7.287 at delta = 1e-06, rho = 1 without chosen keys, ADD_OR_REMOVE_ONE>"
    )


def test_values_of_a_grid_are_its_decimals():
    domain = FloatDomain(0, 100, 0.1)
    assert domain.values(domain.index([59.8, 0.3, 99.97])[0]) == [59.8, 0.3, 100.0]
