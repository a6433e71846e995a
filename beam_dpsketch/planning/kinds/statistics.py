"""Statistics releases and their plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch.answers.statistics import squares_of_mean
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.declared.count import Count, Guess, check_size, refuse_guess, refuse_item_limit
from beam_dpsketch.exact.declared.public import Keys, TimeRange
from beam_dpsketch.exact.declared.units import Unit
from beam_dpsketch.exact.domains import FloatDomain, IntegerDomain
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.noise.calibration import Calibration, calibrate
from beam_dpsketch.planning.advice import errors_by_bound
from beam_dpsketch.planning.expected_error import CONFIDENCE
from beam_dpsketch.planning.kinds.sketched import calibrated
from beam_dpsketch.planning.plan import (
    Line,
    Plan,
    alternatives,
    bound_in_words,
    copies_in_words,
    in_digits,
    in_table,
    paid_in_words,
    under_norm,
)
from beam_dpsketch.planning.suiting import decided
from beam_dpsketch.privacy.norm.bounds import ITEM_SHARES
from beam_dpsketch.privacy.terms import ReleaseTerms


@dataclasses.dataclass(frozen=True)
class Statistics(Count):
    """The count, sum and mean of numbers, and on request their variance.

    Args:
      domain: an `IntegerDomain` or a `FloatDomain`, whose ends are the value range.
      variance: whether to release the variance and the standard deviation too.
    """

    domain: IntegerDomain | FloatDomain
    variance: bool = False
    spec: StatisticsSpec = dataclasses.field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "statistics"
    is_summed: ClassVar[bool] = True
    longest_list: ClassVar[int] = 16

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", StatisticsSpec(self.domain, self.variance))

    @property
    def list_size(self) -> int:
        return 1

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        return decided(self.spec, terms, self.width)

    def calibrate(self, terms: ReleaseTerms) -> Calibration:
        try:
            return calibrated(self.spec, terms)
        except ArgumentError as error:
            if error.code != "E108":
                raise
            raise ArgumentError(
                "domain",
                "has too many steps for this noise: counters would overflow. Use a FloatDomain with a larger step, "
                "smaller bounds, or a larger rho or epsilon",
                "E108",
            ) from None

    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        return "margin of error of a count", _of_one_sum(self.spec, terms, parameters) * math.sqrt(self.spec.parts)

    def width(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
        """Compute the 95 % half-width for summed distances from the middle, relative to the domain's width."""
        return _of_one_sum(self.spec, terms, parameters) / math.sqrt(2)

    def plan(
        self, calibrated: Calibration, n: int | None, *, keys: int | None, target_error: Any, guess: Guess | None = None
    ) -> Plan:
        refuse_guess(guess)
        check_size(n, calibrated.terms)
        return Plan(
            spec=self.spec,
            terms=calibrated.terms,
            n=n,
            keys=keys,
            sigma_squared=calibrated.per_table,
            warnings=[*calibrated.terms.warnings(), *_full(calibrated, n)],
            about=(
                Line(_title(calibrated.spec, keys), fields={"kind": "statistics", "keys": keys}, label="Statistics"),
            ),
            noisy=_noisy(calibrated),
            expected=tuple(_expected(calibrated, n, keys)),
        )

    def display_data(self) -> dict[str, Any]:
        return {"domain": self.domain.describe(), **({"variance": True} if self.variance else {})}

    def check(self, keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
        super().check(keys, privacy_unit, windows)
        refuse_item_limit(privacy_unit, "statistics. Each value would be a separate item")


def _title(spec: StatisticsSpec, keys: int | None) -> str:
    what = "count, sum and squares" if spec.variance else "count and sum"
    return f"{what} of {spec.domain.describe()}{copies_in_words(keys)}; sums do not collide"


def _noisy(calibrated: Calibration) -> str:
    terms = calibrated.terms
    sums = f"each of {calibrated.spec.cells} sums{under_norm(terms)}, in units of one record's contribution to all"
    return f"{sums}; {paid_in_words(terms)}"


def _full(calibrated: Calibration, n: int | None) -> Iterator[str]:
    """Warn if counters have no room for a mean over n records."""
    if n is not None and n >= (room := _room(calibrated)):
        yield (
            f"Means and variances are released only for fewer than {room:,.0f} records, because larger sums do "
            "not fit into the counters. Use a FloatDomain with a larger step"
        )


def _expected(calibrated: Calibration, n: int | None, keys: int | None) -> Iterator[Line]:
    terms, spec = calibrated.terms, calibrated.spec
    one = _of_one_sum(spec, terms.under(1), calibrated.per_table)
    count, mean = one * math.sqrt(spec.parts), _mean(calibrated, n, one)

    def of_count(at: ReleaseTerms) -> float:
        return count if at == terms else _of_one_sum(spec, at, calibrate(spec, at)) * math.sqrt(spec.parts)

    by_bound = errors_by_bound(terms, of_count)
    yield Line("", fields={"n": n})
    rows, note = [("a count", f"±{in_digits(count)}")], ""
    if mean is not None:
        middle, end = map(in_digits, mean)
        each = " of one key" if keys else ""
        rows.append((f"a mean of {n:,} records{each}", f"±{middle}, and ±{end} near an end of the value range"))
        note = "\nA narrower value range needs less noise but clamps more values."
        if isinstance(spec.domain, FloatDomain):
            most = in_digits(spec.domain.step / 2)
            note += f"\nEach number is rounded to the nearest step, at most {most} away; intervals do not include this."
    if terms.norm is not None and terms.norm.asked_share > ITEM_SHARES["means"]:
        note += '\nHint: means alone have less error if the norm is chosen with optimize_for "means".'
    words = in_table(f"Expected margin of error (95 %, noise only{under_norm(terms)})", rows) + note
    of_others = alternatives(
        "±", {bound_in_words(terms): by_bound}, "What would change the margin of error of a count (noise only)"
    )
    if terms.privacy_unit.over_horizon:
        words = of_others = ""
    fields = [each.as_dict("bound") for each in by_bound]
    yield Line(words, "count", count, {"count_half_width": count})
    yield Line("", "mean", mean, {"mean_half_width": mean})
    yield Line(of_others if by_bound else "", "by_bound", by_bound, {"by_bound": fields})


def _mean(calibrated: Calibration, n: int | None, of_one_sum: float) -> tuple[float, float] | None:
    """Compute the half-width for a mean over n records, in the middle of the value range and at an end."""
    spec = calibrated.spec
    if n is None or calibrated.terms.norm is not None or n >= _room(calibrated):
        return None
    of_places = (math.sqrt(squares_of_mean(spec.parts, place)) for place in (0.5, 1.0))
    middle, end = (spec.width * (of_one_sum * each / n + spec.moved + spec.floored / 2) for each in of_places)
    return middle, end


def _room(calibrated: Calibration) -> float:
    """Compute how many records may make a counter wrap around."""
    terms, spec = calibrated.terms, calibrated.spec
    unit = math.sqrt(terms.squared_unit) * 2 ** terms.grid_bits(min(calibrated.per_table))
    return float((1 << 63) / unit / spec.whole)


def _of_one_sum(spec: StatisticsSpec, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
    """Compute the 95 % half-width for a single sum, relative to the whole."""
    return terms.noise.deviations((1 - CONFIDENCE) / 2) * math.sqrt(parameters[0]) * spec.amount / spec.whole
