"""What an automatic norm refuses, and that its parts of rho are all of it."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, NormBound
from beam_dpsketch.noise import tables
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from tests.helpers import laws, noise


def check_part(spend: Fraction, rho: Fraction) -> None:
    assert 1 / (2 * tables.lengths(AutoNorm(spend), Spending(rho), ADD_OR_REMOVE_ONE).parameter) == spend * rho


@given(st.fractions(Fraction(1, 10**9), Fraction(1, 2)), st.fractions(Fraction(1, 10**12), 4))
def test_the_noise_of_the_choice_costs_its_part_of_rho(spend: Fraction, rho: Fraction) -> None:
    check_part(spend, rho)


ALL_OF_RHO = laws.around(
    tables, "lengths", lambda exact, auto, *spent: noise.with_parameter(exact(auto, *spent), auto.share)
)
test_noise_of_all_of_rho_is_found = laws.mutants(
    {"all of rho": ALL_OF_RHO.found("", Fraction(1, 20), Fraction(1))}, check_part, intact=True
)


def test_floats_mean_their_decimal_spelling() -> None:
    assert AutoNorm(0.05, item_share=0.07) == AutoNorm(Fraction(1, 20), item_share=Fraction(7, 100))  # type: ignore[arg-type]
    assert AutoNorm().asked_share == AutoNorm(item_share=Fraction(7, 100)).asked_share
    assert AutoNorm(optimize_for="rarer_items").asked_share == Fraction(1, 50)


def test_an_item_share_stands_over_what_is_optimized_for() -> None:
    assert AutoNorm(optimize_for="rarer_items", item_share=Fraction(1, 3)).asked_share == Fraction(1, 3)
    with pytest.raises(ValueError, match="optimize_for must be"):
        AutoNorm(optimize_for="rare")


@pytest.mark.parametrize("spend", [0, -0.1, 0.51, 1, float("nan"), float("inf")])
def test_a_part_that_is_none_or_most_of_rho_is_refused(spend: Any) -> None:
    with pytest.raises(ValueError, match="share must be"):
        AutoNorm(spend)


@pytest.mark.parametrize("item_share", [0, -1, 1.01, float("nan")])
def test_a_share_that_no_item_has_is_refused(item_share: Any) -> None:
    with pytest.raises(ValueError, match="item_share must be"):
        AutoNorm(item_share=item_share)


@pytest.mark.parametrize("arguments", [{"share": "auto"}, {"share": True}, {"signed": 1}, {"max_per_item": 1.5}])
def test_other_types_are_refused(arguments: Any) -> None:
    with pytest.raises(TypeError):
        AutoNorm(**arguments)


@pytest.mark.parametrize("arguments", [{"max_weight": 0}, {"max_per_item": 0}, {"max_distinct_items": -1}])
def test_limits_are_those_of_a_norm_bound(arguments: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        AutoNorm(**arguments)


def test_the_bound_has_all_that_was_given() -> None:
    given_bounds: Any = {
        "max_weight": np.int64(9),
        "max_per_item": np.int64(3),
        "signed": True,
        "max_distinct_items": 50,
    }
    auto = AutoNorm(**given_bounds)
    assert auto.bound(Fraction(33, 16)) == NormBound(Fraction(33, 16), **given_bounds)
    assert {type(getattr(auto, name)) for name in ("max_weight", "max_per_item", "max_distinct_items")} == {int}
    names = {field.name for field in dataclasses.fields(AutoNorm)} - {"share", "item_share", "optimize_for"}
    assert names == {field.name for field in dataclasses.fields(NormBound)} - {"max_norm"}


@pytest.mark.parametrize("arguments", [{}, {"max_weight": 1}])
def test_whether_max_weight_was_given_is_kept(arguments: Any) -> None:
    auto = dataclasses.replace(AutoNorm(**arguments), share=Fraction(1, 10))
    assert auto.bound(5).says_max_weight is bool(arguments)


def test_a_rho_whose_noise_hides_nothing_is_refused() -> None:
    assert tables.lengths(AutoNorm(), Spending(Fraction(2560)), ADD_OR_REMOVE_ONE).parameter == Fraction(1, 256)
    with pytest.raises(ValueError, match="rho must be at most"):
        tables.lengths(AutoNorm(), Spending(Fraction(2561)), ADD_OR_REMOVE_ONE)
