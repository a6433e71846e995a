"""Grouped counts: exact losses of neighbouring inputs, from the output distribution itself.

All probabilities come from `mpmath` with 60 digits, and not from the package. Outputs are the noisy counts of items at
or above the threshold. Items are independent, so the Renyi divergence of an output is the sum over its items, once the
exceptional event is taken out. The definition of delta-approximate rho-zCDP is checked as it stands: on either input
an event of probability 1 - delta or more, and given these, divergences of at most rho alpha.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath
import pytest

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, NormBound, RecordBounds
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation
from beam_dpsketch.privacy.mechanism import sigma_squared, squared_l2_sensitivity
from beam_dpsketch.privacy.noise.gaussian_bounds import least_quantile
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule, _sizes
from tests.helpers import laws

RHO, DELTA = Fraction(1, 2), Fraction(1, 1000)
ORDERS = (1.01, 2, 16)
Unit = tuple[int, ...]
"""What a unit adds to each item."""


def noise_of(bounds: Bounds, relation: NeighboringRelation, windows: int = 1) -> Fraction:
    """sigma^2 as a release has it."""
    squared = squared_l2_sensitivity(cells_per_item=1, has_signs=False, bounds=bounds, relation=relation, reach=windows)
    return sigma_squared(squared_sensitivity=squared, rho=RHO)


def quantile_of(sigma2: Fraction) -> Callable[[Fraction], int]:
    """Return what gives the t of a probability, for Gaussian noise of this parameter."""
    return functools.partial(least_quantile, sigma2)


@functools.cache
def weights(sigma2: Fraction) -> tuple[mpmath.mpf, dict[int, mpmath.mpf]]:
    """The sum over all integers, and exp(-x^2 / (2 sigma^2)) of those that matter."""
    reach = math.ceil(40 * math.sqrt(sigma2)) + 2
    with mpmath.workdps(60):
        found = {x: mpmath.exp(-mpmath.mpf(x * x) / 2 / sigma2) for x in range(-reach, reach + 1)}
        return mpmath.fsum(found.values()), found


@functools.cache
def tail(sigma2: Fraction, start: int) -> mpmath.mpf:
    """P(Z >= start)."""
    total, found = weights(sigma2)
    with mpmath.workdps(60):
        return mpmath.fsum(each for x, each in found.items() if x >= start) / total


@functools.cache
def below(sigma2: Fraction, end: int) -> mpmath.mpf:
    """P(Z < end), without cancellation."""
    total, found = weights(sigma2)
    with mpmath.workdps(60):
        return mpmath.fsum(each for x, each in found.items() if x < end) / total


@functools.cache
def divergence(sigma2: Fraction, count: int, other: int, threshold: int, order: float) -> mpmath.mpf:
    """The Renyi divergence of the outputs of one item: its noisy count, or nothing below the threshold."""
    total, found = weights(sigma2)
    reach = max(found)
    with mpmath.workdps(60):
        a = mpmath.mpf(order)
        shown = mpmath.mpf(0)
        for value in range(threshold, max(count, other) + reach):
            p, q = found.get(value - count, mpmath.mpf(0)), found.get(value - other, mpmath.mpf(0))
            shown += p**a * q ** (1 - a) / total if p and q else 0
        p, q = (below(sigma2, threshold - each) for each in (count, other))
        return mpmath.log(shown + (p**a * q ** (1 - a) if p and q else 0)) / (a - 1)


def shows_alone(sigma2: Fraction, counts: Iterable[int], threshold: int) -> mpmath.mpf:
    """The probability that one of the items that one unit alone has is released."""
    hidden = mpmath.mpf(1)
    for count in counts:
        hidden *= 1 - tail(sigma2, threshold - count) if count else 1
    return 1 - hidden


def loss(first: Unit, second: Unit, others: Unit, sigma2: Fraction, threshold: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The delta and the largest divergence / alpha of two inputs that differ in one unit, in both directions."""
    deltas, shared = [], []
    for mine, theirs, other in zip(first, second, others, strict=True):
        if other or (mine and theirs):
            shared.append((other + mine, other + theirs))
    for privacy_unit, against in ((first, second), (second, first)):
        alone = [
            mine for mine, theirs, other in zip(privacy_unit, against, others, strict=True) if not theirs and not other
        ]
        deltas.append(shows_alone(sigma2, alone, threshold))
    rho = max(
        sum((divergence(sigma2, *pair[::way], threshold, order) for pair in shared), mpmath.mpf(0)) / order
        for order in ORDERS
        for way in (1, -1)
    )
    return max(deltas), rho


def units_of(most: int, max_items: int, items: int) -> list[Unit]:
    """All units within record bounds: at most `most` of at most `max_items` of the items."""
    found = itertools.product(range(most + 1), repeat=items)
    return [privacy_unit for privacy_unit in found if sum(map(bool, privacy_unit)) <= max_items]


