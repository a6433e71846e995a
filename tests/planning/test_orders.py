"""Which order of a norm suits: the plan's number is the ratio of two releases' intervals, and misuse is said."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    AutoNorm,
    IntegerDomain,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    SketchSpec,
    TextDomain,
    Thresholding,
)
from beam_dpsketch.errors import PrivacyWarning
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK

LISTED, SKETCH = ListedItems(range(9)), SketchSpec(width=64)
GIVEN: dict[str, Any] = {"epsilon": 2, "delta": 1e-6}


def counted(bounds: Any, spec: Any = LISTED, **given: Any) -> PrivateFrequencies:
    return PrivateFrequencies(
        spec, PrivacySpec(**(given or GIVEN)), privacy_unit=PrivacyId("user", bounds), item="item"
    )


def line(transform: Any, beginning: str = "Hint: ") -> str | None:
    return next((each for each in transform.explain().splitlines() if each.startswith(beginning)), None)


@pytest.mark.parametrize("spec", [LISTED, SKETCH], ids=lambda each: each.kind)
@pytest.mark.parametrize("relation", [None, REPLACE_ONE])
def test_the_number_is_the_ratio_of_what_two_plans_say(spec: Any, relation: Any) -> None:
    given = {**GIVEN, **({} if relation is None else {"relation": relation})}
    plans = [counted(NormBound(1000, norm=norm), spec, **given)._declared.plan() for norm in ("l1", "l2")]
    of_laplace, of_gaussian = (each.half_width for each in plans)
    for each in plans:
        assert each.advice.crossover == pytest.approx(of_gaussian / of_laplace, rel=0.01)


def test_each_order_names_the_other() -> None:
    assert "an L1 norm is more accurate if" in str(line(counted(NormBound(9))))
    assert "privacy ids is below 2.9 times" in str(line(counted(NormBound(9))))
    assert "an L2 norm is more accurate if" in str(line(counted(NormBound(9, norm="l1"))))
    grouped = PrivateTopK(
        TextDomain(8),
        PrivacySpec(**GIVEN),
        k=9,
        privacy_unit=PrivacyId("user", NormBound(9, max_keys=9)),
        item="item",
        method=Thresholding(1e-7),
    )
    assert "an L1 norm is more accurate if" in str(line(grouped))


@pytest.mark.parametrize(
    "transform",
    [
        lambda: counted(RecordBounds(9)),
        lambda: counted(NormBound(9), rho=1),
        lambda: counted(NormBound(9, norm="l1"), epsilon=1),
        lambda: PrivateQuantiles(
            IntegerDomain(0, 9), PrivacySpec(**GIVEN), privacy_unit=PrivacyId("user", NormBound(9)), item="item"
        ),
        lambda: PrivateFrequencies(
            SKETCH,
            PrivacySpec(**GIVEN),
            privacy_unit=PrivacyId("user", NormBound(9, max_keys=2)),
            item="item",
            keys=KeySelection(1e-7, "key"),
        ),
    ],
)
def test_where_there_is_no_choice_nothing_is_said(transform: Any) -> None:
    assert line(transform()) is None


@pytest.mark.parametrize("privacy", [{"rho": Fraction(1, 10)}, {**GIVEN, "noise": "gaussian"}])
def test_an_order_that_only_takes_is_said_before_it_runs(privacy: dict[str, Any]) -> None:
    with pytest.warns(PrivacyWarning, match="An L1 norm clips more than an L2 norm"):
        found = counted(NormBound(9, norm="l1"), **privacy)
    assert line(found, "Warning       An L1 norm clips more") is not None


def test_a_plan_of_groups_says_from_which_count_on_by_bound() -> None:
    def grouped(bounds: Any) -> PrivateTopK:
        privacy_unit = PrivacyId("user", bounds)
        return PrivateTopK(
            TextDomain(8), PrivacySpec(**GIVEN), k=9, privacy_unit=privacy_unit, item="item", method=Thresholding(1e-7)
        )

    for kind, make in (
        ("norm", lambda b: NormBound(b, max_keys=9)),
        ("max_records", lambda b: RecordBounds(b, max_keys=1)),
    ):
        plan = grouped(make(10))._declared.plan()
        by_bound = dict(plan.by_bound)
        assert set(by_bound) == {2, 5, 10, 20, 50}
        for bound in (5, 10, 50):
            assert by_bound[bound] == grouped(make(bound))._declared.plan().items.likely_count
        assert f" with probability 99 %, at other settings\n  {kind}  2: " in str(plan)
    assert "at other settings\n  norm  5: " in grouped(AutoNorm(max_keys=9)).explain()


@pytest.mark.parametrize("lost", ["1e-6", "1e-7"])
def test_laplace_noise_leaves_all_of_delta_to_groups(lost: str) -> None:
    """A pure epsilon needs no delta of its own; a Gaussian does."""
    budget = PrivacyBudget(**GIVEN, noise="laplace", keys_delta=Fraction(lost)).spend(share=1)
    for privacy in (PrivacySpec(**GIVEN, noise="laplace"), budget):
        found = PrivateTopK(
            TextDomain(8),
            privacy,
            k=9,
            privacy_unit=PrivacyId("user", RecordBounds(1, max_keys=1)),
            item="item",
            method=Thresholding(Fraction(lost)),
        )
        assert f"Privacy       epsilon = 2, delta = {float(lost):g} (" in found.explain()
    with pytest.raises(ValueError, match="delta must be above 1e-06"):
        PrivacyBudget(**GIVEN, keys_delta=Fraction(1, 10**6))
    with pytest.raises(ValueError, match="delta must be above 2e-06"):
        PrivacyBudget(**GIVEN, noise="laplace", keys_delta=Fraction(2, 10**6))
