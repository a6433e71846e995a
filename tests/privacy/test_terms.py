"""Terms of a release: what cannot be meant is refused by name."""

from __future__ import annotations

import pytest

from beam_dpsketch import PrivacyBudget, PrivacySpec, PrivacyUnit, RecordBounds, ReleaseTerms
from beam_dpsketch.errors import BudgetExceededError

PRIVACY = PrivacySpec(rho=0.5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"privacy": 1.0}, TypeError, "privacy must be a PrivacySpec, got float"),
        ({"bounds": {"max_weight": 2}}, TypeError, r"bounds must be NormBound\(...\) or RecordBounds\(...\), got dict"),
        ({"unit": "record"}, TypeError, "unit must be a PrivacyUnit, got str"),
        ({"window_count": 1.0}, TypeError, "window_count must be a whole number"),
        ({"window_count": 0}, ValueError, "window_count must be between"),
        ({"bounds": RecordBounds(2)}, ValueError, "when the unit is one record"),
        ({"period_micros": 5}, ValueError, "period_micros must be above 0 if"),
        ({"unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD}, ValueError, "period_micros must be above 0 if"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ReleaseTerms(**{"privacy": PRIVACY, **arguments})


def test_a_part_of_a_budget_pays_for_one_release():
    terms = ReleaseTerms(PrivacyBudget(rho=1).spend(0.5))
    assert terms.paying_for("first") == terms.paying_for("first") == terms.without_budget()
    with pytest.raises(BudgetExceededError, match="has paid for another release"):
        terms.paying_for("second")
