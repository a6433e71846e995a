"""Means and variances from noisy sums: estimates, and intervals that hold for few records too.

Numbers are places x from -1 to 1, as `sums` has them. Let n, S and Q be the noisy count, sum of x and sum of 2 x^2 - 1,
with independent noises of the parameters p_n, p_S and p_Q.

Guarantee of a mean: with k deviations of the noise for the confidence asked for, the interval holds all m with
|S - m n| <= k sqrt(p_S + m^2 p_n). At the true mean, S - m n is noise alone, of this parameter. So the true mean is in
it with that confidence, for any number of records (Fieller 1954). Where n cannot be told from 0, this set is not an
interval. Nothing is known of the mean there, nor where the set holds all of [-1, 1].

Guarantee of a variance: about the same, to the second order of the noise. With m the estimated mean, the sum of
(x - m)^2 is T = Q / 2 - 2 m S + (1/2 + m^2) n. T - v n is noise at the true variance v, but for -n d^2 on average,
where d is the error of m. The mean and the variance of n d^2 count too: n^2 d^2 is p_S + m^2 p_n on average.
"""

from __future__ import annotations

import math
from typing import NamedTuple

Ends = tuple[float, float, float]
"""An estimate, and the lower and the upper end of its interval."""


class Sums(NamedTuple):
    """Noisy sums of places, in records.

    Attributes:
      number, total, squares: n, S and Q; the last may be 0 where there is none.
      of_number, of_total, of_squares: the parameters of their noises.
    """

    number: float
    total: float
    squares: float
    of_number: float
    of_total: float
    of_squares: float

    def mean(self, deviations: float) -> Ends | None:
        """Return the mean place and its ends, for noise up to this many roots of its parameter; `None` if unknown."""
        found = _ratio(self.total, self.number, self.of_total, self.of_number, 0.0, deviations)
        return None if found is None else _within(found, -1.0, 1.0)

    def variance(self, deviations: float, moved: float) -> Ends | None:
        """Return the variance of places and its ends, for noise up to this many roots; `None` if unknown.

        Args:
          deviations: how many roots of its parameter.
          moved: how far the square of a place is rounded at most.
        """
        if self.number <= 0:
            return None
        mean = min(max(self.total / self.number, -1.0), 1.0)
        lost = (self.of_total + mean**2 * self.of_number) / self.number
        middle = 0.5 + mean**2
        spread = self.squares / 2 - 2 * mean * self.total + middle * self.number + lost
        of_spread = self.of_squares / 4 + 4 * mean**2 * self.of_total + 2 * lost**2
        found = _ratio(spread, self.number, of_spread, self.of_number, middle, deviations)
        if found is None:
            return None
        estimate, lower, upper = found
        return _within((estimate, lower - moved, upper + moved), 0.0, 1.0)


def _ratio(
    above: float, below: float, of_above: float, of_below: float, shared: float, deviations: float
) -> Ends | None:
    """Return above / below, and all r with (above - r below)^2 <= deviations^2 (of_above + (shared - r)^2 of_below).

    `None` where these make up more than an interval. The ends are the roots of a r^2 - 2 b r + c. There, b^2 - a c
    has a form without a difference of squares, which floats lose where there are many records.
    """
    squared = deviations**2
    a = below**2 - squared * of_below
    if below <= 0 or a <= 0:
        return None
    b = above * below - squared * of_below * shared
    root = deviations * math.sqrt(of_above * a + of_below * (above - shared * below) ** 2)
    ratio = above / below
    return ratio, min((b - root) / a, ratio), max((b + root) / a, ratio)


def _within(found: Ends, low: float, high: float) -> Ends | None:
    """Return an answer within what is possible, and `None` if that says nothing.

    An interval that noise put outside of what is possible, where it cannot hold, ends at the nearest value and keeps
    half of its width.
    """
    estimate, lower, upper = found
    if lower <= low and upper >= high:
        return None
    half = (upper - lower) / 2
    lower, upper = (high - half if lower > high else lower), (low + half if upper < low else upper)
    return min(max(estimate, low), high), max(lower, low), min(upper, high)
