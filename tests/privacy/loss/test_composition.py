"""The theorem of composition: against mechanisms whose losses are known, in every order of combining them."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss import composition, gaussian_curve
from beam_dpsketch.privacy.loss.composition import Loss, composed_delta
from beam_dpsketch.privacy.mechanism import change_factor
from tests.helpers import laws
from tests.helpers.combinations import Combination, Leaf, Parts, all_trees, neighbours, worst_delta, worst_loss

POOL = [Leaf(run) for run in "ABCD"]
DELTA = Fraction(1, 7)
SIGNS = [(False, False, False, False), (False, True, False, True), (True, True, True, True)]
TREES = [tree for size in range(1, 5) for tree in all_trees(POOL, size)]


def lost(rho: Fraction, relation: NeighboringRelation, has_signs: bool, one: Parts, two: Parts) -> Fraction:
    """The loss of a histogram with noise for this rho: a unit adds 1 to a cell, and its replacement to another."""
    variance = change_factor(relation, has_signs=has_signs) / (2 * rho)
    most = 4 if has_signs else 2
    return (Fraction(most) if one and two else Fraction(bool(one) + bool(two))) / (2 * variance)


@pytest.mark.parametrize("k", [2, 10])
def test_a_person_with_k_records_attains_the_loss_of_a_group(k: int) -> None:
    """The noise for single records is that for k records with k^2 rho, or with k epsilon, without slack."""
    spec, rho, epsilon = SketchSpec(depth=2, width=8), Fraction(1, 100), Fraction(1, 10)
    for of_record, of_person in (({"rho": rho}, {"rho": k**2 * rho}), ({"epsilon": epsilon}, {"epsilon": k * epsilon})):
        record = ReleaseTerms(PrivacySpec(**of_record, summary_counts=None))
        privacy = PrivacySpec(**of_person, summary_counts=None)
        person = ReleaseTerms(privacy, RecordBounds(k), privacy_unit=PrivacyUnit.PRIVACY_ID)
        assert calibrate(spec, record) == calibrate(spec, person)
    assert 7.70 < ReleaseTerms(PrivacySpec(rho=Fraction(1, 10) + 100 * rho, delta=1e-6)).epsilon < 7.71


def composed(tree: Leaf | Combination, losses: dict[str, Loss]) -> Loss:
    if isinstance(tree, Leaf):
        return losses[tree.run]
    first, second = composed(tree.first, losses), composed(tree.second, losses)
    return first.larger(second) if tree.disjoint else first.plus(second)


def cases() -> Iterator[tuple[Fraction | float, Fraction]]:
    """What is lost and what is claimed, of all combinations of up to four mechanisms of different rho."""
    for relation, signs in itertools.product(NeighboringRelation, SIGNS):
        rhos = [Fraction(1, 3), Fraction(1, 3), Fraction(1, 2), Fraction(1, 5)]
        made = dict(zip("ABCD", zip(rhos, signs, strict=True), strict=True))
        of_run: dict[str, Callable[[Parts, Parts], Fraction]] = {
            run: functools.partial(lost, rho, relation, has_signs) for run, (rho, has_signs) in made.items()
        }
        losses = {run: Loss(rho, DELTA) for run, (rho, _) in made.items()}
        for tree in TREES:
            pairs, claimed = neighbours(tree, relation), composed(tree, losses)
            yield worst_loss(pairs, of_run), claimed.rho
            yield worst_delta(pairs, DELTA), claimed.delta


def test_every_combination_of_four_mechanisms_loses_what_is_claimed() -> None:
    """None loses more. Where all inputs share units, or signs do not make removals cheap, it is all attained."""
    found = list(cases())
    assert len(found) == 2 * 2 * len(SIGNS) * (4 + 6 * 2 + 4 * 12 + 120)
    assert all(first <= second for first, second in found)
    assert sum(first == second for first, second in found) > len(found) * 3 // 4


def check() -> None:
    assert all(first <= second for first, second in cases())


test_a_planted_fault_is_found = laws.mutants(
    {
        "sums-are-maxima": laws.put(Loss, "plus", Loss.larger),
        "the-first-counts": laws.put(Loss, "larger", lambda one, two: one),
        "deltas-do-not-add": laws.put(
            Loss, "plus", lambda one, two: Loss(one.rho + two.rho, max(one.delta, two.delta))
        ),
        # The maximum needs noise for twice the square of what a removal changes.
        "a-removal-costs-a-replacement": laws.put(
            sys.modules[__name__], "change_factor", lambda relation, *, has_signs: 1
        ),
    },
    check,
)


@pytest.mark.parametrize("has_signs", [False, True])
def test_a_removal_costs_half_a_replacement_at_most(has_signs: bool) -> None:
    assert change_factor(ADD_OR_REMOVE_ONE, has_signs=has_signs) == 1
    assert change_factor(REPLACE_ONE, has_signs=has_signs) == (4 if has_signs else 2)


def check_a_sum_is_not_below_its_pure_part() -> None:
    """Randomized response has delta (e^epsilon - e^x) / (1 + e^epsilon) at x. Another release can only lose more."""
    for epsilon, delta in itertools.product((1, 2, 3), (0.05, 0.2, 0.3, 0.5)):
        least = math.log(max(math.exp(epsilon) - delta * (1 + math.exp(epsilon)), 1))
        together = Loss.of_pure(Fraction(epsilon)).plus(Loss(Fraction(1, 10**6)))
        assert least - 1e-12 <= together.epsilon(delta) <= epsilon + 0.01


test_a_gaussian_curve_of_pure_parts_is_found = laws.mutants(
    {"the curve of Gaussian noise for all of rho": laws.put(composition.zcdp, "epsilon", gaussian_curve.epsilon)},
    check_a_sum_is_not_below_its_pure_part,
    intact=True,
)


def losses(fractions: st.SearchStrategy[Fraction]) -> st.SearchStrategy[Loss]:
    """Return sums of up to three parts, of these fractions from 0 to 1."""
    parts = st.one_of(
        st.tuples(fractions.map(lambda rho: 9 * rho), fractions, st.booleans()).map(lambda each: Loss(*each)),
        st.tuples(fractions.map(lambda epsilon: 9 * epsilon), fractions).map(lambda each: Loss.of_pure(*each)),
    )
    return st.lists(parts, max_size=3).map(lambda found: functools.reduce(Loss.plus, found, Loss()))


SHORT = losses(st.fractions(0, 1, max_denominator=1000))
LONG = losses(st.tuples(st.integers(0, 1 << 199), st.integers(1 << 199, 1 << 200)).map(lambda pair: Fraction(*pair)))


@given(SHORT, SHORT, SHORT)
def test_the_order_does_not_matter(first: Loss, second: Loss, third: Loss) -> None:
    for compose in (Loss.plus, Loss.larger):
        assert compose(first, second) == compose(second, first)
        assert compose(compose(first, second), third) == compose(first, compose(second, third))
        assert compose(first, Loss()) == first


@given(LONG, LONG, LONG)
def test_long_fractions_are_rounded_up_by_little_in_any_order(first: Loss, second: Loss, third: Loss) -> None:
    """Rounding to multiples of 2^-256 depends on the order; only sums are rounded."""
    assert first.larger(second).larger(third) == first.larger(second.larger(third))
    for compose in (Loss.plus, Loss.larger):
        assert compose(first, second) == compose(second, first)
        assert compose(first, Loss()) == first
    for total in (first.plus(second).plus(third), first.plus(second.plus(third))):
        for name in ("rho", "pure", "pure_rho"):
            exact = sum(getattr(loss, name) for loss in (first, second, third))
            assert exact <= getattr(total, name) <= exact + Fraction(4, 1 << 256)
        kept = (1 - first.delta) * (1 - second.delta) * (1 - third.delta)
        assert 1 - kept <= total.delta <= 1 - kept + Fraction(2, 1 << 256)


@given(st.fractions(0, 1), st.fractions(0, 1), st.integers(1, 1 << 600))
def test_composed_deltas_are_never_below_the_exact_one(first: Fraction, second: Fraction, long: int) -> None:
    for other in (second, Fraction(1, long)):
        exact = 1 - (1 - first) * (1 - other)
        assert exact <= composed_delta(first, other) <= exact + Fraction(1, 1 << 256)
