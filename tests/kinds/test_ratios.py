"""Means and variances from noisy sums: the intervals are those of Fieller's set, by exact algebra.

The set of a mean is all m with (S - m n)^2 <= k^2 (p_S + m^2 p_n). Here that is decided in fractions, and its ends are
worked out with 400 bits. No test here is about noise, and none raises a false alarm.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_dpsketch.kinds.statistics import ratios
from beam_dpsketch.kinds.statistics.ratios import Sums
from tests.helpers import laws

BITS = 400
ROUNDING = 2.0**-50

deviations = st.sampled_from([0.5, 1.96, 6.0])
parameters = st.sampled_from([2.0**-8, 0.7, 1.0, 90.0, 1e6, 1e12, 2.0**90])
grid = st.integers(0, 16)


@st.composite
def sums(draw: st.DrawFn) -> Sums:
    """Sums of records and noise: of few or many records, near the middle or an end, and sums that noise alone makes."""
    number = draw(st.integers(-50, 50) | st.integers(1, 1 << 60)) / (1 << draw(grid))
    place, square = draw(st.floats(-1, 1)), draw(st.floats(-1, 1))
    noise = [draw(st.integers(-9, 9)) * 2.0 ** draw(st.integers(-8, 20)) for _ in range(2)]
    return Sums(number, place * number + noise[0], square * number + noise[1], *(draw(parameters) for _ in range(3)))


def quadratic(sums: Sums, k: float) -> tuple[Fraction, Fraction, Fraction]:
    """Return a, b and c, of a m^2 - 2 b m + c <= 0, which the means of the set satisfy."""
    n, total, of_n, of_total = map(Fraction, (sums.number, sums.total, sums.of_number, sums.of_total))
    squared = Fraction(k) ** 2
    return n**2 - squared * of_n, n * total, total**2 - squared * of_total


def in_set(sums: Sums, k: float, mean: Fraction) -> bool:
    a, b, c = quadratic(sums, k)
    return a * mean**2 - 2 * b * mean + c <= 0


def ends(coefficients: tuple[Fraction, Fraction, Fraction]) -> tuple[Any, Any]:
    """Return the roots of a r^2 - 2 b r + c, between which the set is an interval."""
    with mpmath.workprec(BITS):
        a, b, c = (mpmath.mpf(each.numerator) / each.denominator for each in coefficients)
        root = mpmath.sqrt(b**2 - a * c)
        return (b - root) / a, (b + root) / a


def check_mean(sums: Sums, k: float) -> bool:
    """Raise unless the mean is as Fieller's set has it; return whether it is known."""
    found, (a, _, _) = sums.mean(k), quadratic(sums, k)
    near = abs(a) <= Fraction(sums.number) ** 2 * Fraction(ROUNDING)
    if found is None and (sums.number <= 0 or a <= 0 or near):
        return False
    assert sums.number > 0, "a mean of no records"
    assert a > 0 or near, "an interval where the set is none"
    if near:
        return False
    low, high = (float(end) for end in ends(quadratic(sums, k)))
    slack = ROUNDING + (high - low) * ROUNDING
    if found is None:
        assert max(low + 1, 1 - high) < slack, "known, but not told"
        return False
    estimate, lower, upper = found
    assert -1 <= lower <= estimate <= upper <= 1, "out of order"
    if min(abs(low - 1), abs(high + 1)) <= slack:
        return True
    half, is_beside = (high - low) / 2, low > 1 or high < -1
    assert abs(lower - max(1 - half if low > 1 else low, -1)) <= slack + 1e-9 * (high - low), "another lower end"
    assert abs(upper - min(half - 1 if high < -1 else high, 1)) <= slack + 1e-9 * (high - low), "another upper end"
    assert estimate == pytest.approx(min(max(sums.total / sums.number, -1), 1), rel=1e-12)
    for step in range(-20, 21):
        mean, inside = Fraction(step, 20), lower - slack <= step / 20 <= upper + slack
        assert inside or not in_set(sums, k, mean), "a mean of the set is left out"
        if not is_beside and lower + slack < step / 20 < upper - slack:
            assert in_set(sums, k, mean), "one that is not in it is told"
    return True


@given(sums=sums(), k=deviations)
def test_a_mean_has_the_interval_of_its_set(sums: Sums, k: float) -> None:
    check_mean(sums, k)


MANY = [
    Sums(number, place * number + 3.0, 0.0, 2.0, 5.0, 0.0)
    for number in (1e4, 1e6, 1e8, 1e10, 1e12)
    for place in (-0.9, 0.0, 0.5, 0.99)
]


