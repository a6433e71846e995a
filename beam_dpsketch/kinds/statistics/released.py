"""Released statistics: the count, sum, mean and variance of numbers, each with its interval.

Guarantee: post-processing of noisy sums. Intervals hold with the confidence asked for, each for itself, over the noise,
as `ratios` says of means and variances. They are about the numbers that bounding kept, moved to the clip bounds where
they lay outside.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.answers.notes import Note, of_numbers, of_reach
from beam_dpsketch.answers.released import Released
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.estimators.presence import exceeds_noise
from beam_dpsketch.kinds.statistics.ratios import Sums
from beam_dpsketch.kinds.statistics.sums import DROWNED_BITS, NumberSums, floats_around
from beam_dpsketch.statement.clipping import WithClipping
from beam_dpsketch.statement.format import release_format
from beam_dpsketch.statement.format.fields import Exact, Object, Optional
from beam_dpsketch.statement.showing import shown, within
from beam_dpsketch.statement.side_notes import Interval

_USELESS_SHARE, _SURE = 0.5, 1 - 1e-4
CANNOT_TELL = Note(
    "cannot_tell",
    "there are too few records, or too many for the counters, to tell a mean or a variance: every value between the "
    "ends that are given is possible",
)

release_format.SPECS["statistics"] = Object(
    NumberSums.spec_type, {"domain": release_format.DOMAIN, "variance": Optional(Exact)}
)


class _Statistic(NamedTuple):
    estimate: float | None
    lower: float
    upper: float


@shown_plainly
class Statistic(_Statistic, WithClipping):
    """A mean, a variance or a standard deviation, with bounds for the true one.

    `estimate` is `None` where the release cannot tell it. The bounds are then all that is possible.
    """

    @property
    def notes(self) -> tuple[Note, ...]:
        """A note where the release cannot tell."""
        return (CANNOT_TELL,) if self.estimate is None else ()

    def __str__(self) -> str:
        ends = self.lower, self.upper
        about = "cannot tell" if self.estimate is None else f"about {within(self.estimate, *ends)}"
        return f"{about}, from {within(self.lower, *ends)} to {within(self.upper, *ends)}"


class ReleasedStatistics(Released):
    """A release of a count, a sum and, if they were asked for, squares. `PrivateStatistics` makes it.

    All answers are about the numbers that the bounds kept, within the clip bounds. Each interval holds with the
    confidence asked for. Of weighted records, each counts as many times as it weighs.

    The statement tells noise in records, each at a clip bound: to a sum, such a record adds half the width.
    """

    name = made_as = "statistics"
    raw_type: ClassVar[type[NumberSums]] = NumberSums

    def count(self, confidence: float = 0.95) -> Interval:
        """Return how many numbers count, or how much they weigh; the bounds may lie below 0."""
        privacy = self._privacy
        of_count, bits = privacy.sigma_squared_per_level[0], max(privacy.weight_bits, self._scale_bits)
        margin = privacy.noise.margin(of_count, confidence, bits) + self._rounding
        return self._around(self._sums.number, margin)

    def total(self, confidence: float = 0.95) -> Interval:
        """Return the sum of the numbers: a noisy sum of distances from the middle, and the count times the middle.

        Of too many records for the counters, the bounds are all that their count allows.
        """
        middle, half = float(self._spec.number(0.0)), self._spec.half
        if self._is_full(1):
            number, lower, upper = self.count(confidence)
            margin = half * abs(number) + max(map(abs, self._spec.ends)) * (upper - lower) / 2
            return self._around(middle * number, margin)
        estimate = half * self._sums.total + middle * self._sums.number
        margin = self._margin(confidence, [middle, half])
        margin += half * self._spec.moved * abs(self._sums.number)
        return self._around(estimate, margin)

    def mean(self, confidence: float = 0.95) -> Statistic:
        """Return the mean of the numbers, between the clip bounds."""
        known, (low, high) = self._mean_place(confidence), self._spec.ends
        if known is None:
            return Statistic(None, low, high).of(self._clipping)
        estimate, *around = known
        lower, upper = floats_around(*map(self._spec.number, around))
        found = Statistic(float(self._spec.number(estimate)), max(lower, low), min(upper, high))
        return found.of(self._clipping)

    def _mean_place(self, confidence: float) -> tuple[float, float, float] | None:
        """Return the mean of the places, which are from -1 to 1, and the ends of its interval; `None` if unknown."""
        known = None if self._is_full(1) else self._sums.mean(self._deviations(confidence))
        return known and (known[0], known[1] - self._spec.moved, known[2] + self._spec.moved)

    def variance(self, confidence: float = 0.95) -> Statistic:
        """Return the variance of the numbers: the mean of their squared distances from the mean.

        Raises `ValueError` if no squares were asked for.
        """
        return self._spread(confidence, lambda of_places: self._spec.half**2 * of_places)

    def std(self, confidence: float = 0.95) -> Statistic:
        """Return the standard deviation of the numbers, the root of the variance."""
        return self._spread(confidence, lambda of_places: self._spec.half * math.sqrt(of_places))

    def _spread(self, confidence: float, of: Any) -> Statistic:
        if self._spec.variance is None:
            raise ArgumentError(
                "variance",
                "was not asked for in this release: give $statistics a part of rho for it, as $variance",
                "E722",
            )
        deviations, known = self._deviations(confidence), None
        if not (self._is_full(1) or self._is_full(2)):
            known = self._sums.variance(deviations, self._spec.squares_moved)
        estimate, lower, upper = (0.0, 0.0, 1.0) if known is None else known
        step = self._spec.moved  # a deviation is moved by no more than each number
        lower = max(lower - 2 * step * math.sqrt(lower), 0.0)
        upper = min(upper + 2 * step * math.sqrt(upper) + step**2, 1.0)
        return Statistic(None if known is None else of(estimate), of(lower), of(upper)).of(self._clipping)

    def _around(self, estimate: float, margin: float) -> Interval:
        return Interval(estimate, estimate - margin, estimate + margin).of(self._clipping)

    @functools.cached_property
    def _sums(self) -> Sums:
        values = [float(value) / amount for value, amount in zip(self.counters, self._spec.amounts, strict=False)]
        noises = [float(each) for each in self._privacy.sigma_squared_per_level]
        nothing = [0.0] * (3 - len(values))
        return Sums(*values, *nothing, *noises, *nothing)

    def _is_full(self, table: int) -> bool:
        """Whether so much weight counts that a counter may have wrapped around."""
        bits = max(self._privacy.weight_bits, self._scale_bits + DROWNED_BITS)
        return abs(self._sums.number) >= self._spec.room(table, bits)

    def _deviations(self, confidence: float) -> float:
        """Return how many roots of its parameter a sum of several noises is from 0 at most, with this confidence."""
        _validate.open_unit_interval(confidence=confidence)
        noise = self._privacy.noise
        return noise.plus(noise).deviations((1 - confidence) / 2)

    def _margin(self, confidence: float, weights: Iterable[float]) -> float:
        """Return how far a weighted sum of counters is from its own at most, each over its amount."""
        weights = [*weights]
        noises = zip(weights, self._privacy.sigma_squared_per_level, strict=False)
        deviation = math.sqrt(sum(weight**2 * float(each) for weight, each in noises))
        return self._deviations(confidence) * deviation + sum(map(abs, weights)) * self._rounding

    @property
    def _size(self) -> str:
        return f"{self._spec.cells} sums over {self._spec.domain.describe()}"

    @property
    def _holds(self) -> str:
        """The count in words: it has more of rho than the side counters."""
        bounds, (estimate, lower, _) = self._privacy.bounds, self.count()
        what = "in kept weight" if bounds.has_norm else "in weight" if bounds.has_weights else "numbers"
        return f"about {shown(max(estimate, 0.0))} {what} (+-{shown(estimate - lower)})"

    @property
    def _exceeds_noise(self) -> bool:
        variance, fourth = self._drawn_variance(0), self._fourth_cumulant(0)
        return exceeds_noise(self.counters[:1], variance, has_signs=False, fourth=fourth)

    def _own_notes(self) -> tuple[Note, ...]:
        estimate, _, upper = self.count()
        if self._privacy.bounds.signed:
            return ()
        place = self._mean_place(_SURE) or (0.0, -1.0, 1.0)
        spread = 0.0 if self._spec.variance is None else self.variance(_SURE).lower / self._spec.half**2
        found = of_numbers(self._spec.domain, place[1:], spread)
        return (*of_reach(upper - estimate, upper, _USELESS_SHARE), *found)
