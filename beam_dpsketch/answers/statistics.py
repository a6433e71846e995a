"""Released statistics: the count, sum, mean and variance of numbers, each with its interval.

Guarantee: post-processing of noisy sums. Each interval alone has the requested confidence, over the noise, including
answers from few records. Intervals describe the numbers after clipping, clamped to the value range.

Numbers are places x from 0 to 1. Let the noisy sums, over their whole, be A of x and C of 1 - x, or with squares A of
x^2, B of 2 x (1 - x) and C of (1 - x)^2, a partition of 1 as by Bernstein's polynomials. Their noises are independent
and have the same parameter p. Their sum is the number n of records. A, or A + B / 2, is the sum of x. Therefore each
answer is a linear form in the sums, or the ratio between two.

Guarantee of a mean: A - r n has the coefficients (1 - r, -r), or (1 - r, 1/2 - r, -r). At the true mean r it is noise
alone, with parameter p times the summed squared coefficients. The interval contains all r at which it is at most k
deviations of that noise. Therefore it contains the true mean with the requested confidence, for any n (Fieller 1954).
If n cannot be distinguished from 0, this set is not an interval. The mean is then unknown, as it is if the set contains
all of [0, 1].

Guarantee of a variance: about the same, to the second order of the noise. With m the estimated mean, the sum of
(x - m)^2 is T = (1 - m)^2 A - m (1 - m) B + m^2 C. T - v n is noise at the true variance v, except for -n d^2 on
average, where d is the error of m. The mean and the variance of n d^2 are included too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.presence import exceeds_noise
from beam_dpsketch.answers.notes import of_numbers, of_total
from beam_dpsketch.answers.released import Released
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches.statistics import NumberSums, floats_around
from beam_dpsketch.statement.showing import within
from beam_dpsketch.statement.summary_notes import Interval
from beam_dpsketch.statement.tabular import Note, OneAnswer
from beam_dpsketch.words import shown_plainly

Ends = tuple[float, float, float]
"""An estimate, and the lower and the upper end of its interval."""
LARGEST_VARIANCE = 0.25


def mean_of(sums: Sequence[float], parameter: float, deviations: float) -> Ends | None:
    """Estimate the mean place and its ends, for noise up to this many roots of its parameter, or `None` if unknown."""
    found = _ratio(sums, places_of(len(sums)), parameter, 0.0, deviations)
    return None if found is None else _within(found, 1.0)


def variance_of(sums: Sequence[float], parameter: float, deviations: float, floored: float) -> Ends | None:
    """Estimate the variance of places like `mean_of`, after rounding down squares by at most `floored` each."""
    number = sum(sums)
    if number <= 0:
        return None
    m = min(max(float(np.dot(places_of(len(sums)), sums)) / number, 0.0), 1.0)
    lost = parameter * squares_of_mean(len(sums), m) / number
    found = _ratio(sums, [(1 - m) ** 2, -m * (1 - m), m**2], parameter, lost, deviations)
    return None if found is None else _within((*found[:2], found[2] + floored), LARGEST_VARIANCE)


def places_of(count: int) -> list[float]:
    """List the places for these many sums: 1, 0 or 1, 1/2, 0. They are the coefficients in the sum of x."""
    return [1 - number / (count - 1) for number in range(count)]


def squares_of_mean(count: int, mean: float) -> float:
    """Sum the squared noise coefficients of A - r n at this mean."""
    return sum((place - mean) ** 2 for place in places_of(count))


def _ratio(
    sums: Sequence[float], coefficients: Sequence[float], parameter: float, lost: float, deviations: float
) -> Ends | None:
    """Compute r = (f + lost) / n for the linear form f in the sums and their total n, with its interval.

    With the coefficients c of f, the interval contains all r where (f + lost - r n)^2 is at most deviations^2 times
    parameter * sum (c - r)^2 + 2 lost^2. `None` if these form more than an interval. Its ends are the roots of
    a r^2 - 2 b r + c. There, b^2 - a c has a form without a difference of squares, in which floats lose digits if
    there are many records.
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
    """Clamp an answer to the possible values, or return `None` if its interval then contains all of them.

    An interval that noise moved outside ends at the nearest possible value and has half its width.
    """
    estimate, lower, upper = found
    half = (upper - lower) / 2
    lower, upper = (high - half if lower > high else lower), (half if upper < 0 else upper)
    lower, upper = max(lower, 0.0), min(upper, high)
    return None if (lower, upper) == (0.0, high) else (min(max(estimate, 0.0), high), lower, upper)


