"""Means and variances from noisy sums: the intervals are those of Fieller's set, by exact algebra.

The set of a ratio f / n, with coefficients c of f, is all r with (f - r n)^2 <= k^2 (p sum (c - r)^2 + 2 lost^2). Here
that is decided in fractions, and its ends are worked out with 400 bits. No test here is about noise, and none raises a
false alarm.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_dpsketch.answers import statistics as released
from beam_dpsketch.answers.statistics import mean_of, variance_of
from tests.helpers import laws

BITS = 400
ROUNDING = 2.0**-50
PLACES = {2: [Fraction(1), Fraction(0)], 3: [Fraction(1), Fraction(1, 2), Fraction(0)]}


class Sums(NamedTuple):
    """One-sided sums, two or three, and the parameter of the noise of each."""

    values: tuple[float, ...]
    parameter: float


deviations = st.sampled_from([0.5, 1.96, 6.0])
parameters = st.sampled_from([2.0**-8, 0.7, 1.0, 90.0, 1e6, 1e12, 2.0**90])
grid = st.integers(0, 16)


def of_records(number: float, place: float, count: int = 2, spread: float = 0.0) -> tuple[float, ...]:
    """The sums of equal numbers at a place; with three, of numbers of this variance."""
    squares, rest = place**2 + spread, (1 - place) ** 2 + spread
    return (
        (place * number, (1 - place) * number)
        if count == 2
        else tuple(part * number for part in (squares, 1 - squares - rest, rest))
    )


@st.composite
def sums(draw: st.DrawFn, counts: tuple[int, ...] = (2, 3)) -> Sums:
    """Sums of records and noise: of few or many records, near the middle or an end, and sums that noise alone makes."""
    number = draw(st.integers(-50, 50) | st.integers(1, 1 << 60)) / (1 << draw(grid))
    place, count = draw(st.floats(0, 1)), draw(st.sampled_from(counts))
    exact = of_records(number, place, count, draw(st.floats(0, 1)) * place * (1 - place))
    noise = [draw(st.integers(-9, 9)) * 2.0 ** draw(st.integers(-8, 20)) for _ in exact]
    return Sums(tuple(map(sum, zip(exact, noise, strict=True))), draw(parameters))


def quadratic(sums: Sums, coefficients: list[Fraction], k: float, lost: Any = 0) -> tuple[Fraction, ...]:
    """Return a, b and c, of a r^2 - 2 b r + c <= 0, which the ratios of the set satisfy."""
    values, squared = [*map(Fraction, sums.values)], Fraction(k) ** 2
    noise, n = squared * Fraction(sums.parameter), sum(values)
    form = sum(each * own for each, own in zip(coefficients, values, strict=True)) + lost
    return (
        n**2 - noise * len(values),
        form * n - noise * sum(coefficients),
        form**2 - noise * sum(each**2 for each in coefficients) - 2 * squared * lost**2,
    )


def holds(coefficients: tuple[Fraction, ...], ratio: Fraction) -> bool:
    a, b, c = coefficients
    return a * ratio**2 - 2 * b * ratio + c <= 0


def ends(coefficients: tuple[Fraction, ...]) -> tuple[Any, Any]:
    """Return the roots of a r^2 - 2 b r + c, between which the set is an interval."""
    with mpmath.workprec(BITS):
        a, b, c = (mpmath.mpf(each.numerator) / each.denominator for each in coefficients)
        root = mpmath.sqrt(b**2 - a * c)
        return (b - root) / a, (b + root) / a


def check_mean(sums: Sums, k: float) -> bool:
    """Raise unless the mean is as Fieller's set has it; return whether it is known."""
    places, values = PLACES[len(sums.values)], [*map(Fraction, sums.values)]
    found, exact, number = mean_of(*sums, k), quadratic(sums, places, k), float(sum(values))
    a, cancelled = exact[0], max(map(abs, sums.values)) / max(abs(number), 1e-300)
    near = abs(a) <= Fraction(number) ** 2 * Fraction(ROUNDING * max(cancelled, 1.0))
    if found is None and (number <= 0 or a <= 0 or near):
        return False
    assert number > 0, "a mean of no records"
    assert a > 0 or near, "an interval where the set is none"
    if near:
        return False
    low, high = (float(end) for end in ends(exact))
    slack = (ROUNDING + (high - low) * ROUNDING) * max(cancelled, 1.0)
    half, is_beside = (high - low) / 2, low > 1 or high < 0
    lowest, highest = max(1 - half if low > 1 else low, 0), min(half if high < 0 else high, 1)
    at_an_end = min(abs(low - 1), abs(high)) <= slack
    if found is None:
        assert at_an_end or max(lowest, 1 - highest) < slack, "known, but not told"
        return False
    estimate, lower, upper = found
    assert 0 <= lower <= estimate <= upper <= 1, "out of order"
    if at_an_end:
        return True
    assert abs(lower - lowest) <= slack + 1e-9 * (high - low), "another lower end"
    assert abs(upper - highest) <= slack + 1e-9 * (high - low), "another upper end"
    total = float(sum(place * own for place, own in zip(places, values, strict=True)))
    assert estimate == pytest.approx(min(max(total / number, 0), 1), rel=1e-12, abs=slack)
    for step in range(41):
        mean, inside = Fraction(step, 40), lower - slack <= step / 40 <= upper + slack
        assert inside or not holds(exact, mean), "a mean of the set is left out"
        if not is_beside and lower + slack < step / 40 < upper - slack:
            assert holds(exact, mean), "one that is not in it is told"
    return True


