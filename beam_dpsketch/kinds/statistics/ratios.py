"""Means and variances from noisy one-sided sums: estimates, and intervals that hold for few records too.

Numbers are places x from 0 to 1. Let the noisy sums, over their whole, be A of x and C of 1 - x; or with squares A of
x^2, B of 2 x (1 - x) and C of (1 - x)^2, a partition of 1 as by Bernstein's polynomials. Their noises are independent
and of one parameter p. Together they are the number n of records; A, or A + B / 2, is the sum of x. So each answer is
a linear form of the sums, or a ratio of two.

Guarantee of a mean: A - r n has the coefficients (1 - r, -r), or (1 - r, 1/2 - r, -r). At the true mean r it is noise
alone, of p times the sum of squared coefficients. The interval holds all r where it is at most k deviations of it. So
the true mean is in it with the confidence asked for, for any number of records (Fieller 1954). Where n cannot be told
from 0, this set is not an interval. Nothing is known of the mean there, nor where the set holds all of [0, 1].

Guarantee of a variance: about the same, to the second order of the noise. With m the estimated mean, the sum of
(x - m)^2 is T = (1 - m)^2 A - m (1 - m) B + m^2 C. T - v n is noise at the true variance v, but for -n d^2 on average,
where d is the error of m. The mean and the variance of n d^2 count too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Ends = tuple[float, float, float]
"""An estimate, and the lower and the upper end of its interval."""
LARGEST_VARIANCE = 0.25


def mean_of(sums: Sequence[float], parameter: float, deviations: float) -> Ends | None:
    """Return the mean place and its ends, for noise up to this many roots of its parameter; `None` if unknown."""
    found = _ratio(sums, places_of(len(sums)), parameter, 0.0, deviations)
    return None if found is None else _within(found, 1.0)


def variance_of(sums: Sequence[float], parameter: float, deviations: float, floored: float) -> Ends | None:
    """Return the variance of places and its ends, as of a mean; floors took at most this much of a record's square."""
    number = sum(sums)
    if number <= 0:
        return None
    m = min(max(float(np.dot(places_of(len(sums)), sums)) / number, 0.0), 1.0)
    lost = parameter * squares_of_mean(len(sums), m) / number
    found = _ratio(sums, [(1 - m) ** 2, -m * (1 - m), m**2], parameter, lost, deviations)
    return None if found is None else _within((*found[:2], found[2] + floored), LARGEST_VARIANCE)


def places_of(count: int) -> list[float]:
    """Return the places that these many sums stand for: 1, 0, or 1, 1/2, 0; the coefficients of the sum of x."""
    return [1 - number / (count - 1) for number in range(count)]


def squares_of_mean(count: int, mean: float) -> float:
    """Return the sum of the squared coefficients of the noise of A - r n, at this mean."""
    return sum((place - mean) ** 2 for place in places_of(count))


def _ratio(
    sums: Sequence[float], coefficients: Sequence[float], parameter: float, lost: float, deviations: float
) -> Ends | None:
    """Return r = (f + lost) / n of the linear form f of sums and their sum n, and the ends of its interval.

    With the coefficients c of f, it holds all r where (f + lost - r n)^2 is at most deviations^2 times
    parameter * sum (c - r)^2 + 2 lost^2. `None` where these make up more than an interval. The ends are the roots of
    a r^2 - 2 b r + c. There, b^2 - a c has a form without a difference of squares, which floats lose where there are
    many records.
    """
    below, shared = sum(sums), sum(coefficients) / len(sums)
    above, of_below = float(np.dot(coefficients, sums)) + lost, len(sums) * parameter
    of_above = parameter * sum((each - shared) ** 2 for each in coefficients) + 2 * lost**2
    squared = deviations**2
    a = below**2 - squared * of_below
    if below <= 0 or a <= 0:
        return None
    b = above * below - squared * of_below * shared
    root = deviations * math.sqrt(of_above * a + of_below * (above - shared * below) ** 2)
    ratio = above / below
    return ratio, min((b - root) / a, ratio), max((b + root) / a, ratio)


def _within(found: Ends, high: float) -> Ends | None:
    """Return an answer between 0 and what is possible, and `None` if that says nothing.

    An interval that noise put outside, where it cannot hold, ends at the nearest value and keeps half of its width.
    """
    estimate, lower, upper = found
    half = (upper - lower) / 2
    lower, upper = (high - half if lower > high else lower), (half if upper < 0 else upper)
    lower, upper = max(lower, 0.0), min(upper, high)
    return None if (lower, upper) == (0.0, high) else (min(max(estimate, 0.0), high), lower, upper)