_USELESS_SHARE, _SURE, _WRAPPED = 0.5, 1 - 1e-4, 1 - 1e-12


class _Statistic(NamedTuple):
    estimate: float | None
    lower: float
    upper: float


@shown_plainly
class Statistic(OneAnswer, _Statistic):
    """A mean, a variance or a standard deviation, with bounds.

    `estimate` is `None` if it is unknown, because of the noise or because counters overflowed. The bounds are then the
    smallest and largest possible values.
    """

    def __str__(self) -> str:
        ends = self.lower, self.upper
        about = "cannot tell" if self.estimate is None else f"about {within(self.estimate, *ends)}"
        return f"{about}, from {within(self.lower, *ends)} to {within(self.upper, *ends)}"


class ReleasedStatistics(Released):
    """A released count, sum and, on request, sum of squares. `PrivateStatistics` makes it.

    Answers describe the numbers after clipping, within the value range. Each interval alone has the requested
    confidence. A weighted record counts as many times as it weighs.

    The statement reports the noise per sum in records, relative to the change that a record causes in all sums.
    """

    name = kind = "statistics"
    raw_type: ClassVar[type[NumberSums]] = NumberSums

    def count(self, confidence: float = 0.95) -> Interval:
        """Estimate the number of counted records, or their weight. The bounds may be below 0.

        If the other counters wrapped around, this is the guard's count, with about 2^10 times the noise.
        """
        number, variance = self._own_total()
        return self._around(number, self._deviations(confidence) * math.sqrt(variance))

    def _own_total(self) -> tuple[float, float]:
        if self._is_full:
            number, noise = self._guarded
        else:
            number, parts = sum(self._sums), self._spec.parts
            noise = math.sqrt(self._parameter * parts) + parts * self._rounding / self._spec.whole
        return number, noise**2

    def total(self, confidence: float = 0.95) -> Interval:
        """Estimate the sum of the numbers. If counters wrapped around, the interval is as wide as the count allows."""
        ends = [float(self._spec.number(place)) for place in places_of(self._spec.parts)]
        if self._is_full:
            number, lower, upper = self.count(confidence)
            margin = self._spec.width / 2 * abs(number) + max(map(abs, ends)) * (upper - lower) / 2
            return self._around(float(self._spec.number(0.5)) * number, margin)
        moved = self._spec.width * (self._spec.moved + self._spec.floored / 2)
        return self._form(ends, moved, confidence)

    def mean(self, confidence: float = 0.95) -> Statistic:
        """Estimate the mean of the numbers, within the value range."""
        known, (low, high) = self._mean_place(confidence), self._spec.ends
        if known is None:
            return Statistic(None, low, high).of(self._clipping)
        estimate, *around = map(self._spec.number, known)
        lower, upper = floats_around(*around)
        return Statistic(float(estimate), max(lower, low), min(upper, high)).of(self._clipping)

    def _mean_place(self, confidence: float) -> Ends | None:
        """Estimate the mean place, from 0 to 1, and the ends of its interval, or `None` if unknown."""
        known = None if self._is_full else mean_of(self._sums, self._parameter, self._deviations(confidence))
        moved = self._spec.moved + self._spec.floored / 2
        return known and (known[0], known[1] - moved, known[2] + moved)

    def variance(self, confidence: float = 0.95) -> Statistic:
        """Estimate the variance of the numbers: the mean squared distance from their mean.

        Raises `ValueError` if no squares were requested.
        """
        return self._spread(confidence, lambda of_places: self._spec.width**2 * of_places)

    def std(self, confidence: float = 0.95) -> Statistic:
        """Estimate the standard deviation, the square root of the variance."""
        return self._spread(confidence, lambda of_places: self._spec.width * math.sqrt(of_places))

    def _spread(self, confidence: float, of: Any) -> Statistic:
        if not self._spec.variance:
            raise ArgumentError("variance", "is not in this release. Use $statistics with $variance", "E722")
        deviations, known = self._deviations(confidence), None
        if not self._is_full:
            known = variance_of(self._sums, self._parameter, deviations, self._spec.floored)
        estimate, lower, upper = (0.0, 0.0, LARGEST_VARIANCE) if known is None else known
        step = self._spec.moved  # rounding moves a standard deviation by no more than each number
        lower = max(lower - 2 * step * math.sqrt(lower), 0.0)
        upper = min(upper + 2 * step * math.sqrt(upper) + step**2, LARGEST_VARIANCE)
        return Statistic(None if known is None else of(estimate), of(lower), of(upper)).of(self._clipping)

    @functools.cached_property
    def _sums(self) -> list[float]:
        return [float(value) / self._spec.whole for value in self.counters[: self._spec.parts]]

    @property
    def _parameter(self) -> float:
        return float(self._privacy.sigma_squared_per_level[0]) * (self._spec.amount / self._spec.whole) ** 2

    @property
    def _guarded(self) -> tuple[float, float]:
        """Number of records according to the guard, and its noise: the root of its parameter, plus rounding."""
        noise = math.sqrt(self._parameter) * self._spec.whole + self._rounding
        return float(self.counters[-1]) / self._spec.guard, noise / self._spec.guard

    @functools.cached_property
    def _is_full(self) -> bool:
        """Whether counters wrapped around, so that guard and parts contain different record counts."""
        if not self._spec.guard:
            return False
        number, noise = self._guarded
        noise += math.sqrt(self._spec.parts * self._parameter)
        return abs(sum(self._sums) - number) > self._deviations(_WRAPPED) * noise

    def _deviations(self, confidence: float) -> float:
        """Half-width of an interval for a sum of several noises, in roots of its parameter."""
        _validate.open_unit_interval(confidence=confidence)
        noise = self._privacy.noise
        return noise.plus(noise).deviations((1 - confidence) / 2)

    def _form(self, coefficients: Sequence[float], moved: float, confidence: float) -> Interval:
        """Estimate a linear form of the sums, in which rounding moves each record by at most `moved`."""
        estimate = float(np.dot(coefficients, self._sums))
        margin = self._deviations(confidence) * math.sqrt(self._parameter * sum(each**2 for each in coefficients))
        margin += sum(map(abs, coefficients)) * self._rounding / self._spec.whole + moved * abs(sum(self._sums))
        return self._around(estimate, margin)

    def _around(self, estimate: float, margin: float) -> Interval:
        return Interval(estimate, estimate - margin, estimate + margin).of(self._clipping)

    @property
    def _size(self) -> str:
        return f"{self._spec.cells} sums over {self._spec.domain.describe()}"

    @property
    def _exceeds_noise(self) -> bool:
        variance, fourth = self._drawn_variance(0), self._fourth_cumulant(0)
        own = self.counters[: self._spec.parts] / self._spec.amount
        return exceeds_noise(own, variance, has_signs=False, fourth=fourth)

    def _own_notes(self) -> tuple[Note, ...]:
        estimate, _, upper = self.count()
        if self._privacy.bounds.signed:
            return ()
        place = self._mean_place(_SURE) or (0.5, 0.0, 1.0)
        spread = self.variance(_SURE).lower / self._spec.width**2 if self._spec.variance else 0.0
        found = of_numbers(self._spec.domain, place[1:], spread)
        return (*of_total("count", estimate, upper - estimate, _USELESS_SHARE), *found)
