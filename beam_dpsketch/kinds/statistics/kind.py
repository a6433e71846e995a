"""Releases of statistics: what a caller says of them, and their plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.domains import FloatDomain, IntegerDomain
from beam_dpsketch.engine.calibration import DeclaredCalibration, calibrate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.kinds.sketched import calibrated
from beam_dpsketch.kinds.statistics.ratios import squares_of_mean
from beam_dpsketch.kinds.statistics.sums import StatisticsSpec
from beam_dpsketch.planning.advice import ErrorAt, errors_at, of_bound, round_bounds
from beam_dpsketch.planning.plan_text import (
    OverTime,
    bound_in_words,
    in_digits,
    listed,
    noise_in_words,
    over_time_lines,
    paid_in_words,
    privacy_lines,
    terms_fields,
    under_norm,
)
from beam_dpsketch.planning.suiting import decided
from beam_dpsketch.privacy.terms import DeclaredTerms, ReleaseTerms
from beam_dpsketch.records.count import Count, Guess, check_size, refuse_guess, refuse_item_limit
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.units import Unit

_CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Statistics(Count):
    """The count, sum and mean of numbers; on request, their variance.

    Args:
      domain: an `IntegerDomain` or a `FloatDomain`, whose ends are the clip bounds.
      variance: whether the variance and the standard deviation are told too.
    """

    domain: IntegerDomain | FloatDomain
    variance: bool = False
    spec: StatisticsSpec = dataclasses.field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "statistics"
    is_summed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", StatisticsSpec(self.domain, self.variance))

    def decide(self, terms: DeclaredTerms) -> DeclaredTerms:
        return decided(self.spec, terms, self.width)

    def calibrate(self, terms: DeclaredTerms) -> DeclaredCalibration:
        try:
            return calibrated(self.spec, terms)
        except ArgumentError as error:
            if error.code != "E108":
                raise
            raise ArgumentError(
                "domain",
                "has too many steps for this much noise: counters would wrap around. Take a coarser one, as a "
                "FloatDomain with a larger resolution, lower the bounds, or spend more",
                "E108",
            ) from None

    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        return "half width of the count", _of_one_sum(self.spec, terms, parameters) * math.sqrt(self.spec.parts)

    def width(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
        """Return half the width of a 95 % interval of a sum of distances from the middle, over the width."""
        return _of_one_sum(self.spec, terms, parameters) / math.sqrt(2)

    def plan(
        self,
        calibrated: DeclaredCalibration,
        n: int | None,
        *,
        keys: int | None,
        wanted_error: Any,
        guess: Guess | None = None,
    ) -> StatisticsPlan:
        refuse_guess(guess)
        check_size(n, calibrated.terms)
        return StatisticsPlan.of(calibrated, n, keys)

    def display_data(self) -> dict[str, Any]:
        return {"domain": self.domain.describe(), **({"variance": True} if self.variance else {})}

    def check(self, keys: Keys | None, unit: Unit, windows: TimeRange | None) -> None:
        super().check(keys, unit, windows)
        refuse_item_limit(unit, "statistics: each value would be an item of its own")


@shown_plainly
@dataclasses.dataclass(frozen=True)
class StatisticsPlan(OverTime):
    """A release of statistics before it is made; `print` it.

    Attributes:
      calibrated: the noise; of a norm of 1, if the data choose it.
      n: about how many records count in one release; `None` if that is not known.
      keys: how many output keys there are; `None` without, or where they are not known.
      count: half the width of a 95 % interval of the count.
      mean: of the mean of n records, in the middle of the clip bounds, and at an end; `None` if counters have no room.
      by_bound: half widths of the count by `max_norm` or `max_per_key`; empty where one record is protected.
    """

    calibrated: DeclaredCalibration
    n: int | None
    keys: int | None
    count: float
    mean: tuple[float, float] | None
    by_bound: tuple[ErrorAt, ...]

    @classmethod
    def of(cls, calibrated: DeclaredCalibration, n: int | None, keys: int | None) -> StatisticsPlan:
        """Return the plan, with what other bounds would give."""
        terms, spec, known = calibrated.terms, calibrated.spec, calibrated.terms.choosing is None
        sizes = () if terms.unit.is_one_record else round_bounds(terms.bounds.size)

        def of_count(resolved: ReleaseTerms) -> float:
            return _of_one_sum(spec, resolved, calibrate(spec, resolved)) * math.sqrt(spec.parts)

        one, mean = _of_one_sum(spec, terms.resolved(1), calibrated.per_table), None
        if n is not None and known and n < _room(calibrated):
            of_places = (math.sqrt(squares_of_mean(spec.parts, place)) for place in (0.5, 1.0))
            middle, end = (spec.width * (one * each / n + spec.moved + spec.floored / 2) for each in of_places)
            mean = middle, end
        counted = one * math.sqrt(spec.parts)
        return cls(calibrated, n, keys, counted, mean, errors_at(sizes, lambda size: of_count(of_bound(terms, size))))

    @property
    def warnings(self) -> list[str]:
        """What is foolish, and what the counters have no room for, in words."""
        words, room = self.calibrated.terms.foolish(), _room(self.calibrated)
        if self.n is None or self.n < room:
            return words
        full = (
            f"means and variances are released of less than {room:,.0f} records, because counters have no room for more"
        )
        return [*words, f"{full}: use a FloatDomain with a larger resolution"]

    def as_dict(self) -> dict[str, Any]:
        terms = self.calibrated.terms
        return {
            "kind": "statistics",
            "keys": self.keys,
            "sigma": [math.sqrt(each) for each in self.calibrated.per_table],
            **terms_fields(terms),
            "warnings": self.warnings,
            "n": self.n,
            "count_half_width": self.count,
            "mean_half_width": self.mean,
            "by_bound": [{"bound": float(each.setting), "error": each.error} for each in self.by_bound],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        terms, spec = self.calibrated.terms, self.calibrated.spec
        what = "count, sum and squares" if spec.variance else "count and sum"
        copies = f" for each of {self.keys} keys" if self.keys else ""
        yield f"statistics: {what} of {spec.domain.describe()}{copies}; nothing collides."
        under, noise = under_norm(terms), noise_in_words(terms.resolved(1), self.calibrated.per_table)
        paid = paid_in_words(terms)
        yield f"Noise: {noise} on each of {spec.cells} sums{under}, over what one record adds to all; {paid} for it."
        yield from privacy_lines(terms, self.warnings)
        sigmas = [math.sqrt(each) for each in self.calibrated.per_table]
        yield from over_time_lines(spec, terms, sigmas, copies, self.apart)
        if terms.unit.over_horizon:
            return
        yield f"Counts{under}: 95 % intervals of about +- {in_digits(self.count)} from the noise alone."
        if self.mean is not None:
            middle, end = map(in_digits, self.mean)
            each = " of one key" if copies else ""
            yield (
                f"Means of {self.n:,} records{each}: 95 % intervals of about +- {middle}, and +- {end} near a clip "
                "bound. Clip bounds that are closer together have less noise, and clip more."
            )
            if isinstance(spec.domain, FloatDomain):
                most = in_digits(spec.domain.resolution / 2)
                yield f"Each number counts as the nearest step, up to {most} away: intervals do not include that."
        if self.by_bound:
            yield f"Half width of counts from the noise alone, by {bound_in_words(terms)}: {listed(self.by_bound)}."


def _room(calibrated: DeclaredCalibration) -> float:
    """Return from how many records on a counter may wrap around."""
    terms, spec = calibrated.terms, calibrated.spec
    unit = math.sqrt(terms.squared_unit) * 2 ** terms.grid_bits(min(calibrated.per_table))
    return float((1 << 63) / unit / spec.whole)


def _of_one_sum(spec: StatisticsSpec, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
    """Return half the width of a 95 % interval of one sum over the whole."""
    return terms.noise.deviations((1 - _CONFIDENCE) / 2) * math.sqrt(parameters[0]) * spec.amount / spec.whole