@example(sums=Sums((-4.0, 8.0), 0.7), k=1.96)
@given(sums=sums(), k=deviations)
def test_a_mean_has_the_interval_of_its_set(sums: Sums, k: float) -> None:
    check_mean(sums, k)


MANY = [
    Sums(tuple(each + 3.0 for each in of_records(number, place, count)), 5.0)
    for number in (1e4, 1e6, 1e8, 1e10, 1e12)
    for place in (0.05, 0.5, 0.75, 0.995)
    for count in (2, 3)
]


@pytest.mark.parametrize("sums", MANY)
def test_intervals_of_many_records_do_not_lose_their_width(sums: Sums) -> None:
    """Where squares differ by less than a float can tell, the width is that of the noise still."""
    assert check_mean(sums, 1.96)
    number, places = sum(sums.values), [*map(float, PLACES[len(sums.values)])]
    mean = sum(place * own for place, own in zip(places, sums.values, strict=True)) / number
    noises = [(mean_of(*sums, 1.96), [place - mean for place in places])]
    if len(places) == 3:
        noises += [(variance_of(*sums, 1.96, 0.0), [(1 - mean) ** 2, -mean * (1 - mean), mean**2])]
    for found, coefficients in noises:
        assert found is not None
        _, lower, upper = found
        noise = math.sqrt(5.0 * sum(each**2 for each in coefficients))
        if lower > 0:
            assert (upper - lower) * number == pytest.approx(2 * 1.96 * noise, rel=0.03, abs=number * 4 * ROUNDING)


def check_variance(sums: Sums, k: float) -> None:
    """Raise unless the ends of a variance are where the noise of the ratio, of known mean, is k roots."""
    found = variance_of(*sums, k, 0.0)
    if found is None:
        return
    estimate, lower, upper = found
    assert 0 <= lower <= estimate <= upper <= released.LARGEST_VARIANCE, "out of order"
    values, parameter = [*map(Fraction, sums.values)], Fraction(sums.parameter)
    n, total = sum(values), values[0] + values[1] / 2
    m = min(max(total / n, Fraction(0)), Fraction(1))
    lost = parameter * ((1 - m) ** 2 + (Fraction(1, 2) - m) ** 2 + m**2) / n
    exact = quadratic(sums, [(1 - m) ** 2, -m * (1 - m), m**2], k, lost)
    if exact[0] <= Fraction(float(n)) ** 2 * Fraction(2.0**-30):
        return  # where floats decide whether the set is an interval
    low, high = ends(exact)
    most, cancelled = released.LARGEST_VARIANCE, max(map(abs, sums.values)) / float(n)
    half, rounding = (high - low) / 2, (1e-9 + 1e-6 * (high - low)) * max(cancelled, 1.0)
    if min(abs(low - most), abs(high)) <= rounding:
        return
    assert abs(lower - max(most - half if low > most else low, 0)) <= rounding, "another lower end"
    assert abs(upper - min(half if high < 0 else high, most)) <= rounding, "another upper end"