@pytest.mark.parametrize("sums", MANY)
def test_intervals_of_many_records_do_not_lose_their_width(sums: Sums) -> None:
    """Where squares differ by less than a float can tell, the width is that of the noise still."""
    assert check_mean(sums, 1.96)
    mean, number = sums.total / sums.number, sums.number
    of_total = sums.of_total + mean**2 * sums.of_number
    with_squares = sums._replace(squares=mean**2 * number, of_squares=5.0)
    of_spread = 5.0 / 4 + 4 * mean**2 * sums.of_total + (1.5 * mean**2) ** 2 * sums.of_number
    for found, noise in ((sums.mean(1.96), of_total), (with_squares.variance(1.96, 0.0), of_spread)):
        assert found is not None
        _, lower, upper = found
        width = (upper - lower) * number
        assert width == pytest.approx(2 * 1.96 * math.sqrt(noise), rel=0.03, abs=number * 4 * ROUNDING)


def check_variance(sums: Sums, k: float) -> None:
    """Raise unless the ends of a variance are where the noise of the ratio, of known mean, is k roots."""
    found = sums.variance(k, 0.0)
    if found is None:
        return
    estimate, lower, upper = found
    assert 0 <= lower <= estimate <= upper <= 1, "out of order"
    n, total, squares = map(Fraction, sums[:3])
    of_n, of_total, of_squares = map(Fraction, sums[3:])
    m = min(max(total / n, Fraction(-1)), Fraction(1))
    lost = (of_total + m**2 * of_n) / n
    spread = squares / 2 - 2 * m * total + (m**2 + Fraction(1, 2)) * n + lost
    of_spread = of_squares / 4 + 4 * m**2 * of_total + 2 * lost**2
    squared, middle = Fraction(k) ** 2, m**2 + Fraction(1, 2)
    low, high = ends(
        (
            n**2 - squared * of_n,
            spread * n - squared * of_n * middle,
            spread**2 - squared * (of_spread + middle**2 * of_n),
        )
    )
    half, rounding = (high - low) / 2, 1e-9 + 1e-6 * (high - low)
    if min(abs(low - 1), abs(high)) <= rounding:
        return
    assert abs(lower - max(1 - half if low > 1 else low, 0)) <= rounding, "another lower end"
    assert abs(upper - min(half if high < 0 else high, 1)) <= rounding, "another upper end"


@given(sums=sums(), k=deviations)
@example(sums=Sums(561889641366787.0, 0.0, 70236205170848.375, *[2.0**-8] * 3), k=0.5)
@example(sums=Sums(1.0, 1.0, 0.0, *[2.0**-8] * 3), k=0.5)
def test_a_variance_has_the_interval_of_its_set(sums: Sums, k: float) -> None:
    check_variance(sums, k)


anything = st.integers(-(1 << 63), (1 << 63) - 1).map(float) | st.integers(-(1 << 20), 1 << 20).map(lambda n: n / 65536)


@given(
    numbers=st.tuples(anything, anything, anything),
    noises=st.tuples(*[st.floats(2.0**-8, 2.0**100)] * 3),
    k=st.floats(1e-6, 40),
)
def test_no_sums_give_what_is_not_finite_or_out_of_order(numbers: Any, noises: Any, k: float) -> None:
    for found, low, high in (
        (Sums(*numbers, *noises).mean(k), -1, 1),
        (Sums(*numbers, *noises).variance(k, 0.0), 0, 1),
    ):
        if found is not None:
            estimate, lower, upper = found
            assert all(map(math.isfinite, found))
            assert low <= lower <= estimate <= upper <= high
            assert (lower, upper) != (low, high), "an interval that says nothing"


def unstable(exact: Any, above: float, below: float, of_above: float, of_below: float, shared: float, k: float) -> Any:
    """The root of b^2 - a c, as it is written in textbooks."""
    if exact(above, below, of_above, of_below, shared, k) is None:
        return None
    a, b = below**2 - k**2 * of_below, above * below - k**2 * of_below * shared
    root = math.sqrt(max(b**2 - a * (above**2 - k**2 * (of_above + shared**2 * of_below)), 0.0))
    return above / below, (b - root) / a, (b + root) / a


def of_the_delta_method(
    exact: Any, above: float, below: float, of_above: float, of_below: float, shared: float, k: float
) -> Any:
    """Symmetric intervals, which are too short where there are few records."""
    if exact(above, below, of_above, of_below, shared, k) is None:
        return None
    ratio = above / below
    half = k * math.sqrt(of_above + (shared - ratio) ** 2 * of_below) / below
    return ratio, ratio - half, ratio + half


def check_some() -> None:
    for sums in MANY:
        assert check_mean(sums, 1.96)
    for number in (5.0, 12.0, 40.0):
        check_mean(Sums(number, 0.4 * number, 0.0, 2.0, 2.0, 0.0), 1.96)


test_planted_intervals_are_refused = laws.mutants(
    {
        "the root of a difference": laws.around(ratios, "_ratio", unstable, "another .* end|left out|out of order"),
        "the delta method": laws.around(ratios, "_ratio", of_the_delta_method, "another .* end"),
        "noise of the number forgotten": laws.around(
            ratios, "_ratio", lambda exact, *terms: exact(*terms[:3], 0.0, *terms[4:]), "another .* end"
        ),
    },
    check_some,
    intact=True,
)
