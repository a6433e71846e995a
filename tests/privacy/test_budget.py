"""Budgets: exact fractions that add up to the whole and never to more."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import pickle
import threading
from concurrent import futures
from fractions import Fraction

import numpy as np
import pytest
from apache_beam.internal import cloudpickle_pickler
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, BudgetExceededError, PrivacyBudget, PrivacySpec
from beam_dpsketch.config import read_privacy
from beam_dpsketch.privacy.loss import gaussian_curve
from beam_dpsketch.privacy.loss.composition import Loss


@pytest.mark.parametrize(
    ("given_rho", "exact"),
    [
        (0.1, Fraction(1, 10)),
        (1, Fraction(1)),
        (Fraction(1, 3), Fraction(1, 3)),
        (1e-9, Fraction(1, 10**9)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.5), Fraction(1, 2)),
        (np.int64(3), Fraction(3)),
    ],
)
def test_rho_is_the_fraction_that_its_decimal_spelling_says(given_rho, exact):
    rho = PrivacySpec(rho=given_rho).rho
    assert rho == exact
    assert (type(rho), type(rho.numerator), type(rho.denominator)) == (Fraction, int, int)


@pytest.mark.parametrize("rho", [0, -1, -0.5, math.nan, math.inf, 10**400, Fraction(-1, 3)])
@pytest.mark.parametrize("make", [PrivacySpec, PrivacyBudget, PrivacyBudget(rho=1.0).spend])
def test_a_rho_that_is_not_positive_and_finite_is_refused(make, rho):
    with pytest.raises(ValueError, match="rho must be finite and greater than 0"):
        make(rho=rho)


@pytest.mark.parametrize("rho", ["1", True, 1j, [1]])
def test_a_rho_that_is_not_a_number_is_refused(rho):
    with pytest.raises(TypeError, match="rho must be a number"):
        PrivacySpec(rho=rho)


@pytest.mark.parametrize("make", [PrivacySpec, PrivacyBudget])
def test_rho_or_epsilon_and_delta(make):
    with pytest.raises(ValueError, match="Set either epsilon or rho"):
        make()
    with pytest.raises(ValueError, match="Set either epsilon or rho"):
        make(rho=0.1, epsilon=1, delta=1e-6)
    with pytest.raises(ValueError, match="delta is required for Gaussian noise with epsilon"):
        make(epsilon=1, noise="gaussian")
    with pytest.raises(ValueError, match='noise must be "gaussian" with rho'):
        make(rho=1, noise="laplace")
    with pytest.raises(ValueError, match="noise must be one of 'gaussian', 'laplace', got 'normal'"):
        make(epsilon=1, noise="normal")


def test_the_relation_must_be_one():
    with pytest.raises(TypeError, match="relation must be a NeighboringRelation, got str"):
        PrivacySpec(rho=1.0, relation="replace one")


def test_the_default_relation_is_add_or_remove_one():
    assert PrivacySpec(rho=1.0).relation is ADD_OR_REMOVE_ONE
    assert PrivacyBudget(rho=1.0).spend(rho=0.5).relation is ADD_OR_REMOVE_ONE


def test_a_spec_is_frozen_and_compared_by_value():
    spec = PrivacySpec(rho=0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.rho = Fraction(1)
    assert spec == PrivacySpec(rho=Fraction(1, 2)) != PrivacySpec(rho=0.5, relation=REPLACE_ONE)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-3)])
def test_a_spec_from_epsilon_and_delta_stays_within_them(epsilon, delta):
    spec = PrivacySpec(epsilon=epsilon, delta=delta, relation=ADD_OR_REMOVE_ONE)
    assert gaussian_curve.delta(rho=spec.rho, epsilon=epsilon) <= delta
    assert epsilon * (1 - 1e-6) < spec.epsilon(delta) <= epsilon * (1 + 1e-12)
    assert spec.relation is ADD_OR_REMOVE_ONE
    assert PrivacyBudget(epsilon=epsilon, delta=delta).remaining.rho == spec.rho


def test_the_delta_that_was_asked_for_travels_with_the_spec():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-7)
    spent = budget.spend(rho=0.01)
    asked = PrivacySpec(epsilon=1.0, delta=1e-7)
    for spec in (asked, spent, spent.paying_for("visits"), *map(pickle.loads, map(pickle.dumps, (asked, spent)))):
        assert spec.reported_delta == 1e-7
    assert PrivacySpec(rho=0.01).reported_delta == PrivacyBudget(rho=1.0).spend(rho=0.01).reported_delta == 1e-6
    assert PrivacySpec(rho=0.01, delta=1e-9) != PrivacySpec(rho=0.01)


@pytest.mark.parametrize("delta", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf, 1, 1.0, 2])
def test_a_delta_outside_the_unit_interval_is_refused(delta):
    with pytest.raises(ValueError, match="delta must be greater than 0 and less than 1"):
        PrivacySpec(epsilon=1.0, delta=delta)


@pytest.mark.parametrize("epsilon", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must be finite and greater than 0"):
        PrivacySpec(epsilon=epsilon, delta=1e-6)


@given(parts=st.lists(st.floats(1e-6, 10), min_size=1, max_size=20))
def test_parts_that_sum_to_the_budget_can_all_be_spent_and_nothing_more(parts):
    exact = [Fraction(repr(part)) for part in parts]
    budget = PrivacyBudget(rho=sum(exact), relation=ADD_OR_REMOVE_ONE)
    for part, expected in zip(parts, exact, strict=True):
        spent = budget.spend(rho=part)
        assert (spent.rho, spent.relation) == (expected, ADD_OR_REMOVE_ONE)
    assert budget.remaining.rho == 0
    with pytest.raises(BudgetExceededError):
        budget.spend(rho=Fraction(1, 10**30))


def test_ten_tenths_are_one():
    budget = PrivacyBudget(rho=1.0)
    for _ in range(10):
        budget.spend(rho=0.1)
    assert budget.remaining.rho == 0


@pytest.mark.parametrize("make", [PrivacySpec, PrivacyBudget, PrivacyBudget(rho=1.0).spend])
def test_a_number_without_its_name_is_refused(make):
    with pytest.raises(TypeError, match=r"Positional arguments are ambiguous here\. Write .*rho="):
        make(2)


@given(ratios=st.lists(st.integers(1, 1000), min_size=1, max_size=12), as_floats=st.booleans())
def test_shares_are_the_ratios_that_floats_stand_for_and_sum_to_the_whole(ratios, as_floats):
    budget, whole = PrivacyBudget(epsilon=1, delta=1e-6), sum(ratios)
    rho = budget.remaining.rho
    for ratio in ratios:
        share = ratio / whole if as_floats else Fraction(ratio, whole)
        assert budget.spend(share=share).rho == rho * Fraction(ratio, whole)
    assert budget.remaining.rho == 0
    with pytest.raises(BudgetExceededError):
        budget.spend(share=1e-9)


def test_a_share_is_at_most_the_whole_and_stands_alone():
    budget = PrivacyBudget(rho=2.0)
    with pytest.raises(ValueError, match=r"share must be at most 1, got 1.5"):
        budget.spend(share=1.5)
    for both in ({}, {"rho": 1, "share": 1}):
        with pytest.raises(ValueError, match="Set either share or rho"):
            budget.spend(**both)
    assert budget.spend(share=1).rho == 2


@given(parts=st.integers(1, 50), spent=st.fractions(Fraction(1, 100), Fraction(99, 100)))
def test_a_split_spends_all_that_is_left_in_equal_parts(parts, spent):
    budget = PrivacyBudget(rho=1.0, relation=REPLACE_ONE, delta=1e-9, summary_counts=None)
    first = budget.spend(share=spent)
    specs = budget.split(parts)
    assert sum((each.rho for each in specs), first.rho) == 1
    assert {each.rho for each in specs} == {(1 - first.rho) / parts}
    assert {(each.relation, each.reported_delta, each.summary_counts) for each in specs} == {(REPLACE_ONE, 1e-9, None)}
    assert all(each.paying_for(number) == first._with(rho=each.rho) for number, each in enumerate(specs))
    with pytest.raises(BudgetExceededError, match="This budget is already spent"):
        budget.split(parts)


def test_parts_of_a_budget_keep_their_rho_beside_a_delta_for_keys():
    part = PrivacyBudget(epsilon=2, delta=1e-6, keys_delta=1e-7).spend(share=1)
    of_rho = PrivacyBudget(rho=1, keys_delta=1e-7).spend(share=1), read_privacy({"rho": 1, "share": 1})
    parts = (part, *of_rho)
    for spec in (*parts, *(pickle.loads(pickle.dumps(each)) for each in parts)):
        assert spec.losing(Fraction(1, 10**8)).rho == spec.rho
    whole = PrivacySpec(epsilon=2, delta=1e-6)
    assert whole.losing(Fraction(1, 10**8)).rho < whole.rho


@given(
    weights=st.lists(st.integers(1, 20), min_size=2, max_size=4),
    lost=st.lists(st.integers(0, 99), min_size=4, max_size=4),
    epsilon=st.sampled_from([0.05, 1, 2, 8]),
    delta=st.sampled_from([1e-9, 1e-6, 1e-4]),
)
def test_shares_in_settings_compose_to_the_whole_also_with_chosen_keys(weights, lost, epsilon, delta):
    shares = [Fraction(each, sum(weights)) for each in weights]
    specs = [read_privacy({"epsilon": epsilon, "delta": delta, "share": str(share)}) for share in shares]
    assert [spec.rho for spec in specs] == [share * PrivacySpec(epsilon=epsilon, delta=delta).rho for share in shares]
    deltas = [share * Fraction(each, 100) * Fraction(repr(delta)) for share, each in zip(shares, lost, strict=False)]
    total = Loss()
    for spec, own in zip(specs, deltas, strict=True):
        total = total.plus(pickle.loads(pickle.dumps(spec)).losing(own).loss(own))
    assert total.epsilon(delta) <= epsilon * (1 + 1e-9)
    assert specs[0].part_of == (shares[0], PrivacySpec(epsilon=epsilon, delta=delta).loss())


def test_a_share_has_no_delta_left():
    shared = read_privacy({"epsilon": 2, "delta": 1e-6, "share": "1/2"})
    with pytest.raises(ValueError, match="delta must be above"):
        shared.losing(Fraction(1, 2_000_000))
    with pytest.raises(ValueError, match="delta is too large for this epsilon"):
        read_privacy({"epsilon": "0.01", "delta": 0.1, "share": "1/2"}).losing(Fraction(1, 10**8))
    assert [read_privacy({"epsilon": 1, "share": "1/4"}).pure, shared.relation] == [Fraction(1, 4), ADD_OR_REMOVE_ONE]


def test_what_is_left_speaks_in_epsilon_and_rho():
    budget = PrivacyBudget(epsilon=2, delta=1e-6, keys_delta=1e-7)
    assert budget.remaining.epsilon == pytest.approx(2, rel=1e-9)
    assert repr(budget.remaining) == "<epsilon = 2 at delta = 1e-06, rho = 0.0995743, delta = 1e-07 for keys>"
    budget.spend(share=1 / 2)
    left = budget.remaining
    assert left.epsilon == Loss(left.rho, Fraction(1, 10**7)).epsilon(1e-6)
    budget.split(2)
    assert (budget.remaining.rho, budget.remaining.epsilon) == (0, 0)


def test_a_refused_spending_takes_nothing():
    budget = PrivacyBudget(rho=1.0)
    with pytest.raises(
        BudgetExceededError, match=r"The budget has rho = 1 left of 1; this release needs 1\.5\. Use a smaller share"
    ):
        budget.spend(rho=1.5)
    assert budget.remaining.rho == 1
    loss = "epsilon = 7.287 at delta = 1e-06, rho = 1"
    assert repr(budget) == f"<PrivacyBudget of {loss}; left: {loss}>"


def test_a_part_of_a_budget_pays_for_one_release():
    budget = PrivacyBudget(rho=1.0)
    spent = budget.spend(rho=0.5)
    for spec in (spent, copy.copy(spent), copy.deepcopy(spent)):
        assert spec.paying_for("visits") == spent
        with pytest.raises(BudgetExceededError, match=r"already paid for another release\. Use a spec per transform"):
            spec.paying_for("other visits")
    assert budget.spend(rho=0.5).paying_for("other visits") == spent


def test_what_has_no_budget_pays_for_any_release():
    budget = PrivacyBudget(rho=1.0)
    of_worker = pickle.loads(pickle.dumps(budget.spend(rho=0.5)))
    for spec in (PrivacySpec(rho=0.5), of_worker, budget.spend(rho=0.5).paying_for("visits")):
        assert spec.paying_for("visits") == spec.paying_for("other visits") == PrivacySpec(rho=0.5)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps, cloudpickle_pickler.dumps])
def test_a_budget_can_be_neither_copied_nor_pickled(copied):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copied(PrivacyBudget(rho=1.0))


class ComparedByBoth(Fraction):
    """A number that no thread has finished comparing before another one compares it too, if another one can."""

    def __lt__(self, other):
        with contextlib.suppress(threading.BrokenBarrierError):
            MEETING.wait(timeout=0.5)
        return super().__lt__(other)


MEETING = threading.Barrier(2)


def test_threads_cannot_spend_the_same_rho():
    budget = PrivacyBudget(rho=1.0)
    budget._remaining = ComparedByBoth(1)
    with futures.ThreadPoolExecutor(2) as threads:
        spent = [threads.submit(budget.spend, rho=1.0) for _ in range(2)]
    assert [type(each.exception()) for each in spent].count(BudgetExceededError) == 1
    assert budget.remaining.rho == 0
