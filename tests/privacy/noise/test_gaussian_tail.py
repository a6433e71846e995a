"""Tails of the discrete Gaussian: bounds against sums of mpmath at 700 bits, never below them and close above them."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import mpmath
import pytest

from beam_dpsketch.privacy.noise import gaussian_bounds
from beam_dpsketch.privacy.noise.gaussian_bounds import ceiling_shift, exponential_bounds, least_quantile, tail_bound
from tests.helpers.tails import true_tails

VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(5, 2), Fraction(12_345, 67), Fraction(10_000)]
WIDE = [Fraction(48**2 * 5), Fraction(10**6)]
PROBABILITIES = [Fraction(1, 3), Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 3 * 10**9), Fraction(1, 10**13)]


def places(sigma_squared: Fraction) -> list[int]:
    """Return places from 1 to 8 sigma, all of them if there are few."""
    most = len(true_tails(sigma_squared)) - 2
    return sorted({1 + step * (most - 1) // 24 for step in range(25)})


def check_above(sigma_squared: Fraction) -> None:
    for start in places(sigma_squared):
        assert tail_bound(sigma_squared, start) >= true_tails(sigma_squared)[start]


def excess(sigma_squared: Fraction, start: int) -> Fraction:
    return tail_bound(sigma_squared, start) / true_tails(sigma_squared)[start] - 1


@pytest.mark.one_fast_case
@pytest.mark.parametrize("sigma_squared", [*VARIANCES, WIDE[0], pytest.param(WIDE[1], marks=pytest.mark.slow)], ids=str)
def test_bounds_are_never_below_the_truth(sigma_squared: Fraction) -> None:
    check_above(sigma_squared)


@pytest.mark.parametrize("sigma_squared", VARIANCES, ids=str)
def test_bounds_exceed_the_truth_by_as_little_as_said(sigma_squared: Fraction) -> None:
    most = Fraction(1, 10**6) if sigma_squared >= 1 else Fraction(2, 100)
    assert max(excess(sigma_squared, start) for start in places(sigma_squared)) < most


@pytest.mark.parametrize("sigma_squared", [WIDE[0], pytest.param(WIDE[1], marks=pytest.mark.slow)], ids=str)
def test_bounds_of_wide_tails_are_within_a_twentieth_from_4_sigma_on(sigma_squared: Fraction) -> None:
    far = [start for start in places(sigma_squared) if start * start >= 16 * sigma_squared]
    assert len(far) > 10
    assert max(excess(sigma_squared, start) for start in far) < Fraction(5, 100)


@pytest.mark.parametrize("sigma", [1 << 20, 1 << 40, 1 << 50])
def test_very_wide_tails_are_bounded_by_the_normal_distribution(sigma: int) -> None:
    """Their spacing is so fine that a normal tail, at half a place less, is the truth to far more than 6 digits."""
    for times in (4, 6, 8):
        with mpmath.workprec(200):
            normal = mpmath.ncdf(-(mpmath.mpf(times * sigma) - 0.5) / sigma)
            bound = tail_bound(Fraction(sigma) ** 2, times * sigma)
            ratio = mpmath.mpf(bound.numerator) / bound.denominator / normal
        assert 1 - 1e-9 < ratio < 1.07


@pytest.mark.one_fast_case
@pytest.mark.parametrize("sigma_squared", [*VARIANCES, Fraction(48**2 * 5)], ids=str)
@pytest.mark.parametrize("probability", PROBABILITIES, ids=str)
def test_the_least_quantile_holds_and_one_less_does_not(sigma_squared: Fraction, probability: Fraction) -> None:
    tails, found = true_tails(sigma_squared), least_quantile(sigma_squared, probability)
    assert tails[found] <= probability
    if found > 1:
        assert tails[found - 1] * (1 + excess(sigma_squared, found - 1)) > probability


@pytest.mark.parametrize("near", [1, 2, 16, 17, 18, 1000, 10**6])
@pytest.mark.parametrize("least", [1, 2, 17, 999])
def test_a_search_ends_at_the_same_place_from_anywhere(near: int, least: int) -> None:
    asked = []

    def tail(start: int) -> Fraction:
        asked.append(start)
        return Fraction(1, 10 if start >= least else 2)

    assert gaussian_bounds.least_start(tail, Fraction(1, 10), near) == least
    assert min(asked) >= 1
    if near == least:
        assert len(asked) <= 2


@pytest.mark.parametrize("sigma_squared", [Fraction(1, 100), *VARIANCES, *WIDE, Fraction(1 << 60)], ids=str)
def test_a_quantile_is_that_of_a_search_from_1_on(sigma_squared: Fraction) -> None:
    for probability in (Fraction(2, 3), Fraction(1, 2), *PROBABILITIES, Fraction(1, 10**90)):
        expected = gaussian_bounds.least_start(functools.partial(tail_bound, sigma_squared), probability)
        assert least_quantile.__wrapped__(sigma_squared, probability) == expected


def test_a_bound_is_at_most_1() -> None:
    assert tail_bound(Fraction(1 << 90), 1) == 1


def sum_of_all_terms(sigma_squared: Fraction, start: int) -> Fraction:
    numerator, denominator, bits = 2 * sigma_squared.numerator, sigma_squared.denominator, gaussian_bounds._BITS
    squares = start * start, 2 * start + 1, 2
    term, ratio, step = (exponential_bounds(each * denominator, numerator, bits)[1] for each in squares)
    total = 0
    for _ in range(gaussian_bounds._TERMS):
        total += term
        term, ratio = ceiling_shift(term * ratio, bits), ceiling_shift(ratio * step, bits)
    total += -((-term << bits) // ((1 << bits) - ratio))
    whole = math.isqrt(math.floor(gaussian_bounds._TWO_PI * sigma_squared * (1 << 2 * bits)))
    return min(Fraction(total, whole), Fraction(1))


@pytest.mark.parametrize("bits", [40, 90, 512])
def test_terms_that_are_not_worked_out_one_by_one_count_all_the_same(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaussian_bounds, "_BITS", bits)
    for sigma_squared in (Fraction(1, 100), Fraction(1), Fraction(37, 3), Fraction(900), Fraction(1600), *WIDE):
        for start in (1, 2, 30, 1000, 10**5):
            assert tail_bound(sigma_squared, start) == sum_of_all_terms(sigma_squared, start)


@pytest.mark.parametrize("bits", [40, 90])
@pytest.mark.parametrize("sigma_squared", VARIANCES[1:], ids=str)
def test_bounds_of_fewer_bits_are_not_below_the_truth_either(
    bits: int, sigma_squared: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaussian_bounds, "_BITS", bits)
    check_above(sigma_squared)


def test_terms_rounded_down_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = gaussian_bounds.exponential_bounds
    monkeypatch.setattr(gaussian_bounds, "_BITS", 40)
    monkeypatch.setattr(gaussian_bounds, "exponential_bounds", lambda *terms: exact(*terms)[:1] * 2)
    monkeypatch.setattr(gaussian_bounds, "ceiling_shift", lambda value, bits: value >> bits)
    with pytest.raises(AssertionError):
        check_above(VARIANCES[-1])


def test_products_rounded_down_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_bounds, "_BITS", 40)
    monkeypatch.setattr(gaussian_bounds, "ceiling_shift", lambda value, bits: value >> bits)
    with pytest.raises(AssertionError):
        check_above(VARIANCES[-1])


def test_a_whole_rounded_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_bounds, "_TWO_PI", gaussian_bounds._TWO_PI + Fraction(1, 10**30))
    with pytest.raises(AssertionError):
        check_above(VARIANCES[-1])


def test_a_tail_without_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_bounds, "_TERMS", 0)
    check_above(VARIANCES[-1])  # the geometric series alone is an upper bound
    monkeypatch.setattr(gaussian_bounds, "_TERMS", 200)
    exact = gaussian_bounds.exponential_bounds
    steps = iter(range(10**9))  # the second of three is the ratio, which is too small by one part in 100
    monkeypatch.setattr(
        gaussian_bounds,
        "exponential_bounds",
        lambda *terms: tuple(each * 99 // 100 if next(steps) % 6 in (2, 3) else each for each in exact(*terms)),
    )
    with pytest.raises(AssertionError):
        check_above(VARIANCES[-1])
