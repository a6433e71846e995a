"""Terms of a release: what cannot be meant is refused by name."""

from __future__ import annotations

import dataclasses

import pytest

from beam_dpsketch import (
    AutoNorm,
    CountSketch,
    NormBound,
    PrivacyBudget,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.terms import RowTerms

PRIVACY = PrivacySpec(rho=0.5)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"privacy": 1.0}, TypeError, "privacy must be a PrivacySpec, got float"),
        (
            {"bounds": {"max_weight": 2}},
            TypeError,
            r"bounds must be NormBound\(...\), AutoNorm\(\) or RecordBounds\(...\), got dict",
        ),
        ({"privacy_unit": "record"}, TypeError, "privacy_unit must be a PrivacyUnit, got str"),
        ({"window_count": 1.0}, TypeError, "window_count must be a whole number"),
        ({"window_count": 0}, ValueError, "window_count must be between"),
        ({"bounds": RecordBounds(2)}, ValueError, "if the privacy unit is a record"),
        ({"period_micros": 5}, ValueError, "period_micros must be above 0 for"),
        ({"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD}, ValueError, "period_micros must be above 0 for"),
    ],
)
def test_terms_that_cannot_be_meant_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ReleaseTerms(**{"privacy": PRIVACY, **arguments})


@pytest.mark.parametrize("privacy_unit", [privacy_unit for privacy_unit in PrivacyUnit if privacy_unit.is_one_record])
def test_a_norm_is_of_a_privacy_id(privacy_unit):
    with pytest.raises(
        ValueError, match=r"bounds must be RecordBounds if the privacy unit is a record\. NormBound requires Privacy"
    ):
        ReleaseTerms(PRIVACY, NormBound(5), privacy_unit=privacy_unit)


@pytest.mark.parametrize(
    "privacy_unit",
    [privacy_unit for privacy_unit in PrivacyUnit if not privacy_unit.is_one_record and not privacy_unit.over_horizon],
)
def test_a_norm_scales_and_bounds_of_records_do_not(privacy_unit):
    period = {"privacy_unit": privacy_unit, "period_micros": int(privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD)}
    assert ReleaseTerms(PRIVACY, NormBound(5), **period).scale_bits == 16
    assert ReleaseTerms(PRIVACY, RecordBounds(5), **period).scale_bits == 0


def test_noise_is_calibrated_after_a_norm_is_chosen() -> None:
    declared = ReleaseTerms(PRIVACY, AutoNorm(), privacy_unit=PrivacyUnit.PRIVACY_ID)
    assert (declared.norm, declared.asked, declared.bounds) == (AutoNorm(), AutoNorm(), NormBound(1))
    with pytest.raises(ValueError, match="must have a norm of 1"):
        dataclasses.replace(declared, bounds=NormBound(2))
    with pytest.raises(ValueError, match="Only transforms support AutoNorm"):
        release(CountSketch(SketchSpec(depth=1, width=4)).in_units_of(declared.scale_bits), declared)
    chosen = declared.under(3)
    assert (chosen.norm, chosen.asked, chosen.bounds) == (None, NormBound(3), NormBound(3))
    assert chosen.norm_share == AutoNorm().share
    assert chosen.under(None) == chosen.under(7) == chosen


@pytest.mark.parametrize("privacy_unit", PrivacyUnit)
def test_rows_over_time_have_a_unit_over_the_horizon_and_no_other_terms_do(privacy_unit):
    if privacy_unit.over_horizon:
        assert RowTerms(PRIVACY, privacy_unit=privacy_unit, mechanism=BinaryTree(5)).reach == 1
        with pytest.raises(ValueError, match="privacy_unit must not cover a horizon here"):
            ReleaseTerms(PRIVACY, privacy_unit=privacy_unit)
    else:
        period = int(privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD)
        with pytest.raises(ValueError, match="privacy_unit must cover a horizon"):
            RowTerms(PRIVACY, privacy_unit=privacy_unit, period_micros=period, mechanism=BinaryTree(5))


def test_rows_over_time_reach_at_most_all_windows():
    people = {"privacy_unit": PrivacyUnit.PRIVACY_ID_OVER_HORIZON, "mechanism": BinnedRoot(5)}
    terms = RowTerms(PRIVACY, NormBound(5), window_count=5, **people)
    assert (terms.scale_bits, terms.selections) == (8, 1)
    assert terms.squared_unit == 4**8 * BinnedRoot(5).squared_length
    assert terms.reach == BinnedRoot(5).squared_reach(5)
    with pytest.raises(ValueError, match="max_windows must be at most 5, the windows in the horizon, got 6"):
        RowTerms(PRIVACY, NormBound(5), window_count=6, **people)


def test_a_part_of_a_budget_pays_for_one_release():
    terms = ReleaseTerms(PrivacyBudget(rho=1).spend(rho=0.5))
    assert terms.paying_for("first") == terms.paying_for("first") == terms.without_budget()
    with pytest.raises(BudgetExceededError, match="has already paid for another release"):
        terms.paying_for("second")