@given(sums=sums(counts=(3,)), k=deviations)
@example(sums=Sums((140472410341696.0, 280944820683392.0, 140472410341696.0), 2.0**-8), k=0.5)
@example(sums=Sums((1.0, 0.0, 0.0), 2.0**-8), k=0.5)
def test_a_variance_has_the_interval_of_its_set(sums: Sums, k: float) -> None:
    check_variance(sums, k)


def test_what_floors_take_of_squares_is_added_above() -> None:
    (*below, upper), (*same, higher) = (variance_of((30.0, 40.0, 30.0), 0.5, 2.0, floored) for floored in (0.0, 0.01))
    assert (below, upper + 0.01) == (same, pytest.approx(higher))


anything = st.integers(-(1 << 63), (1 << 63) - 1).map(float) | st.integers(-(1 << 20), 1 << 20).map(lambda n: n / 65536)


@example(numbers=(0.0, 0.0, 1.0), parameter=1.0, k=0.5)  # the whole interval is below 0, and long
@given(numbers=st.tuples(*[anything] * 3), parameter=st.floats(2.0**-8, 2.0**100), k=st.floats(1e-6, 40))
def test_no_sums_give_what_is_not_finite_or_out_of_order(numbers: Any, parameter: float, k: float) -> None:
    for found, high in (
        (mean_of(numbers[:2], parameter, k), 1),
        (mean_of(numbers, parameter, k), 1),
        (variance_of(numbers, parameter, k, 0.0), released.LARGEST_VARIANCE),
    ):
        if found is not None:
            estimate, lower, upper = found
            assert all(map(math.isfinite, found))
            assert 0 <= lower <= estimate <= upper <= high
            assert (lower, upper) != (0, high), "an interval that says nothing"


def unstable(exact: Any, sums: Any, coefficients: Any, parameter: float, lost: float, k: float) -> Any:
    """The root of b^2 - a c, as it is written in textbooks."""
    if exact(sums, coefficients, parameter, lost, k) is None:
        return None
    n, form = sum(sums), np.dot(coefficients, sums) + lost
    a, b = n**2 - k**2 * parameter * len(sums), form * n - k**2 * parameter * sum(coefficients)
    c = form**2 - k**2 * (parameter * sum(each**2 for each in coefficients) + 2 * lost**2)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return form / n, (b - root) / a, (b + root) / a


def of_the_delta_method(exact: Any, sums: Any, coefficients: Any, parameter: float, lost: float, k: float) -> Any:
    """Symmetric intervals, which are too short where there are few records."""
    if exact(sums, coefficients, parameter, lost, k) is None:
        return None
    ratio = (np.dot(coefficients, sums) + lost) / sum(sums)
    half = k * math.sqrt(parameter * sum((each - ratio) ** 2 for each in coefficients)) / sum(sums)
    return ratio, ratio - half, ratio + half


def noise_of_the_form_alone(exact: Any, sums: Any, coefficients: Any, parameter: float, lost: float, k: float) -> Any:
    """The noise of the number is forgotten."""
    if exact(sums, coefficients, parameter, lost, k) is None:
        return None
    ratio = (np.dot(coefficients, sums) + lost) / sum(sums)
    half = k * math.sqrt(parameter * sum(each**2 for each in coefficients)) / sum(sums)
    return ratio, ratio - half, ratio + half


def check_some() -> None:
    for sums in MANY:
        assert check_mean(sums, 1.96)
    for number in (5.0, 12.0, 40.0):
        check_mean(Sums(of_records(number, 0.7), 2.0), 1.96)


test_planted_intervals_are_refused = laws.mutants(
    {
        "the root of a difference": laws.around(released, "_ratio", unstable, "another .* end|left out|out of order"),
        "the delta method": laws.around(released, "_ratio", of_the_delta_method, "another .* end"),
        "noise of the number forgotten": laws.around(released, "_ratio", noise_of_the_form_alone, "another .* end"),
    },
    check_some,
    intact=True,
)