def worst(
    units: list[Unit],
    relation: NeighboringRelation,
    sigma2: Fraction,
    threshold: int,
    others: tuple[Unit, ...] = ((0, 0, 0), (0, 0, 1), (9, 2, 0), (5, 7, 9)),
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The worst delta and rho over all neighbours."""
    nobody = (0,) * len(units[0])
    pairs = (
        itertools.combinations(units, 2)
        if relation is REPLACE_ONE
        else ((privacy_unit, nobody) for privacy_unit in units)
    )
    found = [loss(*pair, other, sigma2, threshold) for pair in pairs for other in others]
    return max(delta for delta, _ in found), max(rho for _, rho in found)


CASES = [(1, 1), (1, 2), (2, 1), (3, 2)]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE], ids=lambda relation: str(relation.name))
@pytest.mark.parametrize(("most", "max_items"), CASES)
def test_all_neighbours_within_record_bounds_are_within_rho_and_delta(most, max_items, relation):
    """Delta is nearly used up, so a smaller threshold would not do; rho is attained by far above it."""
    bounds = RecordBounds(most, max_keys=max_items)
    sigma2 = noise_of(bounds, relation)
    assert sigma2 == Fraction(max_items * most**2) / (2 * RHO) * (2 if relation is REPLACE_ONE else 1)
    threshold = ThresholdRule(delta=DELTA, max_items=max_items).threshold(bounds, quantile_of(sigma2))
    units = units_of(most, max_items, items=3)
    delta, rho = worst(units, relation, sigma2, threshold)
    assert delta <= DELTA
    assert rho <= RHO
    assert worst(units, relation, sigma2, threshold - 1)[0] > DELTA
    far_above = ((40 * most + 90,) * 3,)
    attained = worst(units, relation, sigma2, threshold, far_above)[1]
    if 2 * max_items <= 3 or relation is ADD_OR_REMOVE_ONE:
        assert attained > Fraction(95, 100) * RHO


@pytest.mark.slow
def test_a_threshold_of_one_record_and_the_tail_shows_units_that_count_for_more():
    bounds = RecordBounds(3, max_keys=2)
    sigma2 = noise_of(bounds, ADD_OR_REMOVE_ONE)
    rule = ThresholdRule(delta=DELTA, max_items=2)
    of_one = rule.threshold(RecordBounds(1, max_keys=2), quantile_of(sigma2))
    units = units_of(3, 2, items=3)
    assert worst(units, ADD_OR_REMOVE_ONE, sigma2, of_one)[0] > DELTA
    assert rule.threshold(bounds, quantile_of(sigma2)) == of_one + 2


def test_faults_in_bounding_would_be_found():
    """More items than max_items, more of an item than C, and weighted votes that are published as counts."""
    bounds = RecordBounds(2, max_keys=2)
    sigma2 = noise_of(bounds, ADD_OR_REMOVE_ONE)
    threshold = ThresholdRule(delta=DELTA, max_items=2).threshold(bounds, quantile_of(sigma2))
    far = ((200,) * 3,)
    for units, others in (([(2, 2, 2)], far), ([(3, 3, 0)], far)):
        assert worst(units, ADD_OR_REMOVE_ONE, sigma2, threshold, others)[1] > RHO
    # All of three items of a unit that is beyond its max_items, each alone: delta is that of three.
    assert worst([(2, 2, 2)], ADD_OR_REMOVE_ONE, sigma2, threshold, ((0, 0, 0),))[0] > DELTA
    # A weight of 1 / sqrt(2) decides, calibrated to a length of 2, and the unweighted count is published.
    weighted = Fraction(4) / (2 * RHO)
    assert worst([(2, 2, 0)], ADD_OR_REMOVE_ONE, weighted, threshold, far)[1] > RHO


def test_delta_is_split_over_windows_and_items():
    """A unit reaches three windows with two items each; one that splits less would lose more than delta."""
    bounds = RecordBounds(2, max_keys=2)
    sigma2 = noise_of(bounds, ADD_OR_REMOVE_ONE, windows=3)
    assert sigma2 == 3 * noise_of(bounds, ADD_OR_REMOVE_ONE)
    right = ThresholdRule(delta=DELTA, max_items=2).threshold(bounds, quantile_of(sigma2), window_count=3)
    assert shows_alone(sigma2, [2] * 6, right) <= DELTA < shows_alone(sigma2, [2] * 6, right - 1)
    for max_items, windows in ((2, 1), (1, 3)):
        fewer = ThresholdRule(delta=DELTA, max_items=max_items).threshold(
            bounds, quantile_of(sigma2), window_count=windows
        )
        assert shows_alone(sigma2, [2] * 6, fewer) > DELTA


def scaled(counts: Unit, max_norm: Fraction) -> Unit:
    """What norm bounding leaves, in units of 2^-SCALE_BITS, by exact arithmetic."""
    squares = sum(count**2 for count in counts)
    if squares <= max_norm**2:
        return tuple(count << SCALE_BITS for count in counts)
    return tuple(math.isqrt(math.floor(count**2 * max_norm**2 * 4**SCALE_BITS / squares)) for count in counts)


def normal_tail(sigma2: Fraction, start: int) -> mpmath.mpf:
    """P(Z >= start) at sigma of thousands: the normal distribution with continuity correction, right to 1e-6."""
    with mpmath.workdps(40):
        return (
            mpmath.erfc((start - mpmath.mpf(0.5)) / mpmath.sqrt(2 * mpmath.mpf(sigma2.numerator) / sigma2.denominator))
            / 2
        )


@pytest.mark.one_fast_case
@pytest.mark.parametrize("max_norm", [Fraction(1), Fraction(5, 2)], ids=["1", "5 halves"])
@pytest.mark.parametrize("max_per_item", [None, 1, 2])
@pytest.mark.parametrize("max_items", [1, 3, 40])
def test_units_under_a_norm_show_nothing_alone(max_norm, max_per_item, max_items):
    bounds = NormBound(max_norm, max_keys=max_items, max_per_item=max_per_item)
    sigma2 = noise_of(bounds, ADD_OR_REMOVE_ONE) * 4**SCALE_BITS
    threshold = ThresholdRule(delta=DELTA, max_items=max_items).threshold(bounds, quantile_of(sigma2), SCALE_BITS)
    deltas = []
    for size in range(1, max_items + 1):
        rows = [(1,) * size, (7,) * size, (100,) + (1,) * (size - 1), (2,) * (size // 2) + (1,) * (size - size // 2)]
        for row in rows:
            kept = scaled(tuple(min(each, max_per_item or each) for each in row), max_norm)
            assert sum(each**2 for each in kept) <= (max_norm * 2**SCALE_BITS) ** 2
            deltas.append(sum(normal_tail(sigma2, threshold - each) for each in kept))
    assert max(deltas) <= DELTA
    if max_items == 1 or max_per_item == 1:
        assert max(deltas) > DELTA / 3  # classes of sizes, and bounds of tails, lose little


MIDDLE_OF_A_CLASS = NormBound(Fraction(9, 2), max_keys=22, max_per_item=1)
"""A unit has up to 20 items that count in full, and the class of 20 items ends at 22."""


def check_every_size_of_a_class(bounds: NormBound = MIDDLE_OF_A_CLASS) -> None:
    """At little noise, the largest contribution decides, and not the number of items."""
    rule, rho = ThresholdRule(delta=DELTA, max_items=22), 64
    sigma2 = Fraction(bounds.squared_length) / (2 * rho) * 4**SCALE_BITS
    threshold = rule.threshold(bounds, quantile_of(sigma2), SCALE_BITS)
    units = (scaled((1,) * size, bounds.max_norm) for size in range(1, 23))
    assert max(sum(normal_tail(sigma2, threshold - each) for each in unit) for unit in units) <= DELTA


test_a_contribution_at_the_end_of_its_class_is_found = laws.mutants(
    {
        "the last size of a class": laws.around(
            NormBound,
            "squared_most_of_one_item",
            lambda exact, bounds, items: exact(bounds, next(size for size in _sizes(22) if size >= items)),
        )
    },
    check_every_size_of_a_class,
    intact=True,
)


@pytest.mark.slow
def test_people_who_count_once_an_item_need_a_lower_threshold():
    rule, bound = ThresholdRule(delta=DELTA, max_items=100), NormBound(10, max_keys=100)
    once = NormBound(10, max_keys=100, max_per_item=1)
    sigma2 = noise_of(bound, ADD_OR_REMOVE_ONE) * 4**SCALE_BITS
    thresholds = [rule.threshold(each, quantile_of(sigma2), SCALE_BITS) for each in (bound, once)]
    assert thresholds[0] - thresholds[1] == 9 << SCALE_BITS


def test_sizes_reach_every_number_of_items():
    for largest in (1, 2, 16, 17, 100, 1 << 31):
        sizes = _sizes(largest)
        assert sizes[-1] == largest
        assert sizes == sorted(set(sizes))
        assert all(after <= 2 * before for before, after in itertools.pairwise(sizes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0}, "delta must be"),
        ({"delta": 1}, "delta must be"),
        ({"delta": Fraction(1, 10**61)}, "delta must be at least 2e-60"),
        ({"max_items": 0}, "max_items must be between"),
        ({"max_items": 2.0}, "max_items must be a whole number"),
    ],
)
def test_bad_rules_are_refused(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ThresholdRule(**{"delta": DELTA, "max_items": 1} | changes)
